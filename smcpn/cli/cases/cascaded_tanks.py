"""The cascaded tanks of the benchmark: as an ODE, and with process noise in the levels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from smcpn.cli.cases.case import Case
from smcpn.cli.cases.splits import OFFICIAL
from smcpn.datasets import cascaded_tanks
from smcpn.datasets.cascaded_tanks import SATURATION
from smcpn.datasets.models import cascaded_tanks as equation
from smcpn.errors import one_of
from smcpn.model.problem import Problem
from smcpn.model.record import Record
from smcpn.results.simulation.simulation import Simulation

if TYPE_CHECKING:
    from smcpn.results.posterior import Posterior

PRIOR: dict[str, Any] = {
    "pump": stats.lognorm(1.0, scale=0.03),
    "out1": stats.lognorm(1.0, scale=0.1),
    "out2": stats.lognorm(1.0, scale=0.2),
    "ratio": stats.lognorm(1.0, scale=1.0),
    "share": stats.beta(2.0, 2.0),
    "zero": stats.uniform(0.0, 2.5),
    "power": stats.lognorm(0.5, scale=0.5),
}
"""1/s, V/s, V/s, 1, 1, V, 1. Tanks of 10 V that empty in minutes; Bernoulli's power in the middle;
an empty tank reads less than the lowest level of the training record, 2.9 V."""

MISFIT: dict[str, Any] = {"sigma": stats.lognorm(1.0, scale=0.1)}
"""Volts: what an undisturbed model misses counts as noise of the sensor."""
SENSOR: dict[str, Any] = {"sigma": stats.lognorm(0.5, scale=0.02)}
"""Volts: by how much neighbouring samples of a quiet level differ."""
DISTURBANCE: Any = stats.lognorm(1.0, scale=0.02)
"""V/sqrt(s): in a minute 0.15 V, a factor of seven either way."""

INITIAL: dict[str, Any] = {"h1": stats.uniform(0.0, 10.0), "h2": stats.norm(5.0, 0.5)}
"""Volts. The benchmark says that both records begin with the same levels."""

MODELS: dict[str, Mapping[str, str]] = {
    "deterministic": {},
    "disturbed": {"h2": "q2"},
    "disturbed-both": {"h1": "q1", "h2": "q2"},
}
"""Process noise by the name of the model."""


def cascaded_tanks_case(hold: str = "zoh", model: str = "disturbed", split: str = OFFICIAL) -> Case:
    """Build the case.

    Raises `InputError` for an unknown model or split, or without the file.

    Parameters
    ----------
    hold : str
        The input between samples.
    model : {"disturbed", "disturbed-both", "deterministic"}
        With process noise in the level of the lower tank, or in both; or without, where all that
        the equation misses is measurement noise. A disturbed model is scored one sample ahead
        too, and beside the free run of the deterministic one.
    split : {"official"}
    """
    one_of("model", model, MODELS)
    one_of("split", split, [OFFICIAL])
    data = cascaded_tanks(hold)
    train, test = unsaturated(data.train), data.test

    def one_step(posterior: Posterior) -> Simulation:
        return posterior.predict(unsaturated(test))

    def undisturbed(posterior: Posterior) -> Simulation:
        from smcpn.run.identify import identify

        plain = tanks_problem(train, "deterministic")
        found = identify(plain, particles=len(posterior.theta), seed=posterior.seed, progress=False)
        return found.simulate(test, like=train)

    both = {"test, one sample ahead": one_step, "test, without process noise": undisturbed}
    return Case(
        name="cascaded-tanks",
        problem=tanks_problem(train, model),
        tests={"test": test},
        published={},
        steps=24,
        split=split,
        alike=True,
        protocols={} if model == "deterministic" else both,
        note="measured, dataBenchmark.csv; saturated levels are not learned from; the "
        "errors of a free run last longer than its band, of white noise, counts",
    )


def tanks_problem(record: Record, model: str) -> Problem:
    """One of `MODELS` with a record to learn from."""
    noise = MODELS[model]
    measured = SENSOR if noise else MISFIT
    disturbances: dict[str, Any] = dict.fromkeys(noise.values(), DISTURBANCE)
    return Problem(
        equation,
        record,
        observe="h2",
        noise="sigma",
        prior=PRIOR | measured | disturbances,
        initial=INITIAL,
        process_noise=dict(noise) or None,
    )


def unsaturated(record: Record) -> Record:
    """Return the record with the levels at which the sensor is saturated as missing.

    Such a reading says only that the level was not lower.
    """
    return record.with_outputs(np.where(record.y < SATURATION, record.y, np.nan))
