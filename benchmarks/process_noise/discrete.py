"""The solver step with noise that all likelihoods share, against exact transitions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, cast

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy import stats

import smcpn
from benchmarks.process_noise.linear import exact_transition
from benchmarks.rows import Row, at_most
from benchmarks.study import study
from smcpn.likelihood.transition import step_factor
from smcpn.model.ode import ODE
from smcpn.results.simulation.simulator import DisturbedSimulator

Array = NDArray[np.float64]
INTERVAL = 0.1
RECORD = smcpn.Record(y=np.zeros(21), dt=INTERVAL)


@smcpn.ode
def oscillating(x, v, *, q):
    """Free oscillator."""
    return v, -2.0 * x - 0.4 * v + 0 * q


@smcpn.sde
def stock(price, *, q):
    """Geometric Brownian motion."""
    return 0.5 * price, q * price


def problem(ode: ODE, *disturbed: str) -> smcpn.Problem:
    """Noise of size q on some states; the first is seen."""
    noise = dict.fromkeys(disturbed, "q") or None
    return smcpn.Problem(
        ode, RECORD, observe=ode.states[0], noise=1.0, initial=[1.0] * len(ode.states),
        prior={"q": cast(Any, stats.lognorm(1.0))}, process_noise=noise,
    )  # fmt: skip


def covariance(of: smcpn.Problem, h: float, q: float) -> Array:
    """L L' of a step."""
    model, length = of.model.with_numbers(), ca.SX.sym("h")
    factor = ca.densify(step_factor(model, length))
    found = np.array(ca.Function("L", [length, model.theta], [factor])(h, q))
    return found @ found.T


def exact_covariance(A: Array, G: Array, h: float) -> Array:
    """What a step adds."""
    return exact_transition(A, G @ G.T, h)[1]


@study("noise_paths", full=100_000, quick=4000)
def paths(n: int) -> Iterator[Row]:
    """Distribution of simulated paths, and what a path costs."""
    A, G = np.array([[0.0, 1.0], [-2.0, -0.4]]), np.array([[0.0], [0.3]])
    of = problem(oscillating, "v")
    last = simulated(of, 2, n, 0.3)
    variance = exact_covariance(A, G, 20 * INTERVAL)[0, 0]
    z = (last.var() / variance - 1) / np.sqrt(2 / n)
    yield at_most("oscillator: |z| of the variance", float(abs(z)), 3.5, f"{n} paths")
    # The error of the mean square is first order in the step; extrapolated it is gone.
    of, exact = problem(stock), np.exp((1.0 + 0.36) * 20 * INTERVAL)
    squares = [np.square(simulated(of, steps, n, 0.6)) for steps in (4, 8)]
    error = [float(values.mean() / exact - 1) for values in squares]
    yield Row("geometric: error of the mean square, 8 steps", error[1])
    spread = float(np.hypot(*[s.std() / exact * w for s, w in zip(squares, (1, 2), strict=True)]))
    z = (2 * error[1] - error[0]) / (spread / np.sqrt(n))
    yield at_most("geometric: |z| extrapolated", float(abs(z)), 3.5)
    begin = time.perf_counter()
    simulated(problem(oscillating, "v"), 2, n, 0.3)
    seconds = time.perf_counter() - begin
    yield Row("nanoseconds a step of a path", 1e9 * seconds / (40 * n), note="normals included")


def simulated(of: smcpn.Problem, steps: int, n: int, q: float) -> Array:
    """First state of n paths at the last sample."""
    simulator = DisturbedSimulator(of.model, RECORD, steps, seed=1)
    parts = [part[-1, 0] for _, _, part in simulator(np.full((1, n), q))]
    return parts[-1]
