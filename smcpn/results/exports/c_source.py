"""A model as C99 source that needs nothing else: right-hand side, outputs, Jacobian, simulator.

The expressions are written by the code generator of CasADi (Andersson et al. 2019, CasADi: a
software framework for nonlinear optimization and optimal control, Math. Prog. Comp. 11).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.base.files import write_outputs
from smcpn.base.tables import csv_line
from smcpn.errors import InputError, whole_number
from smcpn.likelihood.algebraic import explicit_model, straight_line_model
from smcpn.likelihood.state_events import MOST_EVENTS
from smcpn.model.dosing import Dosing, Source, as_given
from smcpn.model.graphs import Model
from smcpn.model.initial import FirstSample
from smcpn.model.parts import check_parts
from smcpn.model.problem import Problem
from smcpn.model.record import Record
from smcpn.model.solver import MAX_STEPS
from smcpn.results.simulation.simulator import OwnSteps, Simulator

if TYPE_CHECKING:
    import jinja2

Array = NDArray[np.float64]

BEGIN = "/* Written by smcpn: "
"""With which each file begins, so that it may be replaced."""
LONGEST_NAME = 40
MOST_REMEMBERED = 20_000
"""Samples of inputs that a model remembers: each saved state of an FMU is a copy of them."""
TAKEN = re.compile(
    "fmu|fmi3(functions|functiontypes|platformtypes)"
    "|assert|complex|ctype|errno|fenv|float|inttypes|iso646|limits|locale|math|setjmp|signal"
    "|stdarg|stdbool|stddef|stdint|stdio|stdlib|string|tgmath|time|wchar|wctype"
    "|aux|con|nul|prn|com[0-9]|lpt[0-9]",
    re.IGNORECASE,
)
"""Names of other files: sources and headers of an FMU, headers of C, devices of Windows."""
ENOUGH = 4096
"""Samples over which ``steps="auto"`` finds how many steps the outputs need."""


class DoseKind(NamedTuple):
    """Doses of one `Route`: its name, the place of its state, and its fraction in C."""

    name: str
    state: int
    fraction: str


@dataclass(frozen=True)
class ModelSource:
    """A model with parameters for the simulator in C.

    title: Name of the model; `name` is made of it.
    states, inputs, outputs, parameters: The inputs end with the rates of doses. The parameters are
        those that the equations, outputs or initial state depend on.
    values: (p,), of these parameters.
    model: Its known numbers in place.
    used: Places of these parameters in ``model.theta``.
    interval: Sampling interval of the record; of irregular times the longest.
    steps: Runge-Kutta steps in it.
    linear_input: Whether the input is linear between samples and not held.
    t_unit: Unit of time.
    dead_times: Of every input, and of the amounts of every kind of dose, as an expression of C;
        empty where none has one.
    past: Samples of the inputs that are remembered at most.
    doses: Kinds of doses.
    """

    title: str
    states: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: tuple[str, ...]
    values: Array
    model: Model
    used: tuple[int, ...]
    interval: float
    steps: int
    linear_input: bool
    t_unit: str
    dead_times: tuple[str, ...] = ()
    past: int = 0
    doses: tuple[DoseKind, ...] = ()

    @classmethod
    def of(cls, problem: Problem, values: Array, steps: int | str) -> ModelSource:
        """Make it of a problem at parameters (d,), as its first record has it.

        Raises `InputError` if the steps are neither a number nor "auto", or the solution diverges.
        """
        takes = {"algebraic", "delay", "doses", "accumulators", "events"}
        check_parts(problem.model.parts, "C source or FMU", takes)
        if problem.ode.compiled is not None:
            raise InputError(
                f"'{problem.ode.name}' is a function that numba has compiled, which C source and "
                "FMU cannot hold: write it so that it can be traced"
            )
        record = as_given(problem.records[0])
        driven = _with_rates(problem.model)
        n_rates = driven.u.numel() - record.n_inputs
        first = FirstSample(np.append(record.u[0], np.zeros(n_rates)), float(record.t[0]))
        model = straight_line_model(driven, first).with_numbers()
        graphs = ca.vertcat(model.rhs, model.outputs, model.initial[0], _events(model))
        moves = np.array(ca.which_depends(ca.densify(graphs), model.theta, 1), dtype=bool)
        lags = _lags(problem.model)
        moves[[one for one in lags if isinstance(one, int)]] = True
        needed = np.flatnonzero(moves).tolist()

        def in_c(source: Source) -> str:
            return f"p[{needed.index(source)}]" if isinstance(source, int) else repr(float(source))

        kinds = _kinds(problem.model.dosing, in_c)
        return cls(
            title=problem.ode.name,
            states=problem.ode.states,
            inputs=(*problem.ode.inputs, *(f"rate.{one.name}" for one in kinds)),
            outputs=tuple(map(str, problem.observe)),
            parameters=tuple(problem.names[k] for k in needed),
            values=values[needed],
            model=model,
            used=tuple(needed),
            interval=record.interval if record.uniform else float(np.diff(record.t).max()),
            steps=_sufficient_steps(problem, values, steps),
            linear_input=record.hold != "zoh",
            t_unit=record.t_unit,
            dead_times=tuple(map(in_c, lags)),
            past=_remembered(problem.model, record) if lags else 0,
            doses=kinds,
        )

    @property
    def name(self) -> str:
        """Begin of the names of files and functions: an identifier of C, and no other's."""
        plain = re.sub(r"[^A-Za-z0-9]+", "_", self.title).strip("_")[:LONGEST_NAME].strip("_")
        free = plain[:1].isalpha() and not TAKEN.fullmatch(plain)
        return plain if free else f"model_{plain}".strip("_")

    @property
    def start(self) -> Array:
        """Initial state, (n,)."""
        return np.asarray(self._functions["initial"](self.values), dtype=np.float64).ravel()

    @property
    def exchanged(self) -> bool:
        """True if a solver may integrate it that knows of no samples."""
        return not (self.dead_times or self.model.accumulators)

    @property
    def events(self) -> int:
        """Number of events."""
        return len(self.model.events.each) if self.model.events else 0

    @property
    def fixed(self) -> tuple[int, ...]:
        """Places of the parameters that are dead times, which a run does not change."""
        return tuple(k for k in range(len(self.parameters)) if f"p[{k}]" in self.dead_times)

    def texts(self) -> dict[str, str]:
        """Content of every file by its name: source, header, and a program that simulates."""
        name = self.name
        return {
            f"{name}.c": self.rendered("model.c", generated=self._generated()),
            f"{name}.h": self.rendered("model.h"),
            f"{name}_main.c": self.rendered("main.c"),
        }

    def rendered(self, template: str, **more: Any) -> str:
        """Text of a template of ``interop/sources`` about this model."""
        fields = {
            name: getattr(self, name) for name in ("states", "inputs", "outputs", "title", "t_unit")
        }
        return (
            _templates()
            .get_template(template)
            .render(
                **fields,
                name=self.name,
                NAME=self.name.upper(),
                begin=BEGIN,
                header=csv_line(["t", *self.outputs]),
                comment=c_comment(f"model '{self.title}'."),
                parameters=self.parameters,
                values=[repr(float(value)) for value in self.values],
                interval=repr(float(self.interval)),
                steps=self.steps,
                linear_input=int(self.linear_input),
                dead_times=self.dead_times,
                past=self.past,
                doses=self.doses,
                accumulators=self.model.accumulators,
                exchanged=self.exchanged,
                events=self.events,
                most_events=MOST_EVENTS,
                fixed=self.fixed,
                work=self._work(),
                n=len(self.states),
                m=max(1, len(self.inputs)),
                **more,
            )
        )

    @cached_property
    def _functions(self) -> dict[str, ca.Function]:
        model = self.model
        p = ca.vertcat(*[model.theta[k] for k in self.used])
        arguments = [model.x, model.u, model.t, p]
        # CasADi stores columns, C rows.
        jacobian = [
            ca.densify(ca.jacobian(of, by)).T
            for of in (model.rhs, model.outputs)
            for by in (model.x, model.u)
        ]
        graphs = {
            "rhs": (arguments, [ca.densify(model.rhs)]),
            "outputs": (arguments, [ca.densify(model.outputs)]),
            "jacobian": (arguments, jacobian),
            "initial": ([p], [ca.densify(model.initial[0])]),
        }
        if model.events is not None:
            graphs["events"] = (arguments, [_events(model)])
        return {of: ca.Function(f"{self.name}_casadi_{of}", *graph) for of, graph in graphs.items()}

    def _generated(self) -> str:
        generator = ca.CodeGenerator(f"{self.name}_casadi.c")
        for function in self._functions.values():
            generator.add(function)
        return str(generator.dump())

    def _work(self) -> dict[str, dict[str, int]]:
        """Sizes of the work arrays of every function; C has none of size 0."""
        return {
            of: {
                "arg": max(1, one.sz_arg()),
                "res": max(1, one.sz_res()),
                "iw": max(1, one.sz_iw()),
                "w": max(1, one.sz_w()),
            }
            for of, one in self._functions.items()
        }


