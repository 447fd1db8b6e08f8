"""The state at the first sample: known, a parameter or a formula of some, unknown, or at rest.

At rest (`SteadyState`) it is the equilibrium of the model under constant inputs. It is where an
integration with steps that grow without bound ends, each of which is one Newton step of the
implicit Euler method (pseudo-transient continuation; Kelley and Keyes 1998, SIAM J. Numer. Anal.
35, 508-523): x <- x + (I / h - J)^-1 f(x), from h = 1 / |J|, 8 times as long in every step. What a
model conserves, such as a total amount, it keeps, and the last steps are Newton's, whose
derivatives are those of the equilibrium.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Signature
from typing import Any, NamedTuple

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError, listed, nearest, real_number, shown
from smcpn.model.distribution import Distribution
from smcpn.model.entries import by_scalar
from smcpn.model.events import EventGraphs, Events
from smcpn.model.ode import ODE
from smcpn.model.parts import check_parts
from smcpn.model.record import Record
from smcpn.model.trace import argument_names, function_name, trace

STEADY = "steady state"
GROWTH, GROWING, LAST = 8.0, 16, 4
"""Factor from a step to the next, number of steps that grow, and of the last ones."""
MOST_STATES = 10
"""States beyond which straight-line code of so many steps gets too long to compile."""
SETTLED = 1e-8
"""Relative change in the last step, beyond which there is no equilibrium."""


@dataclass(frozen=True)
class SteadyState:
    """Equilibrium of the model under constant inputs, for ``initial`` of `Problem`.

    Parameters
    ----------
    u : mapping of str to float, optional
        Inputs at which it is at rest; those at the first sample of each record by default.
    begin : object
        State from which an integration leads there, as ``initial`` of `Problem`: of several
        equilibria it decides which, and how much there is of what the model conserves.

    Examples
    --------
    >>> initial = SteadyState(u={"heat": 0.0}, begin={"A": "total"})
    """

    u: Mapping[str, float] | None = None
    begin: Any = "rest"

    def __post_init__(self) -> None:
        if self.u is not None and not isinstance(self.u, Mapping):
            raise InputError(
                f"u of SteadyState is {shown(self.u)}: give a dict of input to number, or leave it "
                "out",
                argument="u",
            )

    @classmethod
    def of(cls, given: Any) -> SteadyState | None:
        """Return what ``initial`` of one record asks for; None for anything else."""
        if isinstance(given, cls):
            return given
        return cls() if isinstance(given, str) and given == STEADY else None

    def inputs(self, ode: ODE, first: np.ndarray[Any, np.dtype[np.float64]]) -> list[float]:
        """Inputs at which the model is at rest; ``first`` are those at the first sample.

        Raises
        ------
        InputError
            If ``u`` names no input, or has no number for one.
        """
        if self.u is None:
            return first.tolist()
        for name in self.u:
            if name not in ode.inputs:
                raise InputError(
                    f"u of SteadyState names '{name}', which is no input of model '{ode.name}': "
                    f"{nearest(name, ode.inputs)}",
                    argument="initial",
                )
        given = dict(zip(ode.inputs, first.tolist(), strict=True)) | dict(self.u)
        return [real_number(f"u of SteadyState: '{n}'", given[n]) for n in ode.inputs]


def equilibrium(ode: ODE, begin: ca.SX, u: ca.SX, t: ca.SX, parameters: ca.SX) -> ca.SX:
    """Graph of the equilibrium that a state leads to, (n, 1); NaN where there is none.

    Nor is there one on the other side of an event. Only the two ends are compared: an event that
    an overshoot on the way would call is not seen.

    begin, u, t, parameters: State, inputs, time, and parameters of the ODE.
    """
    others = frozenset({"process_noise", "accumulators", "algebraic", "events"})
    check_parts(ode.parts, "a steady state", others)
    n = begin.numel()
    if n > MOST_STATES:
        raise InputError(
            f"initial is a steady state of {n} states, more than the {MOST_STATES} that are "
            "compiled: give the states as formulas of the parameters",
            argument="initial",
        )
    x = ca.SX.sym("x", n, 1)
    rate = ode.rhs(x, u, t, parameters)
    known = ca.symvar(ca.vertcat(u, t, parameters))
    step = ca.Function("step", [x, ca.vertcat(*known)], [rate, ca.jacobian(rate, x)])
    mass = ca.SX([float(name not in ode.algebraic) for name in ode.states])
    state, shortest, moved = begin, ca.SX(0.0), ca.SX.zeros(n, 1)
    for number in range(GROWING + LAST):
        slope, jacobian = step.call([state, ca.vertcat(*known)], True, False)
        if number == 0:
            shortest = ca.sqrt(ca.sumsqr(jacobian)) + np.finfo(float).tiny
        scale = shortest * GROWTH ** -min(number, GROWING)
        moved = ca.solve(scale * ca.diag(mass) - jacobian, slope)
        state = state + moved
    settled = ca.sumsqr(moved) <= SETTLED**2 * ca.sumsqr(state) + np.finfo(float).tiny
    for before, after in zip(
        *(_events(ode, at, u, t, parameters) for at in (begin, state)), strict=True
    ):
        crossed = after.crosses(ca.sign(before.expression), after.expression)
        settled = ca.logic_and(settled, ca.logic_not(crossed))
    return state / ca.if_else(settled, 1.0, 0.0)


def _events(ode: ODE, x: ca.SX, u: ca.SX, t: ca.SX, parameters: ca.SX) -> Sequence[EventGraphs]:
    """Events of an equation at a state."""
    column = None if ode.events is None else ode.events(x, u, t, parameters)
    events = Events.of_column(column, x.numel())
    return () if events is None else events.each


Array = NDArray[np.float64]
Parameter = Callable[..., ca.SX]
Constant = Callable[[float, str], ca.SX]


class FirstSample(NamedTuple):
    """Inputs (m,) and time of the first sample of a record."""

    u: Array
    t: float

    @classmethod
    def of(cls, record: Record) -> FirstSample:
        """Take them of a record."""
        return cls(record.u[0], float(record.t[0]))


@dataclass
class AddedParameters:
    """Parameters added for initial states that have a distribution."""

    distributions: dict[str, Distribution] = field(default_factory=dict)
    symbols: list[ca.SX] = field(default_factory=list)

    def add(self, name: str, distribution: Distribution) -> ca.SX:
        """Make a new parameter and return its symbol."""
        self.distributions[name] = distribution
        self.symbols.append(ca.SX.sym(name))
        return self.symbols[-1]


def scalar_initial(initial: Any, ode: ODE) -> Any:
    """The argument ``initial`` of a problem, its mappings by the names of scalars."""
    if isinstance(initial, Mapping):
        return by_scalar(initial, ode, "initial")
    if isinstance(initial, (list, tuple)):
        return [scalar_initial(one, ode) if isinstance(one, Mapping) else one for one in initial]
    return initial


def initial_states(
    ode: ODE, initial: Any, firsts: Sequence[FirstSample], parameter: Parameter, constant: Constant
) -> tuple[tuple[ca.SX, ...], AddedParameters]:
    """Initial state of each record, (n, 1), and the parameters added for them."""
    added = AddedParameters()
    states: list[ca.SX] = []
    for number, values in enumerate(_per_record(initial, len(firsts))):
        label, steady = "" if len(firsts) == 1 else f"[{number}]", SteadyState.of(values)
        begin = values if steady is None else scalar_initial(steady.begin, ode)
        if is_formula(begin):
            begin = _formula(begin, parameter)
        entries = [
            _entry(value, f"{state}(0){label}", parameter, constant, added)
            for state, value in named_values(ode, begin)
        ]
        state = ca.vertcat(*entries)
        if steady is not None:
            inputs = zip(ode.inputs, steady.inputs(ode, firsts[number].u), strict=True)
            u = ca.vertcat(*(constant(value, f"{name}(0){label}") for name, value in inputs))
            t = constant(firsts[number].t, f"t(0){label}")
            values = ca.vertcat(*map(parameter, ode.parameters))
            state = equilibrium(ode, state, u, t, values)
        states.append(state)
    return tuple(states), added


def is_formula(value: Any) -> bool:
    """True for a function, and not for a distribution."""
    return callable(value) and not hasattr(value, "rvs")


def _formula(function: Callable[..., Any], parameter: Parameter) -> list[ca.SX]:
    """Graphs of what a function of keyword-only parameters returns."""
    positional, keyword = argument_names(function)
    if positional:
        raise InputError(
            f"initial: function '{function_name(function)}' takes '{positional[0]}': write a star "
            "before its parameters, def start(*, ratio): ...",
            argument="initial",
        )
    names = {
        name: parameter(name, None if default is Signature.empty else float(default))
        for name, default in keyword.items()
    }
    return trace(function, [], names)


def named_values(ode: ODE, values: Any) -> list[tuple[str, Any]]:
    """Every state of a model with what one record's ``initial`` gives for it."""
    return list(zip(ode.states, _per_state(ode, values), strict=True))


