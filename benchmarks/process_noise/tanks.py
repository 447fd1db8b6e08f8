"""The cascaded tanks: free run and one-step bands on the measured test record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

import smcpn
from benchmarks.rows import Row, at_most, between
from benchmarks.study import study
from smcpn.cli.cases.cascaded_tanks import (
    INITIAL,
    MISFIT,
    PRIOR,
    cascaded_tanks_case,
    unsaturated,
)
from smcpn.datasets import cascaded_tanks
from smcpn.datasets.models import cascaded_tanks as equation

FREE_RUN = 0.40
"""Volts, RMSE: a gated recurrent network; linear models reach 0.59, the best grey box 0.19."""
COVERAGE = (0.92, 0.98)
"""Share of the test record in the 95 % bands one sample ahead."""

STRUCTURES = {
    "no overflow to the lower tank": {"share": 0.0, "zero": 0.0, "power": 0.5},
    "overflow": {"zero": 0.0, "power": 0.5},
    "and the power of the outflow": {"zero": 0.0},
    "and the level of an empty tank": {},
}
"""Parameters that are given, from the textbook's model to that of the case."""


@study("tanks", full=1000, quick=None)
def tanks(particles: int) -> Iterator[Row]:
    """Identify with and without process noise; score the test record of the benchmark."""
    data = cascaded_tanks()
    for name in ("deterministic", "disturbed", "disturbed-both"):
        case = cascaded_tanks_case(model=name)
        posterior = smcpn.identify(
            case.problem,
            solver=case.solver(),
            particles=particles,
            seed=1,
            progress=False,
        )
        free = posterior.simulate(data.test)
        yield at_most(f"{name} free run RMSE V", float(free.rmse_of_mean[0]), FREE_RUN)
        yield Row(f"{name} free run in 95 % band", float(free.coverage[0]))
        if name != "deterministic":
            ahead = posterior.predict(unsaturated(data.test))
            inside, note = float(ahead.coverage[0]), "saturated samples not counted"
            yield between(f"{name} one step in 95 % band", inside, *COVERAGE, note)
            yield Row(f"{name} one step RMSE V", float(ahead.rmse_of_mean[0]))
        yield Row(f"{name} log-evidence", posterior.log_evidence)
        yield Row(f"{name} identify s", posterior.timing.wall)


@study("tanks-structure", full=STRUCTURES, quick=None)
def structures(chosen: Iterable[str]) -> Iterator[Row]:
    """What makes the difference: free run of the most likely parameters, part by part."""
    data = cascaded_tanks()
    for name in chosen:
        problem = smcpn.Problem(
            equation,
            unsaturated(data.train),
            observe="h2",
            noise="sigma",
            prior=PRIOR | MISFIT | STRUCTURES[name],
            initial=INITIAL,
        )
        found = smcpn.maximise(problem, solver=smcpn.RK4(4), starts=8, seed=1)
        values = dict(zip(found.names, found.values, strict=True)) | STRUCTURES[name]
        level = smcpn.simulate(
            equation,
            data.test,
            {parameter: values[parameter] for parameter in equation.parameters},
            observe="h2",
            initial={"h1": values["h1(0)"], "h2": values["h2(0)"]},
        )
        # What is above the sensor's range reads as its end.
        error = np.minimum(level, 10.0) - data.test.y
        yield Row(f"{name}: free run RMSE V", float(np.sqrt(np.square(error).mean())))
