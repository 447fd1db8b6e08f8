"""Moments and paths of the states given a whole record, backwards from a Kalman filter's run.

Rauch, Tung and Striebel (1965); Saerkkae and Svensson (2023), Bayesian Filtering and Smoothing,
section 13.1. From sample k back to k - 1, with the filter's means m and covariances P, those
predicted m^-, P^-, and the product F_k of the derivatives of all solver steps between,

    C = P_{k-1} F_k',    G = C (P_k^-)^-1,    m^s_{k-1} = m_{k-1} + G (m^s_k - m_k^-),
    P^s_{k-1} = P_{k-1} + G (P^s_k - P_k^-) G',

and a path is drawn by x_{k-1} ~ N(m_{k-1} + G (x_k - m_k^-), P_{k-1} - G C'). C is the covariance
of the states at the two samples, given those before k, so that this is the smoother that goes back
through every solver step, without their states being kept.

Arrays hold parameter vectors ("lanes") on their last axis.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SINGULAR = 1e-13
"""Share of its variance below which what is left of a state counts as known exactly."""


@dataclass(frozen=True)
class FilterMoments:
    """A Kalman filter's moments at the samples [a, b), for N parameter vectors.

    Attributes
    ----------
    predicted : ndarray, (m, n, N)
        Mean given the samples before.
    predicted_covariance : ndarray, (m, n, n, N)
    moved : ndarray, (m, n, n, N)
        F, the derivative of a state by that at the sample before.
    mean : ndarray, (m, n, N)
        Given the sample too.
    covariance : ndarray, (m, n, n, N)
    """

    predicted: Array
    predicted_covariance: Array
    moved: Array
    mean: Array
    covariance: Array


class Smoother:
    """A smoother that goes back in time over one stretch of samples after the other.

    Parameters
    ----------
    lanes : ndarray of int, (D,)
        Parameter vector of each path that is drawn.
    rng : numpy.random.Generator
        Draws the paths.
    """

    def __init__(self, lanes: NDArray[np.int64], rng: np.random.Generator) -> None:
        self._lanes, self._rng = lanes, rng
        self._mean, self._covariance, self._path = np.empty(0), np.empty(0), np.empty(0)
        self._later: FilterMoments | None = None

    def back(self, stretch: FilterMoments) -> tuple[Array, Array, Array]:
        """Means (m, n, N), covariances (m, n, n, N) and paths (m, n, D) of a stretch of samples.

        The first stretch it is given is the last of the record; each other one ends where the
        one before began.
        """
        mean, covariance = stretch.mean.copy(), stretch.covariance.copy()
        gain, whitened = self._gains(stretch)
        path = self._noisy(stretch, whitened)
        chosen = gain[..., self._lanes]
        for k in reversed(range(len(mean))):
            if k + 1 < len(mean):
                after = mean[k + 1], covariance[k + 1], path[k + 1]
                expected = stretch.predicted[k + 1], stretch.predicted_covariance[k + 1]
            elif self._later is not None:
                after = self._mean, self._covariance, self._path
                expected = self._later.predicted[0], self._later.predicted_covariance[0]
            else:
                continue
            mean[k] += _applied(gain[k], after[0] - expected[0])
            change = np.einsum("ijn,jkn->ikn", gain[k], after[1] - expected[1])
            covariance[k] += np.einsum("ikn,jkn->ijn", change, gain[k])
            if len(self._lanes):
                path[k] += _applied(chosen[k], after[2] - expected[0][:, self._lanes])
        self._mean, self._covariance, self._path = mean[0], covariance[0], path[0]
        self._later = stretch
        return mean, covariance, path

    def _gains(self, stretch: FilterMoments) -> tuple[Array, Array]:
        """G and C L^-T, with L L' = P^-, from each sample to the one after; zero from the last."""
        ahead, moved = stretch.predicted_covariance[1:], stretch.moved[1:]
        if self._later is not None:
            ahead = np.concatenate([ahead, self._later.predicted_covariance[:1]])
            moved = np.concatenate([moved, self._later.moved[:1]])
        known = len(ahead)
        gain, whitened = np.zeros_like(stretch.covariance), np.zeros_like(stretch.covariance)
        cross = np.einsum("tijn,tkjn->tikn", stretch.covariance[:known], moved)
        gain[:known], whitened[:known] = _gain(ahead, cross)
        return gain, whitened

    def _noisy(self, stretch: FilterMoments, whitened: Array) -> Array:
        """Filtered means with what is random of a path at each sample, given the one after."""
        z = self._rng.standard_normal((*stretch.mean.shape[:2], len(self._lanes)))
        whitened, covariance = whitened[..., self._lanes], stretch.covariance[..., self._lanes]
        left = covariance - np.einsum("tikn,tjkn->tijn", whitened, whitened)
        noise = np.einsum("tijd,tjd->tid", _factor(left, covariance), z)
        return stretch.mean[:, :, self._lanes] + noise


def _applied(matrix: Array, vector: Array) -> Array:
    return np.einsum("ijn,jn->in", matrix, vector)


def _gain(covariance: Array, cross: Array) -> tuple[Array, Array]:
    """C P^-1 and C L^-T with P = L L', for P (m, n, n, N) and C."""
    n, lower = covariance.shape[1], _factor(covariance, covariance)
    pivots = np.stack([lower[:, i, i] for i in range(n)])
    with np.errstate(divide="ignore"):
        inverse = np.where(pivots > 0.0, 1.0 / pivots, 0.0)
    whitened, gain = cross.copy(), np.empty_like(cross)
    for j in range(n):
        for k in range(j):
            whitened[:, :, j] -= whitened[:, :, k] * lower[:, j, k, None]
        whitened[:, :, j] *= inverse[j][:, None]
    for j in reversed(range(n)):
        gain[:, :, j] = whitened[:, :, j]
        for k in range(j + 1, n):
            gain[:, :, j] -= gain[:, :, k] * lower[:, k, j, None]
        gain[:, :, j] *= inverse[j][:, None]
    return gain, whitened


def _factor(matrix: Array, scale: Array) -> Array:
    """Cholesky factors of (m, n, n, N); states without variance have rows of zeros on the diagonal.

    ``scale`` has on its diagonal what a pivot is to be compared with.
    """
    n, lower = matrix.shape[1], np.zeros_like(matrix)
    for j in range(n):
        rest = matrix[:, j:, j] - np.einsum("tikn,tkn->tin", lower[:, j:, :j], lower[:, j, :j])
        pivot = np.where(rest[:, 0] > SINGULAR * scale[:, j, j], rest[:, 0], 0.0)
        root = np.sqrt(pivot)
        with np.errstate(divide="ignore", invalid="ignore"):
            lower[:, j:, j] = np.where(pivot > 0.0, 1.0, 0.0)[:, None] * rest / root[:, None]
        lower[:, j:, j] = np.where(pivot[:, None] > 0.0, lower[:, j:, j], 0.0)
    return lower
