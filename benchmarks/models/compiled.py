"""Equations that numba has compiled, beside the same ones traced: numbers, time, the Silverbox."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import stats

import smcpn
from benchmarks.rows import Row, at_most, reached, unjudged
from benchmarks.study import study
from smcpn.cli.cases.silverbox import DUFFING_PRIOR, NOISE
from smcpn.datasets import silverbox
from smcpn.datasets.models import bouc_wen, duffing

Array = NDArray[np.float64]

DEPTH = np.linspace(0.0, 2.0, 41)
AREA = 1.0 + 0.5 * np.sin(2.0 * DEPTH)
REPEATS = 7
PRIOR: dict[str, Any] = {**DUFFING_PRIOR}
SOLVERS = {"RK4": smcpn.RK4(steps=4), "EKF0": smcpn.EKF0(steps=4)}


@njit
def duffing_code(x: Any, u: Any, t: Any, p: Any, out: Any) -> None:
    """Write the derivatives of `duffing`."""
    out[0] = x[1]
    out[1] = (u[0] - p[1] * x[1] - p[2] * x[0] - p[3] * x[0] ** 3) / p[0]


@njit
def bouc_wen_code(x: Any, u: Any, t: Any, p: Any, out: Any) -> None:
    """Write the derivatives of `bouc_wen`."""
    m, c, k, alpha, beta, gamma, delta = p
    hysteresis = gamma * np.abs(x[1]) * x[2] + delta * x[1] * np.abs(x[2])
    out[0] = x[1]
    out[1] = (u[0] - c * x[1] - k * x[0] - x[2]) / m
    out[2] = alpha * x[1] - beta * hysteresis


@njit
def tank_code(x: Any, u: Any, t: Any, p: Any, out: Any) -> None:
    """Write the derivative of `tank`."""
    # The cell is looked for as in a simulator that somebody wrote.
    cell = 0
    while cell < len(DEPTH) - 2 and DEPTH[cell + 1] < x[0]:
        cell += 1
    share = (x[0] - DEPTH[cell]) / (DEPTH[cell + 1] - DEPTH[cell])
    share = min(max(share, 0.0), 1.0)
    area = AREA[cell] + share * (AREA[cell + 1] - AREA[cell])
    out[0] = (u[0] - p[0] * np.sqrt(max(x[0], 0.0))) / area


@smcpn.ode
def tank(h: Any, q: Any, *, c: Any) -> Any:
    """Level of a tank of measured cross-section with an orifice."""
    return (q - c * np.sqrt(np.maximum(h, 0.0))) / np.interp(h, DEPTH, AREA)


DUFFING = smcpn.ode(duffing_code, states=["x", "v"], inputs=["u"], parameters=[*"mck", "k3"],
                    chains={"x": "v"})  # fmt: skip
BOUC_WEN = smcpn.ode(bouc_wen_code, states=[*"xvz"], inputs=["u"],
                     parameters=[*"mck", "alpha", "beta", "gamma", "delta"],
                     chains={"x": "v"})  # fmt: skip
TANK = smcpn.ode(tank_code, states=["h"], inputs=["q"], parameters=["c"])
CENTRES: dict[str, tuple[Any, Any, dict[str, float], dict[str, float]]] = {
    "duffing": (duffing, DUFFING, {"m": 1.0, "c": 0.2, "k": 1.0, "k3": 0.5}, {}),
    "bouc-wen": (
        bouc_wen,
        BOUC_WEN,
        {"m": 1.0, "c": 0.2, "k": 1.0, "alpha": 1.0, "beta": 1.0, "gamma": 0.8, "delta": -0.5},
        {},
    ),
    "table and loop": (tank, TANK, {"c": 0.6}, {"h": 0.8}),
}
"""The traced equation, the compiled one, parameters, and the initial state where it is not rest."""


@study("compiled", full=1000, quick=200)
def compiled(particles: int) -> Iterator[Row]:
    """Log-likelihoods of compiled equations are those of traced ones, at four times the time."""
    for name, (traced, code, values, initial) in CENTRES.items():
        rng = np.random.default_rng(0)
        theta = np.array(list(values.values())) * np.exp(
            0.05 * rng.normal(size=(particles, len(values)))
        )
        for solver_name, solver in SOLVERS.items():
            by = [_likelihood(ode, values, initial, solver) for ode in (traced, code)]
            exact, found = (one(theta) for one in by)
            difference = float(np.max(np.abs(found / exact - 1.0)))
            row = at_most(f"{name}, {solver_name}: relative difference", difference, 1e-12)
            # EKF0 restarts at every sample from derivatives, here from differences.
            yield row if solver_name == "RK4" else unjudged(row, "derivatives are differences")
            ratio = _ratio(by[0], by[1], theta)
            row = at_most(f"{name}, {solver_name}: time / traced", ratio, 4.0)
            yield reached(row, 10.0)


@study("compiled-silverbox", quick=None)
def compiled_silverbox(_: bool) -> Iterator[Row]:
    """The Silverbox by a compiled equation, on the split of the paper: .446 mV on the arrow."""
    records = silverbox("bandlimited")
    problem = smcpn.Problem(DUFFING, records.paper_train, observe="x", noise=NOISE, prior=PRIOR)
    posterior = smcpn.identify(problem, seed=0)
    simulation = posterior.simulate(records.paper_test)
    yield at_most("RMSE of the arrow [mV]", 1e3 * float(simulation.rmse_of_mean[0]), 0.4465)


def _likelihood(
    ode: Any, values: dict[str, float], initial: dict[str, float], solver: Any
) -> smcpn.LogLikelihood:
    t = 0.1 * np.arange(300)
    record = smcpn.Record(
        u=0.5 + 0.4 * np.sin(1.3 * t) + 0.1 * np.sin(4.1 * t), y=np.sin(t), dt=0.1
    )
    prior: dict[str, Any] = {name: stats.norm(value, 1.0) for name, value in values.items()}
    problem = smcpn.Problem(
        ode, record, observe=ode.states[0], noise=0.5, initial=initial or "rest",
        prior=prior,
    )  # fmt: skip
    return smcpn.LogLikelihood(problem, solver=solver, threads=1)


def _ratio(traced: Any, code: Any, theta: Array) -> float:
    """Processor time of a compiled equation over that of the traced one, the least of pairs."""
    best = [np.inf, np.inf]
    for _ in range(REPEATS):
        for place, one in enumerate((traced, code)):
            begin = time.process_time()
            one(theta)
            best[place] = min(best[place], time.process_time() - begin)
    return best[1] / best[0]
