"""Metropolis moves of particles (gamma, z) whose number of coordinates changes.

The target is q(gamma, z)^(1 - b) (prior x likelihood)^b. Every move takes all particles once.

`jumped` adds, deletes or swaps terms: with the Gaussians N(m, V) and N(m', V') of the two supports
the coordinates that both have move by z' = m' + L' L^-1 (z - m), with the factors of these parts of
V and V', and a coefficient that is new is drawn from its conditional under N(m', V') (Green 2003,
automatic reversible jumps).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from smcpn.discovery.supports.proposal import Gaussians, SupportProposal, active, by_support
from smcpn.discovery.supports.spike_and_slab import Mask
from smcpn.discovery.supports.trajectory import Trajectories
from smcpn.smc.particles import tempered

Array = NDArray[np.float64]

STEP = 1.0
"""Length of a random step, in units of 2.38 / sqrt(k) times the Gaussian of the support."""
SWAPS = 0.5
"""Share of jumps that flip two terms."""


@dataclass(frozen=True)
class Cloud:
    """Particles with their densities.

    Attributes
    ----------
    masks : ndarray of bool, (N, D)
    z : ndarray, (N, d)
    log_start : ndarray, (N,)
        Log density of what the path begins at.
    log_target : ndarray, (N,)
        Of prior times likelihood.
    """

    masks: Mask
    z: Array
    log_start: Array
    log_target: Array

    def take(self, index: NDArray[np.int64]) -> Cloud:
        """Particles by index."""
        return Cloud(
            self.masks[index], self.z[index], self.log_start[index], self.log_target[index]
        )

    def where(self, accepted: NDArray[np.bool_], other: Cloud) -> Cloud:
        """Those of another cloud where they are accepted."""
        columns = accepted[:, None]
        return Cloud(
            np.where(columns, other.masks, self.masks),
            np.where(columns, other.z, self.z),
            np.where(accepted, other.log_start, self.log_start),
            np.where(accepted, other.log_target, self.log_target),
        )

    @property
    def log_ratio(self) -> Array:
        """Log of target over start, (N,)."""
        return np.where(np.isfinite(self.log_target), self.log_target - self.log_start, -np.inf)


@dataclass(frozen=True)
class Path:
    """Densities from a proposal, at exponent 0, to the posterior, at exponent 1."""

    start: SupportProposal
    target: Trajectories
    exponent: float = 0.0

    def cloud(self, masks: Mask, z: Array) -> Cloud:
        """Particles with their densities."""
        start = self.start.log_density(masks, z)
        return Cloud(masks, z, start, self.target.log_density(masks, z))

    def drawn(self, size: int, rng: np.random.Generator) -> Cloud:
        """Draws from the start."""
        return self.cloud(*self.start.sample(rng, size))

    def log_density(self, cloud: Cloud) -> Array:
        """Log density at the exponent, (N,)."""
        return cloud.log_start + tempered(cloud.log_ratio, self.exponent)

    def moved(
        self, cloud: Cloud, masks: Mask, z: Array, log_correction: Array, rng: np.random.Generator
    ) -> tuple[Cloud, float]:
        """Accept proposed particles or not; with the share of those accepted.

        Parameters
        ----------
        log_correction : ndarray, (N,)
            Log density of the way back over that of the way there.
        """
        other = self.cloud(masks, z)
        with np.errstate(invalid="ignore"):
            gain = self.log_density(other) - self.log_density(cloud) + log_correction
        accepted = np.log(rng.random(len(z))) < gain
        return cloud.where(accepted, other), float(accepted.mean())


def independent(
    path: Path, cloud: Cloud, proposal: SupportProposal, rng: np.random.Generator
) -> tuple[Cloud, float]:
    """Propose draws from a fitted proposal."""
    masks, z = proposal.sample(rng, len(cloud.z))
    rng.shuffle(order := np.arange(len(z)))
    masks, z = masks[order], z[order]
    there, here = proposal.log_density(masks, z), proposal.log_density(cloud.masks, cloud.z)
    return path.moved(cloud, masks, z, here - there, rng)


def walked(
    path: Path, cloud: Cloud, gaussians: Gaussians, rng: np.random.Generator
) -> tuple[Cloud, float]:
    """Propose random steps within the support."""
    d = cloud.z.shape[1]
    normal, z = rng.standard_normal(cloud.z.shape), cloud.z.copy()
    for mask, rows in by_support(cloud.masks):
        there = active(mask, d)
        factor = gaussians.of(mask).factor * (2.38 * STEP / np.sqrt(there.sum()))
        z[np.ix_(rows, np.flatnonzero(there))] += normal[rows][:, there] @ factor.T
    return path.moved(cloud, cloud.masks, z, np.zeros(len(z)), rng)


def jumped(
    path: Path, cloud: Cloud, proposal: SupportProposal, rng: np.random.Generator
) -> tuple[Cloud, float]:
    """Propose to add or to delete a term, or to do so twice, which swaps terms too.

    Terms are chosen by the spread of their inclusion in the proposal, whatever the support.
    """
    n, count = cloud.masks.shape
    spread = proposal.inclusion * (1.0 - proposal.inclusion)
    flips = np.argsort(np.log(spread / spread.sum()) + rng.gumbel(size=(n, count)), axis=1)
    twice = (rng.random(n) < SWAPS) & (count > 1)
    normal, masks, z = rng.standard_normal((2, n)), cloud.masks, cloud.z
    correction = np.zeros(n)
    for step, some in enumerate((np.ones(n, dtype=bool), twice)):
        column = flips[:, -1 - step] if count > step else flips[:, -1]
        changed, there, log_ratio = flipped(proposal.gaussians, masks, z, column, normal[step])
        masks = np.where(some[:, None], changed, masks)
        z = np.where(some[:, None], there, z)
        correction += np.where(some, log_ratio, 0.0)
    return path.moved(cloud, masks, z, correction, rng)


def flipped(
    gaussians: Gaussians, masks: Mask, z: Array, column: NDArray[np.int64], normal: Array
) -> tuple[Mask, Array, Array]:
    """Add or delete a term of each particle, and move its other coordinates along.

    Parameters
    ----------
    column : ndarray of int, (N,)
    normal : ndarray, (N,)
        Of a coefficient that is added.

    Returns
    -------
    masks, z : ndarray, (N, D) and (N, d)
    log_ratio : ndarray, (N,)
        Log of the Jacobian, over the density of the coefficient drawn or times that of the one
        given up.
    """
    d, count = z.shape[1], masks.shape[1]
    other, there, log_ratio = masks.copy(), np.zeros_like(z), np.empty(len(z))
    rows = np.arange(len(z))
    other[rows, column] = ~other[rows, column]
    keys = np.hstack([masks, np.eye(count, dtype=bool)[column]])
    for key, own in by_support(keys):
        j = int(np.flatnonzero(key[count:])[0])
        mask, after = key[:count], other[own[0]]
        both = np.flatnonzero(active(mask & after, d))
        larger = after if after[j] else mask
        before = _part(gaussians, mask, both)
        whole = _part(gaussians, larger, np.append(both, j))
        moved = whole if after[j] else _part(gaussians, after, both)
        k = len(both)
        mean, factor = moved[0][:k], moved[1][:k, :k]
        white = solve_triangular(before[1], (z[np.ix_(own, both)] - before[0]).T, lower=True).T
        there[np.ix_(own, both)] = mean + white @ factor.T
        volume = np.log(np.diag(factor)).sum() - np.log(np.diag(before[1])).sum()
        # The coefficient given the others, of the larger support.
        base = there if after[j] else z
        given = solve_triangular(
            whole[1][:k, :k], (base[np.ix_(own, both)] - whole[0][:k]).T, lower=True
        )
        centre, spread = whole[0][k] + whole[1][k, :k] @ given, whole[1][k, k]
        if after[j]:
            there[own, j] = centre + spread * normal[own]
            off = normal[own]
        else:
            off = (z[own, j] - centre) / spread
        density = -0.5 * off**2 - np.log(spread) - 0.5 * np.log(2.0 * np.pi)
        log_ratio[own] = volume + (-density if after[j] else density)
    return other, there, log_ratio


def _part(gaussians: Gaussians, mask: Mask, columns: NDArray[np.int64]) -> tuple[Array, Array]:
    """Mean and lower factor of some of the coordinates of a support, in a given order."""
    gaussian = gaussians.of(mask)
    place = np.cumsum(active(mask, int(columns.max(initial=0)) + len(mask) + 1)) - 1
    index = place[columns]
    upper = np.asarray(np.linalg.qr(gaussian.factor[index].T, mode="r"))
    factor = upper.T * np.where(np.diag(upper) < 0.0, -1.0, 1.0)
    return gaussian.mean[index], factor
