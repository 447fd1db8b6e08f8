"""Scores of the supports of a linear regression with spike and slab.

Whitened data are r + S (theta - theta0), white noise of unknown variance. A coefficient is zero, or
has the slab N(0, (c tau_j)^2); the columns of S are in units of tau. For a support gamma

    log p(data, gamma | c) = -m/2 log SSR - log|I + c^2 S'S| / 2 + log p(gamma) + constant,
    SSR = min over theta of |r + S (theta - theta0)|^2 + |theta|^2 / c^2,

with S and theta of the support only, averaged over c. Where a coefficient has a sign its slab is
the half of the normal density, twice as high, of which the probability that the normal posterior
gives the sign is left; of several such coefficients the product.

Prior of the support: of the n columns of degree g, k are active with a probability that is the same
for all such sets, and beta-binomial(1, b) for k (Scott and Berger 2010) with b = n g (g - 1), at
least one: uniform for constants and linear terms, and some 1 / (g (g - 1)) of degree g, which makes
one of all degrees above the first. Terms of high degree are many, and few of them are in equations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, log_ndtr

Array = NDArray[np.float64]
Support = NDArray[np.bool_]

SLABS = (1.0, 3.0, 10.0, 30.0)
"""Widths c of the slab that scores are averaged over."""
_TINY = np.finfo(float).tiny
LEAST_PIVOT = 1e-9
"""A column of which the others in the support leave a smaller share of its square is refused."""


class BetaBinomial:
    """Prior of supports.

    Parameters
    ----------
    degrees : ndarray of int, (d,)
        Of each column.
    """

    def __init__(self, degrees: NDArray[np.int64]) -> None:
        degree, self._groups = np.unique(degrees, return_inverse=True)
        self._sizes = np.bincount(self._groups)
        self._absent = np.maximum(self._sizes * degree * (degree - 1.0), 1.0)

    def log_probability(self, support: Support) -> float:
        """Log probability of a support."""
        return float(self._logs(self._counts(support)).sum())

    def changes(self, support: Support) -> Array:
        """Change of the log probability by each flip, (d,)."""
        sizes, groups, counts = self._sizes, self._groups, self._counts(support)
        own = self._logs(counts)
        more = self._logs(np.minimum(counts + 1, sizes)) - own
        less = self._logs(np.maximum(counts - 1, 0)) - own
        return np.where(support, less[groups], more[groups])

    def _logs(self, counts: NDArray[np.int64]) -> Array:
        """Log probability of one set of so many in each group."""
        absent = self._absent
        return betaln(1.0 + counts, absent + self._sizes - counts) - betaln(1.0, absent)

    def _counts(self, support: Support) -> NDArray[np.int64]:
        return np.bincount(self._groups[support], minlength=len(self._sizes))


class Neighbourhood(NamedTuple):
    """A support with its score, and those of all supports that differ in one column.

    Attributes
    ----------
    evidence : float
        Log evidence, but for a constant.
    score : float
        The same plus the log prior probability of the support.
    flips : ndarray, (d,)
        Score with this column added or deleted, minus the score.
    theta : ndarray, (d,)
        Posterior mean of the coefficients, in units of tau.
    """

    evidence: float
    score: float
    flips: Array
    theta: Array


class _Fit(NamedTuple):
    """Least squares on a support with each of C slabs.

    Attributes
    ----------
    theta : ndarray, (C, k)
    inverse : ndarray, (C, k, k)
        Of S'S + 1 / c^2.
    pull : ndarray, (C, d)
        Half of the gradient of the sum of squares by all coefficients.
    least : ndarray, (C,)
        SSR.
    log_volume : ndarray, (C,)
        log|I + c^2 S'S|.
    """

    theta: Array
    inverse: Array
    pull: Array
    least: Array
    log_volume: Array


class SpikeAndSlab:
    """The regression, and its supports as far as they were visited.

    Parameters
    ----------
    residual : ndarray, (m,)
        r.
    columns : ndarray, (m, d)
        S, in units of tau.
    theta0 : ndarray, (d,)
        In units of tau.
    count : float
        Independent numbers in the data.
    prior : BetaBinomial
        Of the support.
    slabs : sequence of float
    least : float
        Added to every SSR: squares of the noise that is there at least.
    signs : ndarray of int, (d,), optional
        1 or -1 where a coefficient has a sign, else 0.
    """

    def __init__(
        self,
        residual: Array,
        columns: Array,
        theta0: Array,
        count: float,
        prior: BetaBinomial,
        slabs: tuple[float, ...] = SLABS,
        least: float = 0.0,
        signs: NDArray[np.int64] | None = None,
    ) -> None:
        self._gram, self._pull = columns.T @ columns, columns.T @ residual
        self._square = float(residual @ residual + least)
        self._theta0, self._count, self._prior = theta0, count, prior
        self._precision = 1.0 / np.square(slabs)
        self._signs = np.zeros(len(theta0), dtype=np.int64) if signs is None else signs
        self._known: dict[bytes, Neighbourhood] = {}

    @property
    def visited(self) -> dict[bytes, Neighbourhood]:
        """Neighbourhoods by the bytes of the support."""
        return self._known

    def neighbourhood(self, support: Support) -> Neighbourhood:
        """Score of a support and of its neighbours."""
        key = support.tobytes()
        if key not in self._known:
            self._known[key] = self._computed(support)
        return self._known[key]

    def score(self, support: Support) -> float:
        """Log of the posterior probability of a support, but for a constant."""
        return self.neighbourhood(support).score

    def square(self, theta: Array) -> float:
        """Sum of squares, without that of the slab, of coefficients in units of tau."""
        off = theta - self._theta0
        return float(self._square + off @ (self._gram @ off + 2.0 * self._pull))

    def _computed(self, support: Support) -> Neighbourhood:
        active = np.flatnonzero(support)
        fit = self._fit(active)
        score = -0.5 * self._count * np.log(fit.least) - 0.5 * fit.log_volume
        change, volume, pivot = self._single(active, fit)
        ratio = np.maximum(1.0 + change / fit.least[:, None], _TINY)
        flipped = score[:, None] - 0.5 * self._count * np.log(ratio) - 0.5 * volume
        if self._signs.any():
            flipped += self._flipped_signs(active, fit, ratio, pivot)
            score = score + self._with_signs(active, fit)
        together = np.logaddexp.reduce(score)
        with np.errstate(invalid="ignore"):
            flips = np.logaddexp.reduce(flipped, axis=0) - together
        flips = flips + self._prior.changes(support)
        evidence = float(together - np.log(len(score)))
        mean = np.zeros(len(support))
        mean[active] = np.exp(score - together) @ fit.theta
        return Neighbourhood(
            evidence,
            evidence + self._prior.log_probability(support),
            np.where(np.isfinite(flips), flips, -np.inf),
            mean,
        )

    def moments(self, support: Support) -> tuple[Array, Array]:
        """Posterior mean (k,) and covariance (k, k) of a support's coefficients, over all slabs."""
        active = np.flatnonzero(support)
        fit = self._fit(active)
        score = -0.5 * self._count * np.log(fit.least) - 0.5 * fit.log_volume
        score = score + self._with_signs(active, fit)
        weights = np.exp(score - np.logaddexp.reduce(score))
        mean = weights @ fit.theta
        off = fit.theta - mean
        variance = weights * fit.least / self._count
        within = np.tensordot(variance, fit.inverse, axes=1)
        return mean, within + (off * weights[:, None]).T @ off

    def _fit(self, active: NDArray[np.intp]) -> _Fit:
        precision, gram = self._precision, self._gram
        matrix = gram[np.ix_(active, active)] + precision[:, None, None] * np.eye(len(active))
        inverse = np.linalg.inv(matrix)
        theta = inverse @ (gram[active] @ self._theta0 - self._pull[active])
        # Of differences from theta0, which is near: sums of squares would cancel.
        off = np.tile(-self._theta0, (len(precision), 1))
        off[:, active] += theta
        moved = off @ gram
        least = self._square + np.sum(off * (moved + 2.0 * self._pull), axis=1)
        least = np.maximum(least + precision * np.sum(theta**2, axis=1), _TINY)
        log_volume = np.linalg.slogdet(matrix)[1] - len(active) * np.log(precision)
        return _Fit(theta, np.asarray(inverse, float), moved + self._pull, least, log_volume)

    def _with_signs(self, active: NDArray[np.intp], fit: _Fit) -> Array:
        """Change of the log evidence by the signs of a support, (C,)."""
        variance = np.diagonal(fit.inverse, axis1=1, axis2=2) * fit.least[:, None] / self._count
        return np.sum(_log_share(self._signs[active], fit.theta, variance), axis=1)

    def _flipped_signs(
        self, active: NDArray[np.intp], fit: _Fit, ratio: Array, pivot: Array
    ) -> Array:
        """The same where each column is added or deleted, (C, d).

        Its own coefficient moves by theta_j, up or down to zero, and each other one with it.
        """
        own = -fit.pull / pivot
        moved, spread = fit.inverse @ self._gram[active], 1.0 / pivot[:, None]
        deleted = np.diagonal(fit.inverse, axis1=1, axis2=2)
        own[:, active] = -fit.theta
        moved[:, :, active] = -fit.inverse / deleted[:, None]
        spread[:, 0, active] = -deleted
        signed = np.flatnonzero(self._signs[active])
        noise = fit.least[:, None] * ratio / self._count
        mean = fit.theta[:, signed, None] - moved[:, signed] * own[:, None]
        inverse = np.diagonal(fit.inverse, axis1=1, axis2=2)[:, signed, None]
        variance = noise[:, None] * (inverse + moved[:, signed] ** 2 * spread)
        others = _log_share(self._signs[active[signed], None], mean, variance)
        others[:, np.arange(len(signed)), active[signed]] = 0.0
        alone = _log_share(self._signs, own, noise / pivot)
        alone[:, active] = 0.0
        return np.sum(others, axis=1) + alone

    def _single(self, active: NDArray[np.intp], fit: _Fit) -> tuple[Array, Array, Array]:
        """Change of SSR and of the log determinant by adding or deleting each column, (C, d).

        And of a column that is added, the square that the others leave.
        """
        gram, precision = self._gram, self._precision[:, None]
        own = np.diag(gram) + precision
        cross = fit.inverse @ gram[active]
        pivot = own - np.sum(gram[active] * cross, axis=1)
        with np.errstate(all="ignore"):
            change = np.where(pivot > LEAST_PIVOT * own, -(fit.pull**2) / pivot, np.nan)
            volume = np.log(pivot / precision)
        deleted = np.diagonal(fit.inverse, axis1=1, axis2=2)
        change[:, active] = fit.theta**2 / deleted
        volume[:, active] = np.log(deleted * precision)
        return change, volume, pivot


def _log_share(signs: NDArray[np.int64], mean: Array, variance: Array) -> Array:
    """Log of twice the probability of a sign; 0 where there is none."""
    with np.errstate(all="ignore"):
        return np.where(signs == 0, 0.0, np.log(2.0) + log_ndtr(signs * mean / np.sqrt(variance)))
