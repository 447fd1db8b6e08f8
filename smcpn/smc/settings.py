"""Options of an identification, one set for calls, commands, TOML files and checkpoints.

The signature of `identify` defines them: `Settings` has its types and defaults. `identify` and
`Online` build it from their arguments, a configuration from its tables ``[solver]`` and ``[run]``,
a command from the options that were given, and a checkpoint keeps it as JSON under the names by
which solvers, likelihoods, moves and proposals are registered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, Self, TypeVar, cast

import numpy as np
from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    create_model,
    model_validator,
)

from smcpn.base.arguments import (
    AUTO,
    STATE_PARTICLES,
    Count,
    FileName,
    Particles,
    Replicates,
    Seconds,
    Seed,
    Share,
    Threads,
)
from smcpn.base.stored import Line
from smcpn.codegen.target import CPUS
from smcpn.errors import InputError, NotStorableError, nearest, one_of, shown
from smcpn.likelihood.gradient import FORWARD
from smcpn.likelihood.registry import LIKELIHOODS
from smcpn.likelihood.solver_choice import SolverChoice, choose_solver
from smcpn.model.problem import Problem
from smcpn.model.solver import (
    Solver,
    check_solver,
    refuse_other_settings,
    solver_of,
)
from smcpn.smc.distributed.engines import checked_executor
from smcpn.smc.ibis import Ibis
from smcpn.smc.measured_moves import MeasuredMoves
from smcpn.smc.moves import (
    MOVES,
    IndependentMetropolis,
    MoveStrategy,
    moves_document,
    moves_of,
)
from smcpn.smc.rejuvenation import MoveSettings
from smcpn.smc.resampling import SCHEMES
from smcpn.smc.sampler import Settings as SamplerSettings
from smcpn.smc.start import Modes
from smcpn.smc.tempering import DiffusionTempering, Tempering

S = TypeVar("S", bound="Settings")

Method = Ibis | Tempering | DiffusionTempering
METHODS: dict[str, type[Method]] = {
    "ibis": Ibis,
    "tempering": Tempering,
    "diffusion-tempering": DiffusionTempering,
}
"""Methods that lead from the prior to the posterior, by name."""
BY_GRADIENT = (AUTO, "tempering")
"""Methods whose moves may follow the gradient of the likelihood."""
MANY = FORWARD
"""Parameters above which moves may follow the gradient: Hamiltonian trajectories need d^(1/4) steps
where a random walk needs d. Up to there independent proposals fit, or none of these pays."""
EXISTING = ("resume", "overwrite", "raise")
"""Ways to go on where a checkpoint exists."""


def _chosen(known: Collection[str]) -> BeforeValidator:
    """Return the check of an option that is one word of several."""

    def check(value: Any, info: ValidationInfo) -> Any:
        return None if value is None else one_of(str(info.field_name), value, known)

    return BeforeValidator(check)


def _made_by(read: Callable[[Any], Any]) -> WrapValidator:
    """Return the check of an option by a function alone; `PlainValidator` would write it twice."""
    return WrapValidator(lambda value, _: read(value))


def _solver(value: Any) -> Any:
    if isinstance(value, str) and value == "auto":
        return None
    if isinstance(value, Mapping):
        return solver_of(cast("Mapping[str, Any]", value))
    if value is not None:
        check_solver(cast(Any, value))
    return cast(Any, value)


def _moves(value: Any) -> Any:
    if isinstance(value, Mapping):
        return moves_of(cast("Mapping[str, Any]", value))
    if isinstance(value, str):
        return MOVES[one_of("moves", value, MOVES)]()
    if value is not None and not isinstance(value, MoveStrategy):
        raise InputError(
            f"moves is {shown(value)}: choose one of {', '.join(MOVES)}, or give an instance such "
            "as smcpn.WasteFree()",
            argument="moves",
        )
    return value


def _start(value: Any, read: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    if info.context is not None or value is None or isinstance(value, Modes):
        return read(value)
    if isinstance(value, str) and value == AUTO:
        return value
    raise InputError(
        f"start is {shown(value)}: give smcpn.laplace(problem) or 'auto', or leave it out",
        argument="start",
    )


def _state_particles(value: Any) -> int | None:
    """Return a number of particles, or None where it is chosen on the way."""
    read = None if value is None else STATE_PARTICLES("state_particles", value)
    return None if read == AUTO else read


class Options(BaseModel, frozen=True, strict=True, extra="forbid", arbitrary_types_allowed=True):
    """Options that determine a result, as the parameters of `smcpn.identify` explain them."""

    solver: Annotated[Solver | None, _made_by(_solver)]
    likelihood: Annotated[str | None, _chosen(LIKELIHOODS)]
    method: Annotated[str | None, _chosen((AUTO, *METHODS))]
    particles: Particles
    seed: Seed | None
    ess: Share
    block: Count
    moves: Annotated[MoveStrategy | None, _made_by(_moves)]
    resampling: Annotated[str, _chosen(SCHEMES)]
    replicates: Replicates
    start: Annotated[Modes | Literal["auto"] | None, WrapValidator(_start)]
    state_particles: Annotated[int | None, PlainValidator(_state_particles)]
    cpu: Annotated[str, _chosen(CPUS)]


class Settings(Options, frozen=True):
    """Options of an identification; what is None is chosen when the problem is known.

    Raises `InputError` for an option that is not known or out of range, in one sentence.
    """

    max_moves: Count
    threads: Threads
    executor: Annotated[Any, PlainValidator(checked_executor)]
    checkpoint: FileName | None
    checkpoint_every: Seconds
    existing: Annotated[str, _chosen(EXISTING)]

    def __init__(self, /, **options: Any) -> None:
        try:
            super().__init__(**options)
        except ValidationError as error:
            raise _in_one_sentence(error, type(self)) from None

    @model_validator(mode="after")
    def _one_number_of_moves(self) -> Self:
        if self.moves is not None and self.max_moves not in (None, MoveSettings.max_moves):
            raise InputError(
                f"max_moves is {self.max_moves}: it goes with the moves that are the default, "
                "leave it out",
                argument="max_moves",
            )
        return self

    @property
    def given(self) -> dict[str, Any]:
        """Options that were given, by name; the others have their defaults."""
        return {name: getattr(self, name) for name in sorted(self.model_fields_set)}

    def with_options(self, **options: Any) -> Self:
        """Return these settings with other options where they are not None."""
        others = {name: value for name, value in options.items() if value is not None}
        return type(self)(**{**self.given, **others})

    def resolved(self, problem: Problem) -> RunSettings:
        """Return the settings with every option that was None chosen.

        Raises `InputError` if solver and likelihood do not go together.
        """
        if self.method == AUTO and isinstance(self.start, Modes):
            raise InputError(
                "method is 'auto', which searches for its start: leave start out, or leave method "
                "out",
                argument="method",
            )
        chosen = choose_solver(problem, self.solver, self.likelihood)
        likelihood = chosen.likelihood
        exact = LIKELIHOODS[likelihood].approximation is None
        if self.state_particles is not None and exact:
            raise InputError(
                f"state_particles is {self.state_particles}: the {likelihood} likelihood has none, "
                "leave it out",
                argument="state_particles",
            )
        method = self.method or (AUTO if self.start is None else "tempering")
        moves = self._chosen_moves(len(problem.prior), exact and method in BY_GRADIENT)
        moves.check(self.particles)
        if moves.follows_gradient:
            _require_gradient(moves, likelihood, method)
        options: dict[str, Any] = {
            **{name: getattr(self, name) for name in Options.model_fields},
            "solver": chosen.solver,
            "likelihood": likelihood,
            "solver_reason": "" if self.solver is not None else chosen.reason,
            "solver_open": chosen.open,
            "method": method,
            "moves": moves,
            "entropy": np.random.SeedSequence(self.seed).entropy,
        }
        return RunSettings(**options)

    def _chosen_moves(self, parameters: int, gradients: bool) -> MoveStrategy:
        """Moves for so many parameters; a number of them that was given is never exceeded."""
        if self.moves is not None:
            return self.moves
        if self.max_moves != MoveSettings.max_moves:
            return IndependentMetropolis(MoveSettings(max_moves=self.max_moves))
        if gradients and parameters > MANY:
            return MeasuredMoves(min(MeasuredMoves.length, self.particles // 2))
        return IndependentMetropolis()


def with_defaults(defaults: Mapping[str, Any]) -> Callable[[type[S]], type[S]]:
    """Return a decorator of settings that gives their fields defaults by name."""

    def decorate(kind: type[S]) -> type[S]:
        fields: dict[str, Any] = {
            name: (Annotated[(one.annotation, None, *one.metadata)], defaults[name])
            for name, one in kind.model_fields.items()
        }
        name, module = kind.__name__, kind.__module__
        return create_model(name, __base__=kind, __module__=module, __doc__=kind.__doc__, **fields)

    return decorate


@with_defaults(dict.fromkeys(Settings.model_fields))
class PartialSettings(Settings, frozen=True):
    """Options of an identification as far as they are given; the others are None."""

    def __init__(self, /, **options: Any) -> None:
        super().__init__(**options)


class RunSettings(Options, frozen=True):
    """Settings of a run, with nothing left open.

    solver: Its steps may be ``"auto"``.
    likelihood, method: The method may be ``"auto"``, and the start as well.
    moves: None in a file that cannot hold them.
    solver_reason: Why this solver was chosen; empty where it was given.
    solver_open: Whether another one may be chosen where the particles are.
    entropy: What the random generators are made from: the seed, where there is one.
    """

    solver: Annotated[Solver, _made_by(_solver)]
    likelihood: Annotated[str, _chosen(LIKELIHOODS)]
    method: Annotated[str, _chosen((AUTO, *METHODS))]
    entropy: Annotated[int, Field(ge=0)]
    solver_reason: Line = ""
    solver_open: bool = False

    def taking(self, choice: SolverChoice | None) -> RunSettings:
        """Return the settings with the solver of another choice, where there is one."""
        if choice is None:
            return self
        return self.model_copy(
            update={
                "solver": choice.solver,
                "likelihood": choice.likelihood,
                "solver_reason": choice.reason,
                "solver_open": choice.open,
            }
        )

    @property
    def sampler(self) -> SamplerSettings:
        """The part of the settings that the sampler reads, but for the start."""
        assert self.moves is not None
        return SamplerSettings(
            particles=self.particles,
            ess=self.ess,
            block=self.block,
            moves=self.moves,
            resample=SCHEMES[self.resampling],
            state_particles=self.state_particles,
        )

    def generator(self, number: int) -> np.random.Generator:
        """Return the random generator of a population, fresh; there is one beyond the last."""
        root = np.random.SeedSequence(self.entropy)
        first = self.replicates == 1 and number == 0
        child = root if first else root.spawn(self.replicates + 1)[number]
        return np.random.default_rng(child)

    @property
    def follows_gradient(self) -> bool:
        """True if the moves need the gradient of the likelihood."""
        return self.moves is not None and self.moves.follows_gradient

    @property
    def not_storable(self) -> str:
        """Why a file cannot hold these settings, as a sentence; empty where it can."""
        try:
            moves_document(self.sampler.moves)
        except NotStorableError as error:
            return str(error)
        return ""

    @property
    def storable(self) -> RunSettings:
        """The settings as a file can hold them: without moves of one's own."""
        return self.model_copy(update={"moves": None}) if self.not_storable else self


