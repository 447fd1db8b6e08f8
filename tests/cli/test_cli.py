from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from smcpn import RK4, Online, RandomWalkMetropolis
from smcpn.cli.app import EXIT_CODES, app, main
from smcpn.cli.cases import CASES, Case
from smcpn.cli.config import load_system
from smcpn.cli.config.new import NOISE, TRUTH, write_new
from smcpn.cli.options import complete_system, completing
from smcpn.cli.outcome import peak_memory_mb
from smcpn.model.solver import EKF0
from smcpn.smc.settings import PartialSettings
from tests import models


def smcpn(
    *arguments: str, cwd: object = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "smcpn", *arguments],
        env=os.environ | environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


KEYS = {
    "system", "particles", "seed", "wall_s", "compile_s", "theta_steps", "log_evidence",
    "rejuvenations", "acceptance", "parameters", "scores",
}  # fmt: skip
SCORE_KEYS = {
    "rmse_min", "rmse_mean", "rmse_max", "rmse_of_mean", "unit", "fit", "coverage", "samples",
    "particles", "rmse_mean_se", "warnings",
}  # fmt: skip


@pytest.mark.nightly
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


@pytest.mark.nightly
def test_silverbox_table(silverbox_file):
    done = smcpn("identify", "silverbox", "--particles", "200", "--steps", "4")
    assert done.returncode == 0, done.stderr
    assert "3072/3072" in done.stderr
    for word in (
        "lognorm",
        "97.5 %",
        "log-evidence",
        "published",
    ):
        assert word in done.stdout
    assert "weighings" not in done.stdout
    last = done.stdout.split("\n\n")[-1]
    assert last.startswith("verdict          wrong, fit 99")
    assert "on arrow fit 98" in last


SILVERBOX = ["identify", "silverbox", "--json", "--particles", "300"]


