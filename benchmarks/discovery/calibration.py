"""Whether the probability of the best model is how often it is right: random sparse cubic systems.

Two states, of whose 20 monomials up to degree 3 two to six are there, any set of them as likely,
with coefficients of .2 to 2. They are not drawn from the prior of the search (`reliability` does
that): what is asked is whether its probabilities hold for whoever has other systems.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import smcpn
from benchmarks.discovery.planar import EXACT, INTERVAL, POWERS, STATES, kept, simulated
from benchmarks.executors import each
from benchmarks.rows import FALSE_ALARMS, Row, at_most, most_of
from benchmarks.study import study
from smcpn.discovery.equations.system import CandidateSystem
from smcpn.errors import InputError

Array = NDArray[np.float64]

SYSTEMS, QUICK_SYSTEMS = 600, 8
CHUNK = 4000
"""Systems that are simulated at a time."""
SPARSE = (2, 6)
SIZES = (0.2, 2.0)
NOISE = 0.05
"""Standard deviation as a share of the spread of each state."""
SEED = 34
"""Of the systems; those that the prior was chosen on have others."""
BINS = 10
DISTANCE, WARNED = 0.04, 0.05


@dataclass(frozen=True)
class Sparse:
    """A system with a noisy record.

    theta: (20,)
    """

    theta: Array
    record: smcpn.Record

    @property
    def truth(self) -> frozenset[str]:
        """Names of the coefficients that are not zero."""
        names = CandidateSystem.of(smcpn.polynomials(3), STATES).coefficients
        return frozenset(np.array(names)[self.theta != 0.0].tolist())


@dataclass(frozen=True)
class Claim:
    """What is said of the best model, and whether it is right."""

    probability: float
    right: bool
    warned: bool


def drawn(count: int, seed: int = SEED) -> list[Sparse]:
    """Draw systems whose trajectories stay bounded, move, and are sampled often enough."""
    rng = np.random.default_rng(seed)
    found: list[Sparse] = []
    while len(found) < count:
        theta = _coefficients(rng)
        start = rng.normal(size=(CHUNK, 2))
        path = simulated(theta, start)
        good = np.flatnonzero(kept(path))
        exact = simulated(theta[good], start[good], EXACT)
        noise = rng.normal(size=exact.shape)
        y = exact + NOISE * exact.std(axis=0) * noise
        for k, n in enumerate(good.tolist()):
            found.append(Sparse(theta[n], smcpn.Record(y=y[:, k], dt=INTERVAL)))
    return found[:count]


def _coefficients(rng: np.random.Generator) -> Array:
    size = 2 * len(POWERS)
    order = np.argsort(rng.random((CHUNK, size)), axis=1)
    there = order < rng.integers(SPARSE[0], SPARSE[1] + 1, size=(CHUNK, 1))
    return there * rng.choice([-1.0, 1.0], there.shape) * rng.uniform(*SIZES, there.shape)


def claimed(one: Sparse) -> Claim | None:
    """What a discovery claims; None where it refuses."""
    try:
        found = smcpn.discover(one.record, library=smcpn.polynomials(3), states=STATES, seed=1)
    except InputError:
        return None
    best = found.models[0]
    right = frozenset(best.names) == one.truth
    return Claim(best.probability, right, bool(found.warnings))


def distance(claims: Sequence[Claim]) -> float:
    """Mean distance of claimed probability and share of right claims in bins of a tenth."""
    probability = np.array([one.probability for one in claims])
    right = np.array([one.right for one in claims])
    place = np.minimum((BINS * probability).astype(int), BINS - 1)
    return float(np.abs(np.bincount(place, probability - right)).sum() / len(claims))


@study("calibration", full=SYSTEMS, quick=QUICK_SYSTEMS)
def calibration(number: int) -> Iterator[Row]:
    """Claims by tenths of probability, and how many right ones have a warning."""
    systems = drawn(number)
    claims = [one for one in each(claimed, systems) if one is not None]
    yield Row("claims", len(claims), note=f"of {len(systems)} systems")
    yield from rows(claims)


def rows(claims: Sequence[Claim]) -> Iterator[Row]:
    """Figures of claims."""
    probability = np.array([one.probability for one in claims])
    right = np.array([one.right for one in claims])
    warned = np.array([one.warned for one in claims])
    for low in np.arange(BINS) / BINS:
        inside = np.minimum(np.floor(BINS * probability) / BINS, 1.0 - 1.0 / BINS) == low
        if inside.any():
            note = f"claimed {probability[inside].mean():.3f}, {inside.sum()} systems"
            yield Row(f"right, claims from {low:g}", float(right[inside].mean()), note=note)
    rng = np.random.default_rng(1)
    few, exact = len(claims) < SYSTEMS // 2, [
        distance([Claim(p, bool(rng.random() < p), False) for p in probability])
        for _ in range(2000)
    ]  # fmt: skip
    note = f"exact probabilities would have {np.mean(exact):.3f}"
    chance = float(np.quantile(exact, 1.0 - FALSE_ALARMS)) if few else 0.0
    yield at_most("distance of claimed and right", distance(claims), max(DISTANCE, chance), note)
    yield Row("right", float(right.mean()))
    sure = probability > 0.5
    if (right & sure).any():
        share = float(warned[right & sure].mean())
        limit = most_of(WARNED, int((right & sure).sum()), SYSTEMS // 4)
        yield at_most("warned of those that are right, claims from .5", share, limit)
