"""Moves chosen by what they were measured to do: independent proposals, or along the gradient."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
from typing_extensions import override

from smcpn.base.arguments import check_fields, whole
from smcpn.smc.hamiltonian import HamiltonianMonteCarlo
from smcpn.smc.moves import IndependentMetropolis, MoveStrategy
from smcpn.smc.particles import ParticleSystem, Target
from smcpn.smc.proposals import folds
from smcpn.smc.rejuvenation import Rejuvenation, efficiency_of_independent, number_of_chains
from smcpn.smc.resampling import Resample, systematic
from smcpn.smc.straightening import StraightenedDensity, Straightening

TRIED = 256
"""Particles that try an independent proposal."""
EXPECTED = 0.4, 1.7
"""Effective draws and gradients of a Hamiltonian trajectory where the target is Gaussian."""
PREFERRED = 0.5
"""Share of the efficiency of moves along the gradient from which independent ones are taken: these
are fitted again on the way, better than the first time, and estimate the evidence besides."""


@dataclass(frozen=True)
class MeasuredMoves(MoveStrategy):
    """Independent Metropolis or Hamiltonian Monte Carlo, whichever was measured to pay more.

    Before a rejuvenation 256 draws of the independent proposals tell how many effective particles
    these make for an evaluation. What trajectories make is known from the last rejuvenation by
    them, until then expected as of a Gaussian target; a gradient is counted as the evaluations that
    it costs by the operations of the compiled code, so that the choice is the same on every
    machine. Proposals are not tried where their covariance has more entries than there are
    particles.

    Attributes
    ----------
    length : int
        States of a chain of Hamiltonian trajectories, its start not counted.
    """

    name: ClassVar[str] = "measured"
    follows_gradient: ClassVar[bool] = True

    length: Annotated[int, whole(1)] = HamiltonianMonteCarlo.length

    def __post_init__(self) -> None:
        check_fields(self, "length")

    @override
    def check(self, particles: int) -> None:
        number_of_chains(self.length, particles)

    @override
    def rejuvenate(
        self,
        system: ParticleSystem,
        target: Target,
        rng: np.random.Generator,
        resample: Resample,
        previous: Rejuvenation | None,
    ) -> tuple[ParticleSystem, Rejuvenation]:
        (n, d), trajectories = system.theta.shape, HamiltonianMonteCarlo(self.length)
        if d * (d + 1) // 2 > n:
            return trajectories.rejuvenate(system, target, rng, resample, previous)
        known = float("nan") if previous is None else previous.efficiency
        draws, gradients = EXPECTED
        wanted = draws / (1.0 + gradients * target.gradient_cost) if np.isnan(known) else known
        independent, tried = _independent(system, target, PREFERRED * wanted)
        moves = independent or trajectories
        if independent and previous is not None and previous.chains:
            previous = None
        moved, record = moves.rejuvenate(system, target, rng, resample, previous)
        return moved, replace(
            record,
            evaluations=record.evaluations + tried,
            increments=record.increments + tried * target.n_samples,
            efficiency=known if independent else record.efficiency,
        )


def _independent(
    system: ParticleSystem, target: Target, wanted: float
) -> tuple[IndependentMetropolis | None, int]:
    """Return independent moves if they are as efficient as wanted, and evaluations made.

    The randomness is not that of the run, which goes on as if nothing had been tried.
    """
    rng, (n, d) = np.random.default_rng(0), system.theta.shape
    moves, fold, evaluations = IndependentMetropolis(), folds(n, d), 0
    index = systematic(system.weights, rng, TRIED)
    straight = Straightening.fit(target.prior, system.theta, system.weights)
    for kind in moves.proposals:
        proposal = StraightenedDensity.fit(
            kind, straight, system.theta, system.weights, fold, fold[index]
        )
        tried = target.particles(proposal.sample(rng, TRIED), system.keys[index])
        log_ratio = target.log_density(tried) - proposal.log_density(tried.theta)
        evaluations += TRIED
        found = efficiency_of_independent(log_ratio, moves.settings.max_moves)
        if found >= wanted:
            return moves, evaluations
    return None, evaluations