def write_c(source: ModelSource, folder: Path) -> list[Path]:
    """Write the files of a model into a folder, which is made where there is none.

    Raises `InputError` if one cannot be written, or there is one of this name that smcpn did not
    write.
    """
    contents = {name: text.encode() for name, text in source.texts().items()}
    write_outputs(folder, contents, lambda content: content.startswith(BEGIN.encode()))
    return [folder / name for name in contents]


def c_text(text: str) -> str:
    """Return a text as a string literal of C."""
    return '"' + "".join(map(_escaped, text.encode("utf-8", "backslashreplace"))) + '"'


def c_comment(text: str) -> str:
    """Return a text as it may stand in a comment of C."""
    plain = text.encode("ascii", "backslashreplace").decode()
    shown = "".join(one if one.isprintable() else "?" for one in plain)
    return shown.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?")


def _escaped(byte: int) -> str:
    one = chr(byte)
    return one if one.isascii() and one.isprintable() and one not in '"\\?' else f"\\{byte:03o}"


def _checked_steps(steps: int | str) -> int | str:
    return steps if steps == "auto" else whole_number("steps", steps, 1, MAX_STEPS)


def _sufficient_steps(problem: Problem, values: Array, steps: int | str) -> int:
    """Runge-Kutta steps of a sampling interval of the first record, at parameters (d,)."""
    if problem.model.events is not None:
        if steps == "auto":
            raise InputError(
                "steps is 'auto', and a model with events has none to choose from: give the number "
                "of Runge-Kutta steps of a sampling interval",
                argument="steps",
            )
        return int(_checked_steps(steps))
    record = problem.records[0][:ENOUGH]
    simulator = Simulator(explicit_model(problem.model), record, _checked_steps(steps))
    for _ in simulator(values[:, None]):
        break
    if isinstance(simulator.steps, OwnSteps):
        raise InputError(
            "the model is stiff, and C source and FMU take Runge-Kutta steps of one length: "
            "give a record with more times in between"
        )
    return int(simulator.steps)