def solver_with(solver: Solver, **settings: Any) -> Solver:
    """Return a solver with other settings.

    Raises `InputError` for a setting that it does not have, or a value out of range.
    """
    refuse_other_settings(solver, settings)
    return replace(solver, **settings)


def _in_one_sentence(error: ValidationError, kind: type[BaseModel]) -> InputError:
    """Return what pydantic found first as the sentence a user reads."""
    first: Mapping[str, Any] = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"])
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        inside = cause.argument if cause.argument != name else None
        argument = ".".join(part for part in (name, inside) if part)
        return InputError(str(cause), argument=argument or None)
    if first["type"] == "extra_forbidden":
        sentence = f"'{name}' is no option: {nearest(name, kind.model_fields)}"
        return InputError(sentence, argument=name)
    return InputError(f"{name} is {shown(first['input'])}: {first['msg']}", argument=name)


def _require_gradient(moves: MoveStrategy, likelihood: str, method: str) -> None:
    """Refuse moves along a gradient that there is none of."""
    if LIKELIHOODS[likelihood].approximation is not None:
        raise InputError(
            f"moves is '{moves.name}', and likelihood='{likelihood}' is an estimate, which has no "
            "gradient: leave moves out",
            argument="moves",
        )
    if method not in BY_GRADIENT:
        raise InputError(
            f"moves is '{moves.name}', and method='{method}' weighs what has no gradient: choose "
            f"method={' or '.join(map(repr, BY_GRADIENT))}",
            argument="moves",
        )
