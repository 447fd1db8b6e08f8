"""What the outputs will be, given inputs to come."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smcpn.likelihood.growing import GrowingLikelihood
from smcpn.simulation.particles import TWO_SIDED_95

Array = NDArray[np.float64]

BLOCK = 256
"""Samples of which the outputs of all particles are held at a time."""


@dataclass(frozen=True)
class Prediction:
    """Outputs to come.

    Attributes
    ----------
    t : ndarray, (m,)
    mean : ndarray, (m, q)
    sd : ndarray, (m, q)
        Of a measurement: parameters, solver and noise together.
    """

    t: Array
    mean: Array
    sd: Array

    def last(self, m: int) -> Prediction:
        """Of the last m samples."""
        return Prediction(self.t[-m:], self.mean[-m:], self.sd[-m:])

    @property
    def lower(self) -> Array:
        """Lower end of the 95 % band, (m, q)."""
        return self.mean - TWO_SIDED_95 * self.sd

    @property
    def upper(self) -> Array:
        """Upper end of the 95 % band, (m, q)."""
        return self.mean + TWO_SIDED_95 * self.sd


def predicted(
    likelihood: GrowingLikelihood,
    values: Array,
    weights: Array,
    state: Array,
    sample: int,
    t: Array,
    u: Array,
) -> Prediction:
    """Predict the outputs after the first ``sample`` samples.

    Parameters
    ----------
    values, weights, state : ndarray, (N, d), (N,), (k, N)
        Population at the last of them.
    t, u : ndarray, (m,), (m, n)
        Times and inputs to come.
    """
    theta, parts = np.ascontiguousarray(values.T), []
    alive = weights > 0
    for rows, first, last in likelihood.ahead(sample, t, u, BLOCK):
        state, emitted, _ = likelihood.predictive.advance(theta, state, rows, first, last, True)
        q = emitted.shape[1] // 2
        emitted = np.where(alive, emitted, 0.0)
        mean = emitted[:, :q] @ weights
        spread = np.square(emitted[:, :q] - mean[..., None]) + emitted[:, q:]
        parts.append(np.stack([mean, np.sqrt(spread @ weights)]))
    mean, sd = np.concatenate(parts, axis=1)
    return Prediction(t, mean, sd)
