"""What the sensors measure, as expression graphs, and how noisy they are."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import casadi as ca
import numpy as np

from smcpn.arguments import real_number
from smcpn.density import as_density
from smcpn.errors import InputError
from smcpn.ode import ODE, TIME
from smcpn.tracing import argument_names, trace

Parameter = Callable[..., ca.SX]
"""The symbol or value of a parameter by its name; a second argument is its value otherwise."""
Constant = Callable[[float, str], ca.SX]


def observed_outputs(
    ode: ODE,
    observe: list[Any],
    x: ca.SX,
    u: ca.SX,
    t: ca.SX,
    rhs: ca.SX,
    parameter: Parameter,
) -> ca.SX:
    """Noise-free outputs: states, derivatives (``"v'"``), or functions of either."""
    named = {name: x[i] for i, name in enumerate(ode.states)}
    named |= {name: u[i] for i, name in enumerate(ode.inputs)} | {TIME: t}
    outputs: list[ca.SX] = []
    for what in observe:
        if callable(what):
            outputs += _traced_output(what, ode, named, parameter)
        else:
            outputs.append(_named_output(what, ode, x, rhs))
    if len(outputs) != len(observe):
        raise InputError(
            f"observe returns {len(outputs)} outputs for {len(observe)} entries: "
            "give one function per output"
        )
    return ca.vertcat(*outputs)


def one_per_output(noise: list[Any], observe: list[Any]) -> list[Any]:
    """Entries of ``noise``, a single one repeated."""
    if len(noise) == 1:
        noise = noise * len(observe)
    if len(noise) != len(observe):
        raise InputError(
            f"noise has {len(noise)} entries but observe has {len(observe)}: one per output"
        )
    return noise


def noise_variances(noise: list[Any], parameter: Parameter, constant: Constant) -> ca.SX:
    """Variance of each output's noise, from a standard deviation or a parameter's name.

    Infinite where a density stands in its place.
    """
    variances: list[ca.SX] = []
    for number, sd in enumerate(noise):
        if as_density(sd) is not None:
            variances.append(ca.SX(float("inf")))
        elif isinstance(sd, str):
            variances.append(parameter(sd) ** 2)
        elif isinstance(sd, (int, float, np.number)) and np.isfinite(sd) and sd > 0:
            variances.append(constant(float(sd), f"noise[{number}]") ** 2)
        else:
            raise InputError(
                f"noise is {sd!r}: give a positive standard deviation, a parameter's name, "
                "or a density such as smcpn.Poisson()"
            )
    return ca.vertcat(*variances)


def _named_output(what: Any, ode: ODE, x: ca.SX, rhs: ca.SX) -> ca.SX:
    name = what.removesuffix("'") if isinstance(what, str) else what
    if name not in ode.states:
        raise InputError(
            f"observe names {what!r}, which is no state of model '{ode.name}' "
            f'({", ".join(ode.states)}): name a state, its derivative as "{ode.states[0]}\'", '
            "or give a function"
        )
    place = ode.states.index(name)
    return rhs[place] if what != name else x[place]


def _traced_output(
    function: Callable[..., Any], ode: ODE, named: dict[str, ca.SX], parameter: Parameter
) -> list[ca.SX]:
    positional, keyword = argument_names(function)
    for name in positional:
        if name not in named:
            raise InputError(
                f"observe function takes '{name}', which is no state or input of model "
                f"'{ode.name}': make a parameter keyword-only"
            )
    values = {n: parameter(n, _default(n, default)) for n, default in keyword.items()}
    return trace(function, [named[n] for n in positional], values)


def _default(name: str, value: Any) -> float | None:
    if value is inspect.Parameter.empty:
        return None
    return real_number(f"observe function: default of parameter '{name}'", value)
