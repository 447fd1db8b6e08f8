"""A population whose weights change sample by sample, in one compiled call each."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.update import Update
from smcpn.likelihood.growing import GrowingLikelihood
from smcpn.model.prior import Prior
from smcpn.smc.particles import ParticleSystem

Array = NDArray[np.float64]


class Reweighted:
    """A particle system, of which weights and states are known as an `Update` left them.

    Parameters
    ----------
    base : ParticleSystem
        Its parameters and all that does not change from sample to sample.
    update : Update, optional
    population : ndarray, optional
        Made by it, of later samples than ``base``.
    """

    __slots__ = ("_base", "_population", "_update")

    def __init__(
        self, base: ParticleSystem, update: Update | None = None, population: Array | None = None
    ) -> None:
        self._base, self._update, self._population = base, update, population

    @property
    def system(self) -> ParticleSystem:
        """The particles with all that belongs to them."""
        update, population = self._update, self._population
        if update is None or population is None:
            return self._base
        return replace(
            self._base,
            log_weights=update.log_weights(population),
            log_likelihood=update.log_likelihood(population),
            state=update.state(population),
        )

    @property
    def theta(self) -> Array:
        """Parameters in unconstrained coordinates, (N, d)."""
        return self._base.theta

    def taken_by(self, update: Update) -> Array:
        """The population as another update takes it."""
        if self._population is not None:
            return self._population
        base = self._base
        return update.population(base.state, base.log_weights, base.log_likelihood)

    def followed_by(self, update: Update, population: Array) -> Reweighted:
        """The same particles after a later sample."""
        return Reweighted(self._base, update, population)

    def moments(self) -> tuple[Array, Array] | None:
        """Moments (m, N) and weights (N,), where the last sample was an update."""
        if self._update is None or self._population is None:
            return None
        return self._update.moments(self._population), self._update.weights(self._population)


class HiddenStates(NamedTuple):
    """States of the model at a sample, given it and those before, for every particle.

    Attributes
    ----------
    mean : ndarray, (n, N)
    variance : ndarray, (n, N), or (0, N) without process noise
    weights : ndarray, (N,)
        Normalised.
    """

    mean: Array
    variance: Array
    weights: Array

    def mixture(self) -> tuple[Array, Array]:
        """Mean and standard deviation of each state over the particles, (n,) each."""
        mean = _weighted(self.mean, self.weights)
        spread = np.square(self.mean - mean[:, None])
        if len(self.variance):
            spread += self.variance
        return mean, np.sqrt(_weighted(spread, self.weights))


def _weighted(values: Array, weights: Array) -> Array:
    """Weighted mean of (n, N); a particle without weight may be no number."""
    mean = values @ weights
    return mean if np.isfinite(mean).all() else np.nan_to_num(values) @ weights


class Reweighting:
    """Multiplies the weights of a population by the likelihood of one sample after the other.

    What does not change from sample to sample is prepared once.
    """

    def __init__(self, prior: Prior, likelihood: GrowingLikelihood) -> None:
        self._prior, self._likelihood = prior, likelihood
        self._theta, self._columns = np.empty(0), np.empty(0)
        self._update: Update | None = None

    def __call__(
        self, particles: Reweighted, sample: int
    ) -> tuple[Reweighted, float, float, Array]:
        """Assimilate a sample: the arithmetic of `Ibis` for a block of one.

        Returns
        -------
        particles : Reweighted
            log w + log p(y_k | y_<k, theta).
        ess : float
            Effective sample size after it.
        log_mean : float
            Log of the mean weight after it.
        innovation : ndarray, (q,)
            Measured minus predicted output in predictive standard deviations; nan where missing.
        """
        update = self._prepared(particles.theta, sample)
        population, summary = update(particles.taken_by(update), sample)
        ess, log_mean = summary[:2].tolist()
        return particles.followed_by(update, population), ess, log_mean, summary[2:]

    def states(self, particles: Reweighted, sample: int) -> HiddenStates:
        """States at the sample that was assimilated last."""
        known = particles.moments()
        if known is None:
            self._prepared(particles.theta, sample)
            system = particles.system
            known = self._likelihood.moments(self._columns, system.state, sample), system.weights
        moments, weights = known
        first = 2 * self._likelihood.history.n_outputs
        last = first + self._likelihood.n_states
        return HiddenStates(moments[first:last], moments[last:], weights / weights.sum())

    def _prepared(self, theta: Array, sample: int) -> Update:
        """What assimilates a sample, for parameters in unconstrained coordinates."""
        update = self._update
        if update is None or theta is not self._theta or sample not in update.samples:
            if theta is not self._theta:
                self._theta = theta
                self._columns = self._likelihood.columns(self._prior.natural(theta))
            self._update = update = self._likelihood.update(self._columns, sample)
        return update
