"""Theophylline: its records from a file as R writes it, and subjects with own parameters."""

import numpy as np
import pytest

import smcpn
from smcpn.cli.cases import load_case
from smcpn.cli.cases.theophylline import theophylline_problem
from smcpn.datasets import Theophylline, theophylline

TIMES = [0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 5.0, 7.0, 9.0, 12.0, 24.0]


def _concentration(t, dose, absorption, clearance, volume):
    """Bateman's function."""
    out = clearance / volume
    gone = np.exp(-out * t) - np.exp(-absorption * t)
    return dose * absorption / (volume * (absorption - out)) * gone


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SMCPN_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_file_of_r_is_read_by_subject(folder):
    lines = ['"Subject","Wt","Dose","Time","conc"']
    for subject in range(1, 13):
        lines += [f'"{subject}",70,{4 + subject},{t},{t + subject}' for t in TIMES]
    (folder / "theophylline.csv").write_text("\n".join(lines))
    data = theophylline()
    assert data.doses == tuple(range(5, 17))
    assert [record.name for record in data.records[:2]] == ["subject 1", "subject 2"]
    np.testing.assert_array_equal(data.records[2].t, TIMES)
    np.testing.assert_array_equal(data.records[2].y[:3, 0], [np.nan, 3.25, 3.5])
    own, pooled = (load_case("theophylline", model=model) for model in ("own", "pooled"))
    assert len(own.problem.names) == 37
    assert len(pooled.problem.names) == 4


def test_without_the_file_the_command_is_named(folder):
    with pytest.raises(smcpn.InputError, match=r"Rscript -e 'write\.csv"):
        theophylline()


@pytest.mark.numerics
def test_the_likelihood_is_that_of_batemans_function():
    t = np.array(TIMES)
    subjects = {"absorption": [1.5, 6.0], "clearance": [0.04, 0.03], "volume": [0.5, 0.4]}
    curves = [_concentration(t, 4.0, *values) for values in zip(*subjects.values(), strict=True)]
    factor = np.exp(0.2 * np.random.default_rng(0).normal(size=(2, len(t))))
    records = [
        smcpn.Record(t=t, y=np.where(t > 0, curve * noise, np.nan))
        for curve, noise in zip(curves, factor, strict=True)
    ]
    problem = theophylline_problem(Theophylline(tuple(records), (4.0, 4.0)), "own")
    names = [f"{name}(0)[{number}]" for number in (0, 1) for name in subjects]
    assert problem.names == ("sd", *names)
    values = [0.2, 1.5, 0.04, 0.5, 6.0, 0.03, 0.4]
    found = smcpn.LogLikelihood(problem, solver=smcpn.RK4(1024, interval=12.0))([values])[0]
    z = np.log(factor[:, 1:]) / 0.2
    y = np.array(curves)[:, 1:] * factor[:, 1:]
    expected = (-0.5 * z**2 - np.log(0.2 * y * np.sqrt(2 * np.pi))).sum()
    # The first sample is missing, and noise in proportion to it would have no density.
    assert found == pytest.approx(expected, abs=1e-4)
