"""A normal distribution by its mean and a factor of its covariance, and what filters do to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

Array = NDArray[np.float64]


def _upper(stacked: Array) -> Array:
    """Upper triangular R of a QR decomposition."""
    return np.asarray(np.linalg.qr(stacked, mode="r"))


@dataclass(frozen=True)
class Affine:
    """x' = matrix x + offset + noise, with the covariance ``factor factor'`` of the noise."""

    matrix: Array
    offset: Array
    factor: Array


@dataclass(frozen=True)
class Normal:
    """N(mean, factor factor').

    Attributes
    ----------
    mean : ndarray, (d,)
    factor : ndarray, (d, d)
        Not necessarily triangular; a known state has a factor of zeros.
    """

    mean: Array
    factor: Array

    @property
    def covariance(self) -> Array:
        """Covariance, (d, d)."""
        return self.factor @ self.factor.T

    def through(self, kernel: Affine) -> Normal:
        """Distribution of x' (the prediction of a Kalman filter)."""
        stacked = np.vstack([(kernel.matrix @ self.factor).T, kernel.factor.T])
        upper = _upper(stacked)
        return Normal(kernel.matrix @ self.mean + kernel.offset, upper.T)

    def given(self, matrix: Array, innovation: Array, noise: Array) -> tuple[Normal, float]:
        """Condition on ``matrix (x - mean) + e = innovation``, e ~ N(0, noise noise').

        One QR decomposition gives the factor of the innovation's covariance, the gain and the
        factor of what is left, without a difference of covariances.

        Returns
        -------
        Normal
            x given the innovation.
        float
            Log density of the innovation.
        """
        q, d = matrix.shape
        stacked = np.vstack(
            [
                np.hstack([noise.T, np.zeros((q, d))]),
                np.hstack([(matrix @ self.factor).T, self.factor.T]),
            ]
        )
        upper = _upper(stacked)
        root, cross = upper[:q, :q].T, upper[:q, q:].T
        whitened = solve_triangular(root, innovation, lower=True)
        log_density = -0.5 * (
            whitened @ whitened
            + 2.0 * np.log(np.abs(np.diag(root))).sum()
            + q * np.log(2.0 * np.pi)
        )
        return Normal(self.mean + cross @ whitened, upper[q:, q:].T), float(log_density)

    def reversed(self, kernel: Affine, kept: NDArray[np.int64] | None = None) -> Affine:
        """Kernel from x' back to x, for x of this distribution (Fenrir eq. 12).

        Parameters
        ----------
        kernel : Affine
        kept : ndarray of int, optional
            Entries of x' that determine the others: all of them, unless x' has been computed from
            a part of x.
        """
        kept = np.arange(len(kernel.offset)) if kept is None else kept
        matrix, d = kernel.matrix[kept], len(self.mean)
        noise = kernel.factor[kept]
        stacked = np.vstack(
            [
                np.hstack([(matrix @ self.factor).T, self.factor.T]),
                np.hstack([noise.T, np.zeros((noise.shape[1], d))]),
            ]
        )
        k, upper = len(kept), _upper(stacked)
        gain = np.zeros((d, len(kernel.matrix)))
        gain[:, kept] = solve_triangular(upper[:k, :k], upper[:k, k:]).T
        predicted = kernel.matrix @ self.mean + kernel.offset
        return Affine(gain, self.mean - gain @ predicted, upper[k:, k:].T)
