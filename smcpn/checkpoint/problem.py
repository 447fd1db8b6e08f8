"""A problem and its records as plain data: names, numbers and arrays, no code, no pickle.

Unknown functions are the name of their kind, and its settings. A function is made again by the
public function that made it, which checks what it is given.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import inspect
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy import stats

from smcpn.base.stored import AnyArray, Line, Name, Names, Number, Stored, Text, Whole, finite
from smcpn.checkpoint.codec import read_again
from smcpn.checkpoint.container import DAMAGED
from smcpn.errors import InputError, NotStorableError, listed, shown
from smcpn.model.delay import Delay
from smcpn.model.distribution import Distribution
from smcpn.model.dosing import Dosing, with_function
from smcpn.model.events import event_rows
from smcpn.model.expression import ExpressionTable
from smcpn.model.functions.gaussian_process import GaussianProcess, gaussian_process
from smcpn.model.functions.network import LinearisedNetwork, Network, linearised_network, network
from smcpn.model.functions.spline import Spline, spline
from smcpn.model.functions.unknown import UnknownFunction
from smcpn.model.graphs import Model
from smcpn.model.ode import ODE, entry_names, graphs_of
from smcpn.model.prior import Prior
from smcpn.model.problem import Problem, assembled, check_record
from smcpn.model.record import CONTEXT, Record
from smcpn.model.signal import given_function

KINDS: dict[type[UnknownFunction], Callable[..., UnknownFunction]] = {
    Spline: spline,
    GaussianProcess: gaussian_process,
    Network: network,
    LinearisedNetwork: linearised_network,
}
"""A maker takes the labels of the variables, and by name the other fields of the class."""
NAMES = {make.__name__: make for make in KINDS.values()}
"""Makers by name, which is the kind in files."""


def kind_of(function: Any) -> str | None:
    """Name of the kind of a function; None for one of the user's own."""
    make = KINDS.get(type(function))
    return None if make is None else make.__name__


MOST_ENTRIES = 64
"""Of a list among the settings."""
MOST_NUMBERS = 20_000
"""Of a list of numbers, such as weights."""
Scalar = bool | Whole | Number | Line | None
Setting = (
    Scalar
    | Annotated[list[Scalar], Field(max_length=MOST_ENTRIES)]
    | Annotated[list[Number], Field(max_length=MOST_NUMBERS)]
    | Annotated[
        list[Annotated[list[Scalar], Field(max_length=MOST_ENTRIES)]],
        Field(max_length=MOST_ENTRIES),
    ]
)


@dataclass(frozen=True)
class StoredFunction(Stored):
    """An unknown function: its name in the model, its kind, its variables and other settings."""

    name: Name
    kind: Name
    arguments: Annotated[list[Line], Field(max_length=MOST_ENTRIES)]
    settings: Annotated[dict[Name, Setting], Field(max_length=MOST_ENTRIES)]


def stored_function(name: str, function: UnknownFunction) -> StoredFunction:
    """Return a function as its kind and plain settings, those of the default left out.

    Raises `NotStorableError` if it does not come back the same from these.
    """
    stored = StoredFunction(
        name=name,
        kind=kind_of(function) or "",
        arguments=list(function.arguments),
        settings={
            one.name: _plain(getattr(function, one.name))
            for one in fields(cast(Any, function))
            if one.name != "arguments" and getattr(function, one.name) != one.default
        },
    )
    try:
        same = restored_function(read_again(stored)) == function
    except (InputError, TypeError):
        same = False
    if not same:
        raise NotStorableError(
            f"function '{name}' is a {type(function).__name__} that no file can hold: make it by "
            f"{listed(NAMES)} of smcpn to be able to resume from the file alone; otherwise resume "
            "from the script"
        )
    return stored


def restored_function(stored: StoredFunction) -> UnknownFunction:
    """Return the function that was stored.

    Raises `InputError` if the kind is not known here, or does not take these settings.
    """
    if stored.kind not in NAMES:
        raise InputError(
            f"the stored function '{stored.name}' is {shown(stored.kind)}, which is none of "
            f"{listed(NAMES)}: {DAMAGED}"
        )
    make = NAMES[stored.kind]
    settings = {name: _tuples(value) for name, value in stored.settings.items()}
    try:
        given = inspect.signature(make).bind(*stored.arguments, **settings)
    except TypeError as error:
        raise InputError(
            f"the stored function '{stored.name}' is no {stored.kind} ({shown(str(error))}): "
            f"{DAMAGED}"
        ) from error
    try:
        return make(*given.args, **given.kwargs)
    except InputError as error:
        raise InputError(f"the stored function '{stored.name}': {error}") from error


