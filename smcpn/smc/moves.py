"""Rejuvenation: fit a Metropolis kernel to the weighted particles, resample, and move.

A `Kernel` moves a population and leaves its target invariant. A `MoveStrategy` says which kernels
and how often; it registers in `MOVES` by being defined.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import NoneType
from typing import Annotated, Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from smcpn.arguments import Count, Positive, check_fields, checked, whole
from smcpn.errors import InputError, NotStorableError
from smcpn.smc.cross_fitting import CrossFitted, Fold, folds
from smcpn.smc.evidence import EvidenceEstimate, importance_estimate, log_pair_ratio, pooled
from smcpn.smc.keyed import fresh_keys, redrawn
from smcpn.smc.mixing import unmoved_share
from smcpn.smc.particles import ParticleSystem, Target
from smcpn.smc.proposals import (
    PROPOSALS,
    DefensiveGaussian,
    Proposal,
    StudentMixture,
    weighted_moments,
)
from smcpn.smc.resampling import Resample

Array = NDArray[np.float64]

EXPECTED_ACCEPTANCE = 0.6
"""Acceptance assumed of a proposal that was not tried yet."""
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
        """Name in the record of a rejuvenation."""
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

    All proposals of a round of moves are known before any is accepted, so they are evaluated in
    one call, or, where there are more than `MOST_PROPOSED`, in one for each few moves.

    Where the likelihood is an estimate with keys u, (t', u') is drawn from q(t') m(u'), m being
    uniform, and the target is pi(t, u) = p(t) Z(t, u) m(u): m cancels, and the same ratio leaves pi
    invariant (particle marginal Metropolis-Hastings, Andrieu, Doucet and Holenstein 2010).
    """

    proposal: Proposal | CrossFitted

    @property
    def name(self) -> str:
        """Name of the proposal."""
        return self.proposal.name

    def moves(
        self, system: ParticleSystem, target: Target, rng: np.random.Generator, count: int
    ) -> Iterator[Move]:
        """See `Kernel.moves`."""
        n = len(system)
        ratio = target.log_density(system) - self.proposal.log_density(system.theta)
        theta = self.proposal.sample(rng, count * n)
        keys = fresh_keys(rng, count * n, system.keys.shape[1])
        log_uniform = np.log1p(-rng.random((count, n)))
        together = max(1, MOST_PROPOSED // n)
        for first in range(0, count, together):
            group = slice(first * n, min(first + together, count) * n)
            proposed = target.evaluate(theta[group], keys[group])
            proposed_ratio = target.log_density(proposed) - self.proposal.log_density(
                proposed.theta
            )
            for k in range(len(proposed) // n):
                part = slice(k * n, (k + 1) * n)
                log_ratio = proposed_ratio[part]
                accept = log_uniform[first + k] < log_ratio - ratio
                system = system.where(accept, proposed.take(part))
                ratio = np.where(accept, log_ratio, ratio)
                yield Move(system, int(accept.sum()), _diverged(log_ratio), log_ratio)


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
            proposed = target.evaluate(system.theta + steps, redrawn(rng, system.keys))
            proposed_density = target.log_density(proposed)
            accept = np.log1p(-rng.random(len(system))) < proposed_density - density
            system = system.where(accept, proposed)
            density = np.where(accept, proposed_density, density)
            yield Move(system, int(accept.sum()), _diverged(proposed_density))


def _diverged(log_density: Array) -> int:
    return int(np.count_nonzero(log_density == -np.inf))


@dataclass(frozen=True)
class MoveSettings:
    """Number of moves of a rejuvenation.

    Attributes
    ----------
    moved : float
        Moves are added until this share of the target is expected to have moved once, places
        counted that proposals seldom leave, see `smcpn.smc.mixing`.
    max_moves : int
        Most moves of one rejuvenation.
    seconds : float, optional
        Begin no further round of moves in a rejuvenation that has taken this long; one move is
        always made. What a run returns then depends on the speed of the machine: it is no
        longer the same to the byte for the same seed.
    """

    moved: float = 0.9
    max_moves: Count = 20
    seconds: Positive | None = None

    def __post_init__(self) -> None:
        check_fields(self, "moved", "max_moves", "seconds")
        if not 0.0 < self.moved < 1.0:
            raise InputError(f"moved is {self.moved}: choose a share between 0 and 1")


@dataclass(frozen=True)
class Rejuvenation:
    """Record of one rejuvenation: sizes, moves, acceptance, evidence.

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
        Parameter vectors evaluated.
    seconds : float
        Wall time.
    ess_after : float
        Effective number of particles after, equal ones counted once: N^2 / sum of squared copies.
    proposal : str
        The kernel used last: ``"gaussian"``, ``"mixture"`` or ``"random walk"``.
    accepted : int
        Proposals accepted, by all kernels that were used.
    increments : int
        Likelihood increments, one a sample, of all evaluations and gradients together.
    diverged : int
        Proposals whose solution was NaN or infinite.
    log_pair_ratio : float
        What the resampling contributes to the standard error of the log-evidence.
    evidence : EvidenceEstimate
        From the proposals of independent moves alone; of infinite variance without any.
    ancestors : int
        Distinct ancestors at the start of the run that still have descendants.
    lineages : int
        The same since the evidence was last estimated independently of the ancestry.
    unmoved : float
        Share of the target that is expected not to have moved, see `smcpn.smc.mixing`.
    state_particles : int
        Of each filter of an estimated likelihood; 0 for an exact one.
    gradients : int
        Parameter vectors at which the gradient was evaluated, besides.
    step, time : float
        Length of the leapfrog steps and time of the trajectories that were learned, in the
        coordinates of the metric; 0 for moves without.
    chains : int
        Chains whose states are the population, one state of each after the other, where the lineage
        of a particle is the chain of the population before that its own began in; 0 elsewhere.
    start_correlation : float
        Mean over the states of a chain of the correlation of the log-likelihood with that at its
        start.
    efficiency : float
        Effective draws that moves along the gradient made for each evaluation, a gradient counted
        as the evaluations that it costs, when they were last used; NaN before.
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
    increments: int = 0
    diverged: int = 0
    log_pair_ratio: float = 0.0
    evidence: EvidenceEstimate = field(default_factory=EvidenceEstimate)
    ancestors: int = 0
    lineages: int = 0
    unmoved: float = 0.0
    state_particles: int = 0
    gradients: int = 0
    step: float = 0.0
    time: float = 0.0
    chains: int = 0
    start_correlation: float = 0.0
    efficiency: float = float("nan")


def chains_of(system: ParticleSystem, record: Rejuvenation | None) -> NDArray[np.int64]:
    """Number of the chain of each particle, (N,), given the record of its rejuvenation.

    Where the population is not one of chains they are its lineages.
    """
    if record is None or not record.chains:
        return system.lineage
    return np.arange(len(system)) % record.chains


def number_of_chains(length: int, particles: int) -> int:
    """Chains whose states, ``length`` of each, make up a population (waste-free).

    Raises
    ------
    InputError
        If it were less than two.
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
        self._moves, self._evaluations, self._accepted, self._diverged = 0, 0, 0, 0
        self._log_unmoved = 0.0
        self._acceptance: dict[str, float] = {}
        self._log_stay: dict[str, float] = {}
        self._estimates: list[EvidenceEstimate] = []

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
        log_ratios, accepted, n = list[Array](), 0, len(self.system)
        for move in kernel.moves(self.system, self.target, self._rng, count):
            self.system = move.system
            accepted += move.accepted
            self._diverged += move.diverged
            if move.log_ratio is not None:
                log_ratios.append(move.log_ratio)
            yield move.system
        self._moves += count
        self._evaluations += count * n
        self._accepted += accepted
        acceptance = accepted / (count * n)
        self._acceptance[kernel.name] = acceptance
        self._count_unmoved(kernel.name, count, acceptance, log_ratios)

    def keep_all(self, kernel: Kernel, count: int, particles: int, starts: bool = False) -> None:
        """Make ``count`` moves, and take all states of all chains as the population (waste-free).

        Parameters
        ----------
        particles : int
            Size of the population: the last states are left out where there are more.
        starts : bool
            Whether the states before the first move belong to it.
        """
        begin = [self.system] if starts else []
        visited = [*begin, *self.every(kernel, count)]
        self.system = ParticleSystem.concatenate(visited).take(slice(particles))

    def _count_unmoved(
        self, name: str, count: int, acceptance: float, log_ratios: list[Array]
    ) -> None:
        """Count the share left by ``count`` moves, and the evidence where they tell it."""
        if not log_ratios:
            self._log_stay[name] = float(np.log1p(-_bounded(acceptance)))
            self._log_unmoved += count * self._log_stay[name]
            return
        ratios = np.concatenate(log_ratios)
        self._log_unmoved += _log_share(unmoved_share(ratios, count))
        self._log_stay[name] = _log_share(unmoved_share(ratios, ROUND)) / ROUND
        self._estimates.append(importance_estimate(ratios))

    def expect(self, kernel: Kernel, acceptance: float) -> None:
        """Plan the first round of a kernel by an acceptance."""
        self._log_stay.setdefault(kernel.name, float(np.log1p(-_bounded(acceptance))))

    def round(self, kernel: Kernel, most: int) -> bool:
        """Make one round of moves, ``most`` at most; return whether there was one to make."""
        planned = min(self._planned(self._log_stay[kernel.name]), most)
        if planned > 0:
            deque(self._each(kernel, planned), maxlen=0)
        return planned > 0

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
            evidence=pooled(self._estimates),
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
        wanted = max(0, min(wanted, settings.max_moves - self._moves))
        if settings.seconds is None:
            return wanted
        if self._moves == 0:
            return 1
        left = int((settings.seconds - elapsed) * self._moves / elapsed)
        return max(0, min(wanted, left))


def _bounded(acceptance: float) -> float:
    return min(max(acceptance, 0.01), 0.99)


def _log_share(share: float) -> float:
    return float(np.log(min(max(share, 1e-12), 1.0 - 1e-4)))


ROUND = 5
"""Most independent moves between two fits of their proposal."""
POOR_ROUND = 0.1
"""Share of the target left by a round of moves above which the next proposal is tried."""
TRIAL = 3
"""Moves of a proposal that is tried."""
HOPELESS_ACCEPTANCE = 0.05
"""Acceptance below which no independent proposal is of use and a random walk takes over."""
PREDICTED_ACCEPTANCE = 0.5
"""Predicted acceptance from which the simplest proposal is tried again."""


MOVES: dict[str, type[MoveStrategy]] = {}
"""Every move strategy by its name."""


class MoveStrategy(ABC):
    """Base of the strategies that rejuvenate a population: a frozen dataclass of settings.

    Attributes
    ----------
    name : str
        Its name in configurations and checkpoints.
    """

    name: ClassVar[str]
    follows_gradient: ClassVar[bool] = False
    """Whether the likelihood has to have a gradient."""

    def __init_subclass__(cls) -> None:
        if "name" in cls.__dict__:
            MOVES[cls.name] = cls

    def document(self) -> dict[str, Any]:
        """Return the settings as JSON can hold them.

        Raises
        ------
        NotStorableError
            If one of them is no number or text.
        """
        for name, value in vars(self).items():
            if not isinstance(value, (bool, int, float, str, NoneType)):
                raise not_storable(self, name)
        return dict(vars(self))

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Return the strategy with the settings of a document."""
        return cls(**document)

    def check(self, particles: int) -> None:  # noqa: B027
        """Refuse so few particles that these moves cannot be made with them.

        Raises
        ------
        InputError
        """

    @abstractmethod
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


def not_storable(moves: MoveStrategy, part: str) -> NotStorableError:
    """Return the error for moves that cannot be written to a file."""
    return NotStorableError(
        f"moves is {type(moves).__name__} with {part} of your own, which a file cannot hold"
    )


@checked
@dataclass(frozen=True)
class IndependentMetropolis(MoveStrategy):
    """Independent Metropolis-Hastings with the simplest proposal that moves all of the target.

    The proposal is fitted to the *weighted* particles, before resampling, and again to the moved
    ones after each round of at most five moves: so it follows where the target has mass that the
    particles had not found. Each particle is moved by a fit that it had no part in, see
    `CrossFitted`. Where a round leaves more than a tenth of the target unmoved the next proposal
    is tried, and the better one stays in use until the first is predicted to do well again. A
    random walk takes over where even the best is hopeless.

    Attributes
    ----------
    settings : MoveSettings
    proposals : sequence of Proposal classes
        From the simplest to the most flexible.
    """

    name: ClassVar[str] = "independent"

    settings: MoveSettings = field(default_factory=MoveSettings)
    proposals: Sequence[type[Proposal]] = (DefensiveGaussian, StudentMixture)

    def document(self) -> dict[str, Any]:
        """See `MoveStrategy.document`."""
        if any(PROPOSALS.get(proposal.name) is not proposal for proposal in self.proposals):
            raise not_storable(self, "proposals")
        names = [proposal.name for proposal in self.proposals]
        return {"settings": asdict(self.settings), "proposals": names}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """See `MoveStrategy.of`.

        Raises
        ------
        InputError
            If there is no proposal of a name.
        """
        for name in document["proposals"]:
            if name not in PROPOSALS:
                raise InputError(f"proposal '{name}' is not known here: import its class first")
        proposals = tuple(PROPOSALS[name] for name in document["proposals"])
        return cls(MoveSettings(**document["settings"]), proposals)

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
        theta, weights, fold = system.theta, system.weights, folds(*system.theta.shape)
        moved = fold[rounds.resample(resample, len(system))]
        fits = [
            lambda kind=kind: CrossFitted.fit(kind, theta, weights, fold, moved)
            for kind in self.proposals
        ]
        number, proposal = self._first(fits, rounds, previous)
        kernel = IndependentKernel(proposal)
        known = previous is not None and previous.proposal == kernel.name
        rounds.expect(kernel, previous.acceptance if previous and known else EXPECTED_ACCEPTANCE)
        tried: dict[int, IndependentKernel] = {}
        most = ROUND
        while rounds.round(kernel, most):
            tried[number] = kernel
            most = ROUND
            best = min(tried, key=lambda k: rounds.unmoved_by_round(tried[k]))
            following = max(tried) + 1
            if rounds.unmoved_by_round(tried[best]) > POOR_ROUND and following < len(fits):
                number, most = following, TRIAL
            elif rounds.acceptance(tried[best]) < HOPELESS_ACCEPTANCE:
                break
            else:
                number = best
            kernel = IndependentKernel(self._fit(number, rounds.system.theta, moved))
            rounds.expect(kernel, EXPECTED_ACCEPTANCE)
        kernel = tried[min(tried, key=lambda k: rounds.unmoved_by_round(tried[k]))]
        if rounds.acceptance(kernel) < HOPELESS_ACCEPTANCE:
            walk = RandomWalkKernel.fit(theta, weights)
            rounds.move_on(walk, None)
            return rounds.system, rounds.record(walk)
        return rounds.system, rounds.record(kernel)

    def _fit(self, number: int, theta: Array, fold: Fold) -> CrossFitted:
        """Fit a proposal to an equally weighted population."""
        equal = np.full(len(theta), 1.0 / len(theta))
        return CrossFitted.fit(self.proposals[number], theta, equal, fold, fold)

    def _first(
        self,
        fits: Sequence[Callable[[], CrossFitted]],
        rounds: Rounds,
        previous: Rejuvenation | None,
    ) -> tuple[int, CrossFitted]:
        """Return the last proposal, or the simplest one if its predicted acceptance suffices."""
        simplest = fits[0]()
        names = [proposal.name for proposal in self.proposals]
        if previous is None or previous.proposal == names[0]:
            return 0, simplest
        number = names.index(previous.proposal) if previous.proposal in names else len(names) - 1
        proposal = fits[number]()
        predicted = predicted_acceptance(simplest, proposal, rounds.system, rounds.target)
        return (0, simplest) if predicted > PREDICTED_ACCEPTANCE else (number, proposal)


@checked
@dataclass(frozen=True)
class RandomWalkMetropolis(MoveStrategy):
    """Random-walk Metropolis, for targets that no independent proposal fits.

    Attributes
    ----------
    settings : MoveSettings
        An accepted step goes less far than an independent draw, so more of them are made.
    """

    name: ClassVar[str] = "random-walk"

    settings: MoveSettings = field(default_factory=lambda: MoveSettings(moved=0.999, max_moves=30))

    def document(self) -> dict[str, Any]:
        """See `MoveStrategy.document`."""
        return {"settings": asdict(self.settings)}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """See `MoveStrategy.of`."""
        return cls(MoveSettings(**document["settings"]))

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
class WasteFree(MoveStrategy):
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

    name: ClassVar[str] = "waste-free"

    length: Annotated[int, whole(2)] = 10
    kernel: KernelFit = RandomWalkKernel.fit

    def document(self) -> dict[str, Any]:
        """See `MoveStrategy.document`."""
        if self.kernel != RandomWalkKernel.fit:
            raise not_storable(self, "a kernel")
        return {"length": self.length}

    def __post_init__(self) -> None:
        check_fields(self, "length", "kernel")

    def check(self, particles: int) -> None:
        """See `MoveStrategy.check`."""
        number_of_chains(self.length, particles)

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
        chains = number_of_chains(self.length, n)
        rounds = Rounds(system, target, rng, MoveSettings())
        kernel = self.kernel(system.theta, system.weights)
        rounds.resample(resample, chains)
        rounds.keep_all(kernel, self.length - 1, n, starts=True)
        return rounds.system, rounds.record(kernel)


def predicted_acceptance(
    proposal: Proposal | CrossFitted,
    fitted: Proposal | CrossFitted,
    system: ParticleSystem,
    target: Target,
) -> float:
    """Acceptance that independent moves from ``proposal`` would have, without evaluating any.

    With r = q / pi (pi unnormalised, Z its integral) the acceptance of independent
    Metropolis-Hastings is Z E min(r(x), r(y)) over independent x, y that follow the target, and
    Z = 1 / E[q'(x) / pi(x)] for a proposal q' whose mass lies where the particles are; the share
    of q' beyond them is the share by which the prediction is too high.

    Parameters
    ----------
    proposal : Proposal or CrossFitted
        The one in question.
    fitted : Proposal or CrossFitted
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
