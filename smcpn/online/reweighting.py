"""A population whose weights change sample by sample: in one compiled call each, or by filters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.stream_step import Population
from smcpn.likelihood.contract import Keys
from smcpn.likelihood.growing import StreamLikelihood
from smcpn.likelihood.particle.stream import EstimatedPopulation, StreamEstimate
from smcpn.model.prior import Prior
from smcpn.smc.particles import ParticleSystem

Array = NDArray[np.float64]

AnyLikelihood = StreamLikelihood | StreamEstimate
"""What follows a stream: exact on lane kernels, or estimated by particle filters with keys."""
AnyPopulation = Population | EstimatedPopulation


class Forecast(NamedTuple):
    """Innovation (q,) and prediction (2, q) of a sample, named as of a `Population`."""

    innovation: Array
    prediction: Array


AnyForecast = AnyPopulation | Forecast


class Assimilating(Protocol):
    """Protocol of an update: assimilate samples of a stream one by one into a population.

    `Update` does it with exact likelihoods, `EstimateUpdate` with particle filters.
    """

    samples: range
    moments: Array

    @property
    def latest(self) -> Any:
        """The population that `moments` belong to, if any."""
        ...

    def population(self, state: Array, log_weights: Array, log_likelihood: Array) -> Any:
        """Return a population, of states (k, N) and of what each particle has, (N,)."""
        ...

    def __call__(self, before: Any, sample: int) -> Any:
        """Assimilate a sample."""
        ...


class ReweightedParticles:
    """A particle system, whose weights and states are those that an update left.

    The base has parameters and all that does not change from sample to sample; the population may
    be of later samples.
    """

    __slots__ = ("base", "population")

    def __init__(self, base: ParticleSystem, population: AnyPopulation | None = None) -> None:
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

    def with_keys(self, keys: Keys) -> ReweightedParticles:
        """Particles with further keys of random numbers."""
        return (
            self if keys is self.base.keys else ReweightedParticles(replace(self.system, keys=keys))
        )


class HiddenStates(NamedTuple):
    """States of the model at a sample, given it and those before, for every particle.

    mean: (n, N)
    variance: (n, N), or (0, N)
    weights: (N,), normalised.
    """

    mean: Array
    variance: Array
    weights: Array

    @classmethod
    def of(cls, likelihood: AnyLikelihood, moments: Array, weights: Array) -> HiddenStates:
        """The states among the moments of a likelihood's kernel, (m, N)."""
        first = 2 * likelihood.n_outputs
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

    def __init__(self, prior: Prior, likelihood: AnyLikelihood) -> None:
        self._prior, self._likelihood = prior, likelihood
        self._theta, self._keys, self._columns = np.empty(0), np.empty(0), np.empty(0)
        self._update: Assimilating | None = None

    def __call__(self, particles: ReweightedParticles, sample: int) -> AnyPopulation:
        """Assimilate a sample: the arithmetic of `Ibis` for a block of one."""
        base, before, update = particles.base, particles.population, self._update
        if update is None or self._changed(base) or sample not in update.samples:
            update = self._prepared(base, sample)
        if before is None:
            before = update.population(base.state, base.log_weights, base.log_likelihood)
        return update(before, sample)

    def states(self, particles: ReweightedParticles, sample: int) -> HiddenStates:
        """States at the sample that was assimilated last."""
        update, system = self._prepared(particles.base, sample), particles.system
        if particles.population is not None and particles.population is update.latest:
            return HiddenStates.of(self._likelihood, update.moments, system.weights)
        moments = self._likelihood.moments(self._columns, system.state, sample)
        return HiddenStates.of(self._likelihood, moments, system.weights)

    def _prepared(self, base: ParticleSystem, sample: int) -> Assimilating:
        """Kernel that assimilates a sample, for the parameters and keys of a system."""
        update, theta, keys = self._update, base.theta, base.keys
        if update is None or self._changed(base) or sample not in update.samples:
            if update is None or self._changed(base):
                self._theta, self._keys = theta, keys
                self._columns = self._likelihood.columns(self._prior.natural(theta))
            self._update = update = self._likelihood.update(self._columns, sample, keys)
        return update

    def _changed(self, base: ParticleSystem) -> bool:
        return base.theta is not self._theta or base.keys is not self._keys
