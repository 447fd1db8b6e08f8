"""Functions of a model that name what they take: states, inputs, the time, and parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import casadi as ca

from smcpn.errors import InputError, real_number
from smcpn.model.functions.unknown import UnknownFunction
from smcpn.model.trace import (
    FunctionCalls,
    SymbolArray,
    TracedFunction,
    argument_names,
    called,
    check_same,
    function_name,
    scalars,
)

Parameter = Callable[..., ca.SX]
"""The symbol or value of a parameter by its name; a second argument is its value otherwise."""


@dataclass(frozen=True)
class FunctionArguments:
    """Symbols of a model by name, for the functions beside its equation.

    named: States, inputs and time, and vectors of them.
    wholes: As of `ODE`.
    """

    model: str
    named: Mapping[str, ca.SX | SymbolArray]
    wholes: Mapping[str, tuple[str, ...]]
    functions: Mapping[str, TracedFunction]
    parameter: Parameter

    def traced(self, function: Callable[..., Any], what: str, argument: str) -> list[ca.SX]:
        """Scalar graphs that a function returns.

        what, argument: How messages call the function, and the argument of a problem that holds it.
        """
        first, again = (
            scalars(self.returned(function, what, argument), function_name(function))
            for _ in range(2)
        )
        graphs = [ca.SX(ca.vertcat(*one)) for one in (first, again)]
        symbols = ca.symvar(ca.vertcat(*graphs))
        check_same([ca.Function("graph", symbols, [one]) for one in graphs], what)
        return first

    def returned(self, function: Callable[..., Any], what: str, argument: str) -> Any:
        """Value that a function returns for the symbols that it names."""
        positional, keyword = argument_names(function)
        for name in positional:
            if name not in self.named:
                raise InputError(
                    f"{what} takes '{name}', which is no state or input of model "
                    f"'{self.model}': make a parameter keyword-only",
                    argument=argument,
                )
        values = {n: self._parameter(n, default, what) for n, default in keyword.items()}
        return called(function, [self.named[n] for n in positional], values)

    def _parameter(self, name: str, default: Any, what: str) -> Any:
        """Symbol of a parameter in the body of a function: of one number, a vector, a function.

        One of a single number may be one that the model has not: it then needs a default or prior.
        """
        names = self.wholes.get(name)
        if names is None:
            if default is inspect.Parameter.empty:
                return self.parameter(name, None)
            number = real_number(f"{what}: default of parameter '{name}'", default)
            return self.parameter(name, number)
        function = self.functions[name].function if name in self.functions else None
        same = isinstance(default, UnknownFunction) and default == function
        if default is not inspect.Parameter.empty and not same:
            raise InputError(
                f"{what}: '{name}' has a default, but it is a "
                f"{'vector' if function is None else 'function'} of model '{self.model}': "
                "leave the default out"
            )
        entries = [self.parameter(one) for one in names]
        if function is not None:
            return FunctionCalls(name, function, ca.vertcat(*entries))
        return SymbolArray.of(entries)
