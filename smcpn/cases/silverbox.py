"""PN-SMC section 4.2: the Silverbox as a Duffing oscillator."""

from __future__ import annotations

from typing import Any

from scipy import stats

from smcpn.cases.case import Case, PublishedScore
from smcpn.datasets import silverbox
from smcpn.errors import InputError
from smcpn.models import duffing, duffing_offset
from smcpn.problem import Problem

NOISE = 1e-3
"""Volts; the paper sets the variance of the noise to 1e-6."""

DUFFING_PRIOR = {
    "m": stats.lognorm(0.5, scale=5e-6),
    "c": stats.lognorm(0.5, scale=3e-4),
    "k": stats.lognorm(0.3, scale=1.0),
    "k3": stats.lognorm(0.5, scale=3.0),
}
OFFSET_PRIOR = {"u0": stats.norm(0.0, 0.005), "y0": stats.norm(0.0, 0.005)}

MODELS = ("duffing", "duffing-offsets")


def offset_output(x, *, y0):
    """Displacement measured with an offset ``y0``."""
    return x + y0


def silverbox_case(hold: str = "bandlimited", model: str = "duffing") -> Case:
    """Build the case.

    Parameters
    ----------
    hold : str
        The input between samples.
    model : {"duffing", "duffing-offsets"}
        The paper's four parameters, or two more for the offsets of input and output.

    Raises
    ------
    InputError
        For an unknown model, or without the file.
    """
    if model not in MODELS:
        raise InputError(f"model is '{model}': silverbox has {', '.join(MODELS)}")
    records = silverbox(hold)
    offsets = model == "duffing-offsets"
    prior: dict[str, Any] = DUFFING_PRIOR | (OFFSET_PRIOR if offsets else {})
    problem = Problem(
        duffing_offset if offsets else duffing,
        records.paper_train,
        observe=offset_output if offsets else "x",
        noise=NOISE,
        prior=prior,
        initial="rest",
    )
    return Case(
        name="silverbox",
        problem=problem,
        tests={"arrow": records.paper_test},
        published={"arrow": PublishedScore(1.0567e-3, 1.8249e-3, 2.9516e-3)},
        steps=8,
        note="measured, SNLS80mV.mat",
    )
