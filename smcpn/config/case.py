"""A configuration as a case: the problem of the user's own model and files, and their tests."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from smcpn.cases.case import Case, Choices
from smcpn.config.distributions import coordinate_of, noise_of, prior_of
from smcpn.config.document import ConfigurationError, Document, Section, nearest, text
from smcpn.config.records import OF_FILES, Channel, Channels, Reader
from smcpn.config.script import blaming_user_code, only, run_file, user_place
from smcpn.config.settings import (
    RUN,
    SOLVER,
    arguments_of,
    file_of,
    learned_diffusion,
    likelihood_of,
    solver_of,
)
from smcpn.errors import InputError, whole_number
from smcpn.model.ode import ODE
from smcpn.model.problem import Problem
from smcpn.model.record import Record

OF_CHANNEL = ("column", "unit", "to")
SECTIONS: dict[str, tuple[str, ...] | None] = {
    "model": ("file", "name"),
    "inputs": None,
    "outputs": None,
    "data": ("train", "test", "initialise", *OF_FILES),
    "prior": None,
    "initial": None,
    "solver": SOLVER,
    "run": RUN,
}
"""Sections and their keys; None where the user's own names are keys."""
_HOMES = {key: section for section, keys in SECTIONS.items() for key in keys or ()}
_SUBJECTS = {
    "observe": "outputs",
    "noise": "outputs",
    "prior": "prior",
    "parameter": "prior",
    "coordinate": "prior",
    "coordinates": "prior",
    "initial": "initial",
    "diffusion": "solver",
    "model": "model",
}
"""The first word of what `smcpn.Problem` refuses, and the section that it is about."""
_QUOTED = re.compile(r"['\"]([^'\"]*'?)['\"]")


def configured_case(path: Path, hold: str | None = None) -> Case:
    """Read a configuration, run its model file, and read its data.

    Parameters
    ----------
    path : Path
        Of the TOML file; the paths in it are relative to its folder.
    hold : str, optional
        The input between samples, in place of what the configuration says.

    Returns
    -------
    Case

    Raises
    ------
    InputError
        For anything that cannot be used. It names the line and the key of the configuration, the
        line of the model file, or the line of a CSV file.
    """
    document = Document.read(path)
    root = document.root
    root.refuse_others(SECTIONS, _HOMES)
    for name, keys in SECTIONS.items():
        if keys is not None:
            root.section(name).refuse_others(keys, _HOMES)
    module, ode = _model(root.section("model"))
    solver, run = root.section("solver"), root.section("run")
    arguments = arguments_of(run)
    likelihood = likelihood_of(solver)
    priors = _priors(root.section("prior"), ode)
    channels = _channels(root, ode, module)
    noise = [_noise(channel, module) for channel in channels.outputs]
    initial = _initial(root)
    reader = Reader(root.section("data"), channels, hold)
    train, tests = reader.records("train"), reader.records("test")
    if not train:
        raise reader.data.error(None, 'train is missing: name a file, train = "data.csv"')
    with _blaming(root, module):
        problem = Problem(
            ode,
            list(train.values()),
            observe=[_observed(channel.name, ode, module) for channel in channels.outputs],
            noise=noise,
            prior=priors,
            initial=initial,
            coordinates=_coordinates(root.section("prior")),
            diffusion=learned_diffusion(solver),
        )
    chosen = solver_of(solver, problem)
    return Case(
        name=path.resolve().parent.name,
        problem=problem,
        tests=tests or _training(train),
        published={},
        steps=chosen.steps,
        note=", ".join(train),
        split="",
        initialise=reader.data.optional("initialise", _samples) or 0,
        choices=Choices(
            solver=chosen,
            likelihood=likelihood,
            arguments=arguments,
            report=file_of(run, "report"),
            picture=file_of(run, "picture"),
        ),
    )


