"""Metropolis kernels: how a population moves while its target stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from smcpn.smc.particles import ParticleSystem
from smcpn.smc.proposals import Proposal, weighted_moments
from smcpn.smc.target import Target

Array = NDArray[np.float64]

OPTIMAL_SCALE = 2.38
"""Step of a random walk in posterior standard deviations, times sqrt(d)."""

TRUSTED_BY_WALK = 2.0
"""Effective particles per dimension below which a walk shrinks correlations: its steps need not
cover the target, and on a narrow ridge they must not leave it."""


@dataclass(frozen=True)
class Move:
    """The population after one move of every particle.

    Attributes
    ----------
    system : ParticleSystem
    accepted : int
        Particles that moved.
    diverged : int
        Proposals whose solution was NaN or infinite.
    log_ratio : ndarray, (N,), optional
        log pi - log q of the proposals where these are independent of the particles: their mean
        on the natural scale estimates the evidence.
    """

    system: ParticleSystem
    accepted: int
    diverged: int
    log_ratio: Array | None = None


class Kernel(Protocol):
    """Moves that leave a target invariant."""

    @property
    def name(self) -> str:
        """What a record of a rejuvenation calls it."""
        ...

    def moves(
        self, system: ParticleSystem, target: Target, rng: np.random.Generator, count: int
    ) -> Iterator[Move]:
        """Move an equally weighted population ``count`` times; yield it after each move."""
        ...


KernelFit = Callable[[Array, Array], Kernel]
"""From weighted particles, (N, d) and (N,), to a kernel."""


@dataclass(frozen=True)
class IndependentKernel:
    """Independent Metropolis-Hastings.

    The acceptance ratio holds the proposal's density, which PN-SMC (25) omits:
    log alpha = [log pi(t') - log q(t')] - [log pi(t) - log q(t)].

    All proposals of a round of moves are known before any is accepted, so their past is browsed
    in one call.
    """

    proposal: Proposal

    @property
    def name(self) -> str:
        """That of the proposal."""
        return self.proposal.name

    def moves(
        self, system: ParticleSystem, target: Target, rng: np.random.Generator, count: int
    ) -> Iterator[Move]:
        """See `Kernel.moves`."""
        n = len(system)
        ratio = target.log_density(system) - self.proposal.log_density(system.theta)
        proposed = target.evaluate(self.proposal.sample(rng, count * n))
        proposed_ratio = target.log_density(proposed) - self.proposal.log_density(proposed.theta)
        log_uniform = np.log1p(-rng.random((count, n)))
        for k in range(count):
            part = slice(k * n, (k + 1) * n)
            accept = log_uniform[k] < proposed_ratio[part] - ratio
            system = system.where(accept, proposed.take(part))
            ratio = np.where(accept, proposed_ratio[part], ratio)
            log_ratio = proposed_ratio[part]
            yield Move(system, int(accept.sum()), _diverged(log_ratio), log_ratio)


@dataclass(frozen=True)
class RandomWalkKernel:
    """Random-walk Metropolis with Gaussian steps of 2.38 / sqrt(d) standard deviations.

    Each move needs the one before, so each browses its own proposals.

    References
    ----------
    Roberts, G. O., Rosenthal, J. S. (2001). Optimal scaling for various Metropolis-Hastings
    algorithms. Statistical Science 16.

    Attributes
    ----------
    factor : ndarray, (d, d)
        Lower Cholesky factor of the covariance of a step.
    """

    factor: Array

    @classmethod
    def fit(cls, theta: Array, weights: Array) -> Self:
        """Scale the covariance of weighted particles, (N, d) and (N,)."""
        _, factor = weighted_moments(theta, weights, TRUSTED_BY_WALK)
        return cls(OPTIMAL_SCALE / np.sqrt(theta.shape[1]) * factor)

    @property
    def name(self) -> str:
        """See `Kernel.name`."""
        return "random walk"

    def moves(
        self, system: ParticleSystem, target: Target, rng: np.random.Generator, count: int
    ) -> Iterator[Move]:
        """See `Kernel.moves`."""
        density = target.log_density(system)
        for _ in range(count):
            steps = rng.standard_normal(system.theta.shape) @ self.factor.T
            proposed = target.evaluate(system.theta + steps)
            proposed_density = target.log_density(proposed)
            accept = np.log1p(-rng.random(len(system))) < proposed_density - density
            system = system.where(accept, proposed)
            density = np.where(accept, proposed_density, density)
            yield Move(system, int(accept.sum()), _diverged(proposed_density))


def _diverged(log_density: Array) -> int:
    return int(np.count_nonzero(log_density == -np.inf))