def functions_of(stored: list[StoredFunction]) -> Mapping[str, UnknownFunction]:
    """Return the functions of a model by name.

    Raises `InputError` as `restored_function`, and if two have one name.
    """
    found = {one.name: restored_function(one) for one in stored}
    if len(found) < len(stored):
        raise InputError(f"stored functions have {shown(list(found))} as names: {DAMAGED}")
    return found


def _plain(value: Any) -> Any:
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


RESULTS = 7
"""Of a model's table, before the initial state of each record."""
MOST_ARGUMENTS = 16
"""Of a prior distribution."""
Initial = dict[Name, Line | float] | list[Line | float]
"""Initial states of a record."""


@dataclass(frozen=True)
class StoredDistribution(Stored):
    """A prior distribution: library, name of the family, arguments."""

    library: str
    family: str
    args: Annotated[list[Any], Field(max_length=MOST_ARGUMENTS)]
    kwds: Annotated[dict[str, Any], Field(max_length=MOST_ARGUMENTS)]


@dataclass(frozen=True)
class StoredPrior(Stored):
    """The prior of a parameter."""

    name: Name
    distribution: StoredDistribution


@dataclass(frozen=True)
class StoredODE(Stored):
    """An ODE as its names and its expression table."""

    name: Name
    doc: Text
    states: Names
    inputs: Names
    parameters: Names
    defaults: dict[Name, Number]
    chains: dict[Name, Name]
    sizes: dict[Name, Whole]
    functions: list[StoredFunction]
    table: ExpressionTable
    accumulators: Names = ()
    algebraic: Names = ()


@dataclass(frozen=True)
class StoredModel(Stored):
    """A model as its expression table, with the values of the constants in it."""

    table: ExpressionTable
    constants: Annotated[NDArray[np.float64], finite(None)]


@dataclass(frozen=True)
class StoredRoute(Stored):
    """Doses into one state with one fraction and lag, see `smcpn.model.dosing.Route`."""

    state: Name
    fraction: Name | Number
    lag: Name | Number
    slots: Whole


@dataclass(frozen=True)
class StoredDose(Stored):
    """A dose of a record."""

    time: Number
    state: Name
    amount: Number
    duration: Number
    lag: Name | Number
    fraction: Name | Number


@dataclass(frozen=True)
class GivenLabels(Stored):
    """Outputs, noises and initial state as the user gave them, for tables and reports."""

    observe: list[Line]
    noise: list[Line | float]
    process_noise: dict[Name, Line | float]
    initial: Line | float | Initial | list[Line | float | Initial]
    delay: dict[Name, Name | Number] = field(default_factory=dict[str, str | float])
    routes: list[StoredRoute] = field(default_factory=list["StoredRoute"])
    input_degree: Whole = 1


