"""Calls of an unknown function in the body of a model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import casadi as ca
import numpy as np

from smcpn.errors import InputError, shown
from smcpn.functions.unknown import UnknownFunction
from smcpn.model.symbol_array import elementwise


@dataclass(frozen=True)
class TracedFunction:
    """An unknown function and where a model evaluates it.

    Attributes
    ----------
    function : UnknownFunction
    places : casadi.Function
        Arguments of every call, (calls, variables), as a function of (x, u, t, parameters).
    """

    function: UnknownFunction
    places: ca.Function


@dataclass
class FunctionCalls:
    """An unknown function in the body of a model, which records the arguments of every call.

    Attributes
    ----------
    name : str
        Of the function in the model.
    function : UnknownFunction
    parameters : casadi.SX, (p, 1)
    """

    name: str
    function: UnknownFunction
    parameters: ca.SX = field(default_factory=lambda: ca.SX(0, 1))
    _places: list[ca.SX] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """Names of its parameters in the model."""
        return [self.name + of for of in self.function.priors]

    def __call__(self, *arguments: Any) -> Any:
        """Graph of the function at scalar arguments, or at every entry of arrays."""
        wanted = self.function.arguments
        if len(arguments) != len(wanted):
            raise InputError(
                f"'{self.name}' is called with {len(arguments)} arguments: "
                f"it is a function of {len(wanted)} ({', '.join(wanted)})"
            )
        if any(isinstance(one, np.ndarray) and one.ndim for one in arguments):
            return elementwise(self._at, *arguments)
        return self._at(*arguments)

    def _at(self, *arguments: Any) -> ca.SX:
        graphs = [ca.SX(one) for one in arguments]
        for graph in graphs:
            if graph.shape != (1, 1):
                raise InputError(
                    f"'{self.name}' is called with {shown(graph)} of shape {graph.shape}: "
                    "give scalars, or numpy arrays of them"
                )
        self._places.append(ca.horzcat(*graphs))
        return self.function.graph(graphs, self.parameters)

    def traced(self, symbols: list[ca.SX]) -> TracedFunction:
        """The function with the places of its calls, in terms of (x, u, t, parameters).

        Raises
        ------
        InputError
            If it was not called.
        """
        if not self._places:
            raise InputError(f"'{self.name}' is not called in the model: remove it, or call it")
        places = ca.densify(ca.vertcat(*self._places))
        return TracedFunction(self.function, ca.Function("places", symbols, [places]))
