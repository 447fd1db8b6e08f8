"""The cascaded tanks of the benchmark, as an ODE."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from smcpn.cases import OFFICIAL
from smcpn.cases.case import Case
from smcpn.datasets import cascaded_tanks
from smcpn.datasets.cascaded_tanks import SATURATION
from smcpn.datasets.models import cascaded_tanks as equation
from smcpn.errors import one_of
from smcpn.model.problem import Problem
from smcpn.model.record import Record

PRIOR: dict[str, Any] = {
    "pump": stats.lognorm(1.0, scale=0.03),
    "out1": stats.lognorm(1.0, scale=0.1),
    "out2": stats.lognorm(1.0, scale=0.2),
    "ratio": stats.lognorm(1.0, scale=1.0),
    "share": stats.uniform(0.0, 1.0),
    "zero": stats.uniform(0.0, 2.5),
    "power": stats.lognorm(0.5, scale=0.5),
    "sigma": stats.lognorm(1.0, scale=0.1),
}
"""1/s, V/s, V/s, 1, 1, V, 1, V. A tank of 10 V that empties in minutes; Bernoulli's power in the
middle; an empty tank reads less than the lowest level measured, 2.9 V."""

INITIAL: dict[str, Any] = {"h1": stats.uniform(0.0, 10.0), "h2": stats.norm(5.0, 0.5)}
"""Volts. The benchmark says that both records begin with the same levels."""


def cascaded_tanks_case(
    hold: str = "zoh", model: str = "deterministic", split: str = OFFICIAL
) -> Case:
    """Build the case.

    Parameters
    ----------
    hold : str
        The input between samples.
    model : {"deterministic"}
        The equation, and all that it misses as measurement noise.
    split : {"official"}

    Raises
    ------
    InputError
        For an unknown model or split, or without the file.
    """
    one_of("model", model, ["deterministic"])
    one_of("split", split, [OFFICIAL])
    data = cascaded_tanks(hold)
    problem = Problem(
        equation,
        unsaturated(data.train),
        observe="h2",
        noise="sigma",
        prior=PRIOR,
        initial=INITIAL,
    )
    return Case(
        name="cascaded-tanks",
        problem=problem,
        tests={"test": data.test},
        published={},
        steps=2,
        split=split,
        note="measured, dataBenchmark.csv; saturated samples of the training record are missing",
    )


def unsaturated(record: Record) -> Record:
    """Return the record with the levels at which the sensor is saturated as missing."""
    return record.with_outputs(np.where(record.y < SATURATION, record.y, np.nan))
