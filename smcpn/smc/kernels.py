"""Metropolis kernels: moves of a population that leave its target invariant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from smcpn.smc.estimation import fresh_keys, redrawn
from smcpn.smc.evidence import Drawn
from smcpn.smc.particles import ParticleSystem, Target
from smcpn.smc.proposals import CrossFitted, Proposal, weighted_moments
from smcpn.smc.straightening import StraightenedDensity, Straightening

Array = NDArray[np.float64]

OPTIMAL_SCALE = 2.38
"""Step of a random walk in posterior standard deviations, times sqrt(d)."""
MOST_PROPOSED = 2**18
"""Proposals of a round that are evaluated together; at least those of one move."""
TRUSTED_BY_WALK = 2.0
"""Effective particles per dimension below which a walk shrinks correlations: its steps need not
cover the target, and on a narrow ridge they must not leave it."""


@dataclass(frozen=True)
class Move:
    """The population after one move of every particle.

    accepted: Particles that moved.
    diverged: Proposals whose solution was NaN or infinite.
    drawn: The proposals, where these are independent of the particles: they estimate the evidence.
    """

    system: ParticleSystem
    accepted: int
    diverged: int
    drawn: Drawn | None = None


class Kernel(Protocol):
    """Moves that leave a target invariant."""

    @property
    def name(self) -> str:
        """Name in the record of a rejuvenation."""
        ...

    def moves(
        self, system: ParticleSystem, target: Target, rng: np.random.Generator, count: int
    ) -> Iterator[Move]:
        """Move an equally weighted population ``count`` times; yield it after each move."""
        ...


@dataclass(frozen=True)
class IndependentKernel:
    """Independent Metropolis-Hastings.

    The acceptance ratio holds the proposal's density, which PN-SMC (25) omits:
    log alpha = [log pi(t') - log q(t')] - [log pi(t) - log q(t)].

    All proposals of a round of moves are known before any is accepted, so they are evaluated in
    one call, or, where there are more than `MOST_PROPOSED`, in one for each few moves.

    Where the likelihood is an estimate with keys u, (t', u') is drawn from q(t') m(u'), m being
    uniform, and the target is pi(t, u) = p(t) Z(t, u) m(u): m cancels, and the same ratio leaves pi
    invariant (particle marginal Metropolis-Hastings, Andrieu, Doucet and Holenstein 2010).
    """

    proposal: Proposal | CrossFitted | StraightenedDensity

    @property
    def name(self) -> str:
        """Name of the proposal."""
        return self.proposal.name

    def moves(
        self, system: ParticleSystem, target: Target, rng: np.random.Generator, count: int
    ) -> Iterator[Move]:
        """Move an equally weighted population ``count`` times; yield it after each move."""
        n = len(system)
        ratio = target.log_density(system) - self.proposal.log_density(system.theta)
        theta = self.proposal.sample(rng, count * n)
        keys = fresh_keys(rng, count * n, system.keys.shape[1])
        log_uniform = np.log1p(-rng.random((count, n)))
        together = max(1, MOST_PROPOSED // n)
        for first in range(0, count, together):
            group = slice(first * n, min(first + together, count) * n)
            proposed = target.particles(theta[group], keys[group])
            proposed_ratio = target.log_density(proposed) - self.proposal.log_density(
                proposed.theta
            )
            for k in range(len(proposed) // n):
                part = slice(k * n, (k + 1) * n)
                log_ratio = proposed_ratio[part]
                accept = log_uniform[first + k] < log_ratio - ratio
                system = system.where(accept, proposed.take(part))
                ratio = np.where(accept, log_ratio, ratio)
                drawn = Drawn(self.proposal, proposed.theta[part], log_ratio)
                yield Move(system, int(accept.sum()), _diverged(log_ratio), drawn)


@dataclass(frozen=True)
class RandomWalkKernel:
    """Random-walk Metropolis with Gaussian steps of 2.38 / sqrt(d) standard deviations.

    Each move needs the one before, so each evaluates its own proposals.

    Where the likelihood is an estimate, the key of one block of samples is drawn anew with each
    step: the estimates at both ends share most of their random numbers, and their difference has
    about 1 / B of the variance. Drawing one of independent uniform keys anew is reversible with
    respect to their distribution, as the step is to the uniform one, so that the ratio of the
    targets alone leaves p(t) Z(t, u) m(u) invariant (block pseudo-marginal).

    References
    ----------
    Tran, M.-N., Kohn, R., Quiroz, M., Villani, M. (2016). The block pseudo-marginal sampler.
    arXiv:1603.02485.
    Roberts, G. O., Rosenthal, J. S. (2001). Optimal scaling for various Metropolis-Hastings
    algorithms. Statistical Science 16.

    factor: (d, d), lower Cholesky factor of the covariance of a step.
    coordinates: In which steps are made.
    """

    factor: Array
    coordinates: Straightening

    @classmethod
    def fit(cls, theta: Array, weights: Array, coordinates: Straightening | None = None) -> Self:
        """Scale the covariance of weighted particles, (N, d) and (N,)."""
        d = theta.shape[1]
        coordinates = coordinates or Straightening.none(d)
        _, factor = weighted_moments(coordinates.forward(theta)[0], weights, TRUSTED_BY_WALK)
        return cls(OPTIMAL_SCALE / np.sqrt(d) * factor, coordinates)

    @property
    def name(self) -> str:
        """Name in the record of a rejuvenation."""
        return "random walk"

    def moves(
        self, system: ParticleSystem, target: Target, rng: np.random.Generator, count: int
    ) -> Iterator[Move]:
        """Move an equally weighted population ``count`` times; yield it after each move."""
        place, log_volume = self.coordinates.forward(system.theta)
        density = target.log_density(system) - log_volume
        for _ in range(count):
            steps = rng.standard_normal(place.shape) @ self.factor.T
            to = self.coordinates.back(place + steps)
            proposed = target.particles(to, redrawn(rng, system.keys))
            proposed_density = target.log_density(proposed) - self.coordinates.forward(to)[1]
            accept = np.log1p(-rng.random(len(system))) < proposed_density - density
            system = system.where(accept, proposed)
            density = np.where(accept, proposed_density, density)
            place = np.where(accept[:, None], place + steps, place)
            yield Move(system, int(accept.sum()), _diverged(proposed_density))


def _diverged(log_density: Array) -> int:
    return int(np.count_nonzero(log_density == -np.inf))
