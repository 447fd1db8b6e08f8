"""A population whose weights change sample by sample, in one compiled call each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.update import Population, Update
from smcpn.likelihood.growing import GrowingLikelihood
from smcpn.model.prior import Prior
from smcpn.smc.particles import ParticleSystem

Array = NDArray[np.float64]


class Reweighted:
    """A particle system, whose weights and states are those that an `Update` left.

    Parameters
    ----------
    base : ParticleSystem
        Its parameters and all that does not change from sample to sample.
    population : Population, optional
        Of later samples than ``base``.
    """

    __slots__ = ("base", "population")

    def __init__(self, base: ParticleSystem, population: Population | None = None) -> None:
        self.base, self.population = base, population

    @property
    def system(self) -> ParticleSystem:
        """The particles with all that belongs to them."""
        population = self.population
        if population is None:
            return self.base
        return replace(
            self.base,
            log_weights=population.log_weights,
            log_likelihood=population.log_likelihood,
            state=population.state,
        )


class Reweighting:
    """Multiplies the weights of a population by the likelihood of one sample after the other.

    What does not change from sample to sample is prepared once.
    """

    def __init__(self, prior: Prior, likelihood: GrowingLikelihood) -> None:
        self._prior, self._likelihood = prior, likelihood
        self._theta, self._columns = np.empty(0), np.empty(0)
        self._update: Update | None = None

    def __call__(self, particles: Reweighted, sample: int) -> Population:
        """Assimilate a sample: the arithmetic of `Ibis` for a block of one."""
        base, before = particles.base, particles.population
        update = self._prepared(base.theta, sample)
        if before is None:
            before = update.population(base.state, base.log_weights, base.log_likelihood)
        return update(before, sample)

    def state_mean(self, particles: Reweighted, sample: int) -> Array:
        """Posterior mean of the states at the sample that was assimilated last, (n,)."""
        update, system = self._prepared(particles.base.theta, sample), particles.system
        if particles.population is not None and particles.population is update.latest:
            states = update.moments[2 * self._likelihood.history.n_outputs :]
        else:
            states = self._likelihood.states(self._columns, system.state, sample)
        weights = system.weights
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
