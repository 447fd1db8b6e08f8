"""Rejuvenation: fit a proposal to the weighted particles, resample, and move."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from smcpn.smc.particles import ParticleSystem
from smcpn.smc.proposals import DefensiveGaussian
from smcpn.smc.resampling import systematic
from smcpn.smc.target import Target

Array = NDArray[np.float64]


@dataclass(frozen=True)
class MoveSettings:
    """How much to move.

    Attributes
    ----------
    moved : float
        Moves are added until this share of particles is expected to have moved once.
    max_moves : int
        Most moves of one rejuvenation.
    """

    moved: float = 0.9
    max_moves: int = 10


@dataclass(frozen=True)
class Rejuvenation:
    """What one rejuvenation did.

    Attributes
    ----------
    sample : int
        The sample that made it necessary.
    exponent : float
        How much of that sample counted.
    ess : float
        Effective sample size before.
    acceptance : float
        Share of proposals accepted.
    moves : int
        Moves per particle.
    evaluations : int
        Parameter vectors whose past was browsed.
    seconds : float
        Wall time.
    """

    sample: int
    exponent: float
    ess: float
    acceptance: float
    moves: int
    evaluations: int
    seconds: float


def rejuvenate(
    system: ParticleSystem,
    target: Target,
    rng: np.random.Generator,
    settings: MoveSettings,
    acceptance: float,
) -> tuple[ParticleSystem, Rejuvenation]:
    """Resample by weight and move with independent Metropolis-Hastings.

    The proposal q is fitted to the *weighted* particles, before resampling, and the acceptance
    ratio holds the proposal's density, which PN-SMC (25) omits:
    log alpha = [log pi(t') - log q(t')] - [log pi(t) - log q(t)].

    All proposals of a round of moves are known before any is accepted, so their past is browsed
    in one call.

    Parameters
    ----------
    acceptance : float
        That of the previous rejuvenation: it sets the number of moves of the first round.

    Returns
    -------
    system : ParticleSystem
        Equally weighted.
    record : Rejuvenation
    """
    begin = time.perf_counter()
    n, ess = len(system), system.ess
    proposal = DefensiveGaussian.fit(system.theta, system.weights)
    system = system.take(systematic(system.weights, rng))
    system = replace(system, log_weights=np.zeros(n))
    moves, accepted = 0, 0
    ratio = target.log_density(system) - proposal.log_density(system.theta)
    while moves < settings.max_moves:
        planned = min(_moves_for(settings.moved, acceptance), settings.max_moves) - moves
        if planned <= 0:
            break
        proposed = target.evaluate(proposal.sample(rng, planned * n))
        proposed_ratio = target.log_density(proposed) - proposal.log_density(proposed.theta)
        log_uniform = np.log1p(-rng.random((planned, n)))
        for k in range(planned):
            part = slice(k * n, (k + 1) * n)
            accept = log_uniform[k] < proposed_ratio[part] - ratio
            system = system.where(accept, proposed.take(part))
            ratio = np.where(accept, proposed_ratio[part], ratio)
            accepted += int(accept.sum())
        moves += planned
        acceptance = accepted / (moves * n)
    return system, Rejuvenation(
        sample=target.sample,
        exponent=target.exponent,
        ess=ess,
        acceptance=acceptance,
        moves=moves,
        evaluations=moves * n,
        seconds=time.perf_counter() - begin,
    )


def _moves_for(moved: float, acceptance: float) -> int:
    """Smallest K with 1 - (1 - acceptance)^K >= moved."""
    rejection = 1.0 - min(max(acceptance, 0.01), 0.99)
    return max(1, int(np.ceil(np.log1p(-moved) / np.log(rejection) - 1e-9)))
