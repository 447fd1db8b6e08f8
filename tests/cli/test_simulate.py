"""``smcpn simulate``: a path as CSV, the same bytes for the same seed."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from typer.testing import CliRunner

import smcpn
from smcpn.cli.app import app
from smcpn.cli.config import load_system
from smcpn.cli.config.new import write_new
from smcpn.results.simulation.simulate import simulate_problem

TRUTH = ["--set", "c=4", "--set", "k=800", "--set", "k3=1e8"]


@pytest.fixture
def system(tmp_path):
    write_new(tmp_path)
    path = tmp_path / "config.toml"
    text = path.read_text("utf-8").replace("[solver]", '[process_noise]\nv = "q"\n[solver]')
    text = text.replace("[prior]", "[prior]\nq = {lognormal = {median = 0.01, spread = 2.0}}")
    path.write_text(text.replace("order = 3\n", ""), "utf-8")
    return path


def simulated(system, *arguments: str) -> str:
    done = CliRunner().invoke(app, ["simulate", str(system), *TRUTH, *arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.slow
def test_a_path_is_written_as_csv(system):
    text = simulated(system, "--seed", "3", "--steps", "2")
    header, *rows = csv.reader(io.StringIO(text))
    values = np.array(rows, dtype=float)
    problem = load_system(str(system)).problem
    record = problem.records[0]
    assert header == ["t", "u", "x"]
    assert np.array_equal(values[:, :2], np.column_stack([record.t, record.u]))
    given = {"c": 4.0, "k": 800.0, "k3": 1e8}
    path = simulate_problem(problem, record, given, steps=2, seed=3)
    assert np.array_equal(values[:, 2:], path)
    # The noise that is not given is the median of its prior.
    whole = smcpn.simulate(
        problem.ode, record, {"m": 2.0, **given, "q": 0.01}, observe="x", steps=2, seed=3,
        process_noise={"v": "q"},
    )  # fmt: skip
    assert np.allclose(path, whole, rtol=1e-9)
    assert simulated(system, "--seed", "3", "--steps", "2") == text
    assert simulated(system, "--seed", "4", "--steps", "2") != text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "z=4"], "'z' is no parameter that is learned"),
        (["--set", "c"], "--set is 'c': give NAME=VALUE"),
        (["--set", "c=nan"], "parameter 'c' is nan"),
        (["--set", "q=-1"], "parameter 'q' is -1: give a number within the bounds of its prior"),
        (["--seed", "-1"], "seed is -1"),
        (["--prior", "--set", "c=4"], "--set is given, but --prior is given: leave it out"),
        (["--draws", "60"], "--draws is given, but --prior is not: add it"),
        (["--prior", "--draws", "3"], "draws is 3: give a whole number from 40"),
    ],
)
def test_what_does_not_fit_is_one_sentence(system, arguments, message):
    done = CliRunner().invoke(app, ["simulate", str(system), *arguments])
    assert isinstance(done.exception, smcpn.InputError)
    assert message in str(done.exception)


@pytest.mark.slow
def test_the_prior_is_told_and_drawn(system, tmp_path):
    picture = tmp_path / "prior.png"
    arguments = ["simulate", str(system), "--prior", "--draws", "60", "--picture", str(picture)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    problem = load_system(str(system)).problem
    assert done.stdout == smcpn.simulate(problem, draws=60, seed=1).summary() + "\n"
    assert picture.stat().st_size > 1000
