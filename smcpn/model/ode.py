"""An ordinary differential equation, written as a Python function and traced once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import casadi as ca

from smcpn.arguments import checked
from smcpn.errors import InputError, real_number
from smcpn.functions.unknown import UnknownFunction
from smcpn.model.expression import ExpressionTable
from smcpn.model.function_call import FunctionCalls, TracedFunction
from smcpn.model.trace import argument_names, function_name, trace

TIME = "t"
_NONE = inspect.Parameter.empty


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
    diffusion : casadi.Function or None
        Of a stochastic differential equation dx = f dt + G dW, made by `smcpn.sde`: G (n, m) as a
        function of the arguments of ``rhs``.
    functions : mapping of str to TracedFunction
        Unknown functions in it; their parameters are among ``parameters``.
    """

    name: str
    states: tuple[str, ...]
    inputs: tuple[str, ...]
    parameters: tuple[str, ...]
    defaults: Mapping[str, float]
    rhs: ca.Function = field(repr=False)
    chains: Mapping[str, str] = field(repr=False)
    doc: str = field(default="", repr=False)
    diffusion: ca.Function | None = field(default=None, repr=False)
    functions: Mapping[str, TracedFunction] = field(
        default_factory=dict[str, "TracedFunction"], repr=False
    )

    @property
    def priors(self) -> dict[str, Any]:
        """Default priors of the parameters of its unknown functions."""
        return {
            name + of: prior
            for name, one in self.functions.items()
            for of, prior in one.function.priors.items()
        }

    @property
    def scales(self) -> dict[str, str]:
        """Scale of the default prior of each parameter of its unknown functions that has one."""
        return {
            name + of: name + scale
            for name, one in self.functions.items()
            for of, scale in one.function.scales.items()
        }

    @property
    def drift(self) -> ODE:
        """The same equation without the noise of a stochastic one."""
        return replace(self, diffusion=None)

    def table(self) -> ExpressionTable:
        """``rhs``, and ``diffusion`` where there is one, as plain data."""
        if self.diffusion is None:
            return ExpressionTable.of(self.rhs)
        arguments = self.rhs.sx_in()
        results = [self.rhs(*arguments), self.diffusion(*arguments)]
        return ExpressionTable.of(ca.Function("ode", arguments, results))

    @staticmethod
    def equations(table: ExpressionTable) -> tuple[ca.Function, ca.Function | None]:
        """``rhs`` and ``diffusion`` of what `table` returned."""
        arguments, results = table.graphs()
        made = [
            ca.Function(name, arguments, [graph])
            for name, graph in zip(("rhs", "diffusion"), results, strict=False)
        ]
        return made[0], made[1] if len(made) > 1 else None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"rhs": self.table(), "diffusion": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        rhs, diffusion = self.equations(state["rhs"])
        vars(self).update(state | {"rhs": rhs, "diffusion": diffusion})