@pytest.mark.numerics
@pytest.mark.nightly
def test_silverbox_beats_the_paper_by_a_factor_of_three(silverbox_file):
    offsets, linear = (
        json.loads(CliRunner().invoke(app, [*SILVERBOX, *options]).stdout)["scores"]["arrow"]
        for options in (["--model", "duffing-offsets"], ["--hold", "foh"])
    )
    assert offsets["rmse_mean"] <= 0.45e-3
    assert 0.93e-3 <= linear["rmse_mean"] <= 0.97e-3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["identify", "pendulum"], "no system 'pendulum': choose one of"),
        (["identify", "bouc-wen", "--steps", "few"], "steps is 'few'"),
        (["identify", "bouc-wen", "--steps", "0"], "steps is 0"),
        (["identify", "silverbox", "--state-particles", "x"], "state_particles is 'x'"),
        (["identify", "bouc-wen", "--state-particles", "64"], "likelihood has none, leave it"),
        (["identify", "bouc-wen", "--order", "12"], "order is 12"),
        (["identify", "bouc-wen", "--hold", "cubic"], "hold is 'cubic'"),
        (["identify", "bouc-wen", "--particles", "2"], "particles is 2"),
        (["identify", "bouc-wen", "--model", "duffing"], "model is 'duffing'"),
        (["identify", "silverbox"], "get it with the package nonlinear-benchmarks"),
    ],
)
def test_bad_arguments_are_one_sentence_and_exit_code_2(
    arguments, message, tmp_path, monkeypatch, capfd
):
    monkeypatch.setenv("SMCPN_DATA", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["smcpn", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = capfd.readouterr()
    assert said.out == ""
    assert message in said.err
    assert said.err.count("\n") == 1


def test_a_refusal_ends_the_process_without_a_traceback(tmp_path):
    done = smcpn("identify", "silverbox", SMCPN_DATA=str(tmp_path))
    assert done.returncode == 2
    assert done.stdout == ""
    assert "get it with the package nonlinear-benchmarks" in done.stderr
    assert done.stderr.count("\n") == 1


def test_unknown_option_is_exit_code_2():
    assert smcpn("identify", "bouc-wen", "--colour", "red").returncode == 2


def test_peak_memory_is_left_out_where_it_is_not_known(monkeypatch):
    assert peak_memory_mb() > 0
    monkeypatch.setitem(sys.modules, "resource", None)
    assert peak_memory_mb() is None


# A system to begin with


def test_a_new_system_is_identified_as_it_is(tmp_path):
    assert smcpn("new", "rig", cwd=tmp_path).returncode == 0
    done = smcpn("new", "rig", cwd=tmp_path)
    assert done.returncode == 2
    assert "rig/model.py exists and is not overwritten" in done.stderr
    with (tmp_path / "rig" / "data.csv").open() as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["t [s]", "force [N]", "position [mm]"]
    assert len(rows) == 901


@pytest.mark.nightly
@pytest.mark.numerics
def test_a_new_system_finds_the_parameters_it_was_simulated_with(tmp_path):
    smcpn("new", "rig", cwd=tmp_path)
    seen = smcpn("inspect", "rig", "--plot", "record.png", cwd=tmp_path)
    assert "600 samples every 0.01 s" in seen.stdout
    assert (tmp_path / "record.png").stat().st_size > 1000
    done = smcpn("identify", "rig", "--json", "--particles", "300", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "picture: rig/fit.png\n"
    assert (tmp_path / "rig" / "fit.png").stat().st_size > 1000
    result = json.loads(done.stdout)
    for name in ("c", "k", "k3"):
        found = result["parameters"][name]
        assert abs(found["mean"] - TRUTH[name]) < 4 * found["sd"]
        assert found["sd"] < 0.01 * TRUTH[name]
    (score,) = result["scores"].values()
    assert score["unit"] == "m"
    assert score["rmse_of_mean"] == pytest.approx(NOISE, rel=0.3)


# What every command does


@pytest.fixture
def bench(monkeypatch, tmp_path):
    """A case that compiles nothing that other tests have not compiled."""

    def build(**_):
        return Case(
            name="bench",
            problem=models.oscillator_problem(models.oscillator_record(samples=200)),
            tests={"fresh": models.oscillator_record(seed=9, samples=200)},
            published={},
            steps="auto",
            split="",
            settings=PartialSettings(solver=EKF0(order=2, steps=4), particles=60, seed=7),
            picture=tmp_path / "fit.svg",
        )

    monkeypatch.setitem(CASES, "bench", build)
    return tmp_path


@pytest.mark.slow
def test_a_case_chooses_and_options_override(bench):
    result = CliRunner().invoke(app, ["identify", "bench", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["particles"], found["seed"], found["steps"]) == (60, 7, 4)
    assert (bench / "fit.svg").is_file()
    result = CliRunner().invoke(app, ["identify", "bench", "--json", "--seed", "8"])
    found = json.loads(result.stdout)
    assert (found["particles"], found["seed"]) == (60, 8)


@pytest.mark.slow
def test_robust_standard_deviations_and_bands(bench):
    plain, counted = (
        json.loads(CliRunner().invoke(app, ["identify", "bench", "--json", *more]).stdout)
        for more in ([], ["--robust"])
    )
    assert "robust" not in plain
    assert set(counted["robust"]["sd"]) == {"c", "k"}
    assert counted["parameters"] == plain["parameters"]
    assert counted["scores"]["fresh"]["coverage"] >= plain["scores"]["fresh"]["coverage"] - 0.01


@pytest.mark.slow
def test_quiet_says_nothing_and_verbose_more(bench):
    quiet = CliRunner().invoke(app, ["identify", "bench", "--quiet"])
    assert quiet.stderr == ""
    assert quiet.stdout.startswith("bench: 60 particles, seed 7")
    plain = CliRunner().invoke(app, ["identify", "bench"])
    assert "200/200" in plain.stderr
    verbose = CliRunner().invoke(app, ["identify", "bench", "-v"])
    assert "smcpn: marginal likelihood by EKF0(order=2, steps=4)" in verbose.stderr
    assert "smcpn: round 1 of" in verbose.stderr
    assert "200/200" not in verbose.stderr


@pytest.mark.parametrize("name", ["out.gift", "no/out.png"])
def test_a_picture_that_cannot_be_written_is_refused_before_the_run(bench, monkeypatch, name):
    monkeypatch.setattr("smcpn.identify", lambda *_, **__: pytest.fail("it ran"))
    result = CliRunner().invoke(app, ["identify", "bench", "--picture", str(bench / name)])
    assert "picture '" in str(result.exception)


STREAMED = """
[solver]
kind = "RK4"
likelihood = "classical"
steps = 8
[run]
particles = 40
seed = 5
ess = 0.6
moves = "random-walk"
resampling = "stratified"
method = "tempering"
replicates = 3
"""


@pytest.mark.slow
def test_a_stream_honours_the_configuration(tmp_path, monkeypatch):
    """The particles are those of the same options given to `Online`."""
    monkeypatch.chdir(tmp_path)
    write_new(tmp_path / "rig")
    text = (tmp_path / "rig" / "config.toml").read_text()
    (tmp_path / "rig" / "config.toml").write_text(text[: text.index("[solver]")] + STREAMED)
    rows = (tmp_path / "rig" / "data.csv").read_text().splitlines()[:13]
    (tmp_path / "log.csv").write_text("\n".join(rows) + "\n")
    options = ["stream", "rig", "--from", "log.csv", "--checkpoint", "live.h5", "--to", "out.jsonl"]
    result = CliRunner().invoke(app, [*options, "--seed", "6"])
    assert result.exit_code == 0, result.output
    assert "method = 'tempering', replicates = 3 of [run] does not apply" in result.stderr
    streamed = Online.load("live.h5")
    settings = streamed.settings
    assert streamed.solver == RK4(steps=8)
    assert (settings.particles, settings.seed, settings.ess) == (40, 6, 0.6)
    assert isinstance(settings.moves, RandomWalkMetropolis)
    live = Online(
        load_system("rig").problem, solver=RK4(steps=8), particles=40, seed=6, ess=0.6,
        moves=RandomWalkMetropolis(), resampling="stratified",
    )  # fmt: skip
    # The samples that `identify` learns from, to the byte: millimetres become metres.
    record = load_system("rig").problem.records[0]
    for k in range(12):
        live.update(record.u[k], record.y[k], record.t[k])
    np.testing.assert_array_equal(streamed.posterior().theta, live.posterior().theta)


def test_version_and_help(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    runner = CliRunner()
    assert runner.invoke(app, ["--version"]).stdout == "smcpn 0.2.0\n"
    text = " ".join(runner.invoke(app, ["--help"]).stdout.split())
    assert EXIT_CODES in text
    for command in ("new", "identify", "fit", "resume", "inspect", "report", "stream"):
        assert f"Example: smcpn {command} " in runner.invoke(app, [command, "--help"]).stdout
    for command in ("check", "fetch"):
        assert f"smcpn data {command}" in runner.invoke(app, ["data", command, "--help"]).stdout


@pytest.mark.slow
def test_no_colours_where_there_is_no_terminal():
    for arguments in (["--help"], ["identify", "--colour"]):
        done = smcpn(*arguments)
        assert "\x1b" not in done.stdout + done.stderr


def test_names_are_completed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "emptied").mkdir()
    (tmp_path / "emu").mkdir()
    (tmp_path / "emu" / "config.toml").write_text("")
    (tmp_path / "em.csv").write_text("")
    assert complete_system("em") == ["emps", "emptied/", "emu"]
    assert complete_system("emu/") == ["emu/config.toml"]
    assert complete_system("nowhere/x") == []
    assert completing(("dalton", "fenrir"))("d") == ["dalton"]


def test_a_shell_is_answered(monkeypatch):
    monkeypatch.setenv("_SMCPN_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "smcpn identify silverbox --likelihood fen")
    monkeypatch.setenv("COMP_CWORD", "4")
    result = CliRunner().invoke(app, [], prog_name="smcpn")
    assert result.stdout.split() == ["fenrir"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("number", "code"),
    [pytest.param(signal.SIGINT, 130, marks=pytest.mark.nightly), (signal.SIGTERM, 143)],
)
@pytest.mark.slow
def test_a_signal_ends_a_command_in_order(tmp_path, number, code):
    (tmp_path / "model.py").write_text("import time\nprint('up', flush=True)\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "smcpn", "identify", "model.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(number)
    _, told = process.communicate(timeout=30)
    assert process.returncode == code
    assert told == ("smcpn: interrupted\n" if number == signal.SIGINT else "")


def test_a_wrong_command_line_is_one_sentence(monkeypatch, capsys):
    for arguments in (["identify", "--nothing"], ["\x1b[2J"], ["identify", "a", "--seed", "x"]):
        monkeypatch.setattr("sys.argv", ["smcpn", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr().err
        assert ended.value.code == 2
        assert said.startswith("smcpn: ")
        assert said.count("\n") == 1
        assert said[:-1].isprintable()
