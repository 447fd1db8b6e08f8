"""Steps chosen by the shift of the posterior: bias on a long record, warnings, and coverage."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import smcpn
from benchmarks.executors import each
from benchmarks.rows import (
    ERRORS,
    FALSE_ALARMS,
    Row,
    at_least,
    at_most,
    between,
    share_error,
)
from benchmarks.study import study
from smcpn import EKF0, RK4
from smcpn.model.solver import Solver

Array = NDArray[np.float64]

FINE = RK4(16)
DUFFING = {"c": 0.1, "k": 1.0, "k3": 0.5}
AUTOMATIC = (RK4("auto"), EKF0(2, "auto"), EKF0(3, "auto"))
COARSE = (RK4(1), EKF0(2, 2), EKF0(3, 1))
DRAWS = 5_000
"""Of the fine answer: their noise in a mean is below .02 sd."""
LEVEL = 0.9
BINS = 10


@smcpn.ode
def duffing(x, v, u, *, c, k, k3):
    """Driven oscillator on a hardening spring."""
    return v, u - c * v - k * x - k3 * x**3


@smcpn.ode
def pendulum(x, v, *, k, c):
    """Damped pendulum, released at rest."""
    return v, -k * np.sin(x) - c * v


def duffing_problem(samples: int) -> smcpn.Problem:
    """Problem of a hardening spring under a slow sweep, noise .1 known."""
    n, dt = np.arange(samples), 0.25
    u = np.sin(2 * np.pi * np.cumsum(0.02 + 0.1 * n / samples) * dt * 2.5)
    y = smcpn.simulate(duffing, smcpn.Record(u=u, dt=dt), DUFFING, observe="x", steps=32)
    y += 0.1 * np.random.default_rng(1).normal(size=y.shape)
    prior: dict[str, Any] = {
        "c": stats.lognorm(1.0, scale=0.1),
        "k": stats.lognorm(1.0),
        "k3": stats.lognorm(1.0),
    }
    record = smcpn.Record(u=u, y=y, dt=dt)
    return smcpn.Problem(duffing, record, observe="x", noise=0.1, prior=prior)


def fine_answer(problem: smcpn.Problem) -> tuple[Array, Array, float]:
    """Mean and sd of the values at fine steps, and the effective draws.

    By importance sampling from the Laplace approximation, widened by a fifth.
    """
    approximation = smcpn.laplace(problem, solver=FINE)
    factor, d = 1.2 * approximation.factor, len(problem.names)
    normal = np.random.default_rng(0).standard_normal((DRAWS, d))
    theta = approximation.mode + normal @ factor.T
    values = problem.prior.natural(theta)
    log_weights = smcpn.LogLikelihood(problem, solver=FINE)(values)
    log_weights += problem.prior.log_density(theta) + 0.5 * np.square(normal).sum(axis=1)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    mean = weights @ values
    sd = np.sqrt(weights @ np.square(values - mean))
    return mean, sd, float(1.0 / np.square(weights).sum())


def identified(problem: smcpn.Problem, **options: Any) -> smcpn.Posterior:
    """Identify, with warnings kept in the posterior only."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", smcpn.SamplerWarning)
        return smcpn.identify(problem, progress=False, **options)


def _of_seed(problem: smcpn.Problem, solver: Solver, particles: int, seed: int) -> smcpn.Posterior:
    return identified(problem, solver=solver, particles=particles, seed=seed)


def bias(samples: int, seeds: int, particles: int) -> Iterator[Row]:
    """Yield the mean bias of each solver on ``steps="auto"``, in sd of the fine answer."""
    problem = duffing_problem(samples)
    mean, sd, effective = fine_answer(problem)
    yield Row(f"T {samples}: effective draws of the fine answer", effective)
    for solver in AUTOMATIC:
        run = partial(_of_seed, problem, solver, particles)
        ends = list(each(run, range(seeds)))
        off = np.array([[end.mean[name] for name in end.names] for end in ends])
        off = (off - mean) / sd
        chosen = sorted({int(end.solver.steps) for end in ends})
        error = off.std(axis=0, ddof=1).max() / np.sqrt(seeds)
        for name, value in zip(problem.names, off.mean(axis=0), strict=True):
            note = f"sd; steps {chosen}, {seeds} seeds, se {error:.2g}"
            yield at_most(f"T {samples}: {solver} bias of {name}", abs(float(value)), 0.1, note)
        warned = sum(bool(_said(end)) for end in ends)
        yield at_most(f"T {samples}: {solver} warned of its steps", warned, 0)


