"""States of a record by particle filters, one for each parameter vector of a posterior.

Smoothed states are the paths of a filter: the ancestors of each particle of the last sample, with
its weight. A filter that looks ahead resamples seldom and has many different ones; where one has
resampled often they share their beginnings, and it is the filters of the other parameter vectors
that tell how far a state is known there. No density of a step is needed, which noise on some states
only does not have. A path and the parameters of its filter are together what particle MCMC is exact
for (Andrieu, Doucet and Holenstein 2010, theorem 4).

The states given the samples up to each one are those of bootstrap filters, whose particles have not
seen the later ones.

References
----------
Andrieu, C., Doucet, A., Holenstein, R. (2010). Particle Markov chain Monte Carlo methods. JRSS B
72.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from smcpn.likelihood.contract import Keys
from smcpn.likelihood.particle.history import History
from smcpn.likelihood.particle.likelihood import ParticleLikelihood

Array = NDArray[np.float64]

STATE_PARTICLES = 64
"""Of each filter that looks ahead, at least."""
FILTER_PARTICLES = 256
"""Of each bootstrap filter, at least."""
GATHERED = 4096
"""Samples of the paths of a filter that are put together at a time."""


class PathMoments:
    """Moments of the smoothed states over filters, and drawn paths.

    Parameters
    ----------
    samples, n : int
        Samples of the record, and states.
    """

    def __init__(self, samples: int, n: int) -> None:
        self._count = 0
        self._within = np.zeros((samples, n))
        self._mean, self._between = np.zeros((samples, n)), np.zeros((samples, n))

    def add(self, history: History, rng: np.random.Generator, draws: int) -> Array:
        """Count the paths of a filter, and draw some of them, (draws, T, n)."""
        self._count += 1
        last = history.log_weights[-1]
        weights = np.exp(last - last.max())
        weights /= weights.sum()
        chosen = rng.choice(len(weights), size=draws, p=weights)
        drawn = np.empty((draws, *self._mean.shape))
        for a, paths in _paths(history):
            here = slice(a, a + len(paths))
            mean = paths @ weights
            self._within[here] += np.square(paths - mean[..., None]) @ weights
            change = mean - self._mean[here]
            self._mean[here] += change / self._count
            self._between[here] += change * (mean - self._mean[here])
            drawn[:, here] = np.moveaxis(paths[..., chosen], -1, 0)
        return drawn

    @property
    def mean(self) -> Array:
        """Mean over all filters, (T, n)."""
        return self._mean

    @property
    def sd(self) -> Array:
        """Standard deviation, (T, n)."""
        return np.sqrt((self._within + self._between) / self._count)


def _paths(history: History) -> Iterator[tuple[int, Array]]:
    """Yield the first sample and the states (m, n, N_x) of the paths, the last samples first."""
    samples, _, count = history.states.shape
    place = np.arange(count)
    for b in range(samples, 0, -GATHERED):
        a = max(0, b - GATHERED)
        places = np.empty((b - a, count), dtype=np.int64)
        for k in range(b - 1, a - 1, -1):
            if k < samples - 1:
                place = history.ancestors[k][place]
            places[k - a] = place
        yield a, np.take_along_axis(history.states[a:b], places[:, None, :], axis=2)


def filtered_moments(
    likelihood: ParticleLikelihood, values: Array, keys: Keys
) -> Iterator[tuple[Array, Array]]:
    """Yield, for each sample, means and variances (n, N) by the bootstrap filters of N vectors."""
    filters = likelihood.bootstrap()
    count, state = filters.state_particles, filters.start(values)
    for k in range(filters.n_samples):
        state, _ = filters.advance(values, state, k, k + 1, keys)
        particles = state[:-1].reshape(-1, count, len(values))
        states, log_weights = particles[:-1], particles[-1]
        weights = np.exp(log_weights - log_weights.max(axis=0))
        weights /= weights.sum(axis=0)
        mean = (states * weights).sum(axis=1)
        yield mean, (np.square(states - mean[:, None]) * weights).sum(axis=1)
