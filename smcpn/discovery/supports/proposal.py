"""Proposals over supports and coordinates together.

    q(gamma, z) = [(1 - e) w(gamma) + e prod_j p_j^gamma_j (1 - p_j)^(1 - gamma_j)] h(z | gamma)

with probabilities w of the supports whose maximum is known, and a share e of others, near these.
h is a Gaussian with a share of Student's t: about the maximum of the support, or, of one that has
none yet, about that of the quadratic expansion of the log density at the best support, restricted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from smcpn.discovery.supports.spike_and_slab import Mask
from smcpn.discovery.supports.trajectory import Quadratic
from smcpn.smc.particles import normalise
from smcpn.smc.proposals import student_log_density, weighted_moments

Array = NDArray[np.float64]

OTHERS = 0.1
"""Share e of draws whose support may be any."""
LEAST_INCLUSION = 0.02
"""Of any term in these, and of its absence."""
TAILS, DEGREES, WIDER = 0.2, 5.0, 1.3
"""Share, degrees of freedom and width of Student's t."""
FITTED = 4
"""Effective particles per coordinate from which a Gaussian is fitted to them."""


class Gaussian(NamedTuple):
    """Of the coordinates that a support has: mean (k,), lower Cholesky factor (k, k)."""

    mean: Array
    factor: Array

    @classmethod
    def at(cls, mean: Array, precision: Array) -> Gaussian:
        """Of a mean and a precision, whose directions without information are given little.

        Raises
        ------
        numpy.linalg.LinAlgError
            If it is not positive definite.
        """
        scale = 1.0 / np.sqrt(np.diag(precision))
        upper = np.linalg.cholesky((precision * np.outer(scale, scale))[::-1, ::-1])[::-1, ::-1]
        # precision = U U', upper triangular: U'^-1 is a lower factor of the covariance.
        factor = solve_triangular(upper.T, np.eye(len(mean)), lower=True)
        return cls(mean, scale[:, None] * factor)

    def fitted(self, z: Array, weights: Array) -> Gaussian:
        """Of weighted particles (N, k); correlations are drawn to its own where these are few."""
        white = solve_triangular(self.factor, (z - self.mean).T, lower=True).T
        mean, factor = weighted_moments(white, weights)
        return Gaussian(self.mean + self.factor @ mean, self.factor @ factor)


class Gaussians:
    """A Gaussian for every support.

    Parameters
    ----------
    known : mapping of bytes to Gaussian
        By the bytes of the support.
    anchor : Quadratic
        Expansion from which those of others are made.
    """

    def __init__(self, known: Mapping[bytes, Gaussian], anchor: Quadratic) -> None:
        self._known, self._anchor = dict(known), anchor

    def of(self, mask: Mask) -> Gaussian:
        """The Gaussian of a support."""
        key = mask.tobytes()
        if key not in self._known:
            self._known[key] = restricted(self._anchor, mask)[0]
        return self._known[key]

    def with_known(self, known: Mapping[bytes, Gaussian]) -> Gaussians:
        """Return these Gaussians with some replaced, by the bytes of their supports."""
        return Gaussians(self._known | dict(known), self._anchor)


def active(mask: Mask, d: int) -> NDArray[np.bool_]:
    """Coordinates that a support (D,) has, (d,)."""
    return np.append(mask, np.ones(d - len(mask), dtype=bool))


def restricted(at: Quadratic, mask: Mask) -> tuple[Gaussian, float]:
    """Gaussian of a support by an expansion, and the log-likelihood times its volume there.

    The expansion is at z0 with gradient g and information A. Coefficients that are absent are zero;
    for the others (A + P) (z - z0) = g + pull, with the precision P and the pull of the prior.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the information is not positive definite.
    """
    d = len(at.z)
    there = active(mask, d)
    step = np.where(there, 0.0, -at.z)
    total = at.information + np.diag(at.precision)
    gradient = (at.gradient + at.pull - at.information @ step)[there]
    factor = Gaussian.at(gradient, total[np.ix_(there, there)]).factor
    step[there] = factor @ (factor.T @ gradient)
    value = at.value + at.gradient @ step - 0.5 * step @ at.information @ step
    volume = np.log(np.diag(factor)).sum() + 0.5 * there.sum() * np.log(2.0 * np.pi)
    return Gaussian((at.z + step)[there], factor), float(value + volume)


