"""The density that particles follow at a moment of the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from smcpn.likelihood.contract import Likelihood
from smcpn.model.prior import Prior
from smcpn.smc.particles import ParticleSystem

Array = NDArray[np.float64]


class Start(Protocol):
    """A normalised density of unconstrained coordinates: the prior, or one near the posterior."""

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Draw ``size`` vectors, (size, d)."""
        ...

    def log_density(self, theta: Array) -> Array:
        """Log density at (n, d), shape (n,)."""
        ...


@dataclass(frozen=True)
class Target:
    """prior x p(y_<t | theta) x p(y_t | y_<t, theta)^exponent, in unconstrained coordinates.

    Attributes
    ----------
    sample : int
        Number of samples assimilated whole; the pending sample, where there is one.
    exponent : float
        How much of the pending sample counts, 0 to 1.
    """

    prior: Prior
    likelihood: Likelihood
    sample: int
    exponent: float

    @property
    def n_samples(self) -> int:
        """Samples that an evaluation weighs."""
        return self.sample + 1

    def evaluate(self, theta: Array) -> ParticleSystem:
        """Browse the past for new parameters, (n, d), and return them with all they need."""
        values = self.prior.natural(theta)
        state, log_likelihood = self.likelihood.evaluate(values, self.sample)
        state, increments = self.likelihood.advance(values, state, self.sample, self.sample + 1)
        n = len(theta)
        return ParticleSystem(
            theta=theta,
            log_weights=np.zeros(n),
            log_prior=self.prior.log_density(theta),
            log_likelihood=finite_or_excluded(log_likelihood),
            pending=finite_or_excluded(increments[0]),
            state=state,
            ancestor=np.zeros(n, dtype=np.int64),
            family=np.zeros(n, dtype=np.int64),
        )

    def log_density(self, system: ParticleSystem) -> Array:
        """Unnormalised log density of the particles, (N,)."""
        return system.log_prior + system.log_likelihood + tempered(system.pending, self.exponent)


@dataclass(frozen=True)
class RecordTarget(Target):
    """start x (prior x p(y_0, ..., y_T-1 | theta) / start)^exponent: the record is pending.

    From the prior that is prior x p(y | theta)^exponent. From another start the prior is pending
    too, and the ratio of the normalisers at exponents 1 and 0 is the evidence all the same.

    Attributes
    ----------
    start : Start, optional
        The density at exponent 0; the prior, where there is none.
    """

    start: Start | None = None

    @property
    def n_samples(self) -> int:
        """Samples that an evaluation weighs."""
        return self.likelihood.n_samples

    def evaluate(self, theta: Array) -> ParticleSystem:
        """Browse the record for new parameters, (n, d)."""
        state, log_likelihood = self.likelihood.evaluate(self.prior.natural(theta), self.n_samples)
        n = len(theta)
        begin, pending = self.parts(theta, log_likelihood)
        return ParticleSystem(
            theta=theta,
            log_weights=np.zeros(n),
            log_prior=begin,
            log_likelihood=np.zeros(n),
            pending=pending,
            state=state,
            ancestor=np.zeros(n, dtype=np.int64),
            family=np.zeros(n, dtype=np.int64),
        )

    def parts(self, theta: Array, log_likelihood: Array) -> tuple[Array, Array]:
        """Log density at exponent 0, and what is pending, of parameters (n, d)."""
        log_prior = self.prior.log_density(theta)
        if self.start is None:
            return log_prior, finite_or_excluded(log_likelihood)
        begin = self.start.log_density(theta)
        return begin, finite_or_excluded(log_likelihood + log_prior - begin)


def finite_or_excluded(log_density: Array) -> Array:
    """A diverged solution (NaN, inf) has probability zero."""
    return np.where(np.isfinite(log_density), log_density, -np.inf)


def tempered(log_density: Array, exponent: float) -> Array:
    """``exponent * log_density``, where excluded stays excluded at any exponent."""
    excluded = log_density == -np.inf
    return np.where(excluded, -np.inf, exponent * np.where(excluded, 0.0, log_density))
