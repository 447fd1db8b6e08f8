"""An ordinary differential equation, written as a Python function and traced once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import casadi as ca

from smcpn.arguments import checked
from smcpn.errors import InputError, real_number
from smcpn.model.expression import ExpressionTable
from smcpn.model.trace import argument_names, function_name, trace

TIME = "t"


@checked
@dataclass(frozen=True, eq=False)
class ODE:
    """A traced differential equation x' = f(x, u, t, parameters).

    Attributes
    ----------
    name : str
        Name of the Python function.
    states, inputs, parameters : tuple of str
        Names in the order of the function's signature.
    defaults : mapping of str to float
        Values of the parameters that have one; a prior overrides it.
    rhs : casadi.Function
        ``rhs(x, u, t, parameters)`` with vector arguments, the derivative of every state.
    chains : mapping of str to str
        State to the state that is its derivative (``{"x": "v"}`` for x' = v), read off the graph.
    """

    name: str
    states: tuple[str, ...]
    inputs: tuple[str, ...]
    parameters: tuple[str, ...]
    defaults: Mapping[str, float]
    rhs: ca.Function = field(repr=False)
    chains: Mapping[str, str] = field(repr=False)
    doc: str = field(default="", repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"rhs": ExpressionTable.of(self.rhs)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, rhs=state["rhs"].function("rhs"))


def ode(function: Callable[..., Any]) -> ODE:
    """Trace ``function`` into an `ODE`.

    Positional arguments are the states, then the inputs, and ``t`` where time is used;
    keyword-only arguments are the parameters (a default makes one a constant unless it is given
    a prior). The function returns the derivative of each state, which gives their number,
    as a tuple, a list or an array.

    ``np.round`` rounds half away from zero in a model, where numpy rounds half to even.

    Raises
    ------
    InputError
        If the function branches on a state or parameter, contains a NaN, or returns more
        derivatives than it has positional arguments.

    Examples
    --------
    >>> @ode
    ... def decay(x, *, rate):
    ...     return -rate * x
    """
    positional, keyword = argument_names(function)
    name = function_name(function)
    if TIME in keyword:
        raise InputError(
            f"model '{name}' has a parameter '{TIME}', which is the time: rename the parameter, "
            "or make the time a positional argument"
        )
    symbols = {name: ca.SX.sym(name) for name in [*positional, *keyword]}
    derivatives = trace(
        function, [symbols[n] for n in positional], {n: symbols[n] for n in keyword}
    )
    if not derivatives:
        raise InputError(f"model '{name}' returns nothing: return the derivative of each state")
    untimed = [name for name in positional if name != TIME]
    if len(derivatives) > len(untimed):
        raise InputError(
            f"model '{name}' returns {len(derivatives)} derivatives but names only "
            f"{len(untimed)} states and inputs: name one positional argument per state"
        )
    states, inputs = untimed[: len(derivatives)], untimed[len(derivatives) :]
    time = symbols.get(TIME, ca.SX.sym(TIME))
    rhs = ca.Function(
        "rhs",
        [
            ca.vertcat(*[symbols[n] for n in states]),
            ca.vertcat(*[symbols[n] for n in inputs]),
            time,
            ca.vertcat(*[symbols[n] for n in keyword]),
        ],
        [ca.vertcat(*derivatives)],
    )
    return ODE(
        name=name,
        states=tuple(states),
        inputs=tuple(inputs),
        parameters=tuple(keyword),
        defaults=_defaults(name, keyword),
        rhs=rhs,
        chains=_chains(states, [symbols[name] for name in states], derivatives),
        doc=inspect.getdoc(function) or "",
    )


def _defaults(model: str, keyword: Mapping[str, Any]) -> dict[str, float]:
    defaults: dict[str, float] = {}
    for name, value in keyword.items():
        if value is inspect.Parameter.empty:
            continue
        defaults[name] = real_number(f"model '{model}': default of parameter '{name}'", value)
    return defaults


def _chains(states: list[str], symbols: list[ca.SX], derivatives: list[ca.SX]) -> dict[str, str]:
    found = derivative_states(symbols, derivatives)
    return {states[state]: states[derivative] for state, derivative in found.items()}


def derivative_states(states: Sequence[ca.SX], derivatives: Sequence[ca.SX]) -> dict[int, int]:
    """Number of each state whose derivative *is* a state, to the number of that state."""
    return {
        number: other
        for number, derivative in enumerate(derivatives)
        for other, state in enumerate(states)
        if other != number and ca.is_equal(derivative, state)
    }
