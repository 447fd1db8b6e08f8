"""Strategies of rejuvenation: fit a kernel to the weighted particles, resample, and move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError
from smcpn.smc.kernels import IndependentKernel, Kernel, KernelFit, RandomWalkKernel
from smcpn.smc.mixture import StudentMixture
from smcpn.smc.particles import ParticleSystem
from smcpn.smc.proposals import DefensiveGaussian, Proposal
from smcpn.smc.rejuvenation import MoveSettings, Rejuvenation, Rounds
from smcpn.smc.resampling import Resample
from smcpn.smc.target import Target

Array = NDArray[np.float64]

POOR_ACCEPTANCE = 0.3
"""Acceptance below which the next proposal is tried."""
HOPELESS_ACCEPTANCE = 0.05
"""Acceptance below which no independent proposal is of use and a random walk takes over."""
PREDICTED_ACCEPTANCE = 0.5
"""Predicted acceptance from which the simplest proposal is taken up again."""


class MoveStrategy(Protocol):
    """How a population is rejuvenated."""

    def rejuvenate(
        self,
        system: ParticleSystem,
        target: Target,
        rng: np.random.Generator,
        resample: Resample,
        previous: Rejuvenation | None,
    ) -> tuple[ParticleSystem, Rejuvenation]:
        """Return N equally weighted particles that follow the target, and a record.

        Nothing but ``previous``, the record of the rejuvenation before, is remembered.
        """
        ...


@dataclass(frozen=True)
class IndependentMetropolis:
    """Independent Metropolis-Hastings with the simplest proposal that is accepted often enough.

    The proposal is fitted to the *weighted* particles, before resampling. Where fewer than 0.3 of
    its draws are accepted the next one is fitted, and it stays in use until the first is
    predicted to do well again. A random walk takes over where even the best is hopeless.

    Attributes
    ----------
    settings : MoveSettings
    proposals : sequence of Proposal classes
        From the simplest to the most flexible.
    """

    settings: MoveSettings = field(default_factory=MoveSettings)
    proposals: Sequence[type[Proposal]] = (DefensiveGaussian, StudentMixture)

    def rejuvenate(
        self,
        system: ParticleSystem,
        target: Target,
        rng: np.random.Generator,
        resample: Resample,
        previous: Rejuvenation | None,
    ) -> tuple[ParticleSystem, Rejuvenation]:
        """See `MoveStrategy.rejuvenate`."""
        rounds = Rounds(system, target, rng, self.settings)
        theta, weights = system.theta, system.weights
        rounds.resample(resample, len(system))
        number, proposal = self._first(theta, weights, rounds, previous)
        known = previous is not None and previous.proposal == proposal.name
        acceptance = previous.acceptance if previous is not None and known else None
        if acceptance is not None and acceptance < POOR_ACCEPTANCE:
            # A short round tells whether it has become better: moves are left for another kernel.
            acceptance = None
        tried: list[tuple[float, Kernel]] = []
        while True:
            kernel: Kernel = IndependentKernel(proposal)
            acceptance = rounds.move(kernel, acceptance)
            tried.append((acceptance, kernel))
            number += 1
            if acceptance >= POOR_ACCEPTANCE or number == len(self.proposals):
                break
            proposal, acceptance = self.proposals[number].fit(theta, weights), None
        acceptance, kernel = max(tried, key=lambda pair: pair[0])
        if acceptance < HOPELESS_ACCEPTANCE:
            acceptance, kernel = None, RandomWalkKernel.fit(theta, weights)
        rounds.move_on(kernel, acceptance)
        return rounds.system, rounds.record(kernel)

    def _first(
        self, theta: Array, weights: Array, rounds: Rounds, previous: Rejuvenation | None
    ) -> tuple[int, Proposal]:
        """Begin with the proposal of last time, or the simplest if that promises to do."""
        simplest = self.proposals[0].fit(theta, weights)
        names = [proposal.name for proposal in self.proposals]
        if previous is None or previous.proposal == names[0]:
            return 0, simplest
        number = names.index(previous.proposal) if previous.proposal in names else len(names) - 1
        proposal = self.proposals[number].fit(theta, weights)
        predicted = predicted_acceptance(simplest, proposal, rounds.system, rounds.target)
        return (0, simplest) if predicted > PREDICTED_ACCEPTANCE else (number, proposal)


@dataclass(frozen=True)
class RandomWalkMetropolis:
    """Random-walk Metropolis, for targets that no independent proposal fits.

    Attributes
    ----------
    settings : MoveSettings
        An accepted step goes less far than an independent draw, so more of them are made.
    """

    settings: MoveSettings = field(default_factory=lambda: MoveSettings(moved=0.999, max_moves=30))

    def rejuvenate(
        self,
        system: ParticleSystem,
        target: Target,
        rng: np.random.Generator,
        resample: Resample,
        previous: Rejuvenation | None,
    ) -> tuple[ParticleSystem, Rejuvenation]:
        """See `MoveStrategy.rejuvenate`."""
        rounds = Rounds(system, target, rng, self.settings)
        kernel = RandomWalkKernel.fit(system.theta, system.weights)
        rounds.resample(resample, len(system))
        rounds.move_on(kernel, previous.acceptance if previous is not None else None)
        return rounds.system, rounds.record(kernel)


@dataclass(frozen=True)
class WasteFree:
    """Waste-free moves: resample N / length particles, and keep every state of their chains.

    Attributes
    ----------
    length : int
        States of a chain, its start included.
    kernel : callable
        From theta (N, d) and weights (N,) to a `Kernel`; a random walk by default.

    References
    ----------
    Dau, H.-D., Chopin, N. (2022). Waste-free sequential Monte Carlo. JRSS B 84.
    """

    length: int = 10
    kernel: KernelFit = RandomWalkKernel.fit

    def __post_init__(self) -> None:
        if self.length < 2:
            raise InputError(f"length is {self.length}: chains need 2 or more states")

    def rejuvenate(
        self,
        system: ParticleSystem,
        target: Target,
        rng: np.random.Generator,
        resample: Resample,
        previous: Rejuvenation | None,
    ) -> tuple[ParticleSystem, Rejuvenation]:
        """See `MoveStrategy.rejuvenate`."""
        n = len(system)
        if self.length > n // 2:
            raise InputError(f"length is {self.length}: choose at most half of {n} particles")
        rounds = Rounds(system, target, rng, MoveSettings())
        kernel = self.kernel(system.theta, system.weights)
        rounds.resample(resample, -(-n // self.length))
        visited = [rounds.system, *rounds.every(kernel, self.length - 1)]
        rounds.system = ParticleSystem.concatenate(visited).take(slice(n))
        return rounds.system, rounds.record(kernel)


def predicted_acceptance(
    proposal: Proposal, fitted: Proposal, system: ParticleSystem, target: Target
) -> float:
    """Acceptance that independent moves from ``proposal`` would have, without a browse.

    With r = q / pi (pi unnormalised, Z its integral) the acceptance of independent
    Metropolis-Hastings is Z E min(r(x), r(y)) over independent x, y that follow the target, and
    Z = 1 / E[q'(x) / pi(x)] for a proposal q' whose mass lies where the particles are; the share
    of q' beyond them is the share by which the prediction is too high.

    Parameters
    ----------
    proposal : Proposal
        The one in question.
    fitted : Proposal
        One that is known to cover the target and little else.
    system : ParticleSystem
        Equally weighted.
    """
    density = target.log_density(system)
    ratio = proposal.log_density(system.theta) - density
    covering = np.logaddexp.reduce(fitted.log_density(system.theta) - density)
    # Resampled copies are neighbours: half the population apart they are independent.
    pairs = np.minimum(ratio, np.roll(ratio, len(ratio) // 2))
    return float(np.exp(np.logaddexp.reduce(pairs) - covering))
