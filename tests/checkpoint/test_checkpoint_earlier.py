"""Posteriors that an earlier release saved are read by every later one.

The files in ``tests/data`` were written by version 0.2.0 and are never written again. ``posterior``
and ``nuts`` are of a mass on a spring whose position and velocity are measured, ``walk`` of a rate
that is a spline, with process noise.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import smcpn
from smcpn.checkpoint.container import POSTERIOR, read
from smcpn.checkpoint.posterior import posterior_as_now
from tests.checkpoint.changed import changed, number, put, text

FILES = Path(__file__).parent.parent / "data"
MEANS = {
    "posterior": {"c": 0.29438513740740957, "k": 1.994427667640892, "sigma": 0.02016352823414177},
    "walk": {"f[1]": 1.4131235996845644, "f.scale": 1.0128008284346328, "q": 0.07126937355664893},
    "nuts": {"c": 0.31839244004952105, "k": 4.380229008113823, "sigma": 0.2688548957772899},
}
"""What 0.2.0 printed of them."""


@pytest.mark.parametrize("name", MEANS)
def test_a_posterior_of_0_2_0_is_what_it_was(name, tmp_path):
    posterior = smcpn.load(FILES / f"{name}-0.2.0.h5")
    assert isinstance(posterior, smcpn.NutsPosterior) == (name == "nuts")
    assert {one: posterior.mean[one] for one in MEANS[name]} == pytest.approx(MEANS[name], rel=1e-9)
    again = smcpn.load(posterior.save(tmp_path / "again.h5"))
    assert again.mean == posterior.mean
    assert again.summary() == posterior.summary()


def test_a_file_that_was_translated_is_as_it_was():
    file = read(FILES / "posterior-0.2.0.h5", POSTERIOR, lambda file: file)
    assert list(posterior_as_now(file).groups) == list(posterior_as_now(file).groups)


def document(**changes):
    def change(file):
        held = json.loads(file["documents/posterior"][()]) | changes
        put("documents/posterior", text(held))(file)

    return change


CHANGES = {
    "theta is NaN": number("arrays/draws/theta", (7, 0), np.nan),
    "no theta": put("arrays/draws/theta", None),
    "an array more": put("arrays/draws/more", np.zeros(3)),
    "a part more": put("arrays/more/theta", np.zeros(3)),
    "no model": put("arrays/problem/model", None),
    "no constants": put("arrays/problem/model/constant_values", None),
    "no table": put("arrays/draws/rejuvenations", None),
    "another table": put("arrays/draws/rejuvenations", np.zeros(3)),
    "no document": put("documents/posterior", None),
    "a list": put("documents/posterior", text([1])),
    "a deep list": put("documents/posterior", np.bytes_(b"[" * 10_000)),
    "no records": document(records=None),
    "records are a number": document(records=[3]),
    "a problem of names": document(problem={"ode": [], "model": 3}),
    "chains without arrays": document(chains={"tune": 1, "tune_steps": 1}),
    "an entry more": document(more=1),
    "another likelihood": number("arrays/draws/log_likelihood", slice(None), -1.0),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_changed_posterior_of_0_2_0_is_refused(case, tmp_path):
    path = tmp_path / "p.h5"
    before = (FILES / "posterior-0.2.0.h5").read_bytes()
    path.write_bytes(changed(POSTERIOR, before, CHANGES[case]))
    with pytest.raises(smcpn.InputError) as caught:
        smcpn.load(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_posterior_of_0_2_0_simulates():
    posterior = smcpn.load(FILES / "posterior-0.2.0.h5")
    simulation = posterior.simulate(posterior.problem.records[0])
    assert simulation.rmse_of_mean == pytest.approx([MEANS["posterior"]["sigma"]] * 2, rel=0.2)
