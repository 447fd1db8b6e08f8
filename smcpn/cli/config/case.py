"""Make a `Case` of a TOML configuration: the problem, the test records and the settings."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

from smcpn.cli.cases.case import Case
from smcpn.cli.config.distributions import coordinate_of, formula, noise_of, prior_of
from smcpn.cli.config.document import ConfigurationError, Document, KeyPath, Section, text
from smcpn.cli.config.records import OF_FILES, Channel, Channels, Reader
from smcpn.cli.config.script import blaming_user_code, only, run_file, user_place
from smcpn.errors import InputError, nearest, shown, whole_number
from smcpn.likelihood.registry import likelihood_name
from smcpn.likelihood.solver_choice import default_solver, solver_named
from smcpn.model.entries import part_name, spanned, whole_of
from smcpn.model.initial import STEADY
from smcpn.model.measured import Y_SD
from smcpn.model.ode import ODE
from smcpn.model.problem import Problem, scalar_outputs
from smcpn.model.record import BESIDE, trained_on
from smcpn.model.solver import CALIBRATED, SOLVERS, Solver, solver_options
from smcpn.model.units_and_times import told_unit
from smcpn.smc.settings import PartialSettings, solver_with

OF_CHANNEL = ("column", "unit", "to")
OF_SOLVER = dict.fromkeys(key for kind in SOLVERS.values() for key in solver_options(kind))
WITHOUT_KIND = ("order", "steps", "diffusion")
"""Keys of [solver] that change the solver that goes with the likelihood."""
WRITTEN = ("report", "picture")
"""Files that [run] may have written after the run."""
SECTIONS: dict[str, tuple[str, ...] | None] = {
    "model": ("file", "name"),
    "inputs": None,
    "outputs": None,
    "data": ("train", "test", "initialise", *OF_FILES),
    "prior": None,
    "initial": None,
    "process_noise": None,
    "delay": None,
    "solver": ("kind", "likelihood", *OF_SOLVER),
    "run": (
        *(name for name in PartialSettings.model_fields if name not in ("solver", "likelihood")),
        *WRITTEN,
    ),
}
"""Sections and their keys; None where the user's own names are keys."""
_HOMES = {key: section for section, keys in SECTIONS.items() for key in keys or ()}
_SECTION_OF = {"observe": "outputs", "noise": "outputs", "coordinates": "prior"}
"""Arguments of `smcpn.Problem` that have another name in a configuration."""


def configured_case(document: Document, hold: str | None = None) -> Case:
    """Make the case of a configuration: run its model file, and read its data.

    Paths in the document are relative to its folder; ``hold`` takes the place of what it says of
    the input between samples. An `InputError` names the line and the key of the configuration, the
    line of the model file, or the line of a CSV file.
    """
    root = document.root
    root.refuse_others(SECTIONS, _HOMES)
    for name, keys in SECTIONS.items():
        if keys is not None:
            root.section(name).refuse_others(keys, _HOMES)
    module, ode = _model(root.section("model"))
    settings, run = _settings(root), root.section("run")
    priors = _priors(root.section("prior"), ode)
    channels = _channels(root, ode, module)
    noise = [_noise(channel, module) for channel in channels.outputs]
    initial = _initial(root, ode, module)
    reader = Reader(root.section("data"), channels, hold)
    train, tests = reader.records("train"), reader.records("test")
    told_unit(list(train.values()), reader.states_unit)
    reader.known.clear()  # It lives as long as the system does, the columns as large as records.
    if not train:
        raise reader.data.error(None, 'train is missing: name a file, train = "data.csv"')
    with _blaming(root, Path(str(module.__file__)).parent):
        problem = Problem(
            ode,
            list(train.values()),
            observe=[_observed(channel.name, ode, module) for channel in channels.outputs],
            noise=noise,
            prior=priors,
            initial=initial,
            coordinates=_coordinates(root.section("prior"), ode),
            diffusion=_learned_diffusion(root.section("solver")),
            process_noise=_process_noise(root.section("process_noise")),
            delay=dict(root.section("delay").table) or None,
        )
    solver = _solver(root, problem, settings)
    if solver is not None:
        settings = settings.with_options(solver=solver)
    return Case(
        name=document.path.resolve().parent.name,
        problem=problem,
        tests=tests or trained_on(list(train.values())),
        published={},
        steps="auto" if solver is None else solver.steps,
        note=", ".join(train),
        split="",
        initialise=reader.data.optional("initialise", _samples) or 0,
        settings=settings,
        stream=reader.of_stream,
        report=_file(run, "report"),
        picture=_file(run, "picture"),
    )


def _settings(root: Section) -> PartialSettings:
    """Return the settings in [solver] and [run]; without a solver where its kind is not named."""
    solver, run = root.section("solver"), root.section("run")
    options = {key: value for key, value in run.table.items() if key not in WRITTEN}
    if "checkpoint" in run:
        options["checkpoint"] = _file(run, "checkpoint")
    given = dict(solver.table)
    if "likelihood" in given:
        options["likelihood"] = given.pop("likelihood")
    if given.get("kind", "auto") != "auto":
        options["solver"] = given
    with _blaming(root):
        return PartialSettings(**options)


