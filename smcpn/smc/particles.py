"""The particle system: everything that belongs to a particle, moved together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

# ---- Importance weights on the log scale.

Array = NDArray[np.float64]


def normalise(log_weights: Array) -> Array:
    """Weights that sum to one, (N,); all zero where every log-weight is -inf."""
    top = log_weights.max()
    if top == -np.inf:
        return np.zeros_like(log_weights)
    weights = np.exp(log_weights - top)
    return weights / weights.sum()


def log_mean_exp(log_weights: Array) -> Array:
    """Log of the mean of exp(log_weights) over the last axis; -inf where all are."""
    return ess_and_log_mean(log_weights)[1]


def effective_sample_size(log_weights: Array) -> Array:
    """(sum w)^2 / sum w^2 over the last axis (PN-SMC eq. 22); 0 where every weight is zero."""
    return ess_and_log_mean(log_weights)[0]


def ess_and_log_mean(log_weights: Array) -> tuple[Array, Array]:
    """`effective_sample_size` and `log_mean_exp`, with one exponential for both."""
    top = log_weights.max(axis=-1, keepdims=True)
    top[~np.isfinite(top)] = 0.0
    weights = np.exp(log_weights - top)
    total = weights.sum(axis=-1)
    squares = np.einsum("...i,...i->...", weights, weights)
    with np.errstate(divide="ignore"):
        log_mean = np.log(total / log_weights.shape[-1]) + top[..., 0]
    return total**2 / np.where(squares > 0, squares, 1.0), log_mean


def accumulated(log_weights: Array, increments: Array) -> Array:
    """Log-weights (N,) before and after each of some increments (n, N), shape (n + 1, N).

    Added in the order of time, row by row: the rounding does not see in which blocks they come.
    `numpy.add.accumulate` adds the same column by column, which takes some thirty times as long.
    """
    weights = np.empty((len(increments) + 1, len(log_weights)))
    weights[0] = log_weights
    for before, increment, after in zip(weights[:-1], increments, weights[1:], strict=True):
        np.add(before, increment, out=after)
    return weights


@dataclass(frozen=True)
class ParticleSystem:
    """N weighted parameter vectors with all that depends on them.

    Attributes
    ----------
    theta : ndarray, (N, d)
        Parameters in unconstrained coordinates.
    log_weights : ndarray, (N,)
        Unnormalised log importance weights.
    log_prior : ndarray, (N,)
        Log prior density of theta, log-Jacobian included; on a path that begins at another
        density, that one's until the end.
    log_likelihood : ndarray, (N,)
        Of the samples that are assimilated whole.
    pending : ndarray, (N,)
        Log-density of the next sample, while it is being assimilated by parts; 0 otherwise.
    state : ndarray, (k, N)
        Solver state, at the pending sample if there is one.
    ancestor : ndarray, (N,)
        Index of the ancestor at the start of the run.
    family : ndarray, (N,)
        The same since the evidence was last estimated independently of the ancestry.
    """

    theta: Array
    log_weights: Array
    log_prior: Array
    log_likelihood: Array
    pending: Array
    state: Array
    ancestor: NDArray[np.int64]
    family: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.theta)

    @property
    def weights(self) -> Array:
        """Normalised weights, (N,)."""
        return normalise(self.log_weights)

    @property
    def ess(self) -> float:
        """Effective sample size."""
        return float(effective_sample_size(self.log_weights))

    def take(self, index: Any) -> ParticleSystem:
        """Select particles by index, slice or mask, in that order."""
        return ParticleSystem(
            theta=self.theta[index],
            log_weights=self.log_weights[index],
            log_prior=self.log_prior[index],
            log_likelihood=self.log_likelihood[index],
            pending=self.pending[index],
            state=self.state[:, index],
            ancestor=self.ancestor[index],
            family=self.family[index],
        )

    @staticmethod
    def concatenate(systems: Sequence[ParticleSystem]) -> ParticleSystem:
        """All particles of several systems, in order."""
        return ParticleSystem(
            theta=np.concatenate([s.theta for s in systems]),
            log_weights=np.concatenate([s.log_weights for s in systems]),
            log_prior=np.concatenate([s.log_prior for s in systems]),
            log_likelihood=np.concatenate([s.log_likelihood for s in systems]),
            pending=np.concatenate([s.pending for s in systems]),
            state=np.concatenate([s.state for s in systems], axis=1),
            ancestor=np.concatenate([s.ancestor for s in systems]),
            family=np.concatenate([s.family for s in systems]),
        )

    def where(self, mask: NDArray[np.bool_], other: ParticleSystem) -> ParticleSystem:
        """Particles of ``other`` where ``mask`` holds; weights and ancestry stay with the place."""
        return replace(
            self,
            theta=np.where(mask[:, None], other.theta, self.theta),
            log_prior=np.where(mask, other.log_prior, self.log_prior),
            log_likelihood=np.where(mask, other.log_likelihood, self.log_likelihood),
            pending=np.where(mask, other.pending, self.pending),
            state=np.where(mask, other.state, self.state),
        )
