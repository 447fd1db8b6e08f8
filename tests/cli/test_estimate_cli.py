"""``smcpn fit``: what it prints, and what it refuses."""

from __future__ import annotations

import json

import pytest
from scipy import stats
from typer.testing import CliRunner

from smcpn.cli.app import app
from smcpn.cli.cases import Case
from smcpn.errors import InputError
from tests.cli.test_cli import SCORE_KEYS, smcpn
from tests.models import decay_problem


@pytest.fixture
def small_case(monkeypatch):
    """A case that compiles in a second, in place of those with files."""

    def load(name, **_options):
        prior = None
        if name == "infinite":
            # No draw has a finite likelihood.
            prior = {
                "rate": stats.uniform(1e6, 1e6),
                "sigma": stats.lognorm(1.0, scale=0.1),
                "start": stats.norm(1e160, 1e145),
            }
        problem = decay_problem(prior=prior)
        return Case(name, problem, {"again": problem.records[0]}, {}, steps=4, note="simulated")

    monkeypatch.setattr("smcpn.cli.fit.load_system", load)


def run(*arguments: str):
    return CliRunner().invoke(app, ["fit", *arguments])


def test_table(small_case):
    done = run("decay", "--likelihood", "classical", "--starts", "4")
    assert done.exit_code == 0, done.output
    for words in ("30 samples (simulated)", "mode", "log-evidence", "(Laplace)"):
        assert words in done.output
    for words in ("converged after", "4: 4 ended at log posterior", "RMSE over the particles"):
        assert words in done.output


def test_json(small_case):
    done = run("decay", "--likelihood", "classical", "--starts", "3", "--seed", "7", "--json")
    result = json.loads(done.output)
    assert result["success"] is True
    assert result["reason"] == "converged"
    assert (result["starts"], result["agreeing"], result["seed"]) == (3, 3, 7)
    assert result["likelihood"] == "classical"
    rate = result["parameters"]["rate"]
    assert abs(rate["mode"] - 0.8) < 4 * rate["sd"]
    assert set(result["scores"]["again"]) == SCORE_KEYS
    assert result["verdict"]["level"] == "usable"
    assert result["verdict"]["tests"] == [
        f"on again fit {result['scores']['again']['fit']:.3g} %, "
        f"{100 * result['scores']['again']['coverage']:.3g} % inside the 95 % band"
    ]


def test_a_failure_is_printed_as_one(small_case):
    done = run("infinite", "--likelihood", "classical", "--starts", "2", "--json")
    assert done.exit_code == 0, done.exception
    result = json.loads(done.output)
    assert result["success"] is False
    assert result["log_evidence"] is None
    assert result["reason"] == "there is no mode: the solution diverges at the start"
    assert result["scores"] == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pendulum"], "no system 'pendulum'"),
        (["bouc-wen", "--steps", "few"], "steps is 'few'"),
        (["bouc-wen", "--likelihood", "exact"], "likelihood is 'exact'"),
    ],
)
def test_bad_options_are_refused_in_one_sentence(arguments, message):
    """`smcpn.cli.app.main` prints the sentence and exits with 2."""
    done = run(*arguments)
    assert isinstance(done.exception, InputError)
    assert message in str(done.exception)


@pytest.mark.nightly
def test_bouc_wen_from_nothing(tmp_path):
    done = smcpn("fit", "bouc-wen", "--starts", "4", "--json", SMCPN_DATA=str(tmp_path))
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["success"] is True
    assert result["parameters"]["m"]["mode"] == pytest.approx(2.0, rel=0.02)
    assert set(result["scores"]) == {"multisine", "sweep"}


def test_robust_standard_deviations_are_printed(small_case):
    """Thirty samples of white noise: the sandwich is near the posterior."""
    arguments = ("decay", "--likelihood", "classical", "--starts", "3", "--robust")
    result = json.loads(run(*arguments, "--json").output)
    assert set(result["robust"]["factor"]) == {"rate", "sigma", "start"}
    assert 0 < result["robust"]["n_effective"] <= 30 == result["robust"]["samples"]
    assert "robust sd" in run(*arguments).output
