"""``smcpn discover``: files to equations."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import smcpn
from smcpn.cli.app import app
from smcpn.cli.records import Source

T = 0.1 * np.arange(80)
DECAY = np.exp(-0.5 * T) + 0.01 * np.random.default_rng(0).normal(size=80)
BOTH = {"x": "x", "v": "v"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{1e3 * t:.6g},{x:.6g}" for t, x in zip(T, DECAY, strict=True)]
    (tmp_path / "decay.csv").write_text("\n".join(["t [ms],x [mm]", *rows]), "utf-8")
    return tmp_path


def run(*arguments: str):
    return CliRunner().invoke(app, ["discover", *arguments])


@pytest.mark.slow
def test_equations_of_a_file_with_a_test_as_text_and_json(folder):
    asked = ["decay.csv", "--states", "x", "--library", "poly(1)", "--test", "decay.csv"]
    asked += ["--time-unit", "s"]
    done = run(*asked, "--picture", "path.png")
    assert done.exit_code == 0, done.output
    assert "x' = -0.4976(33) x [1.00]" in done.stdout
    assert "80 samples" in done.stdout
    assert "decay.csv" in done.stdout
    assert (folder / "path.png").is_file()
    found = json.loads(run(*asked, "--json").stdout)
    assert found["coefficients"]["x'[x]"]["mean"] == pytest.approx(-0.5, abs=0.02)
    assert found["models"][0]["coefficients"].keys() == {"x'[x]"}
    assert found["noise"]["x"] == pytest.approx(0.01, rel=0.3)
    assert found["tests"]["decay.csv"]["x"]["coverage"] > 0.8
    assert found["samples"] == 80
    assert found["seed"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no.csv"], "no.csv is no file"),
        (["decay.csv", "--states", "x,y"], r"no 'y' \(it has t, x\).*--observe"),
        (["decay.csv", "--states", "xx"], "did you mean 'x'"),
        (["decay.csv", "--states", "x=xx"], "did you mean 'x'"),
        (["decay.csv", "--states", "x,x"], "twice"),
        (["decay.csv", "--states", "x,"], "names with commas"),
        (["decay.csv", "--observe", "y"], "--observe names 'y'"),
        (["decay.csv", "--inputs", "u"], "no 'u'"),
        (["decay.csv", "--library", "poly(2"], "library"),
        (["decay.csv", "--known", "x"], "write x=v"),
        (["decay.csv", "--known", "y=x"], "known names 'y'"),
        (["decay.csv", "--constraint", "x"], "constraint"),
        (["decay.csv", "--time", "clock"], "no 'clock'"),
        (["decay.csv", "--time", "t", "--dt", "1"], "one of both"),
        (["decay.csv", "--method", "smc"], "method is 'smc': leave it out"),
        (["decay.csv", "--particles", "100"], "particles is 100.*leave particles out"),
        (["decay.csv", "--prior", "flat"], "prior is 'flat'"),
        (["decay.csv", "--noise", "low"], "--noise is 'low'"),
        (["decay.csv", "--noise", "1,2"], "noise"),
        (["decay.csv", "--seed", "-1"], "seed is -1"),
        (["decay.csv", "--report", "no/out.html"], "does not exist"),
        (["decay.csv", "--picture", "out"], "no known format"),
        (["decay.csv", "--test", "no.csv"], "no.csv is no file"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_one_sentence(folder, arguments, message):
    if "--states" not in arguments:
        arguments = [*arguments, "--states", "x"]
    done = run(*arguments)
    assert isinstance(done.exception, smcpn.InputError)
    assert done.exception.args[0].count("\n") == 0
    with pytest.raises(smcpn.InputError, match=message):
        raise done.exception


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("t,x,v\n0,1,2\n0.1,,3\n0.2,nan,4\n", {}),
        ("time;x;v\n0,0;1,0;2,0\n0,1;;3,0\n0,2;nan;4,0\n", {}),
        ("v\tx\tt\n2\t1\t0\n3\t\t0.1\n4\tNaN\t0.2\n", {}),
        ("0,1,2\n0.1,,3\n0.2,nan,4\n", {"columns": ["t", "x", "v"]}),
        ("# a comment\nx,v,note\n1,2,7\n,3,8\n,4,9\n", {"dt": 0.1}),
        ("clock [ms],x,v\n0,1,2\n100,,3\n200,nan,4\n", {"time": "clock", "time_unit": "s"}),
    ],
)
def test_records_are_read_as_their_files_are_written(tmp_path, text, options):
    path = tmp_path / "data.csv"
    path.write_text(text, "utf-8")
    record = Source({}, BOTH, **options).records(path)[0]
    np.testing.assert_allclose(record.t, [0.0, 0.1, 0.2])
    np.testing.assert_array_equal(record.y, [[1, 2], [np.nan, 3], [np.nan, 4]])
    assert record.uniform


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,v\n1,2\n3,4\n", "--time.*--dt"),
        ("0,1,2\n0.1,3,4\n", "--columns"),
        ("", "is empty"),
        ("t,x,v\n0,1\n1,2,3\n", "line 2: 2 columns"),
        ("t,x,v\n0,one,2\n1,2,3\n", "line 2: 'x' is 'one', no number"),
        ("t,x,v\n1,1,2\n0,2,3\n", "line 3: .*sort the samples"),
        ("t,x,v\n1,1,2\n", "at least two"),
    ],
    ids=str,
)
def test_files_that_cannot_be_read_are_told(tmp_path, text, message):
    path = tmp_path / "data.csv"
    path.write_text(text, "utf-8")
    with pytest.raises(smcpn.InputError, match=message):
        Source({}, BOTH).records(path)