def _events(model: Model) -> ca.SX:
    """`Events.column` of a model, (0, 1) of one without events."""
    return ca.SX(0, 1) if model.events is None else ca.densify(model.events.column)


def _with_rates(model: Model) -> Model:
    """The model of its equation, whose inputs end with the rates at which doses are given."""
    if model.dosing is None:
        return model
    plain, routes = model.without_doses(), model.dosing.routes
    rates, entering = ca.SX.sym("rate", len(routes)), ca.SX(model.x.numel(), 1)
    for route, rate in zip(routes, ca.vertsplit(rates), strict=True):
        state, fraction, _ = route.places
        entering[state] += rate * (model.theta[fraction] if isinstance(fraction, int) else fraction)
    return replace(plain, u=ca.vertcat(plain.u, rates), rhs=plain.rhs + entering)


def _kinds(dosing: Dosing | None, in_c: Callable[[Source], str]) -> tuple[DoseKind, ...]:
    """Kinds of doses; those that enter one state are told apart by fraction and lag."""
    routes = () if dosing is None else dosing.routes
    states = [one.state for one in routes]
    return tuple(
        DoseKind(
            one.state
            if states.count(one.state) == 1
            else f"{one.state} (fraction {one.fraction}, lag {one.lag})",
            one.places[0],
            in_c(one.places[1]),
        )
        for one in routes
    )


def _lags(model: Model) -> list[Source]:
    """Dead times of inputs, and lags of rates and amounts of doses; empty where there is none."""
    if model.delay is None and not (model.dosing and model.dosing.lagged):
        return []
    dosing = model.dosing
    n_inputs = model.u.numel() if dosing is None else dosing.n_inputs
    late = dict(zip(model.delay.inputs, model.delay.sources, strict=True)) if model.delay else {}
    of_doses = [] if dosing is None else [one.places[2] for one in dosing.routes]
    return [late.get(k, 0.0) for k in range(n_inputs)] + 2 * of_doses


def _remembered(model: Model, record: Record) -> int:
    """Samples that are within a dead time or a lag, were there four times as many as in a record.

    Beyond its end it goes on at its median interval.
    """
    bounds = list(model.delay.bounds) if model.delay else []
    bounds += [one.bounds for one in model.dosing.routes] if model.dosing else []
    longest = max(upper for _, upper in bounds)
    arrival = record.t + longest
    within = np.searchsorted(record.t, arrival, side="right") - np.arange(len(record))
    beyond = np.maximum(arrival - record.t[-1], 0.0) / np.median(np.diff(record.t))
    most = 16 + 4 * int((within + beyond).max())
    if most > MOST_REMEMBERED:
        raise InputError(
            f"{most} samples of the inputs would be remembered for dead times of up to "
            f"{longest:g}, and {MOST_REMEMBERED} can be: give delay, or the lag of doses, a prior "
            "with a lower upper bound, or a record with fewer samples in that time",
            argument="delay",
        )
    return most


@cache
def _templates() -> jinja2.Environment:
    import jinja2

    def load(name: str) -> str:
        return files("smcpn.results.exports").joinpath("sources", name).read_text("utf-8")

    made = jinja2.Environment(
        loader=jinja2.FunctionLoader(load),
        undefined=jinja2.StrictUndefined,
        autoescape=jinja2.select_autoescape(enabled_extensions=("xml",), default=False),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters.update(c_text=c_text, c_comment=c_comment)
    return made
