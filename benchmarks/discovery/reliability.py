"""Whether inclusion probabilities and intervals hold: systems drawn from the prior of the search.

Two states, all monomials up to degree 2: 12 coefficients. The prior of the search is in units of
the trajectory itself: theta = w rms(x') / rms(term), w ~ N(0, c^2), averaged over c. So systems are
drawn with coefficients of any scale, simulated, and resampled with weights prior / proposal, the
prior at the trajectory that they have. It is improper in the units of states and time; what is
kept makes it proper.

Kept are trajectories that stay bounded, move, and are sampled often enough. This changes how often
a support is drawn, but not what a posterior should be: with the prior p and the event A,
p(theta | y, A) is proportional to p(theta) 1(A) L(theta), and nothing outside of A has a likelihood
L near the data of a trajectory that was kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import smcpn
from benchmarks.discovery.planar import EXACT, INTERVAL, STATES, kept, rate, simulated, terms
from benchmarks.discovery.systems import FIRST_SEED
from benchmarks.executors import each
from benchmarks.rows import Row, at_most, between
from benchmarks.study import study
from smcpn.discovery.equations.system import CandidateSystem
from smcpn.discovery.search.supports import SLABS, BetaBinomial
from smcpn.errors import InputError

Array = NDArray[np.float64]

TERMS = 6
"""Of each equation."""
NOISE = 0.05
SCALES = np.geomspace(0.03, 10.0, 20)
"""That coefficients of an equation are proposed with."""
CHUNK = 20_000
"""Systems that are simulated at a time."""
SYSTEMS, QUICK_SYSTEMS = 200, 8
SHARE = 6.0
"""Effective number of systems that are resampled, for each that is asked for."""
LEVEL = 0.9


@dataclass(frozen=True)
class Drawn:
    """A system with a noisy record, and whether each of K coefficients is there.

    theta: (K,)
    path: (T, 2), without noise.
    seed: Of the noise.
    """

    theta: Array
    path: Array
    seed: int

    @property
    def record(self) -> smcpn.Record:
        """All states with noise."""
        noise = np.random.default_rng(FIRST_SEED + self.seed).normal(size=self.path.shape)
        return smcpn.Record(y=self.path + NOISE * noise, dt=INTERVAL)


@dataclass(frozen=True)
class Judged:
    """What a discovery says of each of K coefficients.

    inclusion: (K,)
    covered: (K,), whether the truth is in the central interval, zero counted.
    present: (K,), whether it is there in truth.
    """

    inclusion: Array
    covered: NDArray[np.bool_]
    present: NDArray[np.bool_]


def candidate_system() -> CandidateSystem:
    """All that is considered."""
    return CandidateSystem.of(smcpn.polynomials(2), STATES)


def drawn(count: int, seed: int = 1) -> tuple[list[Drawn], float]:
    """Draw systems from the prior; also the effective number that they are resampled from."""
    rng = np.random.default_rng(seed)
    system = candidate_system()
    supports, probabilities = _supports(system)
    theta, start = np.zeros((0, len(system.coefficients))), np.zeros((0, 2))
    log_weights, weights, size = np.zeros(0), np.zeros(0), 0.0
    while size < SHARE * count:
        proposed = _proposed(supports[rng.choice(len(supports), CHUNK, p=probabilities)], rng)
        path = simulated(proposed, rng.normal(size=(CHUNK, 2)))
        good = kept(path)
        proposed, path = proposed[good], path[:, good]
        theta, start = np.concatenate([theta, proposed]), np.concatenate([start, path[0]])
        added = log_prior(proposed, path) - _log_proposal(proposed)
        log_weights = np.concatenate([log_weights, added])
        weights = np.exp(log_weights - log_weights.max())
        size = float(weights.sum() ** 2 / np.sum(weights**2))
    chosen = rng.choice(len(weights), count, p=weights / weights.sum())
    paths = simulated(theta[chosen], start[chosen], EXACT)
    return [Drawn(theta[k], paths[:, i], i) for i, k in enumerate(chosen.tolist())], size


def _supports(system: CandidateSystem) -> tuple[NDArray[np.bool_], Array]:
    """All supports (2^K, K) with their prior probabilities."""
    count = len(system.coefficients)
    supports = (np.arange(2**count)[:, None] >> np.arange(count)) % 2 == 1
    prior = BetaBinomial(np.asarray(system.candidates.degrees)[system.places[:, 1]])
    probabilities = np.exp([prior.log_probability(support) for support in supports])
    return supports, probabilities / probabilities.sum()


def _proposed(supports: NDArray[np.bool_], rng: np.random.Generator) -> Array:
    scale = np.repeat(rng.choice(SCALES, size=(len(supports), 2)), TERMS, axis=1)
    return supports * scale * rng.normal(size=supports.shape)


def _log_proposal(theta: Array) -> Array:
    """Log density of the coefficients that are not zero, given which."""
    first, second = (
        _log_mean_normal(own, SCALES[:, None, None] * np.ones(own.shape))
        for own in np.split(theta, 2, axis=1)
    )
    return first + second


def log_prior(theta: Array, path: Array) -> Array:
    """Log density (N,) of coefficients, given which are there, by the prior of the search.

    At the trajectories (T, N, 2) that they have.
    """
    values = terms(path, TERMS)
    size = np.sqrt(np.mean(values**2, axis=0))
    speed = np.sqrt(np.mean(rate(theta, path) ** 2, axis=0))
    with np.errstate(divide="ignore"):
        unit = (speed[:, :, None] / size[:, None, :]).reshape(theta.shape)
    return _log_mean_normal(theta, np.array(SLABS)[:, None, None] * unit)


def _log_mean_normal(theta: Array, deviation: Array) -> Array:
    """Log of the mean over the first axis of normal densities of entries that are not zero.

    But for their factors 2 pi.
    """
    active = theta != 0.0
    deviation = np.where(active, deviation, 1.0)
    log = -0.5 * (theta / deviation) ** 2 - np.log(deviation)
    return np.logaddexp.reduce(log.sum(axis=2), axis=0) - np.log(len(deviation))


def _judged(one: Drawn) -> Judged | None:
    try:
        found = smcpn.discover(one.record, library=smcpn.polynomials(2), states=STATES, seed=1)
    except InputError:
        return None
    tails = [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0]
    lower, upper = np.quantile(found.draws(4000, seed=1), tails, axis=0)
    covered = (lower <= one.theta) & (one.theta <= upper)
    inclusion = np.array([found.inclusion[name] for name in found.system.coefficients])
    return Judged(inclusion, covered, one.theta != 0.0)


def reliability_error(inclusion: Array, present: NDArray[np.bool_]) -> float:
    """Mean distance of probabilities from frequencies in ten bins, weighted by what is in them."""
    place = np.minimum((10.0 * inclusion).astype(int), 9)
    excess = np.bincount(place.ravel(), (inclusion - present).ravel(), minlength=10)
    return float(np.abs(excess).sum() / inclusion.size)


def rows(judged: Sequence[Judged]) -> Iterator[Row]:
    """Figures of systems; standard errors are those of resampled systems."""
    inclusion = np.stack([one.inclusion for one in judged])
    covered = np.stack([one.covered for one in judged])
    present = np.stack([one.present for one in judged])
    rng = np.random.default_rng(1)
    resampled = rng.integers(len(judged), size=(400, len(judged)))
    error = reliability_error(inclusion, present)
    spread = np.std(
        [reliability_error(inclusion[k].ravel(), present[k].ravel()) for k in resampled]
    )
    exact = np.mean([
        reliability_error(inclusion.ravel(), rng.uniform(size=inclusion.size) < inclusion.ravel())
        for _ in range(400)
    ])  # fmt: skip
    note = f"standard error {spread:.4f}; exact probabilities would have {exact:.4f}"
    few = len(judged) < SYSTEMS // 2
    se = float(spread) if few else 0.0
    yield at_most("reliability error of inclusion", error, 0.03, note, se)
    for low, high in ((0.0, 0.05), (0.05, 0.5), (0.5, 0.95), (0.95, 1.0)):
        inside = (inclusion >= low) & (inclusion <= high)
        if inside.any():
            told = f"mean probability {inclusion[inside].mean():.3f}, {inside.sum()} coefficients"
            yield Row(f"present, inclusion {low:g} to {high:g}", present[inside].mean(), note=told)
    shown = inclusion > 0.5
    shares = [covered[k][shown[k]].mean() for k in resampled]
    note = f"of inclusion > .5, zero counted; standard error {np.std(shares):.3f}"
    se = float(np.std(shares)) if few else 0.0
    share = float(covered[shown].mean())
    yield between("coverage of 90 % intervals", share, 0.87, 0.93, note, se)
    note = "those that are missed counted"
    yield Row("coverage, coefficients that are there", float(covered[present].mean()), note=note)
    best = np.mean(np.all((inclusion > 0.5) == present, axis=1))
    yield Row("exact support by inclusion > .5", float(best))


@study("reliability", full=SYSTEMS, quick=QUICK_SYSTEMS)
def reliability(number: int) -> Iterator[Row]:
    """Probabilities of terms, and intervals of coefficients."""
    systems, size = drawn(number)
    judged = [one for one in each(_judged, systems) if one is not None]
    yield Row("systems", len(judged), note=f"of {len(systems)}, out of {size:.0f} effective ones")
    yield from rows(judged)