def ode(function: Callable[..., Any]) -> ODE:
    """Trace ``function`` into an `ODE`.

    Positional arguments are the states, then the inputs, and ``t`` where time is used;
    keyword-only arguments are the parameters (a default makes one a constant unless it is given
    a prior). A parameter whose default is an unknown function (`smcpn.spline`), or which has no
    default but the name of such a function in the scope of the model, is called in the body. The
    function returns the derivative of each state, which gives their number,
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
    arguments = Arguments.of(function, callers_scope())
    return arguments.equation(trace(function, arguments.positional, arguments.keyword))


def callers_scope() -> dict[str, Any]:
    """Names that are known where the function that calls this was called."""
    frame = inspect.currentframe()
    caller = frame and frame.f_back and frame.f_back.f_back
    return {} if caller is None else {**caller.f_globals, **caller.f_locals}


@dataclass(frozen=True)
class Arguments:
    """Symbols for the arguments of a function that describes an equation.

    Attributes
    ----------
    function : callable
    symbols : mapping of str to casadi.SX
        Of the positional arguments, then of the keyword-only ones, which ``defaults`` names.
    defaults : mapping of str to object
        As `argument_names`.
    calls : mapping of str to FunctionCalls
        Of the keyword-only arguments that are unknown functions.
    """

    function: Callable[..., Any]
    symbols: Mapping[str, ca.SX]
    defaults: Mapping[str, Any]
    calls: Mapping[str, FunctionCalls]

    @classmethod
    def of(cls, function: Callable[..., Any], scope: Mapping[str, Any]) -> Arguments:
        """Read the signature of a function.

        Parameters
        ----------
        scope : mapping of str to object
            Where an argument without default finds the unknown function of its name.

        Raises
        ------
        InputError
            If it has arguments that an equation cannot have.
        """
        positional, keyword = argument_names(function)
        if TIME in keyword:
            raise InputError(
                f"model '{function_name(function)}' has a parameter '{TIME}', which is the time: "
                "rename the parameter, or make the time a positional argument"
            )
        unknown = {
            name: found
            for name, default in keyword.items()
            if isinstance(
                found := scope.get(name) if default is _NONE else default,
                UnknownFunction,
            )
        }
        calls = {name: FunctionCalls(name, found) for name, found in unknown.items()}
        defaults: dict[str, Any] = {}
        for name, default in keyword.items():
            names = calls[name].names if name in calls else None
            defaults |= {name: default} if names is None else dict.fromkeys(names, _NONE)
        symbols = {name: ca.SX.sym(name) for name in [*positional, *defaults]}
        for one in calls.values():
            one.parameters = ca.vertcat(*[symbols[name] for name in one.names])
        return cls(function, symbols, defaults, calls)

    @property
    def positional(self) -> list[ca.SX]:
        """Symbols of states, inputs and time."""
        return [one for name, one in self.symbols.items() if name not in self.defaults]

    @property
    def keyword(self) -> dict[str, ca.SX | FunctionCalls]:
        """What stands for the parameters in the body."""
        of_functions = {name for one in self.calls.values() for name in one.names}
        scalars = {n: self.symbols[n] for n in self.defaults if n not in of_functions}
        return {**scalars, **self.calls}

    def equation(self, derivatives: list[ca.SX], diffusion: ca.SX | None = None) -> ODE:
        """Make the equation x' = ``derivatives``, or dx = ``derivatives`` dt + ``diffusion`` dW.

        Raises
        ------
        InputError
            If there are no derivatives, or more than arguments.
        """
        name = function_name(self.function)
        untimed = [n for n in self.symbols if n not in self.defaults and n != TIME]
        if not derivatives:
            raise InputError(f"model '{name}' returns nothing: return the derivative of each state")
        if len(derivatives) > len(untimed):
            raise InputError(
                f"model '{name}' returns {len(derivatives)} derivatives but names only "
                f"{len(untimed)} states and inputs: name one positional argument per state"
            )
        states, inputs = untimed[: len(derivatives)], untimed[len(derivatives) :]
        vectors = [
            ca.vertcat(*[self.symbols[n] for n in names])
            for names in (states, inputs, self.defaults)
        ]
        vectors.insert(2, self.symbols.get(TIME, ca.SX.sym(TIME)))
        rhs = ca.Function("rhs", vectors, [ca.vertcat(*derivatives)])
        return ODE(
            name=name,
            states=tuple(states),
            inputs=tuple(inputs),
            parameters=tuple(self.defaults),
            defaults=_defaults(name, self.defaults),
            rhs=rhs,
            chains=_chains(states, [self.symbols[name] for name in states], derivatives),
            doc=inspect.getdoc(self.function) or "",
            diffusion=None
            if diffusion is None
            else ca.Function("diffusion", vectors, [ca.densify(diffusion)]),
            functions={name: one.traced(vectors) for name, one in self.calls.items()},
        )


def _defaults(model: str, keyword: Mapping[str, Any]) -> dict[str, float]:
    defaults: dict[str, float] = {}
    for name, value in keyword.items():
        if value is _NONE:
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
