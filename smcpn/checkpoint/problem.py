"""A problem as a document of names and numbers, and arrays: no code, no pickle.

A document is read by `parsed` into a model of pydantic, which has only plain data of the right
types, before anything is made of it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import inspect
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy import stats

from smcpn.checkpoint.container import DAMAGED
from smcpn.checkpoint.documents import Document, Line, Name, Names, Number, Text, Whole, parsed
from smcpn.checkpoint.functions import FunctionDocument, function_document, functions_of
from smcpn.errors import InputError, NotStorableError, shown
from smcpn.model.delay import Delay
from smcpn.model.distribution import Distribution
from smcpn.model.expression import ExpressionTable
from smcpn.model.graphs import Model
from smcpn.model.ode import ODE, entry_names, graphs_of
from smcpn.model.prior import Prior
from smcpn.model.problem import Problem, assembled, check_record
from smcpn.model.record import CONTEXT, Record

RESULTS = 7
"""Of a model's table, before the initial state of each record."""
MOST_ARGUMENTS = 16
"""Of a prior distribution."""
Initial = dict[Name, Line | float] | list[Line | float]
"""Initial states of a record."""


class PriorDocument(Document):
    """A prior distribution: library, name of the family, arguments."""

    library: str
    family: str
    args: list[Any] = Field(max_length=MOST_ARGUMENTS)
    kwds: dict[str, Any] = Field(max_length=MOST_ARGUMENTS)


class NamedPrior(Document):
    """The prior of a parameter."""

    name: Name
    distribution: dict[str, Any]


class ODEDocument(Document):
    """An ODE but for its expression table."""

    name: Name
    doc: Text
    states: Names
    inputs: Names
    parameters: Names
    defaults: dict[Name, Number]
    chains: dict[Name, Name]
    sizes: dict[Name, Whole]
    functions: list[FunctionDocument]


class GivenDocument(Document):
    """Outputs, noises and initial state as the user gave them, for tables and reports."""

    observe: list[Line]
    noise: list[Line | float]
    process_noise: dict[Name, Line | float]
    delay: dict[Name, Name | Number] = Field(default_factory=dict)
    initial: Line | float | Initial | list[Line | float | Initial]


class ProblemDocument(Document):
    """A problem but for its expression tables and records."""

    ode: ODEDocument
    priors: list[NamedPrior]
    coordinates: dict[Name, Name]
    scales: dict[Name, Name | Number]
    fixed: dict[Name, Number]
    diffusion: Line
    given: GivenDocument


class RecordDocument(Document):
    """A record but for its arrays."""

    name: Line
    hold: Line
    y_unit: Line
    t_unit: Line = "s"
    periodic: bool
    start: Number
    dt: Number | None


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


def prior_document(name: str, distribution: Distribution) -> dict[str, Any]:
    """Return the prior of parameter ``name`` as its family and numbers.

    Raises
    ------
    NotStorableError
        If it is neither a family of `scipy.stats` nor a simple one of `particles.distributions`,
        or an argument is not a plain number.
    """
    # A subclass may compute something else.
    if type(distribution) is _FROZEN:
        return _scipy_document(name, distribution)
    if type(distribution).__module__ == PARTICLES:
        return _particles_document(name, distribution)
    raise _not_storable(name, f"is an object of class {type(distribution).__qualname__}")


def restored_prior(name: str, document: Any) -> Distribution:
    """Return the prior that `prior_document` described.

    Raises
    ------
    InputError
        If the family is not known here, or does not take these numbers.
    """
    stored = parsed(PriorDocument, document)
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


def _scipy_document(name: str, frozen: Any) -> dict[str, Any]:
    family = FAMILIES.get(getattr(frozen.dist, "name", ""))
    # A class of the user's may bear the name of a family, or change its support.
    same = family is not None and (type(family), family.a, family.b) == (
        type(frozen.dist), frozen.dist.a, frozen.dist.b
    )  # fmt: skip
    if not same:
        raise _not_storable(
            name, f"is of the family {type(frozen.dist).__name__}, which scipy.stats does not name"
        )
    return {
        "library": "scipy.stats",
        "family": frozen.dist.name,
        "args": [_written(name, value) for value in frozen.args],
        "kwds": {key: _written(name, value) for key, value in frozen.kwds.items()},
    }


def _particles_document(name: str, distribution: Any) -> dict[str, Any]:
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
    return {
        "library": PARTICLES,
        "family": family.__name__,
        "args": [],
        "kwds": {key: _written(name, value) for key, value in arguments.items()},
    }


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


Arrays = dict[str, NDArray[Any]]
_TABLES = {"model/constant_values"} | {
    f"{owner}/{part.name}" for owner in ("ode", "model") for part in fields(ExpressionTable)
}


