"""PN-SMC section 4.3: the electro-mechanical positioning system."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.polynomial import Polynomial
from scipy import stats

from smcpn.cases.case import PAPER, Case, PublishedScore, check_split
from smcpn.cases.emps_protocols import emps_protocols
from smcpn.datasets.emps import INITIALISATION, emps
from smcpn.errors import InputError
from smcpn.models import emps as equation
from smcpn.problem import Problem
from smcpn.record import Record

NOISE = 3e-3
"""Metres: what a free simulation misses over 25 s (the published ones miss 4.6 to 12.6 mm on the
test record), a thousand times the encoder's own noise. Given, not inferred: an unknown noise
starts at micrometres, and the posterior of the first second holds no parameters of the last."""

PRIOR: dict[str, Any] = {
    "M": stats.lognorm(1.0, scale=100.0),
    "Fv": stats.lognorm(1.0, scale=200.0),
    "Fc": stats.lognorm(1.0, scale=20.0),
    "offset": stats.norm(0.0, 10.0),
}
"""kg, N s/m, N, N. The paper prints none; 95 % of each positive prior spans a factor of 50."""

PAPER_SAMPLES = 24576


def emps_case(hold: str = "zoh", model: str = "emps", split: str = PAPER) -> Case:
    """Build the case.

    The position is simulated freely from the measured force: the paper's likelihood. The state
    at the first sample is that of a cubic through the first 20 positions, which are not compared.

    Parameters
    ----------
    hold : str
        The input between samples.
    model : {"emps"}
    split : {"paper", "official"}
        The first 24576 training samples, or all 24841. The scores are the same.

    Raises
    ------
    InputError
        For an unknown model or split, or without the files.
    """
    if model != "emps":
        raise InputError(f"model is '{model}': emps has emps only")
    check_split(split)
    data = emps(hold)
    record = data.train.record
    train = record[:PAPER_SAMPLES] if split == PAPER else record
    return Case(
        name="emps",
        problem=emps_problem(train),
        tests={},
        published={"open_loop": PublishedScore(2.95e-4, 5.2018e-4, 8.99e-4)},
        steps=2,
        order=2,
        split=split,
        protocols=emps_protocols(data),
        note="measured, DATA_EMPS.mat; the paper does not state the protocol of its score",
    )


def emps_problem(record: Record, width: float | None = None) -> Problem:
    """Free simulation of one of the records.

    Parameters
    ----------
    record : Record
        Force and position; the first `INITIALISATION` samples tell the state.
    width : float, optional
        Width of the smoothed sign, m/s, where not the model's.
    """
    return Problem(
        equation,
        record.hide(0, INITIALISATION),
        observe="q",
        noise=NOISE,
        prior=PRIOR if width is None else PRIOR | {"width": width},
        initial=_initial_state(record),
    )


def _initial_state(record: Record) -> dict[str, float]:
    window = record[:INITIALISATION]
    cubic = Polynomial.fit(window.t, window.y[:, 0], 3)
    begin = float(window.t[0])
    return {"q": float(cubic(begin)), "v": float(np.asarray(cubic.deriv()(begin)))}
