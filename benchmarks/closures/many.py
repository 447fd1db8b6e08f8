"""Posteriors of 50 to 500 parameters that are known exactly: moments, evidence, and their cost.

Targets. ``gaussian-100``, ``gaussian-500``: prior N(0, I), and a Gaussian likelihood whose widths
go from 1 to 0.1 in even ratios along the coordinates, neighbours correlated by 0.9 (a first-order
autoregression): its precision has eigenvalues from 0.05 to 1900. They are tempered from the prior.
``driven-50``: x' = -x / 2 + sum of 50 overlapping bumps in time with unknown weights, x measured
201 times: linear in its parameters, so that least squares is its posterior. It is identified as a
user does, from a search for the mode, and from the prior. ``driven-50 matrix`` is the same
posterior without the equation, from the prior, at a cost that allows many seeds.

Errors are counted in the run's own standard errors: that of the log-evidence as stated, those of
means and variances by the lineages of the last population, as the evidence is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy import integrate, stats

import smcpn
from benchmarks.executors import each
from benchmarks.rows import Row, at_most, rms_of
from benchmarks.study import study
from benchmarks.targets import SampleDensities
from smcpn.likelihood.contract import NO_KEYS, Keys
from smcpn.model.prior import Prior
from smcpn.run.identify import Settings as Options
from smcpn.run.run import Run
from smcpn.run.stages import advance
from smcpn.smc.hamiltonian import HamiltonianMonteCarlo
from smcpn.smc.sampler import Sampler, Settings
from smcpn.smc.tempering import Tempering

Array = NDArray[np.float64]

CORRELATION, NARROWEST = 0.9, 0.1
BASIS, END, NOISE = 50, 10.0, 0.1
LIMIT = 1.25
INDEPENDENT = 10


@dataclass(frozen=True)
class Exact:
    """Moments of a Gaussian posterior, and its log-evidence."""

    mean: Array
    covariance: Array
    log_evidence: float


class GaussianTarget(SampleDensities):
    """A likelihood of one sample, exp(-(x - m)^T P (x - m) / 2 + c), and the prior N(0, I)."""

    def __init__(self, precision: Array, centre: Array, constant: float = 0.0) -> None:
        self.precision, self.centre, self.constant = precision, centre, constant
        distributions: dict[str, Any] = {f"x{j}": stats.norm() for j in range(len(centre))}
        self.prior = Prior(distributions)

    def advance(
        self, values: Array, state: Array, a: int, b: int, keys: Keys = NO_KEYS
    ) -> tuple[Array, Array]:
        """See `Likelihood.advance`."""
        deviation = values - self.centre
        square = (deviation * self.product(deviation)).sum(axis=1)
        return state, (self.constant - 0.5 * square)[None]

    gradient_cost = 3.0

    def derivatives(self) -> GaussianTarget:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return the target itself, which has a gradient."""
        return self

    def value_and_gradient(self, values: Array) -> tuple[Array, Array]:
        """Log-likelihood and its gradient."""
        return self.evaluate(values, 1)[1], -self.product(values - self.centre)

    def product(self, deviation: Array) -> Array:
        """Return P times each row of (n, d)."""
        return deviation @ self.precision

    def exact(self) -> Exact:
        """Posterior moments and log-evidence."""
        d = len(self.centre)
        covariance = np.asarray(np.linalg.inv(np.eye(d) + self.precision), dtype=np.float64)
        pull = self.precision @ self.centre
        mean = covariance @ pull
        quadratic = self.centre @ pull - pull @ mean
        volume = float(np.linalg.slogdet(covariance)[1])
        log_evidence = self.constant + 0.5 * (volume - float(quadratic))
        return Exact(mean, covariance, log_evidence)