def problem_document(problem: Problem) -> tuple[dict[str, Any], Arrays]:
    """Return everything of a problem but its records.

    Returns
    -------
    document : dict
        For JSON: names, text, priors as families and numbers, known numbers.
    arrays : dict of str to ndarray
        The expression tables of the ODE and of the model, and the model's constants:
        ``"ode/operation"``, ``"model/operands"``, ...

    Raises
    ------
    NotStorableError
        If a prior or the model cannot be put together again from plain data.
    """
    ode = problem.ode
    document = {
        "ode": {
            "name": ode.name,
            "doc": ode.doc,
            "states": list(ode.states),
            "inputs": list(ode.inputs),
            "parameters": list(ode.parameters),
            "defaults": dict(ode.defaults),
            "chains": dict(ode.chains),
            "sizes": dict(ode.sizes),
            "functions": [function_document(n, one.function) for n, one in ode.functions.items()],
        },
        "priors": [
            {"name": name, "distribution": prior_document(name, distribution)}
            for name, distribution in problem.prior.distributions.items()
        ],
        "coordinates": dict(problem.prior.coordinates),
        "scales": dict(problem.prior.scales),
        "fixed": dict(problem.fixed),
        "diffusion": problem.diffusion or "",
        "given": {
            "observe": problem.observe,
            "noise": problem.noise,
            "process_noise": dict(problem.process_noise),
            "delay": problem.delay,
            "initial": problem.initial,
        },
    }  # fmt: skip
    arrays = table_arrays(problem)
    for name in ("ode", "model"):
        table = _table(arrays, name)
        if not ExpressionTable.of(table.function(name)).same_as(table):
            raise NotStorableError(
                f"model '{ode.name}' would not be the same after it was read from a file: "
                "resume from the script"
            )
    return document, arrays


def table_arrays(problem: Problem) -> Arrays:
    """Return the expression tables of a problem, and its constants."""
    tables = {"ode": problem.ode.table(), "model": problem.model.table()}
    arrays: Arrays = {
        f"{owner}/{name}": values
        for owner, table in tables.items()
        for name, values in table.arrays().items()
    }
    return arrays | {"model/constant_values": np.array(problem.model.constant_values, dtype=float)}


def restored_problem(
    document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], records: Sequence[Record]
) -> Problem:
    """Return the problem that `problem_document` described.

    Parameters
    ----------
    document, arrays
        See `problem_document`.
    records : sequence of Record
        See `restored_records`.

    Raises
    ------
    InputError
        If the parts are damaged or do not fit each other.
    """
    stored = parsed(ProblemDocument, document)
    if not _TABLES.issuperset(arrays):
        raise InputError(f"there are arrays of no model: {DAMAGED}")
    ode = _restored_ode(stored.ode, arrays)
    names = [prior.name for prior in stored.priors]
    if len(set(names)) < len(names):
        raise InputError(f"stored priors are of {shown(names)}: {DAMAGED}")
    prior = Prior(
        {prior.name: restored_prior(prior.name, prior.distribution) for prior in stored.priors},
        stored.coordinates,
        stored.scales,
    )
    observe = stored.given.observe
    model = _restored_model(
        arrays,
        arguments=[len(ode.states), len(ode.inputs), 1, 1, len(prior)],
        outputs=len(observe),
        records=len(records),
        delay=Delay.of(stored.given.delay, ode, dict(prior.distributions), stored.fixed),
    )
    for record in records:
        check_record(record, ode, len(observe), records)
    return assembled(
        ode=ode,
        records=tuple(records),
        model=model,
        prior=prior,
        fixed=stored.fixed,
        observe=observe,
        noise=stored.given.noise,
        initial=stored.given.initial,
        diffusion=stored.diffusion or None,
        process_noise=stored.given.process_noise,
    )


def _restored_ode(stored: ODEDocument, arrays: Mapping[str, NDArray[Any]]) -> ODE:
    states, table = stored.states, _table(arrays, "ode")
    functions = functions_of(stored.functions)
    sizes = [len(states), len(stored.inputs), 1, len(stored.parameters)]
    shapes = table.output_shapes.tolist()
    own = len(shapes) - len(functions)
    if (
        table.input_shapes.tolist() != [[n, 1] for n in sizes]
        or own not in (1, 2)
        or shapes[0] != [len(states), 1]
        or shapes[own - 1][0] != len(states)
        or any(
            columns != len(one.arguments)
            for (_, columns), one in zip(shapes[own:], functions.values(), strict=True)
        )
    ):
        raise InputError(f"the stored table of the ODE does not fit its names: {DAMAGED}")
    chains = stored.chains
    if not set(states) >= {*chains, *chains.values()}:
        raise InputError(f"stored 'chains' is {shown(chains)}: {DAMAGED}")
    ode = ODE(
        name=stored.name,
        states=tuple(states),
        inputs=tuple(stored.inputs),
        parameters=tuple(stored.parameters),
        defaults=stored.defaults,
        chains=chains,
        doc=stored.doc,
        sizes=_restored_sizes(stored),
        **graphs_of(table, functions),
    )
    for name in functions:
        if not set(ode.parameters).issuperset(ode.wholes[name]):
            raise InputError(f"the stored function '{name}' has other parameters: {DAMAGED}")
    return ode


