"""Standard deviations and bands that hold under model error, on the Silverbox.

The tenths of the training record are identified each alone: their estimates scatter by what a
standard deviation should say. The bands are those of the posterior of the whole record, on the
benchmark's own tests.

``robust-envelope``: records of an oscillator with a small cubic term are learned by the model
without it. Its stiffness follows the amplitude, which rises and falls slowly. What the intervals
should hold are the parameters of least squares on a long record without noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import signal, stats

import smcpn
from benchmarks.executors import each
from benchmarks.rows import Row, at_least, at_most, between, least_of
from benchmarks.study import study
from smcpn.cli.cases import CASES
from smcpn.cli.cases.silverbox import offset_output
from smcpn.errors import InputError
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
RECORDS, QUICK_RECORDS = 100, 5
LENGTHS = (250, 1000)
LONG = 400_000
"""Samples whose least-squares estimate is the parameters to be covered: of k, to .0006."""
CUBIC, SCATTER, INTERVAL = 0.02, 0.03, 0.2
HELD, REFUSED, KEPT, WIDER = 0.88, 0.5, 0.1, 1.3


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


@study("robust-tenths")
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
        # Of ten pieces it is known to a quarter.
        se = LOW / np.sqrt(2.0 * (PIECES - 1)) if quick else 0.0
        ratio = float(by_robust[j])
        yield between(f"spread of {name} over robust sd", ratio, LOW, HIGH, note, se)


def _estimate(particles: int, piece: Problem) -> tuple[Array, Array, Array]:
    """Mean, sd and robust sd of the parameters of a piece."""
    found = approximation(piece).to_posterior(particles)
    plain = np.array(list(found.sd.values()))
    return np.array(list(found.mean.values())), plain, found.sandwich.factor * plain


@study("robust-bands", quick=None)
def bands(quick: bool) -> Iterator[Row]:
    """Coverage of the 95 % band on the tests, by the posterior at the learning rate."""
    case = CASES["silverbox"](split="official")
    whole = case.problem.records[0]
    posterior = approximation(problem_of(case.problem, whole)).to_posterior(QUICK_PARTICLES)
    robust = posterior.robust()
    figures = f"learning rate {robust.learning_rate:.3g}, effective {robust.n_effective:.0f}"
    for name, test in case.tests.items():
        plain = posterior.simulate(test, initialise=case.initialise)
        run = robust.simulate(test, initialise=case.initialise)
        note = f"plain {plain.coverage[0]:.3f}, rmse {1e3 * run.rmse_of_mean[0]:.3f} mV, {figures}"
        yield at_least(f"{name}, share in the 95 % band", float(run.coverage[0]), COVERED, note)


@smcpn.ode
def linear(x, v, u, *, c, k):
    """Linear oscillator of unit mass."""
    return v, u - c * v - k * x


@smcpn.ode
def hardening(x, v, u, *, k3):
    """The oscillator that is measured."""
    return v, u - 0.3 * v - 2.0 * x - k3 * x**3


def measured(k3: float, samples: int, seed: int, noise: float = SCATTER) -> Problem:
    """Record of the oscillator at rest under an autoregressive force, for the linear model."""
    rng = np.random.default_rng(seed)
    white = rng.normal(size=samples + 300)
    u = 0.25 * np.asarray(signal.lfilter([1.0], [1.0, -1.6, 0.75], white), dtype=float)[300:]
    silent = Record(u=u, dt=INTERVAL, hold="zoh")
    y = smcpn.simulate(hardening, silent, {"k3": k3}, observe="x")
    record = Record(u=u, y=y + noise * rng.normal(size=y.shape), dt=INTERVAL, hold="zoh")
    scales = {"c": 0.3, "k": 2.0, "s": 0.03}
    prior: dict[str, Any] = {of: stats.lognorm(1.0, scale=one) for of, one in scales.items()}
    return Problem(linear, record, observe="x", noise="s", prior=prior)


def _covering(k3: float, samples: int, target: Array, seed: int) -> Array | None:
    """Whether the robust 95 % intervals of c, k and s hold a target, and their factors; (2, 3)."""
    found = smcpn.identify(measured(k3, samples, 50_000 + seed), seed=1, progress=False)
    try:
        robust = found.robust()
    except InputError:
        return None
    means, sds = (np.array(list(of.values())) for of in (found.mean, robust.sd))
    return np.stack([np.abs(means - target) <= 1.96 * sds, list(robust.factor.values())])


@study("robust-envelope")
def envelope(quick: bool) -> Iterator[Row]:
    """Coverage of the pseudo-true parameters, and what it costs where the model is right."""
    seeds = range(QUICK_RECORDS if quick else RECORDS)
    least, lengths = least_of(HELD, len(seeds), RECORDS), LENGTHS[:1] if quick else LENGTHS
    long = smcpn.maximise(measured(CUBIC, LONG // (8 if quick else 1), 1, noise=0.0), starts=1)
    c, k, s = long.values
    target = np.array([c, k, np.hypot(s, SCATTER)])
    for samples in lengths:
        found = list(each(partial(_covering, CUBIC, samples, target), seeds))
        held = np.array([one for one in found if one is not None]).reshape(-1, 2, 3)
        rates, factors = held[:, 0].mean(axis=0), np.median(held[:, 1], axis=0)
        name = f"{samples} samples, cubic term missing"
        for j, of in enumerate(("c", "k")):
            note = f"{len(held)} records; target {target[j]:.4f}; median factor {factors[j]:.1f}"
            yield at_least(f"{name}: coverage of {of}", float(rates[j]), least, note)
        yield Row(f"{name}: coverage of s", float(rates[2]), note=f"factor {factors[2]:.1f}")
        yield at_most(f"{name}: refused", 1.0 - len(held) / len(found), REFUSED)
    for samples in lengths:
        right = np.array([0.3, 2.0, SCATTER])
        found = list(each(partial(_covering, 0.0, samples, right), seeds))
        held = np.array([one for one in found if one is not None]).reshape(-1, 2, 3)
        rates, factors = held[:, 0].mean(axis=0), np.median(held[:, 1], axis=0)
        share = float((held[:, 1].max(axis=1) > WIDER).mean())
        name = f"{samples} samples, right model"
        yield at_most(f"{name}: refused", 1.0 - len(held) / len(found), KEPT)
        note = f"{share:.2f} by more than {WIDER:g}; coverage of c {rates[0]:.2f}, k {rates[1]:.2f}"
        yield at_most(f"{name}: median factor", float(factors.max()), WIDER, note)
