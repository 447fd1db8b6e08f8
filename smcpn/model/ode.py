"""An ordinary differential equation, written as a Python function and traced once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, overload

import casadi as ca
import numpy as np

from smcpn.base.arguments import checked
from smcpn.errors import InputError, listed, nearest, one_of, real_number, shown, whole_number
from smcpn.model.algebraic import arranged_equations
from smcpn.model.compiled_function import CompiledFunction, is_compiled
from smcpn.model.events import Event, check_events, event_column
from smcpn.model.expression import MAX_ROWS, ExpressionTable
from smcpn.model.function_arguments import FunctionArguments, Parameter
from smcpn.model.functions.unknown import UnknownFunction
from smcpn.model.trace import (
    FunctionCalls,
    SymbolArray,
    TracedFunction,
    argument_names,
    check_same,
    function_name,
    trace,
)

TIME = "t"
_NONE = inspect.Parameter.empty
_NAMED_REMEDY = (
    'write @smcpn.ode(states=["x"], inputs=["u"], parameters=["k"]) above a function that numba '
    "has compiled"
)


@checked
@dataclass(frozen=True, eq=False, repr=False)
class ODE:
    """A traced differential equation x' = f(x, u, t, parameters).

    In the places of algebraic variables z among x, f is the residual of 0 = g(x, z, u, t,
    parameters).

    Attributes
    ----------
    name : str
        Name of the Python function.
    states, inputs, parameters : tuple of str
        Names of scalars in the order of the function's signature; the entries of a vector ``x``
        are ``x[0]``, ``x[1]``, ...
    defaults : mapping of str to float
        Values of the parameters that have one; a prior overrides it.
    rhs : casadi.Function
        ``rhs(x, u, t, parameters)`` with vector arguments, the derivative of every state, or the
        residual in its place.
    chains : mapping of str to str
        State to the state that is its derivative (``{"x": "v"}`` for x' = v), read off the graph.
    diffusion : casadi.Function or None
        Of a stochastic differential equation dx = f dt + G dW, made by `smcpn.sde`: G (n, m) as a
        function of the arguments of ``rhs``.
    functions : mapping of str to TracedFunction
        Unknown functions in it; their parameters are among ``parameters``.
    sizes : mapping of str to int
        Number of entries of each vector among states, inputs and parameters.
    traced : callable or None
        Returns the equation with given functions in place of those of these names; None after it
        was read from a file or came from another process.
    function : callable or None
        Python function that it is of, but for its unknown functions; None as ``traced``.
    compiled : CompiledFunction or None
        Where it is a function of numba's.
    accumulators : tuple of str
        States that are set back to zero after every sample, see `accumulating`.
    algebraic : tuple of str
        States that are algebraic variables.
    events : casadi.Function or None
        Column of `Events` as a function of the arguments of ``rhs``, where the state jumps.
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
    sizes: Mapping[str, int] = field(default_factory=dict[str, int], repr=False)
    traced: Callable[[Mapping[str, UnknownFunction]], ODE] | None = field(default=None, repr=False)
    function: Callable[..., Any] | None = field(default=None, repr=False)
    compiled: CompiledFunction | None = field(default=None, repr=False)
    accumulators: tuple[str, ...] = ()
    algebraic: tuple[str, ...] = field(default=(), repr=False)
    events: ca.Function | None = field(default=None, repr=False)

    def accumulating(self, *states: str) -> ODE:
        """Return the same equation with states that count since the last sample.

        They are set back to zero after every sample of a record, of whatever is measured there.

        Raises
        ------
        InputError
            For a name that is no state.

        Examples
        --------
        >>> @smcpn.ode
        ... def infected(i, cases, *, rate):
        ...     return rate * i, rate * i
        >>> infected.accumulating("cases").accumulators
        ('cases',)
        """
        for name in states:
            one_of("accumulators", name, self.states)
        return replace(self, accumulators=states)

    def with_functions(self, functions: Mapping[str, UnknownFunction]) -> ODE:
        """Return the same equation with other unknown functions in place of those of these names.

        Raises
        ------
        InputError
            If it has no such function, or was read from a file, which has no Python function.
        """
        for name in functions:
            one_of("functions", name, self.functions)
        if self.traced is None:
            raise InputError(
                f"model '{self.name}' was read from a file, which does not have its Python "
                "function: make the problem in the script"
            )
        every = {name: one.function for name, one in self.functions.items()}
        made = self.traced({**every, **functions})
        return replace(made, doc=self.doc, accumulators=self.accumulators)

    def __repr__(self) -> str:
        kind = "ODE" if self.diffusion is None else "SDE"
        return f"<{kind} '{self.name}': {'; '.join(self.named())}>"

    def named(self) -> list[str]:
        """Its states, inputs and parameters in words, a vector or a function by its own name."""
        of = {one: f"{name}({len(ones)})" for name, ones in self.wholes.items() for one in ones}
        kinds = {
            "states": [name for name in self.states if name not in self.algebraic],
            "algebraic variables": self.algebraic,
            "inputs": self.inputs,
            "parameters": self.parameters,
        }
        return [
            f"{kind} {listed(dict.fromkeys(of.get(name, name) for name in names))}"
            for kind, names in kinds.items()
            if names
        ]

    @property
    def priors(self) -> dict[str, Any]:
        """Default priors of the parameters of its unknown functions."""
        return {
            name + of: prior
            for name, one in self.functions.items()
            for of, prior in one.function.priors.items()
        }

    @cached_property
    def wholes(self) -> dict[str, tuple[str, ...]]:
        """Names of the scalars of every vector, and of the parameters of every unknown function."""
        vectors = {name: entry_names(name, size) for name, size in self.sizes.items()}
        functions = {
            name: tuple(name + of for of in one.function.priors)
            for name, one in self.functions.items()
        }
        return vectors | functions

    @property
    def scales(self) -> dict[str, str]:
        """Scale of the default prior of each parameter of its unknown functions that has one."""
        return {
            name + of: name + scale
            for name, one in self.functions.items()
            for of, scale in one.function.scales.items()
        }

    def at_interval(self, interval: float) -> ODE:
        """Return the equation for records of a sampling interval, if it is a compiled function."""
        if self.compiled is None:
            return self
        return _of_compiled(self, self.compiled, interval)

    def known(self, x: ca.SX, u: ca.SX, t: ca.SX, parameter: Parameter) -> FunctionArguments:
        """Symbols by name for functions beside the equation, of those of states and inputs."""
        scalars = {name: x[i] for i, name in enumerate(self.states)}
        scalars |= {name: u[i] for i, name in enumerate(self.inputs)} | {TIME: t}
        vectors = {
            name: SymbolArray.of([scalars[one] for one in entries])
            for name, entries in self.wholes.items()
            if entries[0] in scalars
        }
        return FunctionArguments(
            self.name, scalars | vectors, self.wholes, self.functions, parameter
        )

    @property
    def parts(self) -> frozenset[str]:
        """Names in `smcpn.model.parts.PARTS` of what it has."""
        parts = {
            "process_noise": self.diffusion is not None,
            "accumulators": bool(self.accumulators),
            "algebraic": bool(self.algebraic),
            "events": self.events is not None,
        }
        return frozenset(name for name, there in parts.items() if there)

    @property
    def drift(self) -> ODE:
        """Equation without the noise of a stochastic one."""
        return replace(self, diffusion=None)

    def table(self) -> ExpressionTable:
        """``rhs``, ``diffusion`` or ``events`` if any, and places of functions as plain data."""
        arguments = self.rhs.sx_in()
        others = [one for one in (self.diffusion, self.events) if one is not None]
        others += [one.places for one in self.functions.values()]
        if not others:
            return ExpressionTable.of(self.rhs)
        results = [one(*arguments) for one in (self.rhs, *others)]
        return ExpressionTable.of(ca.Function("ode", arguments, results))

    def __getstate__(self) -> dict[str, Any]:
        functions = {name: one.function for name, one in self.functions.items()}
        graphs = {"rhs": self.table(), "diffusion": None, "events": None, "functions": functions}
        return vars(self) | graphs | {"traced": None, "function": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state | graphs_of(state["rhs"], state["functions"]))


def graphs_of(table: ExpressionTable, functions: Mapping[str, UnknownFunction]) -> dict[str, Any]:
    """``rhs``, ``diffusion``, ``events`` and ``functions`` of what `ODE.table` returned."""
    arguments, results = table.graphs()
    # A diffusion has a row for each state, and events have more.
    second = "diffusion" if results[-1 - len(functions)].size1() == results[0].size1() else "events"
    names = ("rhs", second)[: len(results) - len(functions)]
    made = [
        ca.Function(name, arguments, [graph]) for name, graph in zip(names, results, strict=False)
    ]
    places = [ca.Function("places", arguments, [graph]) for graph in results[len(made) :]]
    traced = {
        name: TracedFunction(function, at)
        for (name, function), at in zip(functions.items(), places, strict=True)
    }
    return {"diffusion": None, "events": None, "functions": traced} | dict(
        zip(names, made, strict=True)
    )


@overload
def ode(function: Callable[..., Any], /) -> ODE: ...
@overload
def ode(
    *,
    sizes: Mapping[str, int] | None = None,
    events: Sequence[Event] = (),
    states: Sequence[str] | None = None,
    inputs: Sequence[str] = (),
    parameters: Sequence[str] = (),
    chains: Mapping[str, str] | None = None,
    algebraic: Sequence[str] = (),
) -> Callable[[Callable[..., Any]], ODE]: ...
@overload
def ode(
    function: Callable[..., Any],
    /,
    *,
    sizes: Mapping[str, int] | None = None,
    events: Sequence[Event] = (),
    states: Sequence[str] | None = None,
    inputs: Sequence[str] = (),
    parameters: Sequence[str] = (),
    chains: Mapping[str, str] | None = None,
    algebraic: Sequence[str] = (),
) -> ODE: ...
def ode(
    function: Callable[..., Any] | None = None,
    /,
    *,
    sizes: Mapping[str, int] | None = None,
    events: Sequence[Event] = (),
    states: Sequence[str] | None = None,
    inputs: Sequence[str] = (),
    parameters: Sequence[str] = (),
    chains: Mapping[str, str] | None = None,
    algebraic: Sequence[str] = (),
) -> ODE | Callable[[Callable[..., Any]], ODE]:
    """Trace ``function`` into an `ODE`.

    Positional arguments are the states, then the inputs, and ``t`` where time is used;
    keyword-only arguments are the parameters (a default makes one a constant unless it is given
    a prior). A parameter whose default is an unknown function (`smcpn.spline`), or which has no
    default but the name of such a function in the scope of the model, is called in the body. The
    function returns the derivative of each state, which gives their number,
    as a tuple, a list or an array. In the place of a state that ``algebraic`` names it returns the
    residual g of an equation 0 = g(x, z, u, t), which together determine these variables z (index
    1); `smcpn.Rosenbrock` solves such a model.

    A state, input or parameter with a size is a vector: in the body a numpy array of expressions,
    which one can loop over, slice, and give to numpy's functions (``np.diff``, ``A @ x``,
    ``np.where``). What is returned may hold vectors (``return v, a``). To priors, outputs and
    results its entries are ``x[0]``, ``x[1]``, ..., and ``x`` is all of them.

    ``np.round`` rounds half away from zero in a model, where numpy rounds half to even.

    What cannot be traced, such as loops until something converges, ``if``, or a simulator that
    somebody wrote, is compiled by numba: ``f(x, u, t, p, out)`` takes arrays of states and inputs,
    the time, and an array of parameters, and writes the derivatives to ``out``. The names of its
    arguments are given then. Its own derivatives are differences, see
    `smcpn.model.compiled_function`.

    Parameters
    ----------
    function : callable
    sizes : mapping of str to int, optional
        Number of entries of each argument that is a vector; a parameter whose default is an array
        or a list has the size of that.
    events : sequence of `smcpn.event`
        Where the state jumps. Parameters that only they have are parameters of the model.
    states, inputs, parameters : sequence of str, optional
        Names of the arguments of a function that numba has compiled, and of no other.
    chains : mapping of str to str, optional
        Of such a function the states whose derivative is a state, ``{"x": "v"}`` for x' = v:
        solvers take them together, at less cost.
    algebraic : sequence of str
        States, of a function that is traced, that are algebraic variables. What a problem gives as
        their initial values is where Newton's iteration for the consistent ones begins.

    Raises
    ------
    InputError
        If the function branches on a state or parameter, contains a NaN, returns more
        derivatives than it has states or not the same in every call (random numbers), or a size
        fits no argument; if names are missing, or a compiled function does not take or write what
        they say; if the algebraic equations cannot determine their variables.

    Examples
    --------
    >>> @ode
    ... def decay(x, *, rate):
    ...     return -rate * x
    >>> @ode(sizes={"x": 12, "v": 12, "k": 13})
    ... def masses(x, v, *, k):
    ...     return v, np.diff(k * np.diff(x, prepend=0.0, append=0.0))
    >>> @ode(algebraic=["i"])
    ... def diode(v, i, u, *, r, c):
    ...     return i / c, u - r * i - 0.05 * np.log1p(i / 1e-9) - v
    >>> @ode(states=["x", "v"], inputs=["u"], parameters=["k"], chains={"x": "v"})
    ... @numba.njit
    ... def stop(x, u, t, p, out):
    ...     out[0] = x[1]
    ...     out[1] = u[0] - p[0] * x[0] if x[0] < 1.0 else -100.0 * p[0] * (x[0] - 1.0)
    """
    check_events(events)
    algebraic = _names("algebraic", algebraic, {})
    named = {"states": states, "inputs": inputs, "parameters": parameters, "chains": chains}
    if states is None:
        given = next((name for name, one in named.items() if one), None)
        if given is not None:
            raise InputError(
                f"ode has {given} and no states: {_NAMED_REMEDY}, or leave it out of an equation "
                "that is traced",
                argument="states",
            )
        if function is not None and is_compiled(function):
            raise InputError(
                f"model '{function_name(function)}' is compiled by numba and has no names: "
                f"{_NAMED_REMEDY}",
                argument="states",
            )
        make = functools.partial(_ode, algebraic=algebraic)
        scope = callers_scope()

        def traced(function: Callable[..., Any]) -> ODE:
            return with_events(_retraceable(make, function, checked_sizes, scope), events)

        checked_sizes = _checked_sizes(sizes)
        return traced if function is None else traced(function)
    if algebraic:
        raise InputError(
            f"algebraic is {shown(algebraic)}, and states names those of a function that numba has "
            "compiled, which has no algebraic equations: write one that can be traced",
            argument="algebraic",
        )
    sizes = _checked_sizes(sizes)
    names = ArgumentNames.of(sizes, **named)

    def compiled(function: Callable[..., Any]) -> ODE:
        return with_events(_compiled(function, names, sizes), events)

    return compiled if function is None else compiled(function)


def _ode(
    function: Callable[..., Any],
    sizes: Mapping[str, int],
    scope: Mapping[str, Any],
    algebraic: Sequence[str],
) -> ODE:
    arguments = Arguments.of(function, scope, sizes)
    equation = arguments.equation(trace(function, arguments.positional, arguments.keyword))
    named = _names("algebraic", algebraic, sizes)
    return _with_algebraic(equation, tuple(dict.fromkeys(named)))


def _with_algebraic(equation: ODE, algebraic: tuple[str, ...]) -> ODE:
    """The equation of which some states are algebraic variables, see `arranged_equations`."""
    if not algebraic:
        return equation
    arguments = equation.rhs.sx_in()
    returned = equation.rhs(*arguments)
    rows = arranged_equations(equation.name, equation.states, algebraic, arguments[0], returned)
    return replace(
        equation,
        rhs=ca.Function("rhs", arguments, [rows]),
        chains={of: rate for of, rate in equation.chains.items() if of not in algebraic},
        algebraic=algebraic,
    )


def with_events(equation: ODE, events: Sequence[Event]) -> ODE:
    """Return the equation with events, and with the parameters that only these have."""
    if not events:
        return equation
    x, u, t, values = equation.rhs.sx_in()
    symbols = dict(zip(equation.parameters, ca.vertsplit(values), strict=True))
    defaults: dict[str, float] = {}

    def parameter(name: str, default: float | None = None) -> ca.SX:
        if name not in symbols and equation.compiled is not None:
            raise InputError(
                f"events have the parameter '{name}', which model '{equation.name}' does not: "
                "name it among its parameters",
                argument="events",
            )
        if default is not None and defaults.setdefault(name, default) != default:
            raise InputError(
                f"events give parameter '{name}' the defaults {defaults[name]:g} and {default:g}: "
                "give it one",
                argument="events",
            )
        return symbols.setdefault(name, ca.SX.sym(name))

    column = event_column(events, equation.known(x, u, t, parameter), equation.states)
    arguments = [x, u, t, ca.vertcat(*symbols.values())]

    def over_all(function: ca.Function) -> ca.Function:
        if len(symbols) == values.numel():
            return function
        return ca.Function(function.name(), arguments, [function(x, u, t, values)])

    def traced(functions: Mapping[str, UnknownFunction]) -> ODE:
        assert equation.traced is not None
        return with_events(equation.traced(functions), events)

    return replace(
        equation,
        parameters=tuple(symbols),
        defaults={**defaults, **equation.defaults},
        rhs=over_all(equation.rhs),
        functions={
            name: replace(one, places=over_all(one.places))
            for name, one in equation.functions.items()
        },
        events=ca.Function("events", arguments, [column]),
        traced=None if equation.traced is None else traced,
    )


@dataclass(frozen=True)
class ArgumentNames:
    """Names of all scalars that a function compiled by numba takes, and its chains.

    chains: State to the state that is its derivative.
    """

    states: tuple[str, ...]
    inputs: tuple[str, ...]
    parameters: tuple[str, ...]
    chains: Mapping[str, str]

    @classmethod
    def of(
        cls, sizes: Mapping[str, int], *, states: Any, inputs: Any, parameters: Any, chains: Any
    ) -> ArgumentNames:
        """Check what was given to `ode`."""
        given = {"states": states, "inputs": inputs, "parameters": parameters}
        kinds = {kind: _names(kind, names, sizes) for kind, names in given.items()}
        every = [name for names in kinds.values() for name in names]
        double = next((name for name in every if every.count(name) > 1 or name == TIME), None)
        if double is not None:
            raise InputError(
                f"ode names {shown(double)} twice, or as the time is: give each name once"
            )
        if not kinds["states"]:
            raise InputError("ode has no states: name one for each derivative", argument="states")
        if chains is not None and not isinstance(chains, Mapping):
            raise InputError(
                f'chains is {shown(chains)}: give a dict such as {{"x": "v"}}', argument="chains"
            )
        for name in (name for pair in (chains or {}).items() for name in pair):
            one_of("chains", name, kinds["states"])
        return cls(**kinds, chains=dict(chains or {}))


def _names(kind: str, given: Any, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """Names of scalars, of names that are given."""
    names = given if isinstance(given, (list, tuple)) else [given]
    if names is not given or not all(isinstance(name, str) for name in names):
        raise InputError(
            f'{kind} is {shown(given)}: give a list of names, ["x", "v"]', argument=kind
        )
    return tuple(one for name in names for one in _entries(name, _NONE, sizes))


def _compiled(function: Any, names: ArgumentNames, sizes: Mapping[str, int]) -> ODE:
    """The equation of a function that numba has compiled."""
    if not is_compiled(function):
        raise InputError(
            f"model '{function_name(function)}' has states, and numba has not compiled it: write "
            "@numba.njit below @smcpn.ode, or leave the names to the function's arguments"
        )
    states = names.states
    compiled = CompiledFunction(function, len(states), len(names.inputs), len(names.parameters))
    compiled.check()
    for state, rate in names.chains.items():
        compiled.check_chain(states.index(state), states.index(rate))
    positional = (*states, *names.inputs, TIME)
    symbols = {name: ca.SX.sym(name) for name in (*positional, *names.parameters)}
    defaults = dict.fromkeys(names.parameters, _NONE)
    made = Arguments(function, symbols, defaults, {}, sizes, positional)
    equation = made.equation([symbols[name] for name in states])
    return _of_compiled(replace(equation, chains=names.chains), compiled)


def _of_compiled(equation: ODE, compiled: CompiledFunction, interval: float = 1.0) -> ODE:
    """An equation with the derivatives of a compiled function, but for those that are states."""
    arguments = equation.rhs.sx_in()
    rates = [
        arguments[0][equation.states.index(equation.chains[state])]
        if state in equation.chains
        else compiled.graph(k, interval, ca.vertcat(*arguments))
        for k, state in enumerate(equation.states)
    ]
    rhs = ca.Function("rhs", arguments, [ca.vertcat(*rates)])
    return replace(equation, rhs=rhs, compiled=compiled)


def decorated(
    make: Callable[[Callable[..., Any], Mapping[str, int], Mapping[str, Any]], ODE],
    function: Callable[..., Any] | None,
    sizes: Any,
    scope: Mapping[str, Any],
) -> ODE | Callable[[Callable[..., Any]], ODE]:
    """An equation of a function, or what makes one of the function that follows a decorator."""
    sizes = _checked_sizes(sizes)
    if function is None:
        return lambda function: _retraceable(make, function, sizes, scope)
    return _retraceable(make, function, sizes, scope)


def _retraceable(
    make: Callable[[Callable[..., Any], Mapping[str, int], Mapping[str, Any]], ODE],
    function: Callable[..., Any],
    sizes: Mapping[str, int],
    scope: Mapping[str, Any],
) -> ODE:
    """The equation of a function, which can be made again with other unknown functions."""
    first, second = (make(function, sizes, scope) for _ in range(2))
    for one, again in ((first.rhs, second.rhs), (first.diffusion, second.diffusion)):
        if one is not None and again is not None:
            check_same([one, again], f"model '{first.name}'")

    def traced(functions: Mapping[str, UnknownFunction]) -> ODE:
        # What was found in a scope is bound now: a scope that is kept would keep all it holds.
        return _retraceable(make, functools.partial(function, **functions), sizes, {})

    own = function.func if isinstance(function, functools.partial) else function
    return replace(first, traced=traced, function=own)


def callers_scope() -> dict[str, Any]:
    """Names that are known where the function that calls this was called."""
    frame = inspect.currentframe()
    caller = frame and frame.f_back and frame.f_back.f_back
    # A frame that its own local variable refers to would keep all frames below it alive.
    del frame
    return {} if caller is None else {**caller.f_globals, **caller.f_locals}


def _known_to(function: Callable[..., Any], scope: Mapping[str, Any]) -> Mapping[str, Any]:
    """Names of the module of a function, then those of where it is traced.

    In its own module the latter go before: they are those of the enclosing function or class.
    """
    own = getattr(inspect.unwrap(function), "__globals__", scope)
    same = own.get("__name__") == scope.get("__name__")
    return scope if same else {**scope, **own}


@dataclass(frozen=True)
class Arguments:
    """Symbols for the arguments of a function that describes an equation.

    symbols: Of the scalars of the positional arguments, then of the keyword-only ones, which
        ``defaults`` names.
    defaults: mapping of str to object, as `argument_names`, by scalar.
    calls: Of the keyword-only arguments that are unknown functions.
    sizes: Of the arguments that are vectors.
    names: Of the positional arguments.
    """

    function: Callable[..., Any]
    symbols: Mapping[str, ca.SX]
    defaults: Mapping[str, Any]
    calls: Mapping[str, FunctionCalls]
    sizes: Mapping[str, int]
    names: tuple[str, ...]

    @classmethod
    def of(
        cls, function: Callable[..., Any], scope: Mapping[str, Any], sizes: Mapping[str, int]
    ) -> Arguments:
        """Read the signature of a function.

        scope: mapping of str to object, where an argument without default finds the unknown
            function of its name.
        sizes: Of the arguments that are vectors.
        """
        positional, keyword = argument_names(function)
        if TIME in keyword:
            raise InputError(
                f"model '{function_name(function)}' has a parameter '{TIME}', which is the time: "
                "rename the parameter, or make the time a positional argument"
            )
        known = _known_to(function, scope)
        unknown = {
            name: found
            for name, default in keyword.items()
            if isinstance(
                found := known.get(name) if default is _NONE else default,
                UnknownFunction,
            )
        }
        calls = {name: FunctionCalls(name, found) for name, found in unknown.items()}
        scalars = {name: one for name, one in keyword.items() if name not in calls}
        sizes = _sizes(function_name(function), sizes, positional, scalars)
        defaults: dict[str, Any] = {}
        for name, default in keyword.items():
            if name in calls:
                defaults |= dict.fromkeys(calls[name].names, _NONE)
            else:
                defaults |= _entries(name, default, sizes)
        states = [one for name in positional for one in _entries(name, _NONE, sizes)]
        symbols = {name: ca.SX.sym(name) for name in [*states, *defaults]}
        for one in calls.values():
            one.parameters = ca.vertcat(*[symbols[name] for name in one.names])
        return cls(function, symbols, defaults, calls, sizes, tuple(positional))

    @property
    def positional(self) -> list[ca.SX | SymbolArray]:
        """Arguments before the star: what stands for states, inputs and time in the body."""
        return [self._symbol(name) for name in self.names]

    @property
    def keyword(self) -> dict[str, ca.SX | SymbolArray | FunctionCalls]:
        """Arguments after the star: what stands for each parameter in the body."""
        _, keyword = argument_names(self.function)
        return {name: self.calls.get(name) or self._symbol(name) for name in keyword}

    def _symbol(self, name: str) -> ca.SX | SymbolArray:
        if name not in self.sizes:
            return self.symbols[name]
        names = entry_names(name, self.sizes[name])
        return SymbolArray.of([self.symbols[one] for one in names])

    def equation(self, derivatives: list[ca.SX], diffusion: ca.SX | None = None) -> ODE:
        """Make the equation x' = ``derivatives``, or dx = ``derivatives`` dt + ``diffusion`` dW."""
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
        for vector, size in self.sizes.items():
            if states[-1] in entry_names(vector, size - 1):
                raise InputError(
                    f"model '{name}' returns {len(derivatives)} derivatives, which end within the "
                    f"{size} entries of '{vector}': return one for every entry of every state"
                )
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
            sizes=self.sizes,
        )


def entry_names(name: str, size: int) -> tuple[str, ...]:
    """Names of the entries of a vector."""
    return tuple(f"{name}[{k}]" for k in range(size))


def _checked_sizes(given: Any) -> dict[str, int]:
    """Sizes by name, as given to the decorator."""
    if given is not None and not isinstance(given, Mapping):
        raise InputError(f'sizes is {shown(given)}: give a dict such as {{"x": 12}}')
    return {
        name: whole_number(f"size of '{name}'", size, 1, MAX_ROWS)
        for name, size in (given or {}).items()
    }


def _sizes(
    model: str, given: Mapping[str, int], positional: Sequence[str], keyword: Mapping[str, Any]
) -> dict[str, int]:
    """Size of every vector among the arguments, given or that of a default."""
    found: dict[str, int] = {}
    known = [name for name in (*positional, *keyword) if name != TIME]
    for name, size in given.items():
        if name not in known:
            remedy = nearest(str(name), known)
            raise InputError(
                f"sizes names {shown(name)}, which is no state, input or parameter of model "
                f"'{model}': {remedy}"
            )
        found[name] = size
    for name, default in keyword.items():
        length = len(default) if _is_vector(default) else None
        if length is not None and (found.setdefault(name, length) != length or not length):
            raise InputError(
                f"model '{model}': default of parameter '{name}' has {length} entries: "
                f"give {found[name] or 'some'}"
            )
    return {name: found[name] for name in known if name in found}


def _entries(name: str, default: Any, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Default of every scalar of an argument."""
    if name not in sizes:
        return {name: default}
    names = entry_names(name, sizes[name])
    if _is_vector(default):
        return dict(zip(names, default, strict=True))
    return dict.fromkeys(names, default)


def _is_vector(default: Any) -> bool:
    return isinstance(default, (list, tuple)) or (
        isinstance(default, np.ndarray) and default.ndim > 0
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
