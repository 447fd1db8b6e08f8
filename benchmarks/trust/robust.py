"""Standard deviations and bands that hold under model error, on the Silverbox.

The tenths of the training record are identified each alone: their estimates scatter by what a
standard deviation should say. The bands are those of the posterior of the whole record, on the
benchmark's own tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import smcpn
from benchmarks.executors import each
from benchmarks.rows import Row, Study, at_least, between
from smcpn.cases import CASES
from smcpn.cases.silverbox import offset_output
from smcpn.model.problem import Problem
from smcpn.model.record import Record

Array = NDArray[np.float64]

PIECES = 10
QUICK_SAMPLES = 2000
"""Of each piece, in place of a tenth of the record."""
PARTICLES, QUICK_PARTICLES = 500, 200
SOLVER = smcpn.EKF0(order=3, steps=8)
NEAR = {
    "m": 5.37e-6, "c": 2.25e-4, "k": 0.99, "k3": 3.92, "u0": 2.1e-3, "y0": 2.1e-3, "sigma": 3.7e-4,
}  # fmt: skip
"""Where the searches start, besides the initial state."""
LOW, HIGH = 0.6, 1.7
"""Of the spread over what the robust standard deviations say."""
COVERED = 0.93
QUICK_SCATTER = 0.014
"""Largest standard deviation, over the ten tenths of the record, of the share that the band of one
covers; the quick form has one tenth, and its target is two of these lower."""


def problem_of(problem: Problem, record: Record) -> Problem:
    """The official problem of a piece of its record, which begins near its own first output."""
    initial = {"x": stats.norm(float(record.y[0, 0]), 0.01), "v": stats.norm(0.0, 50.0)}
    prior = {name: problem.prior.distributions[name] for name in NEAR}
    return Problem(
        problem.ode, record, observe=offset_output, noise="sigma", prior=prior, initial=initial
    )


def approximation(problem: Problem) -> smcpn.Laplace:
    """Laplace approximation by Newton's method from `NEAR`."""
    record = problem.records[0]
    slope = float(np.gradient(record.y[:3, 0], record.t[:3])[0])
    start = {**NEAR, "x(0)": float(record.y[0, 0]), "v(0)": slope}
    maximum = smcpn.maximise(problem, solver=SOLVER, starts=start, method="trust-exact")
    return smcpn.laplace(maximum)


def tenths(quick: bool) -> Iterator[Row]:
    """Spread of the estimates of ten pieces, over the sd that each says of itself."""
    problem = CASES["silverbox"](split="official").problem
    whole = problem.records[0]
    length = len(whole) // PIECES
    used = QUICK_SAMPLES if quick else length
    pieces = [problem_of(problem, whole[k * length : k * length + used]) for k in range(PIECES)]
    estimate = partial(_estimate, QUICK_PARTICLES if quick else PARTICLES)
    means, plain, robust = zip(*each(estimate, pieces), strict=True)
    spread = np.std(means, axis=0, ddof=1)
    by_plain, by_robust = (
        spread / np.sqrt(np.mean(np.square(sd), axis=0)) for sd in (plain, robust)
    )
    for j, name in enumerate(NEAR):
        note = f"{used} samples each; over the plain sd {by_plain[j]:.2f}"
        yield between(f"spread of {name} over robust sd", float(by_robust[j]), LOW, HIGH, note)


def _estimate(particles: int, piece: Problem) -> tuple[Array, Array, Array]:
    """Mean, sd and robust sd of the parameters of a piece."""
    found = approximation(piece).to_posterior(particles)
    plain = np.array(list(found.sd.values()))
    return np.array(list(found.mean.values())), plain, found.sandwich.factor * plain


def bands(quick: bool) -> Iterator[Row]:
    """Coverage of the 95 % band on the tests, by the posterior at the learning rate."""
    case = CASES["silverbox"](split="official")
    whole = case.problem.records[0]
    record = whole[: len(whole) // PIECES] if quick else whole
    posterior = approximation(problem_of(case.problem, record)).to_posterior(QUICK_PARTICLES)
    robust = posterior.robust()
    least = COVERED - 2.0 * QUICK_SCATTER if quick else COVERED
    figures = f"learning rate {robust.learning_rate:.3g}, effective {robust.n_effective:.0f}"
    for name, test in case.tests.items():
        plain = posterior.simulate(test, initialise=case.initialise)
        run = robust.simulate(test, initialise=case.initialise)
        note = f"plain {plain.coverage[0]:.3f}, rmse {1e3 * run.rmse_of_mean[0]:.3f} mV, {figures}"
        yield at_least(f"{name}, share in the 95 % band", float(run.coverage[0]), least, note)


STUDIES: dict[str, Study] = {"robust-tenths": tenths, "robust-bands": bands}
