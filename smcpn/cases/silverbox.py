"""PN-SMC section 4.2: the Silverbox as a Duffing oscillator, and the benchmark's own split."""

from __future__ import annotations

from typing import Any

from scipy import stats

from smcpn.cases import PAPER, SPLITS
from smcpn.cases.case import Case, PublishedScore
from smcpn.datasets import Silverbox, silverbox
from smcpn.datasets.models import duffing, duffing_damping, duffing_offset
from smcpn.datasets.silverbox import OFFICIAL_INITIALISATION
from smcpn.errors import one_of
from smcpn.model.ode import ODE
from smcpn.model.problem import Problem

NOISE = 1e-3
"""Volts; the paper sets the variance of the noise to 1e-6."""

DUFFING_PRIOR = {
    "m": stats.lognorm(0.5, scale=5e-6),
    "c": stats.lognorm(0.5, scale=3e-4),
    "k": stats.lognorm(0.3, scale=1.0),
    "k3": stats.lognorm(0.5, scale=3.0),
}
OFFSET_PRIOR = {"u0": stats.norm(0.0, 0.005), "y0": stats.norm(0.0, 0.005)}
DAMPING_PRIOR = {"c2": stats.norm(0.0, 2e-3)}
"""Of either sign; at the largest output, 0.3 V, one sd of c2 x^2 is 60 % of c."""
NOISE_PRIOR = {"sigma": stats.lognorm(1.0, scale=1e-3)}
"""Volts, where the noise is learned: a factor of seven either way."""

MODELS: dict[str, tuple[ODE, dict[str, Any]]] = {
    "duffing": (duffing, {}),
    "duffing-offsets": (duffing_offset, OFFSET_PRIOR),
    "duffing-damping": (duffing_damping, OFFSET_PRIOR | DAMPING_PRIOR),
}


def offset_output(x: Any, *, y0: Any) -> Any:
    """Displacement measured with an offset ``y0``."""
    return x + y0


def silverbox_case(hold: str = "bandlimited", model: str | None = None, split: str = PAPER) -> Case:
    """Build the case.

    Parameters
    ----------
    hold : str
        The input between samples.
    model : {"duffing", "duffing-offsets", "duffing-damping"}
        The paper's four parameters; two more for the offsets of input and output; a third for
        damping that grows with the displacement. By default the paper's model on the paper's
        split, offsets on the official one.
    split : {"paper", "official"}
        The paper's 3072 samples from rest with its noise, or the benchmark's 65062. These begin
        in motion, so the initial state is unknown, and so is the noise.

    Raises
    ------
    InputError
        For an unknown model or split, or without the file.
    """
    one_of("split", split, SPLITS)
    if model is None:
        model = "duffing" if split == PAPER else "duffing-offsets"
    one_of("model", model, MODELS)
    records = silverbox(hold)
    return (_paper_case if split == PAPER else _official_case)(records, model)


def _paper_case(records: Silverbox, model: str) -> Case:
    equation, added = MODELS[model]
    prior: dict[str, Any] = {**DUFFING_PRIOR, **added}
    problem = Problem(
        equation,
        records.paper_train,
        observe=offset_output if "y0" in added else "x",
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


def _official_case(records: Silverbox, model: str) -> Case:
    equation, added = MODELS[model]
    train = records.official_train
    prior: dict[str, Any] = {**DUFFING_PRIOR, **added, **NOISE_PRIOR}
    problem = Problem(
        equation,
        train,
        observe=offset_output if "y0" in added else "x",
        noise="sigma",
        prior=prior,
        # The first output is known to a few millivolts; 0.1 V at 70 Hz is a velocity of 44 V/s.
        initial={"x": stats.norm(float(train.y[0, 0]), 0.01), "v": stats.norm(0.0, 50.0)},
    )
    return Case(
        name="silverbox",
        problem=problem,
        tests=records.official_tests,
        published={},
        steps=8,
        split="official",
        initialise=OFFICIAL_INITIALISATION,
        note="measured, SNLS80mV.mat",
    )
