"""Stiff problems, and steps per interval: posteriors by ``solver="auto"``, and steps counted.

Van der Pol, mu = 100: T = 200, 200 samples of x with noise .05; mu and x(0) unknown.

Monod: a batch fermentation of biomass, substrate and product, two experiments with irregular
samples from .007 h to hours apart, 95 in all, 12 parameters. Of every number of steps the shift of
the posterior is measured: the covariance times the difference of the scores to those of ever finer
steps, in posterior sd of the worst direction, at the true parameters. The fewest steps that leave
it below .1 are compared, the same number in every interval against numbers in proportion to the
lengths.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.integrate import solve_ivp

import smcpn
from benchmarks.clock import running_seconds
from benchmarks.executors import each
from benchmarks.rows import Row, at_least, at_most
from benchmarks.study import study
from smcpn.likelihood.gradient import fisher_information
from smcpn.likelihood.inputs import numbers_of_steps
from smcpn.likelihood.solver_choice import longest_interval
from smcpn.solver import Solver

Array = NDArray[np.float64]

SHIFT = 0.1
"""Posterior sd that steps may shift a posterior by."""


@smcpn.ode
def van_der_pol(x, v, *, mu):
    """Relaxation oscillator."""
    return v, mu * (1 - x**2) * v - x


@smcpn.ode
def monod(X, S, P, *, mu_max, K_s, K_i, Y, k_d, alpha, beta):
    """Growth on one substrate that inhibits it when there is much, and a product."""
    growth = mu_max * S / (K_s + S + S**2 / K_i)
    return (growth - k_d) * X, -growth * X / Y, (alpha * growth + beta) * X


MONOD = {
    "mu_max": 0.4, "K_s": 0.4, "K_i": 60.0, "Y": 0.5, "k_d": 0.01, "alpha": 2.0, "beta": 0.05,
    "X1": 0.1, "S1": 8.0, "X2": 0.4, "S2": 5.0, "sigma": 0.05,
}  # fmt: skip
"""True values of the parameters, of which the prior is log-normal, a factor of 1.35 wide."""
EXPERIMENTS = ((50, 24.0), (45, 30.0))
"""Samples and hours."""
SHORTEST = 0.007


def van_der_pol_problem(seed: int, mu: float = 100.0) -> smcpn.Problem:
    """Return 200 samples of x over T = 2 mu, from (2, 0)."""
    t = np.linspace(0.0, 2.0 * mu, 200)

    def rate(_: float, s: Array) -> tuple[float, float]:
        return s[1], mu * (1 - s[0] ** 2) * s[1] - s[0]

    x = solve_ivp(rate, (0.0, t[-1]), (2.0, 0.0), "Radau", t, rtol=1e-9, atol=1e-11).y[0]
    record = smcpn.Record(t=t, y=x + 0.05 * np.random.default_rng(seed).normal(size=len(t)))
    prior: dict[str, Any] = {"mu": stats.lognorm(0.5, scale=0.8 * mu), "x0": stats.norm(1.8, 0.3)}
    return smcpn.Problem(
        van_der_pol, record, observe="x", noise=0.05, prior=prior, initial={"x": "x0", "v": 0.0}
    )


def van_der_pol_posterior(seed: int) -> tuple[float, float, float]:
    """Distance of the truth in posterior sd, seconds, and those of the processor, of one record."""
    problem, truth = van_der_pol_problem(seed), {"mu": 100.0, "x0": 2.0}
    began, used = time.perf_counter(), running_seconds()
    posterior = smcpn.identify(problem, solver="auto", seed=seed, progress=False)
    seconds, processor = time.perf_counter() - began, running_seconds() - used
    away = max(abs(posterior.mean[n] - value) / posterior.sd[n] for n, value in truth.items())
    return away, seconds, processor


@study("van-der-pol", full=10, quick=None)
def van_der_pol_posteriors(seeds: int) -> Iterator[Row]:
    """Posteriors with every setting at its default."""
    found = each(van_der_pol_posterior, range(seeds))
    distances, seconds, processor = zip(*found, strict=True)
    yield at_most("distance of the truth, posterior sd, worst", max(distances), 3.0)
    yield Row("seconds, worst", max(seconds), note="compilation included; meant to be 20")
    yield Row("processor seconds, worst", max(processor), note="compilation left out")
    yield Row("posteriors", len(distances))


def monod_problem(seed: int = 0) -> smcpn.Problem:
    """Return two experiments with all three states measured."""
    rng, records = np.random.default_rng(seed), []
    for (samples, end), start in zip(EXPERIMENTS, (("X1", "S1"), ("X2", "S2")), strict=True):
        gaps = rng.exponential(size=samples - 1) ** 2
        gaps = np.maximum(gaps * end / gaps.sum(), SHORTEST)
        t = np.append(0.0, np.cumsum(gaps))
        x0 = [MONOD[name] for name in start]
        y = solve_ivp(_monod_rate, (0.0, t[-1]), (*x0, 0.0), "Radau", t, rtol=1e-9, atol=1e-11).y.T
        records.append(smcpn.Record(t=t, y=y + MONOD["sigma"] * rng.normal(size=y.shape)))
    prior: dict[str, Any] = {name: stats.lognorm(0.3, scale=value) for name, value in MONOD.items()}
    return smcpn.Problem(
        monod,
        records,
        observe=["X", "S", "P"],
        noise="sigma",
        prior=prior,
        initial=[{"X": "X1", "S": "S1", "P": 0.0}, {"X": "X2", "S": "S2", "P": 0.0}],
    )


def _monod_rate(_: float, s: Array) -> tuple[float, float, float]:
    p = MONOD
    growth = p["mu_max"] * s[1] / (p["K_s"] + s[1] + s[1] ** 2 / p["K_i"])
    product = (p["alpha"] * growth + p["beta"]) * s[0]
    return (growth - p["k_d"]) * s[0], -growth * s[0] / p["Y"], product


@study("monod", full=(smcpn.RK4(), smcpn.EKF0()), quick=(smcpn.RK4(),))
def steps_per_interval(solvers: tuple[Solver, ...]) -> Iterator[Row]:
    """Fewest steps over the whole record, uniform over per interval."""
    for solver in solvers:
        problem = monod_problem()
        shift, longest = Shift(problem, solver), longest_interval(problem)
        uniform, own = (fewest(problem, solver.divided(i), shift) for i in (None, longest))
        name = solver.kind
        yield Row(f"{name}: steps, as many in every interval", uniform[0], note=uniform[1])
        yield Row(f"{name}: steps, per interval", own[0], note=own[1])
        yield at_least(f"{name}: fewer by", uniform[0] / own[0], 5.0)


class Shift:
    """Shift of the posterior of a problem by a solver's steps, in sd of the worst direction."""

    def __init__(self, problem: smcpn.Problem, solver: Solver) -> None:
        self._problem = problem
        self._truth = np.array([MONOD[name] for name in problem.names])
        finest = solver.with_steps(1024).divided(longest_interval(problem))
        fine = smcpn.LogLikelihood(problem, solver=finest)
        self._score = fine.value_and_gradient(self._truth[None, :])[1][0]
        # The Hessian at the truth, which is no maximum, need not be definite: this matrix is.
        information = fisher_information(fine, self._truth) * np.outer(self._truth, self._truth)
        self._covariance = np.linalg.inv(information + np.eye(len(self._truth)) / 0.3**2)

    def __call__(self, solver: Solver) -> float:
        """Shift by a solver."""
        function = smcpn.LogLikelihood(self._problem, solver=solver)
        score = function.value_and_gradient(self._truth[None, :])[1][0]
        difference = (score - self._score) * self._truth
        return float(np.sqrt(difference @ self._covariance @ difference))


def fewest(problem: smcpn.Problem, solver: Solver, shift: Shift) -> tuple[int, str]:
    """Return the fewest steps over all records that shift the posterior by less than `SHIFT`."""
    steps = 1
    while True:
        chosen = solver.with_steps(steps)
        moved = shift(chosen)
        if moved < SHIFT or steps == 1024:
            spacings = [np.diff(record.t) for record in problem.records]
            counts = [numbers_of_steps(one, steps, chosen.interval).sum() for one in spacings]
            return int(sum(counts)), f"{chosen!r}: {moved:.2g} sd"
        steps *= 2
