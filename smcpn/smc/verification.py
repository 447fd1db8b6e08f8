"""Test of stored particles, of which some at random are computed again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smcpn.smc.sampler import Sampler

Array = NDArray[np.float64]

SHARE, LEAST = 0.05, 32
"""Particles that are evaluated again: this share of them, and at least this many."""
AGREEMENT = 1e-6
"""Relative difference of a number that other hardware may cause."""
ROUNDING = 1e-12
"""Difference of a state from the largest that is rounding, whatever its own size."""


def drawn_again(log_weights: Array) -> NDArray[np.int64]:
    """Draw particles to be evaluated again, of those with a weight.

    They are drawn by the system's entropy: nobody who wrote the file can know which.
    """
    alive = np.flatnonzero(np.isfinite(log_weights))
    size = min(len(alive), max(LEAST, round(SHARE * len(log_weights))))
    return np.random.default_rng().choice(alive, size, replace=False) if size else alive


def is_consistent(sampler: Sampler) -> bool:
    """True if log-prior, log-likelihood, its increment and state follow from the parameters.

    The run goes on to the same bytes, for its generator draws none of the particles.
    """
    some = drawn_again(sampler.system.log_weights)
    if not len(some):
        return False
    stored = sampler.system.take(some)
    state, log_likelihood, log_increment = sampler.recomputed(some)
    on_the_way = sampler.settings.start is not None and sampler.sample == 0
    begin = sampler.settings.start if on_the_way else sampler.prior
    assert begin is not None
    return (
        near(begin.log_density(stored.theta), stored.log_prior)
        and near(log_likelihood, stored.log_likelihood)
        and near(log_increment, stored.log_increment)
        and state.shape == stored.state.shape
        # A stream's state before its first sample is not known.
        and (sampler.sample == 0 or _near_states(state, stored.state))
    )


def is_of_size(sampler: Sampler) -> bool:
    """True if the state has the size that the likelihood gives it."""
    state, _, _ = sampler.recomputed(slice(0, 1))
    return sampler.system.state.shape == (len(state), len(sampler.system))


def near(ours: Array, theirs: Array) -> bool:
    """True if numbers agree, but for what other hardware may cause."""
    with np.errstate(invalid="ignore"):
        near = np.abs(ours - theirs) <= AGREEMENT * (1.0 + np.abs(theirs))
    # An infinite one would be within an infinite distance of any.
    near &= np.isfinite(ours) & np.isfinite(theirs)
    return bool(np.all(near | (ours == theirs)))


def _near_states(ours: Array, theirs: Array) -> bool:
    """True if states (k, n) agree, each component measured by its own size over the particles."""
    if not ours.size:
        return True
    with np.errstate(invalid="ignore"):
        sizes = np.where(np.isfinite(ours), np.abs(ours), 0.0).max(axis=1, keepdims=True)
        near = np.abs(ours - theirs) <= AGREEMENT * sizes + ROUNDING * sizes.max()
    return bool(np.all(near | (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))))
