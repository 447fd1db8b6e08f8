"""The state at the first sample: known, a parameter or a formula of some, unknown, or at rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Signature
from typing import Any, NamedTuple

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError, listed, real_number, shown
from smcpn.model.distribution import Distribution
from smcpn.model.entries import by_scalar
from smcpn.model.ode import ODE
from smcpn.model.record import Record
from smcpn.model.steady_state import STEADY, SteadyState, equilibrium
from smcpn.model.trace import argument_names, function_name, trace

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
    """The argument ``initial`` of a problem, its mappings by the names of scalars.

    Raises
    ------
    InputError
        If one does not fit the vectors of the model.
    """
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
    """Graphs of what a function of keyword-only parameters returns.

    Raises
    ------
    InputError
        If it takes something else.
    """
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
    """Every state of a model with what one record's ``initial`` gives for it.

    Raises
    ------
    InputError
        If ``values`` does not fit the states.
    """
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
