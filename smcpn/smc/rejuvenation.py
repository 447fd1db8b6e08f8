"""One rejuvenation: rounds of moves until enough particles moved, and the record of it.

A particle at theta leaves with probability a(theta) = E min(1, w(theta') / w(theta)), where
w = target / proposal and theta' is a proposal: where w is large it stays for long. The mean
acceptance hides it, being that of the many particles where w is small: `unmoved_share` does not.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from smcpn.base.arguments import Count, Positive, check_fields, whole
from smcpn.base.stored import Line, Number, Share, Stored, Whole, number
from smcpn.errors import InputError
from smcpn.smc.evidence import (
    Drawn,
    EvidenceEstimate,
    importance_estimate,
    log_pair_ratio,
    mixture_log_ratio,
)
from smcpn.smc.kernels import Kernel
from smcpn.smc.particles import ParticleSystem, Target
from smcpn.smc.proposals import DefensiveGaussian
from smcpn.smc.resampling import Resample

Array = NDArray[np.float64]

ROUND = 5
"""Most independent moves between two fits of their proposal."""
GROWN = 3.0
"""Standard errors by which a standard deviation rises in a population that has grown."""
EXPECTED_ACCEPTANCE = 0.6
"""Acceptance assumed of a proposal that was not tried yet."""


@dataclass(frozen=True)
class MoveSettings:
    """Number of moves of a rejuvenation.

    Attributes
    ----------
    moved : float
        Moves are added until this share of the target is expected to have moved once, places
        counted that proposals seldom leave, see `smcpn.smc.rejuvenation`.
    max_moves : int
        Most moves of one rejuvenation.
    further : int
        Most moves beyond these, made where they leave more than a fifth of the target.
    seconds : float, optional
        Begin no further round of moves in a rejuvenation that has taken this long; one move is
        always made. What a run returns then depends on the speed of the machine: it is no
        longer the same to the byte for the same seed.
    """

    moved: float = 0.9
    max_moves: Count = 20
    further: Annotated[int, whole(0)] = 0
    seconds: Positive | None = None

    def __post_init__(self) -> None:
        check_fields(self, "moved", "max_moves", "further", "seconds")
        if not 0.0 < self.moved < 1.0:
            raise InputError(f"moved is {self.moved}: choose a share between 0 and 1")


@dataclass(frozen=True)
class Rejuvenation(Stored):
    """Record of one rejuvenation: sizes, moves, acceptance, evidence.

    sample: The sample that made it necessary; 0 where the whole record is tempered.
    exponent: How much of that sample, or of the record, counted.
    ess: Effective sample size before.
    acceptance: Share of proposals accepted in the last round of the kernel that was used last.
    moves: Moves per particle.
    evaluations: Parameter vectors evaluated.
    seconds: Wall time.
    ess_after: Effective number of particles after, equal ones counted once: N^2 / sum of squared
        copies.
    proposal: The kernel used last: ``"gaussian"``, ``"mixture"`` or ``"random walk"``.
    accepted: Proposals accepted, by all kernels that were used.
    increments: Likelihood increments, one a sample, of all evaluations and gradients together.
    diverged: Proposals whose solution was NaN or infinite.
    log_pair_ratio: What the resampling contributes to the standard error of the log-evidence.
    evidence: From the proposals of independent moves alone; of infinite variance without any.
    ancestors: Distinct ancestors at the start of the run that still have descendants.
    lineages: The same since the evidence was last estimated independently of the ancestry.
    unmoved: Share of the target that is expected not to have moved, see `smcpn.smc.rejuvenation`.
    state_particles: Of each filter of an estimated likelihood; 0 for an exact one.
    gradients: Parameter vectors at which the gradient was evaluated, besides.
    step, time: Length of the leapfrog steps and time of the trajectories that were learned, in the
        coordinates of the metric; 0 for moves without.
    chains: Chains whose states are the population, one state of each after the other, where the
        lineage of a particle is the chain of the population before that its own began in; 0
        elsewhere.
    start_correlation: Mean over the states of a chain of the correlation of the log-likelihood with
        that at its start.
    efficiency: Effective draws that moves along the gradient made for each evaluation, a gradient
        counted as the evaluations that it costs, when they were last used; NaN before.
    missed: Log posterior of a mode that searches found afterwards, that the particles lack and that
        could not be given back to them; NaN without.
    """

    sample: Annotated[Whole, number(0, "T")]
    exponent: Share
    ess: Annotated[float, number(0.0, "N")]
    acceptance: Share
    moves: Whole
    evaluations: Whole
    seconds: Annotated[float, number(0.0)]
    ess_after: Annotated[float, number(0.0, "N", missing=True)] = float("nan")
    proposal: Line = DefensiveGaussian.name
    accepted: Whole = 0
    increments: Whole = 0
    diverged: Whole = 0
    log_pair_ratio: Number = 0.0
    evidence: EvidenceEstimate = field(default_factory=EvidenceEstimate)
    ancestors: Annotated[Whole, number(0, "N")] = 0
    lineages: Annotated[Whole, number(0, "N")] = 0
    unmoved: Share = 0.0
    state_particles: Whole = 0
    gradients: Whole = 0
    step: Annotated[float, number(0.0)] = 0.0
    time: Annotated[float, number(0.0)] = 0.0
    chains: Annotated[Whole, number(0, "N")] = 0
    start_correlation: Share = 0.0
    efficiency: Annotated[float, number(0.0, missing=True)] = float("nan")
    missed: float = float("nan")


def chains_of(system: ParticleSystem, record: Rejuvenation | None) -> NDArray[np.int64]:
    """Number of the chain of each particle, (N,), given the record of its rejuvenation.

    Where the population is not one of chains they are its lineages.
    """
    if record is None or not record.chains:
        return system.lineage
    return np.arange(len(system)) % record.chains


def number_of_chains(length: int, particles: int) -> int:
    """Chains whose states, ``length`` of each, make up a population (waste-free).

    Raises `InputError` if it were less than two.
    """
    if length > particles // 2:
        raise InputError(
            f"length is {length}: choose at most half of {particles} particles", argument="length"
        )
    return -(-particles // length)


class Rounds:
    """The population during one rejuvenation, with counts of its moves and evaluations."""

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
        self._before = system
        self._moves, self._evaluations, self._accepted, self._diverged = 0, 0, 0, 0
        self._log_unmoved, self._most = 0.0, settings.max_moves
        self._acceptance: dict[str, float] = {}
        self._log_stay: dict[str, float] = {}
        self._drawn: list[Drawn] = []

    def resample(self, resample: Resample, size: int) -> NDArray[np.int64]:
        """Replace the weighted population by ``size`` equally weighted copies; return parents."""
        weights = self.system.weights
        index = resample(weights, self._rng, size)
        self._log_pair_ratio = log_pair_ratio(weights, self.system.lineage, index)
        self.system = replace(self.system.take(index), log_weights=np.zeros(size))
        return index

    def every(self, kernel: Kernel, count: int) -> list[ParticleSystem]:
        """Make ``count`` moves and return the population after each."""
        return list(self._each(kernel, count))

    def _each(self, kernel: Kernel, count: int) -> Iterator[ParticleSystem]:
        drawn, accepted, n = list[Drawn](), 0, len(self.system)
        for move in kernel.moves(self.system, self.target, self._rng, count):
            self.system = move.system
            accepted += move.accepted
            self._diverged += move.diverged
            if move.drawn is not None:
                drawn.append(move.drawn)
            yield move.system
        self._moves += count
        self._evaluations += count * n
        self._accepted += accepted
        acceptance = accepted / (count * n)
        self._acceptance[kernel.name] = acceptance
        self._count_unmoved(kernel.name, count, acceptance, drawn)

    def keep_all(self, kernel: Kernel, count: int, particles: int, starts: bool = False) -> None:
        """Make ``count`` moves, and take all states of all chains as the population (waste-free).

        The last states are left out where there are more than ``particles``; with ``starts`` the
        states before the first move belong to the population.
        """
        begin = [self.system] if starts else []
        visited = [*begin, *self.every(kernel, count)]
        self.system = ParticleSystem.concatenate(visited).take(slice(particles))

    def _count_unmoved(self, name: str, count: int, acceptance: float, drawn: list[Drawn]) -> None:
        """Count the share left by ``count`` moves; keep draws that tell the evidence."""
        if not drawn:
            self._log_stay[name] = float(np.log1p(-_bounded(acceptance)))
            self._log_unmoved += count * self._log_stay[name]
            return
        together = Drawn.concatenate(drawn)
        ratios = together.log_ratio
        self._log_unmoved += _log_share(unmoved_share(ratios, count))
        self._log_stay[name] = _log_share(unmoved_share(ratios, ROUND)) / ROUND
        self._drawn.append(together)

    def expect(self, kernel: Kernel, acceptance: float) -> None:
        """Plan the first round of a kernel by an acceptance."""
        self._log_stay.setdefault(kernel.name, float(np.log1p(-_bounded(acceptance))))

    def round(self, kernel: Kernel, most: int) -> bool:
        """Make one round of moves, ``most`` at most; return whether there was one to make."""
        if self._moves >= self._most and np.exp(self._log_unmoved) > MUCH_UNMOVED:
            self._most = self._settings.max_moves + self._settings.further
        planned = min(self._planned(self._log_stay[kernel.name]), most)
        if planned > 0:
            deque(self._each(kernel, planned), maxlen=0)
        return planned > 0

    def again(self) -> bool:
        """Call for as many moves as before if the population has grown; return whether it has.

        What particles have not reached is in no proposal that was fitted to them.
        """
        before, self._before = self._before, self.system
        if not growth(before, self.system, self._ess):
            return False
        self._most = self._settings.max_moves + self._settings.further
        self._log_unmoved = 0.0
        return self._moves < self._most

    def move_on(self, kernel: Kernel, acceptance: float | None) -> None:
        """Make rounds of moves until enough particles moved."""
        self.expect(kernel, EXPECTED_ACCEPTANCE if acceptance is None else acceptance)
        while self.round(kernel, self._settings.max_moves):
            pass

    def acceptance(self, kernel: Kernel) -> float:
        """Acceptance in the last round of the kernel; 0 before the first."""
        return self._acceptance.get(kernel.name, 0.0)

    def unmoved_by_round(self, kernel: Kernel) -> float:
        """Share of the target that a whole round of the kernel leaves, as known by now."""
        return float(np.exp(ROUND * self._log_stay[kernel.name]))

    def record(self, kernel: Kernel) -> Rejuvenation:
        """Return the record of the rejuvenation, whose last kernel was ``kernel``."""
        _, copies = np.unique(self.system.theta[:, 0], return_counts=True)
        return Rejuvenation(
            sample=self.target.sample,
            exponent=self.target.exponent,
            ess=self._ess,
            acceptance=self.acceptance(kernel),
            moves=self._moves,
            evaluations=self._evaluations,
            seconds=time.perf_counter() - self._begin,
            ess_after=len(self.system) ** 2 / float(np.square(copies).sum()),
            proposal=kernel.name,
            accepted=self._accepted,
            increments=self._evaluations * self.target.n_samples,
            diverged=self._diverged,
            log_pair_ratio=self._log_pair_ratio,
            evidence=importance_estimate(mixture_log_ratio(self._drawn)),
            ancestors=len(np.unique(self.system.ancestor)),
            lineages=len(np.unique(self.system.lineage)),
            unmoved=float(np.exp(self._log_unmoved)),
            state_particles=self.target.state_particles,
        )

    def _planned(self, log_stay: float) -> int:
        """Moves still to make: the smallest K after which enough are expected to have moved."""
        settings, elapsed = self._settings, time.perf_counter() - self._begin
        missing = np.log1p(-settings.moved) - self._log_unmoved
        wanted = int(np.ceil(missing / log_stay - 1e-9))
        wanted = max(0, min(wanted, self._most - self._moves))
        if settings.seconds is None:
            return wanted
        if self._moves == 0:
            return 1
        left = int((settings.seconds - elapsed) * self._moves / elapsed)
        return max(0, min(wanted, left))


def growth(before: ParticleSystem, after: ParticleSystem, ess: float) -> float:
    """Log of the largest factor by which a coordinate spreads wider than before; 0 if by chance.

    Where moves have widened a population its weights told the evidence of a part of the target.

    ``ess`` are the effective particles before.
    """
    ratio = float(np.max(_spread(after) / _spread(before)))
    return float(np.log(ratio)) if ratio > 1.0 + GROWN / np.sqrt(2.0 * ess) else 0.0


def _spread(system: ParticleSystem) -> NDArray[np.float64]:
    """Return the standard deviation of each coordinate of weighted particles, (d,)."""
    centred = system.theta - system.weights @ system.theta
    spread = np.sqrt(system.weights @ np.square(centred))
    return np.asarray(np.maximum(spread, np.finfo(float).tiny), dtype=np.float64)


def _bounded(acceptance: float) -> float:
    return min(max(acceptance, 0.01), 0.99)


def _log_share(share: float) -> float:
    return float(np.log(min(max(share, 1e-12), 1.0 - 1e-4)))


@dataclass(frozen=True)
class Cost:
    """Work, counted in likelihood increments: one sample of a record for one parameter vector.

    Evaluations are N T + the sum over rejuvenations of K N t. Rejuvenations come at about
    geometric times, so a whole run costs some 20 N T; in a stream the next one grows with t.

    advanced: Computed once each, as the record went by.
    reevaluated: Computed again by rejuvenations.
    next_rejuvenation: What a rejuvenation now would add, with as many moves as the last one.
    next_seconds: And how long it would take, at the speed of the last one; nan before the first.
    """

    advanced: int
    reevaluated: int
    next_rejuvenation: int
    next_seconds: float

    @property
    def evaluations(self) -> int:
        """All likelihood increments computed so far."""
        return self.advanced + self.reevaluated


def cost_so_far(particles: int, sample: int, rejuvenations: Sequence[Rejuvenation]) -> Cost:
    """Cost of a run of ``particles`` particles that has assimilated ``sample`` samples."""
    last = rejuvenations[-1] if rejuvenations else None
    following = (last.evaluations + last.gradients if last else particles) * (sample + 1)
    seconds = float("nan")
    if last is not None and last.increments:
        seconds = last.seconds * following / last.increments
    return Cost(
        advanced=particles * sample,
        reevaluated=sum(record.increments for record in rejuvenations),
        next_rejuvenation=following,
        next_seconds=seconds,
    )


FAR = 600.0
"""Log-ratios further than this below the largest count as if they were so."""
MUCH_UNMOVED = 0.2
"""Share of a target from which moves have left too much of it where it was."""
UNMOVED = 0.1
"""Share of the target that is left where it is, if there are moves enough."""


def unmoved_share(log_ratio: Array, moves: int) -> float:
    """Share of the target that independent moves are expected to leave where it is.

    E_target (1 - a(theta))^moves, estimated from the proposals themselves, which see the target
    beyond the particles: both expectations become sums over them, weighted by w and equally.

    ``log_ratio``, (n,), is log target - log proposal density of n independent proposals, -inf where
    excluded. The share is 1 where every proposal is excluded.

    References
    ----------
    Liu, J. S. (1996). Metropolized independent sampling with comparisons to rejection sampling
    and importance sampling. Statistics and Computing 6 (eigenvalues of the kernel from sorted
    weights).
    """
    ordered = np.sort(log_ratio[log_ratio > -np.inf])
    if not len(ordered):
        return 1.0
    weights = np.exp(np.maximum(ordered - ordered[-1], -FAR))
    cumulative = np.cumsum(weights)
    above = np.arange(len(weights) - 1, -1, -1)
    leaves = np.minimum((cumulative / weights + above) / len(log_ratio), 1.0)
    return float(weights @ (1.0 - leaves) ** moves / cumulative[-1])


def efficiency_of_chains(correlations: Array) -> float:
    """Effective draws of a move, 1 where each is independent of the one before.

    Of a reversible move whose correlations fall geometrically that is (1 - r) / (1 + r); over
    several functions the mean of the inverse counts, so that means of all of them have together the
    variance that so many independent draws would give.

    ``correlations`` are those of k functions between begin and end of a move; negative ones count
    as none.
    """
    left = np.clip(correlations, 0.0, 1.0)
    with np.errstate(divide="ignore"):
        return float(1.0 / np.mean((1.0 + left) / (1.0 - left)))


def efficiency_of_independent(log_ratio: Array, most: int) -> float:
    """Particles that an evaluation of independent Metropolis-Hastings renews, 1 at best.

    Moves are made until a tenth is expected not to have moved, or to the most. Where `MUCH_UNMOVED`
    or more would be left even so it is 0: copies then multiply faster than moves part them.

    ``log_ratio`` is as of `unmoved_share`, and ``most`` the moves of a particle at most.
    """
    for moves in range(1, most + 1):
        unmoved = unmoved_share(log_ratio, moves)
        if unmoved <= UNMOVED:
            return (1.0 - unmoved) / moves
    unmoved = unmoved_share(log_ratio, most)
    return (1.0 - unmoved) / most if unmoved < MUCH_UNMOVED else 0.0
