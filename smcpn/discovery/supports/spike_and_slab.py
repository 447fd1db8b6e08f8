"""Prior of a support, its coefficients, initial states and noise.

A support has a prior probability p(gamma) (`regression.BetaBinomial`). Given it, its coefficients
have the slab averaged over its widths c, and what every model has is normal,

    p(b | gamma) = mean over c of prod_j N(b_j; 0, (c tau_j)^2),    z_i ~ N(m_i, s_i^2),

with z the initial states and the logarithms of the standard deviations of the noise. A coefficient
whose sign is known has twice the density on its side, and none on the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from smcpn.discovery.search.regression import BetaBinomial

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

_LOG_ROOT_TAU = 0.5 * np.log(2.0 * np.pi)


@dataclass(frozen=True)
class SpikeAndSlabPrior:
    """Prior of d coordinates, of which the first D are coefficients of terms.

    Attributes
    ----------
    supports : BetaBinomial
        Prior of a support of all K terms.
    columns : ndarray of int, (D,)
        Terms that have a coordinate; the others are absent.
    n_terms : int
        K.
    scale : ndarray, (D,)
        Unit tau of the slab of each coefficient.
    slabs : sequence of float
        Widths c.
    signs : ndarray of int, (D,)
        1 or -1 where a coefficient has a sign, else 0.
    centre, spread : ndarray, (d - D,)
        Of the other coordinates.
    """

    supports: BetaBinomial
    columns: NDArray[np.int64]
    n_terms: int
    scale: Array
    slabs: tuple[float, ...]
    signs: NDArray[np.int64]
    centre: Array
    spread: Array
    _known: dict[bytes, float] = field(default_factory=dict, repr=False)

    def log_density(self, masks: Mask, z: Array, factor: float = 1.0) -> Array:
        """Log density of supports (N, D) and coordinates (N, d), zero where absent; (N,).

        Parameters
        ----------
        factor : float
            On all widths of the slab.
        """
        own = (z[:, masks.shape[1] :] - self.centre) / self.spread
        other = -0.5 * np.square(own) - np.log(self.spread) - _LOG_ROOT_TAU
        return self.log_probability(masks) + self.log_slab(masks, z, factor) + other.sum(axis=1)

    def log_probability(self, masks: Mask) -> Array:
        """Log prior probability of supports (N, D), shape (N,)."""
        result = np.empty(len(masks))
        for n, mask in enumerate(masks):
            key = mask.tobytes()
            if key not in self._known:
                whole = np.zeros(self.n_terms, dtype=bool)
                whole[self.columns[mask]] = True
                self._known[key] = self.supports.log_probability(whole)
            result[n] = self._known[key]
        return result

    def log_slab(self, masks: Mask, z: Array, factor: float = 1.0) -> Array:
        """Log density of the coefficients given the support, (N,)."""
        by_width = self._by_width(masks, z, factor)
        wrong = masks & (z[:, : masks.shape[1]] * self.signs < 0.0)
        signed = np.log(2.0) * (masks & (self.signs != 0)).sum(axis=1)
        density = np.logaddexp.reduce(by_width, axis=1) - np.log(len(self.slabs)) + signed
        return np.where(wrong.any(axis=1), -np.inf, density)

    def curvature(self, masks: Mask, z: Array) -> tuple[Array, Array]:
        """Gradient (N, d), and minus the second derivatives (N, d), of absent terms too.

        Of the slab these are given its width, averaged, which makes them positive.
        """
        width = np.asarray(self.slabs)
        share = softmax(self._by_width(masks, z, 1.0), axis=1)
        slab = (share @ (1.0 / width**2))[:, None] / self.scale**2
        precision = np.hstack([slab, np.tile(1.0 / self.spread**2, (len(z), 1))])
        off = z.copy()
        off[:, masks.shape[1] :] -= self.centre
        return -precision * off, precision

    def _by_width(self, masks: Mask, z: Array, factor: float) -> Array:
        """Log density of the coefficients with every width, (N, C)."""
        width = factor * np.asarray(self.slabs)
        count = masks.sum(axis=1)
        square = np.sum(np.square(z[:, : masks.shape[1]] / self.scale) * masks, axis=1)
        volume = masks @ np.log(self.scale) + count * _LOG_ROOT_TAU
        by_width = -0.5 * square[:, None] / width**2 - count[:, None] * np.log(width)
        return by_width - volume[:, None]