def _training(train: Mapping[str, Record]) -> dict[str, Record]:
    """Training records stand in where there is no test."""
    return {f"{name}, trained on": record for name, record in train.items()}


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
    for name in inputs.table:
        if name not in ode.inputs:
            raise inputs.error(
                name, f"'{name}' is no input of model '{ode.name}': {nearest(name, ode.inputs)}"
            )
    if not outputs.table:
        raise outputs.error(
            None, f'it is missing: say what is measured, {ode.states[0]} = {{column = "...", noise'
            " = ...}",
        )  # fmt: skip
    for name in outputs.table:
        _observed(name, ode, module, outputs)
    return Channels(
        tuple(Channel.of(inputs, name, OF_CHANNEL) for name in ode.inputs),
        tuple(Channel.of(outputs, name, (*OF_CHANNEL, "noise")) for name in outputs.table),
    )


def _observed(name: str, ode: ODE, module: ModuleType, section: Section | None = None) -> Any:
    """What an output measures: a state, the derivative of one, or a function in the model file."""
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
    if "noise" not in channel.section or channel.name == "noise":
        raise channel.section.error(
            None if channel.section.path[-1] == channel.name else channel.name,
            "noise is missing: give a standard deviation, noise = ..., or the name of a parameter",
        )
    return noise_of(channel.section, "noise", module)


def _priors(section: Section, ode: ODE) -> dict[str, Any]:
    for name in ode.parameters:
        if name not in section and name not in ode.defaults:
            others = [key for key in section.table if key not in ode.parameters]
            meant = nearest(name, others) if others else ""
            near = meant.removeprefix("did you mean ").rstrip("?") if "did" in meant else ""
            mend = f"it is written {near} here" if near else f"add {name} = ..."
            key = near.strip("'") or None
            raise section.error(
                key, f"parameter '{name}' of model '{ode.name}' has no prior: {mend}"
            )
    return {name: prior_of(section, name) for name in section.table}


def _coordinates(section: Section) -> dict[str, str]:
    named = {name: coordinate_of(section, name) for name in section.table}
    return {name: coordinate for name, coordinate in named.items() if coordinate is not None}


def _initial(root: Section) -> Any:
    """``"rest"``, a table of states, or a list with one of these for each record."""
    value = root.table.get("initial", "rest")
    if value == "rest":
        return value
    if not isinstance(value, list):
        return _initial_state(root.section("initial"))
    return [
        "rest" if entry == "rest" else _initial_state(_entry(root, number, entry))
        for number, entry in enumerate(value)
    ]


def _entry(root: Section, number: int, entry: Any) -> Section:
    path = ("initial", number)
    if not isinstance(entry, dict):
        raise root.document.error(path, 'give "rest" or a table of states for each record')
    return Section(root.document, path, entry)


def _initial_state(section: Section) -> dict[str, Any]:
    return {
        state: value if isinstance(value, str) else prior_of(section, state)
        for state, value in section.table.items()
    }


def _samples(key: str, value: Any) -> int:
    return whole_number(key, value, 0)


@contextmanager
def _blaming(root: Section, module: ModuleType) -> Generator[None]:
    """Let what `smcpn.Problem` refuses name the line of the model file or the configuration."""
    folder = Path(str(module.__file__)).parent
    try:
        with blaming_user_code(folder):
            yield
    except ConfigurationError:
        raise
    except InputError as error:
        if user_place(error, folder) is not None:
            raise
        raise _located(root, str(error)) from error


def _located(root: Section, sentence: str) -> ConfigurationError:
    """Find the section a sentence is about, and the key in it that the sentence names."""
    name = _SUBJECTS.get(re.split(r"\W", sentence, maxsplit=1)[0])
    if name is None or name not in root:
        return root.error(None, sentence)
    section = root.section(name) if isinstance(root.table[name], dict) else root
    if section is root:
        return root.error(name, sentence)
    keys = [word for word in _QUOTED.findall(sentence) if word in section]
    return section.error(keys[0] if keys else None, sentence)