def _solver(root: Section, problem: Problem, settings: PartialSettings) -> Solver | None:
    """Return the solver of [solver]; without a kind the one that goes with the likelihood.

    None where the table says nothing: it is then chosen as `identify` does. The kind ``"auto"`` is
    `choose_solver`'s.
    """
    section = root.section("solver")
    with _blaming(root):
        solver = settings.solver
        if solver is None:
            given = {key: value for key, value in section.table.items() if key != "likelihood"}
            for key in given:
                unlearned = key == "diffusion" and problem.diffusion is None
                if key not in ("kind", *WITHOUT_KIND) or unlearned:
                    kinds = " or ".join(SOLVERS)
                    raise section.error(key, f"say which solver it is for: kind = {kinds}")
            if not given and settings.likelihood is None:
                return None
            kind = given.pop("kind", None)
            solver = default_solver(problem, settings.likelihood)
            if kind is not None:
                solver = solver_named(kind, problem, settings.likelihood)
            solver = solver_with(solver, **given)
        likelihood_name(problem, solver, settings.likelihood)
    return solver


def _learned_diffusion(section: Section) -> str | None:
    """Name of the parameter that holds the diffusion, where [solver] names one."""
    value = section.table.get("diffusion")
    return value if isinstance(value, str) and value not in CALIBRATED else None


def _file(section: Section, key: str) -> Path | None:
    """Return a file to write, where one is named."""
    name = section.optional(key, text)
    return None if name is None else section.document.beside(name)


def _model(section: Section) -> tuple[ModuleType, ODE]:
    file = section.document.beside(section.read("file", text))
    if not file.is_file():
        raise section.error("file", f"'{file}' is no file: correct its name")
    module = run_file(file)
    with section.blame("name" if "name" in section else "file"):
        name = section.optional("name", text)
        return module, only(module, ODE, name, "model", "a function with @smcpn.ode above it")


def _channels(root: Section, ode: ODE, module: ModuleType) -> Channels:
    inputs, outputs = root.section("inputs"), root.section("outputs")
    vectors = {name: entries for name, entries in ode.wholes.items() if entries[0] in ode.inputs}
    for name in inputs.table:
        if name not in ode.inputs and name not in vectors:
            known = [*ode.inputs, *vectors]
            raise inputs.error(
                name, f"'{name}' is no input of model '{ode.name}': {nearest(name, known)}"
            )
    if not outputs.table:
        raise outputs.error(
            None, f'it is missing: say what is measured, {ode.states[0]} = {{column = "...", noise'
            " = ...}",
        )  # fmt: skip
    given = {
        one.name: one
        for name, entries in vectors.items()
        if name in inputs
        for one in Channel.of_vector(inputs, name, entries, OF_CHANNEL)
    }
    measured: dict[str, Channel] = {}
    for one in (one for name in outputs.table for one in _outputs(outputs, name, ode, module)):
        if measured.setdefault(one.name, one) is not one:
            raise outputs.error(one.name, f"'{one.name}' is there twice: leave one out")
    return Channels(
        tuple(given.get(name) or Channel.of(inputs, name, OF_CHANNEL) for name in ode.inputs),
        tuple(measured.values()),
    )


def _outputs(section: Section, name: str, ode: ODE, module: ModuleType) -> list[Channel]:
    """Channels of an output, one for each entry of a vector."""
    known = (*OF_CHANNEL, "noise", *BESIDE)
    with section.blame(name):
        entries = scalar_outputs(name, ode)
    if entries == [name]:
        _observed(name, ode, module, section)
        return [Channel.of(section, name, known)]
    return Channel.of_vector(section, name, entries, known)


def _observed(name: str, ode: ODE, module: ModuleType, section: Section | None = None) -> Any:
    """Return what an output measures: a state, the derivative of one, or a function."""
    if name.removesuffix("'") in ode.states:
        return name
    function = vars(module).get(name)
    if callable(function) and not isinstance(function, ODE):
        return function
    assert section is not None
    states = [mark for state in ode.states for mark in (state, f"{state}'")]
    raise section.error(
        name,
        f"'{name}' is no state of model '{ode.name}', no derivative of one and no function in "
        f"the model file: {nearest(name, states)}",
    )


def _noise(channel: Channel, module: ModuleType) -> Any:
    if "noise" not in channel.section and "y_sd" in dict(channel.beside):
        return Y_SD
    if "noise" not in channel.section or channel.name == "noise":
        raise channel.section.error(
            None if channel.section.path[-1] == channel.name else channel.name,
            "noise is missing: give a standard deviation, noise = ..., or the name of a parameter",
        )
    return noise_of(channel.section, "noise", module)