@dataclass(frozen=True)
class SupportProposal:
    """q(gamma, z).

    Attributes
    ----------
    masks : ndarray of bool, (G, D)
    weights : ndarray, (G,)
        w; they sum to one.
    inclusion : ndarray, (D,)
        p.
    gaussians : Gaussians
    n_coordinates : int
        d.
    """

    masks: Mask
    weights: Array
    inclusion: Array
    gaussians: Gaussians
    n_coordinates: int

    @classmethod
    def of(
        cls, masks: Mask, weights: Array, gaussians: Gaussians, n_coordinates: int
    ) -> SupportProposal:
        """With inclusion as in these supports."""
        inclusion = np.clip(weights @ masks, LEAST_INCLUSION, 1.0 - LEAST_INCLUSION)
        return cls(masks, weights, inclusion, gaussians, n_coordinates)

    def sample(self, rng: np.random.Generator, size: int) -> tuple[Mask, Array]:
        """Draw supports (size, D), each of the known ones its share, and coordinates (size, d)."""
        points = (rng.random() + np.arange(size)) / size
        shares = np.cumsum(np.append((1.0 - OTHERS) * self.weights, OTHERS))
        chosen = np.searchsorted(shares / shares[-1], points, side="right")
        other = rng.random((size, self.masks.shape[1])) < self.inclusion
        known = chosen < len(self.weights)
        masks = other
        masks[known] = self.masks[chosen[known]]
        normal = rng.standard_normal((size, self.n_coordinates))
        tail = rng.random(size) < TAILS
        width = np.where(tail, WIDER * np.sqrt(DEGREES / rng.chisquare(DEGREES, size)), 1.0)
        z = np.zeros((size, self.n_coordinates))
        for mask, rows in by_support(masks):
            there = active(mask, self.n_coordinates)
            mean, factor = self.gaussians.of(mask)
            drawn = (normal[rows][:, there] * width[rows, None]) @ factor.T
            z[np.ix_(rows, np.flatnonzero(there))] = mean + drawn
        return masks, z

    def log_density(self, masks: Mask, z: Array) -> Array:
        """Log density at supports (N, D) and coordinates (N, d), shape (N,)."""
        result = np.empty(len(z))
        for mask, rows in by_support(masks):
            there = active(mask, self.n_coordinates)
            off = z[rows][:, there] - self.gaussians.of(mask).mean
            factor = self.gaussians.of(mask).factor
            square = np.square(solve_triangular(factor, off.T, lower=True)).sum(axis=0)
            k = int(there.sum())
            normal = -0.5 * square - 0.5 * k * np.log(2.0 * np.pi)
            student = student_log_density(square / WIDER**2, k, DEGREES) - k * np.log(WIDER)
            both = np.logaddexp(np.log1p(-TAILS) + normal, np.log(TAILS) + student)
            result[rows] = both - np.log(np.diag(factor)).sum() + self.log_probability(mask)
        return result

    def log_probability(self, mask: Mask) -> float:
        """Log probability of a support."""
        known = self.weights[(self.masks == mask).all(axis=1)].sum()
        other = np.prod(np.where(mask, self.inclusion, 1.0 - self.inclusion))
        return float(np.log((1.0 - OTHERS) * known + OTHERS * other))

    def fitted(
        self, masks: Mask, z: Array, weights: Array, shares: Callable[[Array], Array]
    ) -> SupportProposal:
        """The proposal fitted to weighted particles.

        Parameters
        ----------
        shares : callable
            From the probabilities of supports to the shares of draws that they are given.
        """
        probability = {mask.tobytes(): 0.0 for mask in self.masks}
        known: dict[bytes, Gaussian] = {}
        for mask, rows in by_support(masks):
            key, own = mask.tobytes(), weights[rows]
            probability[key] = float(own.sum())
            there = active(mask, self.n_coordinates)
            if own.sum() > 0.0 and own.sum() ** 2 > FITTED * there.sum() * np.square(own).sum():
                known[key] = self.gaussians.of(mask).fitted(z[rows][:, there], own / own.sum())
        supports = np.array([np.frombuffer(key, dtype=bool) for key in probability])
        given = shares(np.array(list(probability.values())))
        gaussians = self.gaussians.with_known(known)
        return SupportProposal.of(supports, given, gaussians, self.n_coordinates)


def by_support(masks: Mask) -> list[tuple[Mask, NDArray[np.int64]]]:
    """Each support of (N, D) with the rows that have it, in the order of the first."""
    rows: dict[bytes, list[int]] = {}
    for n, mask in enumerate(masks):
        rows.setdefault(mask.tobytes(), []).append(n)
    return [(np.frombuffer(key, dtype=bool), np.array(own)) for key, own in rows.items()]


def flattened(probabilities: Array) -> Array:
    """Shares of draws that also tell the evidence of improbable supports."""
    whole = probabilities / probabilities.sum()
    return 0.8 * whole + 0.2 * normalise(0.25 * np.log(np.maximum(whole, 1e-6)))
