"""Proposals that do not depend on the particles that they move.

A proposal fitted to N particles has more density at these than elsewhere, the more parameters it
has: their target over proposal is too low, and moves away from them are accepted too readily. In
25 dimensions that shifts the log-evidence by several standard errors. So the particles are dealt
into folds, and each fold is moved by a proposal that was fitted to the other folds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from smcpn.model.prior import by_blocks
from smcpn.smc.proposals import Proposal

Array = NDArray[np.float64]
Fold = NDArray[np.int64]

MANY = 100
"""Particles per dimension from which two folds do: half of them fit a proposal as well."""


def folds(size: int, dimension: int) -> Fold:
    """Number of the fold of each of ``size`` particles, (size,): two or four runs of neighbours.

    Resampling keeps the order of the particles, so that copies of one are neighbours.
    """
    count = 2 if size >= MANY * dimension else 4
    return np.arange(size) * count // size


@dataclass(frozen=True)
class CrossFitted:
    """One density for each fold of a population, fitted to the other folds.

    Attributes
    ----------
    densities : sequence of Proposal
        One for each fold.
    fold : ndarray of int, (N,)
        The density that moves each particle. Of a multiple of N vectors, every N have these folds.
    """

    densities: Sequence[Proposal]
    fold: Fold

    @classmethod
    def fit(
        cls, kind: type[Proposal], theta: Array, weights: Array, fold: Fold, moved: Fold
    ) -> Self:
        """Fit to weighted particles, (N, d) and (N,).

        Parameters
        ----------
        fold : ndarray of int, (N,)
            Of these particles, ascending.
        moved : ndarray of int, (M,)
            Of the particles to be moved.
        """
        densities = []
        for number in range(int(fold[-1]) + 1):
            others = np.where(fold == number, 0.0, weights)
            # All the weight may lie in one fold: then there is nothing else to fit to.
            kept = others > 0 if others.any() else weights > 0
            densities.append(kind.fit(theta[kept], weights[kept] / weights[kept].sum()))
        return cls(densities, moved)

    @property
    def name(self) -> str:
        """Name of the densities."""
        return self.densities[0].name

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Draw ``size`` vectors, (size, d), a multiple of N."""
        fold = np.resize(self.fold, size)
        drawn = [
            density.sample(rng, int(np.count_nonzero(fold == number)))
            for number, density in enumerate(self.densities)
        ]
        # A stable sort puts the draws of each density in the places of its fold.
        theta = np.empty((size, drawn[0].shape[1]))
        theta[np.argsort(fold, kind="stable")] = np.concatenate(drawn)
        return theta

    def log_density(self, theta: Array) -> Array:
        """Log density at (n, d), shape (n,), a multiple of N: each by its own fold."""
        fold = np.resize(self.fold, len(theta))
        log_density = np.empty(len(theta))
        for number, density in enumerate(self.densities):
            own = fold == number
            log_density[own] = by_blocks(density.log_density, theta[own])
        return log_density