class Correlated(GaussianTarget):
    """The target of ``gaussian-d``: P = S T S, with T tridiagonal and S diagonal."""

    def __init__(self, d: int) -> None:
        inverse = 1.0 / (1.0 - CORRELATION**2)
        self.diagonal = np.full(d, (1.0 + CORRELATION**2) * inverse)
        self.diagonal[[0, -1]] = inverse
        self.beside, self.scale = -CORRELATION * inverse, np.geomspace(1.0, 1.0 / NARROWEST, d)
        rng, eye = np.random.default_rng(d), np.eye(d)
        band = np.diag(self.diagonal) + self.beside * (np.eye(d, k=1) + np.eye(d, k=-1))
        precision = self.scale[:, None] * band * self.scale
        root = np.linalg.cholesky(np.linalg.inv(precision) + eye)
        super().__init__(precision, root @ rng.standard_normal(d))

    def product(self, deviation: Array) -> Array:
        """Return P times each row of (n, d)."""
        scaled = deviation * self.scale
        product = scaled * self.diagonal
        product[:, 1:] += self.beside * scaled[:, :-1]
        product[:, :-1] += self.beside * scaled[:, 1:]
        return product * self.scale


@smcpn.ode(sizes={"c": BASIS})
def relaxing(x, u, *, c):
    """Relaxation, driven by bumps in u with weights c."""
    return -0.5 * x + sum(c[j] * ca.exp(-0.5 * (u * BASIS / END - j) ** 2) for j in range(BASIS))


def driven() -> tuple[smcpn.Problem, GaussianTarget]:
    """Return the driven relaxation, u being the time, and its likelihood as a Gaussian."""
    t, centres = np.linspace(0.0, END, 201), np.arange(BASIS)
    paths = integrate.solve_ivp(
        lambda t, x: -0.5 * x + np.exp(-0.5 * (t * BASIS / END - centres) ** 2),
        (0.0, END), np.zeros(BASIS), t_eval=t, method="DOP853", rtol=1e-10, atol=1e-12,
    ).y.T  # fmt: skip
    rng = np.random.default_rng(0)
    y = paths @ rng.standard_normal(BASIS) + NOISE * rng.standard_normal(len(t))
    precision = paths.T @ paths / NOISE**2
    centre = np.linalg.solve(precision, paths.T @ y / NOISE**2)
    constant = float(stats.norm.logpdf(y, paths @ centre, NOISE).sum())
    target = GaussianTarget(precision, centre, constant)
    record = smcpn.Record(u=t, y=y, dt=float(t[1]), hold="foh")
    prior: dict[str, Any] = {"c": stats.norm()}
    initial = {"x": 0.0}
    return smcpn.Problem(
        relaxing, record, observe="x", noise=NOISE, initial=initial, prior=prior
    ), target


@dataclass(frozen=True)
class Errors:
    """Errors of a run in its own standard errors, and its cost.

    means, variances: (d,)
    gradients, parts: Gradients, and exponents on the path.
    """

    evidence: float
    means: Array
    variances: Array
    gradients: int
    parts: int
    seconds: float


def errors(sampler: Sampler, exact: Exact, seconds: float) -> Errors:
    """Compare a finished population with the exact posterior."""
    theta, weights, records = sampler.system.theta, sampler.system.weights, sampler.rejuvenations
    centred = theta - weights @ theta
    mean, variance = theta - exact.mean, np.square(centred) - np.diag(exact.covariance)
    return Errors(
        evidence=(sampler.log_evidence - exact.log_evidence) / sampler.log_evidence_se,
        means=_z(weights, sampler.system.lineage, mean),
        variances=_z(weights, sampler.system.lineage, variance),
        gradients=sum(record.gradients for record in records),
        parts=len(records),
        seconds=seconds,
    )


def _z(weights: Array, chain: NDArray[np.int64], deviation: Array) -> Array:
    """Weighted means of (N, d) over their standard errors, by sums over each lineage, (d,)."""
    error = weights @ deviation
    share = weights[:, None] * (deviation - error)
    sums = np.zeros((int(chain.max()) + 1, deviation.shape[1]))
    np.add.at(sums, chain, share)
    own = len(np.unique(chain))
    return error / np.sqrt(own / (own - 1) * np.square(sums).sum(axis=0))


