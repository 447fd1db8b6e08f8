from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from smcpn.cli.identify import peak_memory_mb


def smcpn(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "smcpn", *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


KEYS = {
    "system", "particles", "seed", "wall_s", "compile_s", "theta_steps", "log_evidence",
    "rejuvenations", "acceptance", "parameters", "scores",
}  # fmt: skip
SCORE_KEYS = {"rmse_min", "rmse_mean", "rmse_max", "rmse_of_mean", "unit", "fit", "coverage"}


@pytest.mark.numerics
def test_bouc_wen_json_from_nothing(tmp_path):
    """No file to download: everything is generated."""
    done = smcpn("identify", "bouc-wen", "--particles", "100", "--steps", "1", "--json",
                 SMCPN_DATA=str(tmp_path))  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    result = json.loads(done.stdout)
    assert set(result) >= KEYS
    assert set(result["scores"]) == {"multisine", "sweep"}
    for score in result["scores"].values():
        assert set(score) == SCORE_KEYS
        assert score["rmse_min"] <= score["rmse_mean"] <= score["rmse_max"]
        assert score["fit"] > 95
    assert result["parameters"]["m"]["mean"] == pytest.approx(2.0, rel=0.02)
    assert result["particles"] == 100
    assert result["seed"] == 1


def test_silverbox_table(silverbox_file):
    done = smcpn("identify", "silverbox", "--particles", "200", "--steps", "4")
    assert done.returncode == 0, done.stderr
    assert "3072/3072" in done.stderr
    for word in (
        "lognorm",
        "97.5 %",
        "log-evidence",
        "rejuvenations",
        "acceptance",
        "PN-SMC paper",
    ):
        assert word in done.stdout


@pytest.mark.numerics
def test_silverbox_beats_the_paper_by_a_factor_of_three(silverbox_file):
    done = smcpn("identify", "silverbox", "--json", "--model", "duffing-offsets")
    score = json.loads(done.stdout)["scores"]["arrow"]
    assert score["rmse_mean"] <= 0.45e-3
    done = smcpn("identify", "silverbox", "--json", "--hold", "foh")
    score = json.loads(done.stdout)["scores"]["arrow"]
    assert 0.93e-3 <= score["rmse_mean"] <= 0.97e-3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["identify", "pendulum"], "no system 'pendulum': choose one of"),
        (["identify", "bouc-wen", "--steps", "few"], "--steps is 'few'"),
        (["identify", "bouc-wen", "--steps", "0"], "steps is 0"),
        (["identify", "bouc-wen", "--order", "9"], "order is 9"),
        (["identify", "bouc-wen", "--hold", "cubic"], "hold is 'cubic'"),
        (["identify", "bouc-wen", "--particles", "2"], "particles is 2"),
        (["identify", "bouc-wen", "--model", "duffing"], "model is 'duffing'"),
        (["identify", "silverbox"], "get it with the package nonlinear-benchmarks"),
    ],
)
def test_bad_arguments_are_one_sentence_and_exit_code_2(arguments, message, tmp_path):
    done = smcpn(*arguments, SMCPN_DATA=str(tmp_path))
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_unknown_option_is_exit_code_2():
    assert smcpn("identify", "bouc-wen", "--colour", "red").returncode == 2


def test_peak_memory_is_left_out_where_it_is_not_known(monkeypatch):
    assert peak_memory_mb() > 0
    monkeypatch.setitem(sys.modules, "resource", None)
    assert peak_memory_mb() is None
