"""A population whose weights change sample by sample, in one compiled call each."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

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

    @classmethod
    def of(cls, likelihood: GrowingLikelihood, moments: Array, weights: Array) -> HiddenStates:
        """The states among the moments of a likelihood's kernel, (m, N)."""
        first = 2 * likelihood.history.n_outputs
        last = first + likelihood.n_states
        return cls(moments[first:last], moments[last:], weights)

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

    def __call__(self, particles: Reweighted, sample: int) -> Population:
        """Assimilate a sample: the arithmetic of `Ibis` for a block of one."""
        base, before, update = particles.base, particles.population, self._update
        if update is None or base.theta is not self._theta or sample not in update.samples:
            update = self._prepared(base.theta, sample)
        if before is None:
            before = update.population(base.state, base.log_weights, base.log_likelihood)
        return update(before, sample)

    def states(self, particles: Reweighted, sample: int) -> HiddenStates:
        """States at the sample that was assimilated last."""
        update, system = self._prepared(particles.base.theta, sample), particles.system
        if particles.population is not None and particles.population is update.latest:
            return HiddenStates.of(self._likelihood, update.moments, system.weights)
        moments = self._likelihood.moments(self._columns, system.state, sample)
        return HiddenStates.of(self._likelihood, moments, system.weights)

    def _prepared(self, theta: Array, sample: int) -> Update:
        """What assimilates a sample, for parameters in unconstrained coordinates."""
        update = self._update
        if update is None or theta is not self._theta or sample not in update.samples:
            if theta is not self._theta:
                self._theta = theta
                self._columns = self._likelihood.columns(self._prior.natural(theta))
            self._update = update = self._likelihood.update(self._columns, sample)
        return update