def tempered(target: GaussianTarget, particles: int, seed: int) -> Errors:
    """Temper from the prior to a Gaussian target."""
    begun = time.perf_counter()
    settings = Settings(particles, moves=HamiltonianMonteCarlo())
    sampler = Tempering(target.prior, target, settings, np.random.default_rng(seed))
    sampler.run()
    return errors(sampler, target.exact(), time.perf_counter() - begun)


def identified(
    problem: smcpn.Problem, exact: Exact, particles: int, method: str, seed: int
) -> Errors:
    """Identify a problem as `smcpn.identify` does."""
    options = Options(
        solver=smcpn.RK4(steps=2), particles=particles, seed=seed, method=method
    )  # fmt: skip
    run = Run(problem, options.resolved(problem))
    begun = time.perf_counter()
    while run.outcome is None:
        advance(run)
    return errors(run.samplers[0], exact, time.perf_counter() - begun)


def rows(name: str, found: Sequence[Errors], full: int) -> Iterator[Row]:
    """Yield root mean square errors over parameters and seeds, and the cost.

    Limits are meant for ``full`` seeds. Of fewer, parameters are taken for `INDEPENDENT` numbers
    each, as their errors hang together.
    """
    note = f"{len(found)} seeds"
    evidence = np.array([one.evidence for one in found])
    # The mean of so many squares of normal variables has this standard error.
    spread = f"{note}, +- {1 / np.sqrt(2 * len(found)):.2f} if it is 1"
    yield at_most(
        f"{name}: z rms of the evidence", _rms(evidence), rms_of(LIMIT, len(found), full), spread
    )
    limit = rms_of(LIMIT, INDEPENDENT * len(found), INDEPENDENT * full)
    for label in ("means", "variances"):
        z = np.concatenate([getattr(one, label) for one in found])
        yield at_most(f"{name}: z rms of the {label}", _rms(z), limit, note)
    parts, seconds = (np.mean([getattr(one, of) for one in found]) for of in ("parts", "seconds"))
    yield Row(f"{name}: gradients", _gradients(found), note=f"{parts:.0f} parts, {seconds:.1f} s")


def _rms(z: Array) -> float:
    return float(np.sqrt(np.mean(np.square(z))))


def _gradients(found: Sequence[Errors]) -> float:
    return float(np.mean([one.gradients for one in found]))


@study("gaussians", full=((100, 500), (12, 4)), quick=((25, 75), (3, 2)))
def gaussians(size: tuple[tuple[int, int], tuple[int, int]]) -> Iterator[Row]:
    """Yield moments, evidence and cost of Gaussian targets, and how the cost grows."""
    sizes, seeds = size
    costs = []
    for d, number in zip(sizes, seeds, strict=True):
        found = list(each(partial(tempered, Correlated(d), 1000), range(number)))
        costs.append(_gradients(found))
        yield from rows(f"gaussian-{d}", found, 12 if d <= 100 else 4)
    power = float(np.log(costs[1] / costs[0]) / np.log(sizes[1] / sizes[0]))
    yield at_most(f"gradients from {sizes[0]} to {sizes[1]} parameters: power of d", power, 1.0)


@study("linear-ode")
def linear_ode(quick: bool) -> Iterator[Row]:
    """Yield moments and evidence of the driven relaxation, from its mode and from the prior."""
    problem, target = driven()
    exact = target.exact()
    ways = {"auto": (2, 20)} if quick else {"auto": (20, 20), "tempering": (12, 12)}
    for method, (seeds, full) in ways.items():
        found = list(each(partial(identified, problem, exact, 1000, method), range(seeds)))
        yield from rows(f"driven-50 {method}", found, full)
    found = list(each(partial(tempered, target, 1000), range(5 if quick else 100)))
    yield from rows("driven-50 matrix", found, 100)
