"""Fits of one record by maximum likelihood: Fenrir's, and least squares by Runge-Kutta."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import factorial
from multiprocessing import get_context

import numpy as np
from numpy.typing import NDArray

import smcpn
from benchmarks.papers.fenrir_settings import DIFFUSION, NOISE, SETTINGS, STARTS
from smcpn import RK4, LogLikelihood, Maximum, Record
from smcpn.codegen.kernel import processors

Array = NDArray[np.float64]

METHODS = ("fenrir", "rk")
STAGES = {"fenrir": [(NOISE, DIFFUSION)], "rk": None}
"""Noise and diffusion first, with all else at its start."""
ITERATIONS = 400
NOISE_START = 1.0
SMOOTH = 3
"""Order of the process that the diffusion's start is taken from, as in the code."""
VAGUE = 100.0
"""Initial standard deviation of that process, likewise."""


@dataclass(frozen=True)
class Fit:
    """What came of one record.

    Attributes
    ----------
    name, method : str
        Setting, and one of `METHODS`.
    seed : int
    values, first : dict of str to float
        At the highest end of all starts, and at the end of the first.
    nll : float
        Negative log-likelihood there.
    evaluations : int
        Of the log-likelihood with its gradient, all starts.
    """

    name: str
    method: str
    seed: int
    values: dict[str, float]
    first: dict[str, float]
    nll: float
    evaluations: int


def fit(name: str, method: str, seed: int) -> Fit:
    """Fit the record of a seed, from starts that belong to it."""
    maximum = maximised(name, method, seed, threads=1)
    return Fit(
        name=name,
        method=method,
        seed=seed,
        values=dict(zip(maximum.names, maximum.values.tolist(), strict=True)),
        first=dict(zip(maximum.names, maximum.starts[0].values.tolist(), strict=True)),
        nll=-maximum.log_density,
        evaluations=maximum.evaluations,
    )


def maximised(name: str, method: str, seed: int, threads: int | None = None) -> Maximum:
    """Maximise the likelihood of a record over all that is unknown."""
    setting = SETTINGS[name]
    record = setting.record(seed)
    likelihood = _likelihood(name, method, threads).with_records([record])
    starts = setting.draw(np.random.default_rng([seed, 1]), STARTS, record)
    if method == "fenrir":
        starts |= {NOISE: NOISE_START, DIFFUSION: starting_diffusion(record)}
    return smcpn.maximise(
        likelihood.problem, likelihood, starts=starts, stages=STAGES[method],
        target="likelihood", iterations=ITERATIONS,
    )  # fmt: skip


@cache
def _likelihood(name: str, method: str, threads: int | None) -> LogLikelihood:
    """Of any record; others take its place without compiling."""
    setting = SETTINGS[name]
    record = setting.record(0)
    if method == "fenrir":
        result = LogLikelihood(setting.problem(record), "fenrir", setting.solver, threads)
    else:
        problem = setting.least_squares(record)
        result = LogLikelihood(problem, "classical", RK4(setting.steps), threads)
    # The gradient is compiled by its first call.
    result.value_and_gradient(np.ones((1, len(result.names))))
    return result


def starting_diffusion(record: Record) -> float:
    """Standard deviation of the Wiener process that interpolates the measurements.

    The quasi-maximum-likelihood of an integrated Wiener process that knows nothing of the ODE, as
    the paper's code starts it. All outputs share it.
    """
    seen = np.isfinite(record.y).all(axis=1)
    t, y = record.t[seen], record.y[seen]
    mean, covariance = np.zeros((SMOOTH + 1, y.shape[1])), VAGUE**2 * np.eye(SMOOTH + 1)
    total = 0.0
    for k, measured in enumerate(y):
        if k:
            transition, noise = _integrated_wiener(SMOOTH, t[k] - t[k - 1])
            mean = transition @ mean
            covariance = transition @ covariance @ transition.T + noise
        residual, variance = measured - mean[0], covariance[0, 0]
        total += float(np.sum(residual**2)) / variance
        gain = covariance[:, :1] / variance
        mean = mean + gain * residual
        covariance = covariance - variance * gain @ gain.T
    return float(np.sqrt(total / len(t)))


def _integrated_wiener(order: int, h: float) -> tuple[Array, Array]:
    """Transition matrix and covariance of a step."""
    i, j = np.indices((order + 1, order + 1))
    scale = np.array([factorial(k) for k in range(order + 1)], dtype=float)
    transition = np.where(j >= i, h ** np.abs(j - i) / scale[np.abs(j - i)], 0.0)
    exponent = 2 * order + 1 - i - j
    return transition, h**exponent / (exponent * scale[order - i] * scale[order - j])


@contextmanager
def workers() -> Iterator[ProcessPoolExecutor]:
    """Processes for many records; most of a fit of few starts is not in the kernel."""
    with ProcessPoolExecutor(processors(), mp_context=get_context("spawn")) as pool:
        yield pool


def compile_all(pool: ProcessPoolExecutor, kernels: Iterable[tuple[str, str]]) -> None:
    """Compile different kernels side by side; every process loads them from disk afterwards."""
    for future in [pool.submit(_compiled, *kernel) for kernel in kernels]:
        future.result()


def _compiled(name: str, method: str) -> None:
    _likelihood(name, method, 1)


def fits(pool: ProcessPoolExecutor, name: str, method: str, runs: int) -> list[Fit]:
    """Fit the records of the first seeds."""
    return list(pool.map(fit, [name] * runs, [method] * runs, range(runs)))