@dataclass(frozen=True)
class StoredProblem(Stored):
    """A problem but for its records."""

    ode: StoredODE
    model: StoredModel
    priors: list[StoredPrior]
    coordinates: dict[Name, Name]
    scales: dict[Name, Name | Number]
    fixed: dict[Name, Number]
    diffusion: Line
    given: GivenLabels

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """Return everything of a problem but its records.

        Raises `NotStorableError` if a prior or the model cannot be put together again from plain
        data.
        """
        ode, prior, model = problem.ode, problem.prior, problem.model
        constants = np.array(model.constant_values, dtype=float)
        stored = cls(
            ode=StoredODE(
                name=ode.name,
                doc=ode.doc,
                states=ode.states,
                inputs=ode.inputs,
                parameters=ode.parameters,
                defaults=dict(ode.defaults),
                chains=dict(ode.chains),
                sizes=dict(ode.sizes),
                functions=[stored_function(n, one.function) for n, one in ode.functions.items()],
                table=ode.table(),
                accumulators=ode.accumulators,
                algebraic=ode.algebraic,
            ),
            model=StoredModel(model.table(), constants),
            priors=[
                StoredPrior(name, stored_distribution(name, distribution))
                for name, distribution in prior.distributions.items()
            ],
            coordinates=dict(prior.coordinates),
            scales=dict(prior.scales),
            fixed=dict(problem.fixed),
            diffusion=problem.diffusion or "",
            given=GivenLabels(
                observe=problem.observe,
                noise=problem.noise,
                process_noise=dict(problem.process_noise),
                initial=problem.initial,
                delay=problem.delay,
                routes=[
                    StoredRoute(one.state, one.fraction, one.lag, one.slots)
                    for one in (() if model.dosing is None else model.dosing.routes)
                ],
                input_degree=1 if model.dosing is None else model.dosing.degree,
            ),
        )
        for name, table in (("ode", stored.ode.table), ("model", stored.model.table)):
            if not ExpressionTable.of(table.function(name)).same_as(table):
                raise NotStorableError(
                    f"model '{ode.name}' would not be the same after it was read from a file: "
                    "resume from the script"
                )
        return stored

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the unknown parameters."""
        return tuple(prior.name for prior in self.priors)

    @property
    def prior(self) -> Prior:
        """The prior of all parameters.

        Raises `InputError` if a distribution cannot be made.
        """
        if len(set(self.names)) < len(self.names):
            raise InputError(f"stored priors are of {shown(list(self.names))}: {DAMAGED}")
        distributions = {
            one.name: restored_prior(one.name, one.distribution) for one in self.priors
        }
        return Prior(distributions, self.coordinates, self.scales)

    def restored(self, records: Sequence[Record]) -> Problem:
        """Return the problem with these records.

        Raises `InputError` if the parts do not fit each other.
        """
        ode, prior, given = _restored_ode(self.ode), self.prior, self.given
        free = dict(prior.distributions)
        routes = [(one.state, one.fraction, one.lag, one.slots) for one in given.routes]
        dosing = None
        if routes:
            dosing = Dosing.restored(routes, ode, free, self.fixed, given.input_degree)
        inputs = len(ode.inputs) + (0 if dosing is None else dosing.width)
        model = _restored_model(
            self.model,
            arguments=[len(ode.states), inputs, 1, 1, len(prior)],
            outputs=len(given.observe),
            records=len(records),
            algebraic=tuple(map(ode.states.index, ode.algebraic)),
            delay=Delay.of(given.delay, ode, free, self.fixed),
            dosing=dosing,
            accumulators=[ode.states.index(name) for name in ode.accumulators],
        )
        for record in records:
            check_record(record, ode, len(given.observe), records)
        return assembled(
            ode=ode,
            records=tuple(records),
            model=model,
            prior=prior,
            fixed=self.fixed,
            observe=given.observe,
            noise=given.noise,
            initial=given.initial,
            diffusion=self.diffusion or None,
            process_noise=given.process_noise,
        )


# Prior distributions as names and numbers

ENDLESS = frozenset({
    "genhyperbolic", "geninvgauss", "irwinhall", "ksone", "kstwo", "kstwobign", "studentized_range",
    "truncpareto",
})  # fmt: skip
"""Families of `scipy.stats` whose draws or densities take for ever with some arguments."""

FAMILIES = {
    name: family
    for name, family in vars(stats).items()
    if isinstance(family, stats.rv_continuous)
    and family.name == name
    # Its parameterization is an attribute and none of its arguments.
    and name != "levy_stable"
    and name not in ENDLESS
}
"""The continuous distributions of `scipy.stats` that a file can name."""

PARTICLES = "particles.distributions"
LAWS = frozenset({
    "Beta", "Gamma", "InvGamma", "Laplace", "Logistic", "LogNormal", "Normal", "Student",
    "TruncNormal", "Uniform",
})  # fmt: skip
"""Distributions of `particles` that a file can name: of one number, their arguments numbers."""
_FROZEN = type(stats.norm())

_REMEDY = (
    "give a frozen scipy.stats distribution with plain numbers to be able to resume from the file "
    "alone; otherwise resume from the script"
)


def stored_distribution(name: str, distribution: Distribution) -> StoredDistribution:
    """Return the prior of parameter ``name`` as its family and numbers.

    Raises `NotStorableError` if it is neither a family of `scipy.stats` nor a simple one of
    `particles.distributions`, or an argument is not a plain number.
    """
    # A subclass may compute something else.
    if type(distribution) is _FROZEN:
        return _of_scipy(name, distribution)
    if type(distribution).__module__ == PARTICLES:
        return _of_particles(name, distribution)
    raise _not_storable(name, f"is an object of class {type(distribution).__qualname__}")


def restored_prior(name: str, stored: StoredDistribution) -> Distribution:
    """Return the prior of parameter ``name`` that was stored.

    Raises `InputError` if the family is not known here, or does not take these numbers.
    """
    library, family = stored.library, stored.family
    args = [_read(value) for value in stored.args]
    kwds = {key: _read(value) for key, value in stored.kwds.items()}
    make: Any = None
    if library == "scipy.stats":
        make = FAMILIES.get(family)
    elif library == PARTICLES:
        make = _particles_family(family)
    if make is None:
        raise InputError(
            f"stored prior of '{name}' is {shown(family)} of {shown(library)}, which is not known "
            "here: resume from the script, or with the versions that wrote the file"
        )
    try:
        return make(*args, **kwds)
    except Exception as error:
        raise InputError(
            f"stored prior of '{name}' cannot be made again: {family} does not take "
            f"{shown(args)}, {shown(kwds)} ({type(error).__name__})"
        ) from error


def _of_scipy(name: str, frozen: Any) -> StoredDistribution:
    family = FAMILIES.get(getattr(frozen.dist, "name", ""))
    # A class of the user's may bear the name of a family, or change its support.
    same = family is not None and (type(family), family.a, family.b) == (
        type(frozen.dist), frozen.dist.a, frozen.dist.b
    )  # fmt: skip
    if not same:
        raise _not_storable(
            name, f"is of the family {type(frozen.dist).__name__}, which scipy.stats does not name"
        )
    return StoredDistribution(
        library="scipy.stats",
        family=frozen.dist.name,
        args=[_written(name, value) for value in frozen.args],
        kwds={key: _written(name, value) for key, value in frozen.kwds.items()},
    )


def _of_particles(name: str, distribution: Any) -> StoredDistribution:
    family = type(distribution)
    try:
        if _particles_family(family.__name__) is not family:
            raise InputError("another class of that name")
        arguments = {
            key: getattr(distribution, key) for key in inspect.signature(family).parameters
        }
        again = family(**arguments)
        same = vars(again) == vars(distribution)
    except Exception as error:
        raise _not_storable(name, f"({family.__name__}) does not keep its arguments") from error
    if not same:
        raise _not_storable(name, f"({family.__name__}) was changed after it was made")
    return StoredDistribution(
        library=PARTICLES,
        family=family.__name__,
        args=[],
        kwds={key: _written(name, value) for key, value in arguments.items()},
    )


def _particles_family(name: str) -> Any:
    """Return one of `LAWS` of the package `particles` as it is installed.

    Its name alone is no reason to import whatever lies in the working directory.
    """
    if name not in LAWS:
        raise InputError(f"a stored prior is {shown(name)}, which is no distribution of particles")
    try:
        found = importlib.util.find_spec("particles")
        installed = importlib.metadata.distribution("particles").locate_file("particles")
        if found is None or not os.path.samefile(
            os.path.dirname(found.origin or ""), str(installed)
        ):
            raise ImportError("another package of that name comes first")
        return getattr(importlib.import_module(PARTICLES), name)
    except (ImportError, OSError, ValueError) as error:
        raise InputError(
            f"a stored prior is {name} of the package particles, which is not installed: install it"
        ) from error


def _not_storable(name: str, reason: str) -> NotStorableError:
    return NotStorableError(f"prior of '{name}' {reason} and cannot be stored in a file: {_REMEDY}")


def _written(name: str, value: Any) -> int | float | str:
    """Return a number as JSON has it: infinity is text."""
    array = np.asarray(value)
    # A number of another width would be computed with differently after it was read.
    exact = array.dtype in (np.float64, np.int64)
    if array.shape != () or not exact or (array.dtype == np.float64 and np.isnan(array)):
        raise _not_storable(name, f"has the argument {shown(value)}, which is no plain number,")
    number = array.item()
    return number if math.isfinite(number) else str(number)


def _read(value: Any) -> int | float:
    if value in ("inf", "-inf"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"a stored prior has the argument {shown(value)}: the file is damaged")
    return value


def _restored_ode(stored: StoredODE) -> ODE:
    states, table = stored.states, stored.table
    functions = functions_of(stored.functions)
    sizes = [len(states), len(stored.inputs), 1, len(stored.parameters)]
    shapes = table.output_shapes.tolist()
    own, rows = len(shapes) - len(functions), event_rows(len(states))
    if (
        table.input_shapes.tolist() != [[n, 1] for n in sizes]
        or own not in (1, 2)
        or shapes[0] != [len(states), 1]
        or shapes[own - 1][0] not in (len(states), *range(rows, shapes[own - 1][0] + 1, rows))
        or any(
            columns != len(one.arguments)
            for (_, columns), one in zip(shapes[own:], functions.values(), strict=True)
        )
    ):
        raise InputError(f"the stored table of the ODE does not fit its names: {DAMAGED}")
    chains = stored.chains
    if not set(states) >= {*chains, *chains.values()}:
        raise InputError(f"stored 'chains' is {shown(chains)}: {DAMAGED}")
    if not set(states).issuperset(stored.accumulators):
        raise InputError(f"stored 'accumulators' is {shown(stored.accumulators)}: {DAMAGED}")
    if not set(states) > set(stored.algebraic):
        raise InputError(f"stored 'algebraic' is {shown(stored.algebraic)}: {DAMAGED}")
    ode = ODE(
        name=stored.name,
        accumulators=tuple(stored.accumulators),
        states=tuple(states),
        inputs=tuple(stored.inputs),
        parameters=tuple(stored.parameters),
        defaults=stored.defaults,
        chains=chains,
        doc=stored.doc,
        sizes=_restored_sizes(stored),
        algebraic=tuple(stored.algebraic),
        **graphs_of(table, functions),
    )
    for name in functions:
        if not set(ode.parameters).issuperset(ode.wholes[name]):
            raise InputError(f"the stored function '{name}' has other parameters: {DAMAGED}")
    return ode


def _restored_sizes(stored: StoredODE) -> dict[str, int]:
    """Return the sizes of vectors, all of whose entries are there."""
    scalars = [set(names) for names in (stored.states, stored.inputs, stored.parameters)]
    for name, size in stored.sizes.items():
        whole = 1 <= size <= max(map(len, scalars)) and set(entry_names(name, size))
        if not whole or not any(names >= whole for names in scalars):
            raise InputError(f"stored size of '{name}' is {size}: {DAMAGED}")
    return stored.sizes


def _restored_model(
    stored: StoredModel,
    arguments: list[int],
    outputs: int,
    records: int,
    delay: Delay | None,
    dosing: Dosing | None,
    accumulators: Sequence[int],
    algebraic: tuple[int, ...],
) -> Model:
    """Return the model of a table, whose sizes are compared before graphs are made of it."""
    values, table = stored.constants, stored.table
    events = table.output_shapes[-1, 0] >= event_rows(arguments[0])
    wanted = [*arguments, len(values), outputs, records + RESULTS + int(events)]
    own = [*table.input_shapes[:6, 0].tolist(), *table.output_shapes[1:2, 0].tolist()]
    if [*own, len(table.output_shapes)] != wanted:
        raise InputError(f"the stored model is not one of its names and records: {DAMAGED}")
    return Model.from_table(table, values.tolist(), delay, dosing, accumulators, algebraic)


# Records


@dataclass(frozen=True)
class StoredRecord(Stored):
    """A record; its times are an array where they do not follow from ``dt``.

    ``u_before`` and ``u_after`` are the input that a slice knows beyond its ends.
    """

    name: Line
    hold: Line
    y_unit: Line
    periodic: bool
    start: Number
    dt: Number | None
    u: AnyArray
    y: AnyArray
    t: AnyArray | None = None
    t_before: AnyArray | None = None
    u_before: AnyArray | None = None
    u_after: AnyArray | None = None
    t_unit: Line = "s"
    y_sd: AnyArray | None = None
    y_lower: AnyArray | None = None
    y_upper: AnyArray | None = None
    held: Whole = 0
    doses: list[StoredDose] = field(default_factory=list[StoredDose])

    @classmethod
    def of(cls, record: Record) -> Self:
        """Return a record as plain data.

        Raises `NotStorableError` if its input is a function of time.
        """
        if given_function(record) is not None:
            raise NotStorableError(
                f"{record.name}: u is a function of time and cannot be stored in a file: give its "
                "samples and a hold to be able to resume from the file alone; otherwise resume "
                "from the script"
            )
        known: dict[str, Any] = {one.name: getattr(record, one.name) for one in fields(cls)}
        known["t"] = record.t if record.dt is None else None
        known["doses"] = [StoredDose(**vars(one)) for one in record.doses]
        return cls(**known)

    def restored(self) -> Record:
        """Return the record.

        Raises `InputError` if no record can be made of it.
        """
        given: dict[str, Any] = vars(self) | {"doses": [vars(one) for one in self.doses]}
        record = Record(**given)
        record = with_function(record) if record.held else record
        for around in (record.u_before, record.u_after):
            if around is not None and not _continues(record, around):
                raise InputError(
                    f"{record.name}: the input beyond the ends does not fit u: {DAMAGED}"
                )
        if not _precede(record):
            raise InputError(f"{record.name}: the times before it do not fit: {DAMAGED}")
        return record


def _precede(record: Record) -> bool:
    """True if a record's times before it can be those of its inputs before it."""
    t, u = record.t_before, record.u_before
    if t is None:
        return True
    fits = u is not None and t.shape == (len(u),) and t.dtype == np.float64
    return fits and bool((np.diff(t, append=record.t[0]) > 0.0).all())


def _continues(record: Record, around: NDArray[np.float64]) -> bool:
    """True if an array can be input beyond the ends of a record."""
    fits = around.ndim == 2 and around.shape[1] == record.n_inputs and around.dtype == np.float64
    return fits and len(around) <= CONTEXT and bool(np.isfinite(around).all())
