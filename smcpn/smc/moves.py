"""Strategies of rejuvenation: which kernels are fitted to the particles, and how often they move.

A `MoveStrategy` registers in `MOVES` by being defined. `kernels` holds what moves a population, and
`rejuvenation` the rounds of moves and their record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from types import NoneType
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema
from typing_extensions import override

from smcpn.base.arguments import check_fields, checked, whole
from smcpn.base.stored import by_document
from smcpn.errors import InputError, NotStorableError, one_of, shown
from smcpn.smc.evidence import Density
from smcpn.smc.kernels import IndependentKernel, Kernel, RandomWalkKernel
from smcpn.smc.particles import ParticleSystem, Target
from smcpn.smc.proposals import PROPOSALS, DefensiveGaussian, Proposal, StudentMixture, folds
from smcpn.smc.rejuvenation import (
    EXPECTED_ACCEPTANCE,
    ROUND,
    MoveSettings,
    Rejuvenation,
    Rounds,
    number_of_chains,
)
from smcpn.smc.resampling import Resample
from smcpn.smc.straightening import StraightenedDensity, Straightening

Array = NDArray[np.float64]

KernelFit = Callable[[Array, Array], Kernel]
"""From weighted particles, (N, d) and (N,), to a kernel."""
POOR_ROUND = 0.1
"""Share of the target left by a round of moves above which the next proposal is tried."""
TRIAL = 3
"""Moves of a proposal that is tried."""
FURTHER = 40
"""Moves beyond the usual number where these leave too much of the target. A tenth is reached with
an acceptance of .06 on average, and a gradient costs as much where there are twenty parameters."""
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

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return by_document(moves_of, moves_document, handler)

    def check(self, particles: int) -> None:  # noqa: B027
        """Refuse so few particles that these moves cannot be made with them."""

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


def moves_document(moves: MoveStrategy) -> dict[str, Any]:
    """Return moves as JSON can hold them: their name, and settings by the names of what they use.

    Raises `NotStorableError` for moves without a name of their own, and for a setting that is no
    number, text or name.
    """
    if MOVES.get(moves.name) is not type(moves):
        raise NotStorableError(
            f"moves is {type(moves).__name__}, which has no name of its own", argument="moves"
        )
    by_default = {name: getattr(type(moves), name, None) for name in vars(moves)}
    return {"kind": moves.name} | {
        name: _plain(moves, name, value)
        for name, value in vars(moves).items()
        if not callable(value) or value != by_default[name]
    }


def _plain(moves: MoveStrategy, name: str, value: Any) -> Any:
    if isinstance(value, MoveSettings):
        return asdict(value)
    if isinstance(value, (bool, int, float, str, NoneType)):
        return value
    if isinstance(value, Sequence) and all(one in PROPOSALS.values() for one in value):
        return [one.name for one in value]
    raise NotStorableError(
        f"moves is {type(moves).__name__} with {name} of your own, which a file cannot hold"
    )


def moves_of(document: Mapping[str, Any]) -> MoveStrategy:
    """Return the moves of a document, or of a table that names their kind.

    Raises `InputError` for a kind or a proposal that is not known, and for settings that it does
    not have.
    """
    settings = dict(document)
    kind = MOVES[one_of("moves", settings.pop("kind", None), MOVES)]
    try:
        if "settings" in settings:
            settings["settings"] = MoveSettings(**settings["settings"])
        if "proposals" in settings:
            settings["proposals"] = tuple(map(_proposal, settings["proposals"]))
        return kind(**settings)
    except (AttributeError, TypeError) as error:
        raise InputError(
            f"moves is {shown(document)}: '{kind.name}' does not take these settings",
            argument="moves",
        ) from error


def _proposal(name: str) -> type[Proposal]:
    if name not in PROPOSALS:
        raise InputError(f"proposal '{name}' is not known here: import its class first")
    return PROPOSALS[name]


@checked
@dataclass(frozen=True)
class IndependentMetropolis(MoveStrategy):
    """Independent Metropolis-Hastings with the simplest proposal that moves all of the target.

    The proposal is fitted to the *weighted* particles, before resampling, and again to the moved
    ones after each round of at most five moves: so it follows where the target has mass that the
    particles had not found. Each particle is moved by a fit that it had no part in, see
    `CrossFitted`, in coordinates that straighten ridges, see `Straightening`. As many moves are
    made again where they have widened the population by more than chance. Where a round leaves more
    than a tenth of the target unmoved the next proposal is tried, and the better one stays in use
    until the first is predicted to do well again. A
    random walk takes over where even the best is hopeless, and parts copies that it left together.

    Attributes
    ----------
    settings : MoveSettings
    proposals : sequence of Proposal classes
        From the simplest to the most flexible.
    """

    name: ClassVar[str] = "independent"

    settings: MoveSettings = field(default_factory=lambda: MoveSettings(further=FURTHER))
    proposals: Sequence[type[Proposal]] = (DefensiveGaussian, StudentMixture)

    @override
    def rejuvenate(
        self,
        system: ParticleSystem,
        target: Target,
        rng: np.random.Generator,
        resample: Resample,
        previous: Rejuvenation | None,
    ) -> tuple[ParticleSystem, Rejuvenation]:
        rounds = Rounds(system, target, rng, self.settings)
        theta, weights, fold = system.theta, system.weights, folds(*system.theta.shape)
        moved = fold[rounds.resample(resample, len(system))]
        straight = Straightening.fit(target.prior, theta, weights)
        fits = [
            lambda kind=kind: StraightenedDensity.fit(kind, straight, theta, weights, fold, moved)
            for kind in self.proposals
        ]
        number, proposal = self._first(fits, rounds, previous)
        kernel = IndependentKernel(proposal)
        known = previous is not None and previous.proposal == kernel.name
        rounds.expect(kernel, previous.acceptance if previous and known else EXPECTED_ACCEPTANCE)
        tried: dict[int, IndependentKernel] = {}
        most = ROUND
        equal = np.full(len(theta), 1.0 / len(theta))
        while (going := rounds.round(kernel, most)) or rounds.again():
            if not going:
                straight = Straightening.fit(target.prior, rounds.system.theta, equal)
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
            kind, places = self.proposals[number], rounds.system.theta
            proposal = StraightenedDensity.fit(kind, straight, places, equal, moved, moved)
            kernel = IndependentKernel(proposal)
            rounds.expect(kernel, EXPECTED_ACCEPTANCE)
        kernel = tried[min(tried, key=lambda k: rounds.unmoved_by_round(tried[k]))]
        walk = partial(RandomWalkKernel.fit, system.theta, weights, straight)
        record = self._walked(rounds, kernel, walk)
        return rounds.system, record

    def _walked(
        self, rounds: Rounds, kernel: IndependentKernel, walk: Callable[[], Kernel]
    ) -> Rejuvenation:
        """Move on by a random walk what independent moves have left; return the record."""
        if rounds.acceptance(kernel) < HOPELESS_ACCEPTANCE:
            taken_over = walk()
            rounds.move_on(taken_over, None)
            return rounds.record(taken_over)
        freed = 0
        # Where no proposal comes, copies stay; what was expected to move does not know such places.
        while rounds.system.crowded and freed < self.settings.further:
            rounds.every(walk(), ROUND)
            freed += ROUND
        return rounds.record(kernel)

    def _first(
        self,
        fits: Sequence[Callable[[], StraightenedDensity]],
        rounds: Rounds,
        previous: Rejuvenation | None,
    ) -> tuple[int, StraightenedDensity]:
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
    """Random-walk Metropolis, for posteriors that no independent proposal fits.

    Steps have the covariance of the weighted particles times 2.38^2 / d, of d parameters, in
    coordinates that straighten their ridges, see `Straightening`.

    Attributes
    ----------
    settings : MoveSettings
        An accepted step goes less far than an independent draw, so more of them are made.
    """

    name: ClassVar[str] = "random-walk"

    settings: MoveSettings = field(default_factory=lambda: MoveSettings(moved=0.999, max_moves=30))

    @override
    def rejuvenate(
        self,
        system: ParticleSystem,
        target: Target,
        rng: np.random.Generator,
        resample: Resample,
        previous: Rejuvenation | None,
    ) -> tuple[ParticleSystem, Rejuvenation]:
        rounds = Rounds(system, target, rng, self.settings)
        straight = Straightening.fit(target.prior, system.theta, system.weights)
        kernel = RandomWalkKernel.fit(system.theta, system.weights, straight)
        rounds.resample(resample, len(system))
        rounds.move_on(kernel, previous.acceptance if previous is not None else None)
        return rounds.system, rounds.record(kernel)


@dataclass(frozen=True)
class WasteFree(MoveStrategy):
    """Waste-free moves: N / length particles begin chains, whose states are all kept.

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

    def __post_init__(self) -> None:
        check_fields(self, "length", "kernel")

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
        n = len(system)
        chains = number_of_chains(self.length, n)
        rounds = Rounds(system, target, rng, MoveSettings())
        kernel = self.kernel(system.theta, system.weights)
        rounds.resample(resample, chains)
        rounds.keep_all(kernel, self.length - 1, n, starts=True)
        return rounds.system, rounds.record(kernel)


def predicted_acceptance(
    proposal: Density,
    fitted: Density,
    system: ParticleSystem,
    target: Target,
) -> float:
    """Acceptance that independent moves from ``proposal`` would have, without evaluating any.

    With r = q / pi (pi unnormalised, Z its integral) the acceptance of independent
    Metropolis-Hastings is Z E min(r(x), r(y)) over independent x, y that follow the target, and
    Z = 1 / E[q'(x) / pi(x)] for a proposal q' whose mass lies where the particles are; the share
    of q' beyond them is the share by which the prediction is too high.

    ``proposal`` is the one in question, ``fitted`` one that is known to cover the target and little
    else, and the particles are equally weighted.
    """
    density = target.log_density(system)
    ratio = proposal.log_density(system.theta) - density
    covering = np.logaddexp.reduce(fitted.log_density(system.theta) - density)
    # Resampled copies are neighbours: half the population apart they are independent.
    pairs = np.minimum(ratio, np.roll(ratio, len(ratio) // 2))
    return float(np.exp(np.logaddexp.reduce(pairs) - covering))
