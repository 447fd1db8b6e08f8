"""Strategies of rejuvenation: fit a kernel to the weighted particles, resample, and move."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError
from smcpn.smc.evidence import EvidenceEstimate, importance_estimate, log_pair_ratio, pooled
from smcpn.smc.mcmc import IndependentKernel, Kernel, KernelFit, RandomWalkKernel
from smcpn.smc.particles import ParticleSystem
from smcpn.smc.proposals import DefensiveGaussian, Proposal, StudentMixture
from smcpn.smc.resampling import Resample
from smcpn.smc.target import Target

# ---- One rejuvenation: the population on its way, and the record of what was done to it.

Array = NDArray[np.float64]

EXPECTED_ACCEPTANCE = 0.6
"""Acceptance assumed of a proposal that was not tried yet."""


@dataclass(frozen=True)
class MoveSettings:
    """How much to move.

    Attributes
    ----------
    moved : float
        Moves are added until this share of particles is expected to have moved once.
    max_moves : int
        Most moves of one rejuvenation.
    seconds : float, optional
        Begin no further round of moves in a rejuvenation that has taken this long; one move is
        always made. What a run returns then depends on the speed of the machine: it is no
        longer the same to the byte for the same seed.
    """

    moved: float = 0.9
    max_moves: int = 10
    seconds: float | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.moved < 1.0:
            raise InputError(f"moved is {self.moved}: choose a share between 0 and 1")
        if self.max_moves < 1:
            raise InputError(f"max_moves is {self.max_moves}: choose 1 or more")
        if self.seconds is not None and not self.seconds > 0:
            raise InputError(f"seconds is {self.seconds}: give a positive time or None")


@dataclass(frozen=True)
class Rejuvenation:
    """What one rejuvenation did.

    Attributes
    ----------
    sample : int
        The sample that made it necessary; 0 where the whole record is tempered.
    exponent : float
        How much of that sample, or of the record, counted.
    ess : float
        Effective sample size before.
    acceptance : float
        Share of proposals accepted in the last round of the kernel that was used last.
    moves : int
        Moves per particle.
    evaluations : int
        Parameter vectors whose past was browsed.
    seconds : float
        Wall time.
    ess_after : float
        Effective number of particles after, equal ones counted once: N^2 / sum of squared copies.
    proposal : str
        The kernel used last: ``"gaussian"``, ``"mixture"`` or ``"random walk"``.
    accepted : int
        Proposals accepted, by all kernels that were used.
    browsed : int
        Samples weighed for all evaluations together.
    diverged : int
        Proposals whose solution was NaN or infinite.
    log_pair_ratio : float
        What the resampling contributes to the standard error of the log-evidence.
    evidence : EvidenceEstimate
        From the proposals of independent moves alone; of infinite variance without any.
    eves : int
        Distinct ancestors at the start of the run that still have descendants.
    families : int
        The same since the evidence was last estimated independently of the ancestry.
    """

    sample: int
    exponent: float
    ess: float
    acceptance: float
    moves: int
    evaluations: int
    seconds: float
    ess_after: float = float("nan")
    proposal: str = DefensiveGaussian.name
    accepted: int = 0
    browsed: int = 0
    diverged: int = 0
    log_pair_ratio: float = 0.0
    evidence: EvidenceEstimate = field(default_factory=EvidenceEstimate)
    eves: int = 0
    families: int = 0


class Rounds:
    """The population of one rejuvenation, and the account of what was done to it."""

    def __init__(
        self,
        system: ParticleSystem,
        target: Target,
        rng: np.random.Generator,
        settings: MoveSettings,
    ) -> None:
        self._begin = time.perf_counter()
        self.system, self.target, self._rng, self._settings = system, target, rng, settings
        self._ess, self._log_pair_ratio = system.ess, 0.0
        self._moves, self._evaluations, self._accepted, self._diverged = 0, 0, 0, 0
        self._log_unmoved = 0.0
        self._acceptance: dict[str, float] = {}
        self._log_ratios: dict[str, list[Array]] = {}

    def resample(self, resample: Resample, size: int) -> None:
        """Replace the weighted population by ``size`` equally weighted copies."""
        weights = self.system.weights
        index = resample(weights, self._rng, size)
        self._log_pair_ratio = log_pair_ratio(weights, self.system.family, index)
        self.system = replace(self.system.take(index), log_weights=np.zeros(size))

    def every(self, kernel: Kernel, count: int) -> list[ParticleSystem]:
        """Make ``count`` moves and return the population after each."""
        visited, accepted, n = [], 0, len(self.system)
        for move in kernel.moves(self.system, self.target, self._rng, count):
            visited.append(move.system)
            accepted += move.accepted
            self._diverged += move.diverged
            if move.log_ratio is not None:
                self._log_ratios.setdefault(kernel.name, []).append(move.log_ratio)
        self.system = visited[-1]
        self._moves += count
        self._evaluations += count * n
        self._accepted += accepted
        acceptance = accepted / (count * n)
        self._acceptance[kernel.name] = acceptance
        self._log_unmoved += count * float(np.log1p(-_bounded(acceptance)))
        return visited

    def move(self, kernel: Kernel, acceptance: float | None) -> float:
        """Make one round of moves, as many as the expected acceptance calls for."""
        planned = self._planned(EXPECTED_ACCEPTANCE if acceptance is None else acceptance)
        if planned > 0:
            self.every(kernel, planned)
        return self._acceptance.get(kernel.name, 0.0)

    def move_on(self, kernel: Kernel, acceptance: float | None) -> None:
        """Make rounds of moves until enough particles moved."""
        acceptance = EXPECTED_ACCEPTANCE if acceptance is None else acceptance
        while (planned := self._planned(acceptance)) > 0:
            self.every(kernel, planned)
            acceptance = self._acceptance[kernel.name]

    def record(self, kernel: Kernel) -> Rejuvenation:
        """Sum up."""
        _, copies = np.unique(self.system.theta[:, 0], return_counts=True)
        return Rejuvenation(
            sample=self.target.sample,
            exponent=self.target.exponent,
            ess=self._ess,
            acceptance=self._acceptance.get(kernel.name, 0.0),
            moves=self._moves,
            evaluations=self._evaluations,
            seconds=time.perf_counter() - self._begin,
            ess_after=len(self.system) ** 2 / float(np.square(copies).sum()),
            proposal=kernel.name,
            accepted=self._accepted,
            browsed=self._evaluations * self.target.n_samples,
            diverged=self._diverged,
            log_pair_ratio=self._log_pair_ratio,
            evidence=pooled(
                [importance_estimate(np.concatenate(r)) for r in self._log_ratios.values()]
            ),
            eves=len(np.unique(self.system.ancestor)),
            families=len(np.unique(self.system.family)),
        )

    def _planned(self, acceptance: float) -> int:
        """Moves still to make: the smallest K after which enough are expected to have moved."""
        settings, elapsed = self._settings, time.perf_counter() - self._begin
        missing = np.log1p(-settings.moved) - self._log_unmoved
        wanted = int(np.ceil(missing / np.log1p(-_bounded(acceptance)) - 1e-9))
        wanted = max(0, min(wanted, settings.max_moves - self._moves))
        if settings.seconds is None:
            return wanted
        if self._moves == 0:
            return 1
        left = int((settings.seconds - elapsed) * self._moves / elapsed)
        return max(0, min(wanted, left))


def _bounded(acceptance: float) -> float:
    return min(max(acceptance, 0.01), 0.99)


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
