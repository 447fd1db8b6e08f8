"""A population whose weights change sample by sample, in one compiled call each."""

from __future__ import annotations

from dataclasses import replace

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

    def states(self, n_outputs: int) -> tuple[Array, Array] | None:
        """States of the model (n, N) and weights (N,), where the last sample was an update."""
        if self._update is None or self._population is None:
            return None
        moments = self._update.moments(self._population)
        return moments[2 * n_outputs :], self._update.weights(self._population)


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

    def state_mean(self, particles: Reweighted, sample: int) -> Array:
        """Posterior mean of the states at the sample that was assimilated last, (n,)."""
        known = particles.states(self._likelihood.history.n_outputs)
        if known is None:
            self._prepared(particles.theta, sample)
            system = particles.system
            known = self._likelihood.states(self._columns, system.state, sample), system.weights
        states, weights = known
        weights = weights / weights.sum()
        mean = states @ weights
        return mean if np.isfinite(mean).all() else np.nan_to_num(states) @ weights

    def _prepared(self, theta: Array, sample: int) -> Update:
        """What assimilates a sample, for parameters in unconstrained coordinates."""
        update = self._update
        if update is None or theta is not self._theta or sample not in update.samples:
            if theta is not self._theta:
                self._theta = theta
                self._columns = self._likelihood.columns(self._prior.natural(theta))
            self._update = update = self._likelihood.update(self._columns, sample)
        return update
