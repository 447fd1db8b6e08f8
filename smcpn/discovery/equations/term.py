"""Terms of a library: products of variables and of functions of variables, with their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import casadi as ca

from smcpn.errors import InputError, listed, nearest, shown
from smcpn.model.ode import TIME
from smcpn.model.trace import function_name, trace


@dataclass(frozen=True)
class Factor:
    """A state, an input or the time, or a function of these; equal to one of the same name.

    Attributes
    ----------
    name : str
        ``"x"``, ``"sin(2 x)"``.
    arguments : tuple of str
        The variable, or the arguments of the function.
    function : callable, optional
        None for the variable itself.
    degree : int
        What it adds to the degree of a term.
    """

    name: str
    arguments: tuple[str, ...] = field(compare=False)
    function: Callable[..., Any] | None = field(default=None, compare=False)
    degree: int = field(default=1, compare=False)

    def graph(self, symbols: Mapping[str, ca.SX]) -> ca.SX:
        """Trace it over symbols of the variables.

        Raises
        ------
        InputError
            If the function cannot be traced, or does not return one expression.
        """
        values = [symbols[name] for name in self.arguments]
        if self.function is None:
            return values[0]
        try:
            found = trace(self.function, values, {})
        except InputError as error:
            as_model = f"model '{function_name(self.function)}'"
            raise InputError(
                str(error).replace(as_model, f"library term '{self.name}'"), argument="library"
            ) from error
        if len(found) != 1:
            raise InputError(
                f"library term '{self.name}' returns {len(found)} values: return one expression",
                argument="library",
            )
        return found[0]


@dataclass(frozen=True)
class Term:
    """A product of powers of factors, the constant 1 where there are none."""

    powers: tuple[tuple[Factor, int], ...] = ()

    @property
    def name(self) -> str:
        """As it is written: ``"x^2 sin(v)"``, ``"1"``."""
        written = [f.name if power == 1 else f"{f.name}^{power}" for f, power in self.powers]
        return " ".join(written) or "1"

    @property
    def degree(self) -> int:
        """Sum of the degrees of its factors."""
        return sum(factor.degree * power for factor, power in self.powers)

    @property
    def is_monomial(self) -> bool:
        """True if it has no function."""
        return all(factor.function is None for factor, _ in self.powers)

    def power(self, variable: str) -> int:
        """Power of a variable itself, whatever functions of it there are."""
        return dict(self.powers).get(Factor(variable, (variable,)), 0)

    def __mul__(self, other: Term) -> Term:
        powers = dict(self.powers)
        for factor, power in other.powers:
            powers[factor] = powers.get(factor, 0) + power
        return Term(tuple(powers.items()))

    def ordered(self, variables: tuple[str, ...]) -> Term:
        """Term with its variables in this order, and functions behind them by name."""

        def place(entry: tuple[Factor, int]) -> tuple[int, str]:
            factor = entry[0]
            known = factor.function is None
            return variables.index(factor.name) if known else len(variables), factor.name

        return Term(tuple(sorted(self.powers, key=place)))


@dataclass(frozen=True)
class Variables:
    """Names that terms are functions of: the states, then the inputs."""

    states: tuple[str, ...]
    inputs: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """States and inputs."""
        return self.states + self.inputs

    @property
    def timed(self) -> tuple[str, ...]:
        """States, inputs and the time."""
        return (*self.names, TIME)

    def chosen(self, names: Sequence[str] | None) -> tuple[str, ...]:
        """Return the variables that a library is restricted to; all where it is not.

        Raises
        ------
        InputError
            If a name is none of a variable.
        """
        if names is None:
            return self.names
        for name in names:
            if name not in self.timed:
                raise InputError(
                    f"library variables name {shown(name)}, which is no state or input "
                    f"({listed(self.names)}): {nearest(name, self.timed)}",
                    argument="variables",
                )
        return tuple(dict.fromkeys(names))
