"""What the particle filter of one theta has seen of the states, sample by sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smcpn.likelihood.particle.guide import Guide
from smcpn.likelihood.particle.kernel import Kept

Array = NDArray[np.float64]


@dataclass(frozen=True)
class History:
    """Particles of one theta at T samples of a record.

    With the weights of `weights`, the particles of a sample are distributed as the state given the
    samples up to it; those of a filter that looks ahead lie where later samples have the state, so
    that a bootstrap filter serves better here. A path drawn by `draw` is one given all samples,
    and there it is the filter that looks ahead, which resamples seldom, that has many of them.

    Attributes
    ----------
    states : ndarray, (T, n, N_x)
        Before resampling.
    log_weights : ndarray, (T, N_x)
        Of the states given the samples so far, not normalised.
    twisted_log_weights : ndarray, (T, N_x)
        Of the filter itself, which looks ahead: those by which it resamples.
    ancestors : ndarray of int, (T, N_x)
        Particle of a sample that the i-th one of the next sample descends from.
    log_evidence : float
    guided : bool
        Whether the filter looked ahead, or was a bootstrap filter.
    """

    states: Array
    log_weights: Array
    twisted_log_weights: Array
    ancestors: NDArray[np.int64]
    log_evidence: float
    guided: bool

    @classmethod
    def of(cls, kept: Kept, guide: Guide, log_evidence: float, guided: bool) -> History:
        """Take the look-ahead functions out of the weights of a filter."""
        n = guide.n
        states, log_weights = kept.states[:, :n], kept.states[:, n]
        path, information, slope = guide.look_after(kept.looks)
        away = states - path[:, :, None]
        ahead = np.einsum("ti,tin->tn", slope, away)
        ahead -= 0.5 * np.einsum("tin,tij,tjn->tn", away, information, away)
        return cls(states, log_weights - ahead, log_weights, kept.ancestors, log_evidence, guided)

    @property
    def weights(self) -> Array:
        """Normalised weights of the states given the samples so far, (T, N_x)."""
        return _normalised(self.log_weights)

    def filtered(self) -> tuple[Array, Array]:
        """Mean (T, n) and covariance (T, n, n) of the state given the samples up to its own."""
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