def _per_record(initial: Any, n_records: int) -> list[Any]:
    one_each = (
        isinstance(initial, (list, tuple))
        and bool(initial)
        and all(
            isinstance(one, (Mapping, list, tuple, np.ndarray))
            or (n_records > 1 and isinstance(one, str) and one in ("rest", STEADY))
            or SteadyState.of(one) is not None
            for one in initial
        )
    )
    if not one_each:
        return [initial] * n_records
    if len(initial) != n_records:
        raise InputError(
            f"initial lists {len(initial)} states for {n_records} records", argument="initial"
        )
    return list(initial)


def _per_state(ode: ODE, values: Any) -> list[Any]:
    if isinstance(values, str):
        if values == "rest":
            return [0.0] * len(ode.states)
        values = [values]
    if isinstance(values, Mapping):
        unknown = [name for name in values if name not in ode.states]
        if unknown:
            raise InputError(
                f"initial names {shown(unknown[0])}, which is no state of model '{ode.name}' "
                f"({listed(ode.states)})",
                argument=f"initial.{unknown[0]}",
            )
        return [values.get(name, 0.0) for name in ode.states]
    if isinstance(values, np.ndarray):
        values = np.atleast_1d(values)
    values = list(values) if isinstance(values, (Sequence, np.ndarray)) else [values]
    if len(values) != len(ode.states):
        raise InputError(
            f"initial has {len(values)} values for the {len(ode.states)} states of model "
            f"'{ode.name}': give 'rest', one value per state, or a mapping from state to value",
            argument="initial",
        )
    return values


def _entry(
    value: Any, name: str, parameter: Parameter, constant: Constant, added: AddedParameters
) -> ca.SX:
    if isinstance(value, str):
        return parameter(value)
    if isinstance(value, ca.SX):
        return value
    if is_formula(value):
        returned = _formula(value, parameter)
        if len(returned) != 1:
            raise InputError(
                f"initial {name}: function '{function_name(value)}' returns {len(returned)} "
                "values: return one",
                argument="initial",
            )
        return returned[0]
    if isinstance(value, (int, float, np.number)):
        return constant(real_number(f"initial {name}", value, argument="initial"), name)
    return added.add(name, value)