def _priors(section: Section, ode: ODE) -> dict[str, Any]:
    given = _by_scalar(section, ode)
    known = {*given, *ode.defaults, *ode.priors}
    for name in ode.parameters:
        vector = whole_of(name)
        if name not in known and vector not in given:
            own = {*ode.parameters, *ode.wholes}
            others = [key for key in section.table if key not in own]
            wanted = vector if vector in ode.wholes else name
            meant = nearest(wanted, others) if others else ""
            near = meant.removeprefix("did you mean ").rstrip("?") if "did" in meant else ""
            remedy = f"it is written {near} here" if near else f"add {wanted} = ..."
            key = near.strip("'") or None
            raise section.error(
                key, f"parameter '{name}' of model '{ode.name}' has no prior: {remedy}"
            )
    return {name: prior_of(*place) for name, place in given.items()}


def _by_scalar(section: Section, ode: ODE) -> dict[str, tuple[Section, str]]:
    """Place of the value of each name: of parts of functions, and of lists, by its scalar.

    A function is a table of its parameters, ``friction = {scale = ...}``; a vector has one value
    for all entries, or a list. The value of ``"k[3]"`` beside them goes before.
    """
    found: dict[str, tuple[Section, str]] = {}
    for name, value in section.table.items():
        if name in ode.functions:
            parts = section.section(name)
            found |= {part_name(name, of): (parts, of) for of in parts.table}
        elif name in ode.sizes and isinstance(value, list):
            if len(value) != ode.sizes[name]:
                names = spanned(ode.wholes[name])
                raise section.error(
                    name, f"it has {len(value)} entries: give one for each of {names}, or one value"
                )
            path, entries = (*section.path, name), {str(k): one for k, one in enumerate(value)}
            listed = Section(section.document, path, entries)
            found |= {f"{name}[{k}]": (listed, k) for k in entries}
        else:
            found[name] = (section, name)
    return found | {name: (section, name) for name in section.table if name not in ode.wholes}


def _coordinates(section: Section, ode: ODE) -> dict[str, str]:
    named = {name: coordinate_of(*place) for name, place in _by_scalar(section, ode).items()}
    return {name: coordinate for name, coordinate in named.items() if coordinate is not None}


def _initial(root: Section, ode: ODE, module: ModuleType) -> Any:
    """A text, a table of states, or a list with one of these for each record."""
    value = root.table.get("initial", "rest")
    if isinstance(value, str):
        return _named_start(root, value, module)
    if not isinstance(value, list):
        return _initial_state(root.section("initial"), ode, module)
    return [
        _named_start(root, entry, module)
        if isinstance(entry, str)
        else _initial_state(_entry(root, number, entry), ode, module)
        for number, entry in enumerate(value)
    ]


def _named_start(root: Section, value: str, module: ModuleType) -> Any:
    """``"rest"``, ``"steady state"``, or the function of the model file that returns the states."""
    found = formula(value, module)
    if found is value and value not in ("rest", STEADY):
        raise root.error(
            "initial",
            f"it is {shown(value)}: give 'rest', '{STEADY}', a function of the model file or a "
            "table of states",
        )
    return found


def _entry(root: Section, number: int, entry: Any) -> Section:
    path = ("initial", number)
    if not isinstance(entry, dict):
        raise root.document.error(path, 'give "rest" or a table of states for each record')
    return Section(root.document, path, entry)


def _initial_state(section: Section, ode: ODE, module: ModuleType) -> dict[str, Any]:
    return {
        state: formula(at.table[key], module)
        if isinstance(at.table[key], str)
        else prior_of(at, key)
        for state, (at, key) in _by_scalar(section, ode).items()
    }


def _process_noise(section: Section) -> dict[Any, Any] | None:
    """Noise by states, and by a pair of states where two are correlated, ``"x1,x2"``."""
    pairs = {name: tuple(part.strip() for part in name.split(",")) for name in section.table}
    return {
        pair if len(pair) > 1 else name: section.table[name] for name, pair in pairs.items()
    } or None


def _samples(key: str, value: Any) -> int:
    return whole_number(key, value, 0)


@contextmanager
def _blaming(root: Section, folder: Path | None = None) -> Generator[None]:
    """Add the line of the configuration, or of a user's file, to an `InputError` raised inside.

    ``folder`` is where user's files are that run inside.
    """
    try:
        with nullcontext() if folder is None else blaming_user_code(folder):
            yield
    except ConfigurationError:
        raise
    except InputError as error:
        if folder is not None and user_place(error, folder) is not None:
            raise
        raise root.document.error(_key(root, error.argument), str(error)) from error


def _key(root: Section, argument: str | None) -> KeyPath:
    """Return the key that gave an argument, as far as the configuration has it."""
    first, *rest = (argument or "").split(".", 1)
    first = _SECTION_OF.get(first, first)
    key: KeyPath = (first, *rest) if first in SECTIONS else (_HOMES.get(first, ""), first, *rest)
    while key and key not in root.document.lines:
        key = key[:-1]
    return key
