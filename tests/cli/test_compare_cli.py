"""``smcpn compare``: models of the same data in order, and a winner in words."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import import_module

import pytest
from scipy import stats
from typer.testing import CliRunner

from smcpn.cli.app import app
from smcpn.cli.cases import Case
from smcpn.errors import InputError
from smcpn.model.solver import RK4
from smcpn.smc.settings import PartialSettings
from tests.models import decay_problem

module = import_module("smcpn.cli.compare")

PRIORS = {
    "free": None,
    "pinned": {"rate": 3.0, "sigma": stats.lognorm(1.0, scale=0.1), "start": stats.norm(1.0, 0.1)},
}


@pytest.fixture
def run(monkeypatch):
    """Run the command on a model with the right rate in its prior, and on one without."""

    def load(name, **_options):
        problem = decay_problem(prior=PRIORS[name])
        settings = PartialSettings(solver=RK4(steps=2), seed=1)
        tests = {"again": problem.records[0]}
        return Case(name, problem, tests, {}, steps=2, settings=settings)

    monkeypatch.setattr(module, "load_system", load)
    return lambda *arguments: CliRunner().invoke(app, ["compare", *arguments])


def test_the_model_with_more_evidence_wins_and_predicts_better(run):
    done = run("pinned", "free", "--starts", "1", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["winner"] == "free"
    assert found["by"] == "laplace_log_evidence"
    assert found["best_on_tests"] == {"again": "free"}
    models = found["models"]
    assert models["free"]["log_evidence"] > models["pinned"]["log_evidence"] + 5
    assert found["verdict"][0].startswith("by evidence      'free' wins by Laplace log-evidence")
    assert "times as much" in found["verdict"][1]
    assert found["verdict"][2] == "winner           'free', by evidence and on every test"


def test_the_page_says_who_wins_and_shows_the_test(run, tmp_path):
    path = tmp_path / "a.html"
    done = run("pinned", "free", "--starts", "1", "--report", str(path))
    assert done.exit_code == 0, done.output
    page = path.read_text(encoding="utf-8")
    assert "Winner: &#39;free&#39;, by evidence and on every test." in page
    assert page.count("data-plot=") == 1


def test_tests_of_other_samples_are_not_compared(run, monkeypatch):
    load = module.load_system

    def with_its_own_test(name, **options):
        case = load(name, **options)
        record = case.tests["again"]
        return case if name == "free" else replace(case, tests={"again": record[:20]})

    monkeypatch.setattr(module, "load_system", with_its_own_test)
    done = run("pinned", "free", "--starts", "1")
    assert done.exit_code == 0, done.output
    assert "no test of the same samples was given to all" in done.stdout
    assert "RMSE" not in done.stdout


def test_one_model_is_refused(run):
    done = run("free")
    assert isinstance(done.exception, InputError)
    assert "give two or more to compare" in str(done.exception)
