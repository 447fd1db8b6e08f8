"""Importance weights on the log scale."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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
