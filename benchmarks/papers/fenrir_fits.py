"""Fits of one record by maximum likelihood: Fenrir's, and least squares by Runge-Kutta."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import factorial

import smcpn
from benchmarks.executors import each
from benchmarks.papers.fenrir_settings import DIFFUSION, NOISE, ORDER, SETTINGS, STARTS
from smcpn import RK4, LogLikelihood, Maximum, Record
from smcpn.pn.iwp import process_noise_factor, transition

Array = NDArray[np.float64]

FENRIR, RK = METHODS = ("fenrir", "rk")
ITERATIONS = 400
SWEEP_SEED, WITHIN = 1234, 1e-2
"""Seed of the pendulum's record, and distance of its length within which it is recovered."""
NOISE_START = 1.0
VAGUE = 100.0
"""Initial standard deviation of the process that the diffusion's start is taken from (code)."""


@dataclass(frozen=True)
class Plan:
    """How much to do.

    runs: Records of each setting.
    order: Integrations of the Wiener process.
    lengths: Starts of the pendulum's sweep.
    """

    runs: int = 100
    order: int = ORDER
    lengths: int = 161


@dataclass(frozen=True)
class Fit:
    """The fits of one record.

    values: At the highest end of all starts.
    nll: Negative log-likelihood there.
    error, first_error: tRMSE there, and at the end of the first start.
    evaluations: Of the log-likelihood with its gradient, all starts.
    """

    values: dict[str, float]
    nll: float
    error: float
    first_error: float
    evaluations: int


def fit(name: str, method: str, order: int, seed: int) -> Fit:
    """Fit the record of a seed, from starts that belong to it.

    The highest end counts wherever it is: a rate of zero is at the edge, and still the maximum.
    """
    maximum = maximised(name, method, order, seed, threads=1)
    best = max(maximum.starts, key=lambda one: one.log_density)
    first, values = (
        dict(zip(maximum.names, one.values.tolist(), strict=True))
        for one in (maximum.starts[0], best)
    )
    return Fit(
        values=values,
        nll=-best.log_density,
        error=SETTINGS[name].trajectory_error(values),
        first_error=SETTINGS[name].trajectory_error(first),
        evaluations=maximum.evaluations,
    )


def maximised(
    name: str,
    method: str,
    order: int,
    seed: int,
    starts: int = STARTS,
    threads: int | None = None,
) -> Maximum:
    """Maximise the likelihood of a record over all that is unknown."""
    record = SETTINGS[name].record(seed)
    likelihood = _likelihood(name, method, order, threads).with_records([record])
    begin = SETTINGS[name].draw(np.random.default_rng([seed, 1]), starts, record)
    stages = None
    if method == FENRIR:
        stages = [(NOISE, DIFFUSION)] if SETTINGS[name].staged else None
        begin |= {NOISE: NOISE_START, DIFFUSION: starting_diffusion(record, order)}
    return smcpn.maximise(
        likelihood.problem, likelihood, starts=begin, stages=stages, search="shooting",
        target="likelihood", iterations=ITERATIONS,
    )  # fmt: skip


@cache
def _likelihood(name: str, method: str, order: int, threads: int | None) -> LogLikelihood:
    """Of some record; others take its place without compiling."""
    setting = replace(SETTINGS[name], order=order)
    record = setting.record(0)
    if method == FENRIR:
        result = LogLikelihood(setting.problem(record), "fenrir", setting.solver, threads)
    else:
        problem = setting.least_squares(record)
        result = LogLikelihood(problem, "classical", RK4(setting.steps), threads)
    # The gradient is compiled by its first call.
    result.value_and_gradient(np.ones((1, len(result.names))))
    return result


def starting_diffusion(record: Record, order: int) -> float:
    """Standard deviation of the Wiener process that interpolates evenly spaced measurements.

    The quasi-maximum-likelihood of the process integrated ``order`` times that knows nothing of the
    ODE, as the paper's code starts it. All outputs share it.
    """
    y = record.y[np.isfinite(record.y).all(axis=1)]
    h, orders = record.interval, np.arange(order + 1)
    step, root = transition(order), process_noise_factor(order)
    noise = h ** (2 * order + 1) * root @ root.T
    mean = np.zeros((order + 1, y.shape[1]))
    covariance = np.diag((VAGUE * h**orders / factorial(orders)) ** 2)
    total = 0.0
    for k, measured in enumerate(y):
        if k:
            mean, covariance = step @ mean, step @ covariance @ step.T + noise
        residual, variance = measured - mean[0], covariance[0, 0]
        total += float(np.sum(residual**2)) / variance
        gain = covariance[:, :1] / variance
        # A difference of covariances would cancel: nothing but the process scatters.
        left = np.eye(order + 1)
        left[:, :1] -= gain
        mean, covariance = mean + gain * residual, left @ covariance @ left.T
    return float(np.sqrt(total / len(y)))


def compile_all(names: Iterable[str], order: int) -> None:
    """Compile different kernels side by side; every process loads them from disk afterwards."""
    list(each(partial(_compiled, order), [(name, method) for method in METHODS for name in names]))


def _compiled(order: int, kernel: tuple[str, str]) -> None:
    _likelihood(*kernel, order, 1)


def fits(name: str, method: str, plan: Plan) -> list[Fit]:
    """Fit the records of the first seeds; most of a fit of few starts is not in the kernel."""
    return list(each(partial(fit, name, method, plan.order), range(plan.runs)))
