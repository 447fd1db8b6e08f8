"""States that the particle filter of one theta has seen, sample by sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smcpn.likelihood.particle.kernel import Kept

Array = NDArray[np.float64]


@dataclass(frozen=True)
class History:
    """Particles of one theta at T samples of a record.

    Those of a bootstrap filter are distributed, with the weights of `weights`, as the state given
    the samples up to their own. A filter that looks ahead weighs by the samples to come, too, until
    the last one. A path drawn by `draw` is one given all samples, and there it is the filter that
    looks ahead, which resamples seldom, that has many of them.

    Attributes
    ----------
    states : ndarray, (T, n, N_x)
        Before resampling.
    log_weights : ndarray, (T, N_x)
        Those by which the filter resamples, not normalised.
    ancestors : ndarray of int, (T, N_x)
        Particle of a sample that the i-th one of the next sample descends from.
    log_evidence : float
    guided : bool
        Whether the filter looked ahead, or was a bootstrap filter.
    """

    states: Array
    log_weights: Array
    ancestors: NDArray[np.int64]
    log_evidence: float
    guided: bool

    @classmethod
    def of(cls, kept: Kept, log_evidence: float, guided: bool) -> History:
        """Return what a filter has left."""
        states, log_weights = kept.states[:, :-1], kept.states[:, -1]
        return cls(states, log_weights, kept.ancestors, log_evidence, guided)

    @property
    def weights(self) -> Array:
        """Normalised weights, (T, N_x)."""
        return _normalised(self.log_weights)

    def filtered(self) -> tuple[Array, Array]:
        """Mean (T, n) and covariance (T, n, n) of the state under the weights."""
        weights = self.weights
        mean = np.einsum("tin,tn->ti", self.states, weights)
        away = self.states - mean[:, :, None]
        return mean, np.einsum("tin,tjn,tn->tij", away, away, weights)

    def draw(self, rng: np.random.Generator, size: int = 1) -> Array:
        """Paths of the state given all samples, (size, T, n): ancestors of particles of the last.

        Paths of one filter share their beginnings where it has resampled; those of many filters,
        one each, are independent.
        """
        place = rng.choice(self.states.shape[2], size=size, p=_normalised(self.log_weights[-1:])[0])
        paths = np.empty((size, *self.states.shape[:2]))
        for k in range(len(self.states) - 1, -1, -1):
            if k < len(self.states) - 1:
                place = self.ancestors[k, place]
            paths[:, k] = self.states[k][:, place].T
        return paths


def _normalised(log_weights: Array) -> Array:
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)
