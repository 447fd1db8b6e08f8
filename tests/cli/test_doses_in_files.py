"""A data set as NONMEM has it, by the commands: doses, limits and units in columns."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest
from typer.testing import CliRunner

from smcpn import Dose, InputError
from smcpn.cli.app import app
from smcpn.cli.config import load_system
from smcpn.io.read import following_record

MODEL = """import smcpn


@smcpn.ode
def oral(gut, blood, *, ka, ke):
    return -ka * gut, ka * gut - ke * blood


def conc(blood, *, V):
    return blood / V


def spread(c, *, a):
    return a + 0.1 * abs(c)
"""
CONFIG = """[model]
file = "model.py"

[outputs]
conc = {column = "DV", unit = "mg/L", y_upper = "LLOQ", noise = {normal = {sd = "spread"}}}

[data]
time = {column = "TIME", unit = "min", to = "h"}
doses = {file = "pk.csv", states = ["gut", "blood"], lag = {gut = "lag"}, fraction = {gut = "F"}}
train = "pk.csv"

[prior]
ka = 1.1
ke = {lognormal = {median = 0.2, spread = 2.0}}
V = 20.0
lag = {uniform = {low = 0.0, high = 0.9}}
F = {uniform = {low = 0.1, high = 1.0}}
a = 0.1

[solver]
kind = "RK4"
steps = 4

[run]
particles = 60
seed = 1
"""
DATA = """ID,TIME,AMT,CMT,RATE,DV,LLOQ
1,0,320,1,.,.,.
1,0,.,2,.,.,0.5
1,60,.,2,.,3.9,.
1,120,.,2,.,7.2,.
1,180,50,2,0.5,.,.
1,180,.,2,.,5.6,.
1,300,.,2,.,4.7,.
1,480,.,2,.,2.3,.
1,840,.,2,.,.,0.5
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in (("model.py", MODEL), ("config.toml", CONFIG), ("pk.csv", DATA)):
        (tmp_path / name).write_text(text)
    return tmp_path


def changed(folder, old: str, new: str):
    text = (folder / "config.toml").read_text()
    assert old in text
    (folder / "config.toml").write_text(text.replace(old, new))


def run(*arguments: str):
    return CliRunner().invoke(app, arguments)


def test_times_of_doses_are_converted_with_those_of_samples_and_one_state_has_a_lag(folder):
    record = load_system("config.toml").problem.records[0]
    assert record.doses == (
        Dose(0.0, "gut", 320.0, lag="lag", fraction="F"),
        Dose(3.0, "blood", 50.0, 100.0 / 60.0),
    )
    assert record.t[-1] == 14.0
    assert str(record).startswith("<Record 'pk.csv': 7 samples at irregular times")
    assert len(record) > 7
    (folder / "doses.csv").write_text("time [s],amount,state\n3600,320,gut\n")
    changed(folder, '{file = "pk.csv", states = ["gut", "blood"]', '{file = "doses.csv"')
    record = load_system("config.toml").problem.records[0]
    assert record.doses == (Dose(1.0, "gut", 320.0, lag="lag", fraction="F"),)


def test_doses_that_nothing_reads_are_told(folder, caplog):
    for name in ("doses", "lag", "F"):
        lines = (folder / "config.toml").read_text().splitlines()
        kept = [one for one in lines if not one.startswith(f"{name} =")]
        (folder / "config.toml").write_text("\n".join(kept))
    with caplog.at_level(logging.WARNING):
        load_system("config.toml")
    assert "has doses in its column AMT, which nothing reads: state doses in [data]" in caplog.text
    caplog.clear()
    changed(folder, "[data]", "[data]\ndoses = []")
    with caplog.at_level(logging.WARNING):
        load_system("config.toml")
    assert "AMT" not in caplog.text


def test_equations_are_not_discovered_in_a_file_with_doses(folder):
    done = run("discover", "pk.csv", "--states", "DV", "--time", "TIME")
    assert isinstance(done.exception, InputError)
    assert "pk.csv has doses in its column AMT, which nothing reads" in str(done.exception)


def test_a_simulated_path_has_the_samples_of_the_file(folder):
    done = run("simulate", "config.toml", "--set", "lag=0.3")
    header, *rows = done.stdout.splitlines()
    assert header == "t,conc"
    assert [float(row.split(",")[0]) for row in rows] == [0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 14.0]
    assert {row.count(",") for row in rows} == {1}


@pytest.mark.slow
def test_a_stream_of_the_file_goes_on_to_the_same_lines(folder):
    command = ["stream", "config.toml", "--from", "pk.csv", "--events", "events.jsonl"]
    assert run(*command, "--to", "whole.jsonl").exit_code == 0
    part = [*command, "--to", "part.jsonl", "--checkpoint", "part.h5"]
    assert run(*part, "--limit", "4").exit_code == 0
    assert run(*part).exit_code == 0
    events, whole, again = (
        [json.loads(line) for line in (folder / name).read_text().splitlines()]
        for name in ("events.jsonl", "whole.jsonl", "part.jsonl")
    )
    assert {one["event"] for one in events} == {"end", "final", "checkpoint", "duplicate"}
    assert len(whole) == 7
    for one, other in zip(whole, again, strict=True):
        assert [one[name] for name in ("t", "mean", "sd", "log_evidence")] == [
            other[name] for name in ("t", "mean", "sd", "log_evidence")
        ]


def test_a_file_that_continues_a_record_names_an_output(folder):
    problem = load_system("config.toml").problem
    (folder / "more.csv").write_text(DATA)
    done = "more.csv names no output .conc.*name every column by its input, output or t"
    with pytest.raises(InputError, match=done):
        following_record(folder / "more.csv", problem)
    text = "TIME,AMT,STATE,conc,conc_upper\n15,320,gut,.,.\n16,.,.,7.0,.\n30,.,.,.,0.5\n"
    (folder / "more.csv").write_text(text)
    more = following_record(folder / "more.csv", problem)
    assert more.doses == (Dose(15.0, "gut", 320.0, lag="lag", fraction="F"),)
    np.testing.assert_array_equal(more.y_upper[:, 0], [np.nan, np.nan, 0.5])
