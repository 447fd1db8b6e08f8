"""Likelihoods that are estimated, at given keys of their random numbers; and how keys move."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.likelihood.contract import EstimatedLikelihood, Keys, Likelihood
from smcpn.likelihood.inputs import CHUNK

Array = NDArray[np.float64]

NO_KEYS: Keys = np.empty((0, 0), dtype=np.uint64)
"""Those of an exact likelihood."""


@dataclass(frozen=True)
class Stepwise:
    """The `Likelihood` that an estimate is at given keys (N, B), sample by sample."""

    likelihood: EstimatedLikelihood
    keys: Keys

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.likelihood.n_samples

    def start(self, values: Array) -> Array:
        """State before the first sample, (k, N)."""
        return self.likelihood.start(values)

    def advance(self, values: Array, state: Array, a: int, b: int) -> tuple[Array, Array]:
        """State s_{b-1} from s_{a-1}, and the increments l_a, ..., l_{b-1}, (b - a, N)."""
        return self.likelihood.advance_keyed(values, self.keys, state, a, b)

    def evaluate(self, values: Array, b: int) -> tuple[Array, Array]:
        """State s_{b-1} and log p(y_0, ..., y_{b-1} | theta), (N,)."""
        return self.total(values, self.start(values), 0, b)

    def total(self, values: Array, state: Array, a: int, b: int) -> tuple[Array, Array]:
        """State after sample b - 1 and the sum of the increments of samples [a, b), (N,).

        Added in the order of time, so that it does not depend on how many are in memory.
        """
        total = np.zeros(len(values))
        for begin in range(a, b, CHUNK):
            state, increments = self.advance(values, state, begin, min(begin + CHUNK, b))
            total = np.add.reduce(np.vstack([total, increments]))
        return state, total


class Whole(Stepwise):
    """Estimate of all samples at once: its filters may look ahead, and leave no state."""

    @override
    def evaluate(self, values: Array, b: int) -> tuple[Array, Array]:
        return np.empty((0, len(values))), self.likelihood.estimate(values, self.keys, b)


def stepwise(likelihood: Likelihood | EstimatedLikelihood, keys: Keys) -> Likelihood:
    """Return a likelihood at given keys, sample by sample; an exact one has none."""
    return _at(Stepwise, likelihood, keys)


def whole(likelihood: Likelihood | EstimatedLikelihood, keys: Keys) -> Likelihood:
    """Return a likelihood at given keys, of all samples at once; an exact one has none."""
    return _at(Whole, likelihood, keys)


def _at(
    kind: type[Stepwise], likelihood: Likelihood | EstimatedLikelihood, keys: Keys
) -> Likelihood:
    return kind(likelihood, keys) if isinstance(likelihood, EstimatedLikelihood) else likelihood


def fresh_keys(rng: np.random.Generator, size: int, blocks: int) -> Keys:
    """Draw independent keys, (size, blocks)."""
    return rng.integers(0, 1 << 64, (size, blocks), dtype=np.uint64)


def extended(rng: np.random.Generator, keys: Keys, blocks: int) -> Keys:
    """Keys (N, B) with those that are missing up to ``blocks`` drawn; themselves where none is."""
    missing = blocks - keys.shape[1]
    return keys if missing <= 0 else np.hstack([keys, fresh_keys(rng, len(keys), missing)])


def redrawn(rng: np.random.Generator, keys: Keys) -> Keys:
    """Return keys (N, B) of which each row has one, chosen at random, drawn anew."""
    size, blocks = keys.shape
    if not blocks:
        return keys
    changed = keys.copy()
    changed[np.arange(size), rng.integers(0, blocks, size)] = fresh_keys(rng, size, 1)[:, 0]
    return changed