def _restored_sizes(stored: ODEDocument) -> dict[str, int]:
    """Return the sizes of vectors, all of whose entries are there."""
    scalars = [set(names) for names in (stored.states, stored.inputs, stored.parameters)]
    for name, size in stored.sizes.items():
        whole = 1 <= size <= max(map(len, scalars)) and set(entry_names(name, size))
        if not whole or not any(names >= whole for names in scalars):
            raise InputError(f"stored size of '{name}' is {size}: {DAMAGED}")
    return stored.sizes


def _restored_model(
    arrays: Mapping[str, NDArray[Any]],
    arguments: list[int],
    outputs: int,
    records: int,
    delay: Delay | None,
) -> Model:
    """Return the model of a table, whose sizes are compared before graphs are made of it."""
    values = np.asarray(arrays.get("model/constant_values"))
    if values.ndim != 1 or values.dtype != np.float64 or not np.isfinite(values).all():
        raise InputError(f"the stored constants of the model are {shown(values)}: {DAMAGED}")
    table = _table(arrays, "model")
    wanted = [*arguments, len(values), outputs, records + RESULTS]
    own = [*table.input_shapes[:6, 0].tolist(), *table.output_shapes[1:2, 0].tolist()]
    if [*own, len(table.output_shapes)] != wanted:
        raise InputError(f"the stored model is not one of its names and records: {DAMAGED}")
    return Model.from_table(table, values.tolist(), delay)


def _table(arrays: Mapping[str, NDArray[Any]], owner: str) -> ExpressionTable:
    prefix = f"{owner}/"
    return ExpressionTable.from_arrays(
        {name.removeprefix(prefix): v for name, v in arrays.items() if name.startswith(prefix)}
    )


# Records

ARRAYS = ("u", "y", "t", "u_before", "u_after")
"""Of a record."""


def records_document(records: Sequence[Record]) -> tuple[list[dict[str, Any]], Arrays]:
    """Return records as one document each, and their arrays as ``"0/u"``, ``"0/y"``, ...

    The times are an array where they do not follow from ``dt``; ``u_before`` and ``u_after`` are
    the input that a slice knows beyond its ends.

    Raises
    ------
    NotStorableError
        If the input of a record is a function of time.
    """
    documents: list[dict[str, Any]] = []
    arrays: Arrays = {}
    for number, record in enumerate(records):
        if record.u_function is not None:
            raise NotStorableError(
                f"{record.name}: u is a function of time and cannot be stored in a file: give its "
                "samples and a hold to be able to resume from the file alone; otherwise resume "
                "from the script"
            )
        documents.append({name: getattr(record, name) for name in RecordDocument.model_fields})
        names = ["u", "y", "u_before", "u_after"] + ["t"] * (record.dt is None)
        for name in names:
            values = getattr(record, name)
            if values is not None:
                arrays[f"{number}/{name}"] = np.asarray(values)
    return documents, arrays


def restored_records(documents: Any, arrays: Mapping[str, NDArray[Any]]) -> tuple[Record, ...]:
    """Return the records that `records_document` described.

    Raises
    ------
    InputError
        If something is absent, or no record can be made of it.
    """
    if not isinstance(documents, list):
        raise InputError(f"stored records are {shown(documents)}: {DAMAGED}")
    known = {f"{number}/{name}" for number in range(len(documents)) for name in ARRAYS}
    if not known.issuperset(arrays):
        raise InputError(f"there are arrays of no record: {DAMAGED}")
    return tuple(_restored(k, document, arrays) for k, document in enumerate(documents))


def _restored(number: int, document: Any, arrays: Mapping[str, NDArray[Any]]) -> Record:
    stored = parsed(RecordDocument, document)
    found: dict[str, Any] = {name: arrays.get(f"{number}/{name}") for name in ARRAYS}
    for name in ("u", "y"):
        if found[name] is None:
            raise InputError(f"{stored.name}: the array {name} is absent: {DAMAGED}")
    record = Record(**stored.model_dump(), **found)
    for around in (record.u_before, record.u_after):
        if around is not None and not _continues(record, around):
            raise InputError(f"{record.name}: the input beyond the ends does not fit u: {DAMAGED}")
    return record


def _continues(record: Record, around: NDArray[np.float64]) -> bool:
    """Whether an array can be input beyond the ends of a record."""
    fits = around.ndim == 2 and around.shape[1] == record.n_inputs and around.dtype == np.float64
    return fits and len(around) <= CONTEXT and bool(np.isfinite(around).all())