@study("steps-bias", quick=None)
def duffing_bias(quick: bool) -> Iterator[Row]:
    """Yield bias at both lengths, and whether coarse steps are warned of."""
    for samples in (3000, 20000):
        yield from bias(samples, seeds=10, particles=1000)


@study("steps-warned", full=10, quick=3)
def coarse_steps(seeds: int) -> Iterator[Row]:
    """Yield the share of runs at forced coarse steps that are warned of."""
    problem = duffing_problem(3000)
    mean, sd, _ = fine_answer(problem)
    for solver in COARSE:
        ends = list(each(partial(_of_seed, problem, solver, 300), range(seeds)))
        shares = sum(bool(_said(end)) for end in ends) / seeds
        off = np.mean([(end.mean["c"] - mean[0]) / sd[0] for end in ends])
        told = np.mean([end.shift.parameters["c"] for end in ends if end.shift is not None])
        note = f"c is {off:+.1f} sd off, finer steps would shift it by {told:+.1f}"
        yield at_least(f"{solver} warned", shares, 1.0, note)


def _said(posterior: smcpn.Posterior) -> list[str]:
    return [warning for warning in posterior.warnings if "compared with" in warning]


PENDULUM_PRIOR: dict[str, Any] = {
    "k": stats.lognorm(0.2, scale=1.1),
    "c": stats.lognorm(0.3, scale=0.3),
}


def pendulum_problem(y: Array, noise: float) -> smcpn.Problem:
    """Thirty samples at .4 s."""
    return smcpn.Problem(
        pendulum, smcpn.Record(y=y, dt=0.4), observe="x", noise=noise, prior=PENDULUM_PRIOR,
        initial=[1.2, 0.0],
    )  # fmt: skip


def shares_below_truth(solver: Solver, noise: float, draws: int) -> tuple[Array, float]:
    """Posterior weight below the truth, (draws, d), and the share of runs warned of."""
    rng, cases = np.random.default_rng(0), []
    prior = pendulum_problem(np.zeros(30), noise).prior
    for number, truth in enumerate(prior.natural(prior.sample(rng, draws))):
        values = dict(zip(prior.names, truth.tolist(), strict=True))
        exact = smcpn.simulate(
            pendulum, smcpn.Record(y=np.zeros(30), dt=0.4), values, observe="x",
            initial=[1.2, 0.0], steps=32,
        )  # fmt: skip
        problem = pendulum_problem(exact + noise * rng.standard_normal(exact.shape), noise)
        cases.append((problem, truth, number))
    shares, warned = zip(*each(partial(_share_below_truth, solver), cases), strict=True)
    return np.array(shares), sum(warned) / draws


def _share_below_truth(
    solver: Solver, case: tuple[smcpn.Problem, Array, int]
) -> tuple[Array, bool]:
    problem, truth, seed = case
    posterior = _of_seed(problem, solver, 300, seed)
    return posterior.weights @ (posterior.values < truth), bool(_said(posterior))


@study("steps-coverage")
def coverage(quick: bool) -> Iterator[Row]:
    """Yield coverage and uniformity of simulation-based calibration, pendulum."""
    draws, names = 24 if quick else 200, tuple(PENDULUM_PRIOR)
    limit = float(stats.chi2.isf(FALSE_ALARMS if quick else 0.01, BINS - 1))
    slack = ERRORS * share_error(LEVEL, draws) if quick else 0.04
    kinds = ((3, 0.065, 1), (2, 0.05, 2))
    for order, noise, forced in kinds[:1] if quick else kinds:
        automatic = EKF0(order, "auto")
        for solver in [automatic] if quick else [automatic, EKF0(order, forced)]:
            shares, warned = shares_below_truth(solver, noise, draws)
            for name, column in zip(names, shares.T, strict=True):
                inside = float(np.mean(np.abs(column - 0.5) <= LEVEL / 2))
                counts = np.histogram(column, BINS, (0.0, 1.0))[0]
                square = float(stats.chisquare(counts).statistic)
                label = f"{solver} noise {noise} {name}"
                note = f"n = {draws}, warned of in {warned:.0%}"
                if solver.automatic:
                    low, high = LEVEL - slack, LEVEL + slack
                    yield between(f"{label} coverage of 90 %", inside, low, high, note)
                    yield at_most(f"{label} chi^2", square, limit)
                else:
                    yield Row(f"{label} coverage of 90 %", inside, note=note)
                    yield Row(f"{label} chi^2", square)
