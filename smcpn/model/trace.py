"""Call a Python function once with symbols and keep the expression graph it returns.

Functions of numpy work on arrays of symbols entry by entry (`SymbolArray`), and an unknown function
that is called in the body of a model is a graph of its parameters (`FunctionCalls`).
"""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, cast

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError, shown
from smcpn.model.functions.unknown import UnknownFunction

_LACKING: dict[str, Callable[..., Any]] = {
    "conjugate": lambda one: one,
    "real": lambda one: one,
    "clip": lambda one, lower, upper: np.minimum(np.maximum(one, lower), upper),
}
"""Functions of numpy that CasADi has not, by name."""

_SPECIAL: dict[str, Callable[[Any], Any]] = {
    "erf": ca.erf,
    "expit": lambda one: 0.5 + 0.5 * ca.tanh(0.5 * one),
}
"""Functions of scipy.special by name, of an expression."""


class SymbolArray(np.ndarray):
    """A numpy array of CasADi expressions, as a vector is in the body of a model.

    Indexing, slicing, loops, sums and products with matrices are those of any object array.
    Functions that need the value of an object array's entries (``np.where(x > 0, a, b)``,
    ``np.maximum``, ``np.linalg.norm``) make expressions of them.
    """

    __array_priority__: float = 2000.0  # pyright: ignore
    """Above that of CasADi's classes, so that their operators leave the result to this one."""

    @classmethod
    def of(cls, expressions: Sequence[ca.SX]) -> SymbolArray:
        """Array (n,) of scalar expressions."""
        array = np.empty(len(expressions), dtype=object)
        array[:] = expressions
        return array.view(cls)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Apply a function of numpy to every entry, or reduce or accumulate by it."""
        return _universal_function(ufunc, method, inputs, kwargs)

    def __array_function__(
        self, func: Any, types: Any, args: Iterable[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Call a function of numpy; expressions among its arguments are arrays () for it."""
        given = tuple(_symbols(one) if _is_symbol(one) else one for one in args)
        if func is np.where and len(given) == 3:
            return elementwise(_chosen, *given)
        if func is np.interp and isinstance(given[0], SymbolArray):
            return elementwise(lambda one: np.interp(one, *given[1:], **kwargs), given[0])
        if func is np.linalg.norm and "ord" not in kwargs and len(given) == 1:
            return np.sqrt(np.sum(np.square(given[0]), **kwargs))
        return _viewed(super().__array_function__(func, (SymbolArray,), given, kwargs))


def _universal_function(ufunc: Any, method: str, inputs: Any, named: Mapping[str, Any]) -> Any:
    arrays = [_objects(one) for one in inputs]
    options = {name: one for name, one in named.items() if name != "out"}
    if "out" in named:
        options["out"] = tuple(np.asarray(one) for one in named["out"])
    if ufunc.signature is None:
        options = {name: one for name, one in options.items() if name not in ("dtype", "casting")}
        one = _at_symbols(ufunc)
        ufunc = np.frompyfunc(one, ufunc.nin, ufunc.nout, identity=ufunc.identity)
    found = getattr(ufunc, method)(*arrays, **options)
    return named["out"][0] if "out" in named else _viewed(found)


def elementwise(function: Callable[..., Any], *arguments: Any) -> Any:
    """Apply a function of scalars to every entry of arguments that broadcast."""
    apply = np.frompyfunc(function, len(arguments), 1)
    return _viewed(apply(*[_objects(one) for one in arguments]))


@contextmanager
def special_functions() -> Generator[None]:
    """Make the functions of `_SPECIAL` accept CasADi's expressions."""
    before = [(owner, vars(owner)["__array_ufunc__"]) for owner in (ca.SX, ca.ArrayInterface)]
    for owner, method in before:
        owner.__array_ufunc__ = _with_special(method)
    try:
        yield
    finally:
        for owner, method in before:
            owner.__array_ufunc__ = method


def _with_special(method: Any) -> Any:
    """``__array_ufunc__`` of an expression that knows functions of scipy."""

    @wraps(method)
    def call(self: Any, ufunc: Any, kind: str, *inputs: Any, **named: Any) -> Any:
        special = _SPECIAL.get(ufunc.__name__)
        if special is not None and not any(map(_is_array, inputs)):
            return special(ca.SX(inputs[0]))
        return method(self, ufunc, kind, *inputs, **named)

    return call


@contextmanager
def yielding() -> Generator[None]:
    """Make a `SymbolArray` of what CasADi's expressions give together with an array."""
    methods = [
        *((owner, name) for owner in (ca.SX, ca.ArrayInterface) for name in _PROTOCOL),
        *((ca.ArrayInterface, name) for name in ("_binop", "_rbinop")),
    ]
    before = [(owner, name, vars(owner)[name]) for owner, name in methods]
    for owner, name, method in before:
        setattr(owner, name, _PROTOCOL.get(name, _operator)(method))
    try:
        yield
    finally:
        for owner, name, method in before:
            setattr(owner, name, method)


def _universal(method: Any) -> Any:
    """``__array_ufunc__`` of an expression."""

    @wraps(method)
    def call(self: Any, ufunc: Any, kind: str, *inputs: Any, **named: Any) -> Any:
        if any(map(_is_array, inputs)):
            return _universal_function(ufunc, kind, inputs, named)
        return method(self, ufunc, kind, *inputs, **named)

    return call


def _function(method: Any) -> Any:
    """``__array_function__`` of an expression."""

    @wraps(method)
    def call(self: Any, function: Any, types: Any, args: Any, named: Any) -> Any:
        if SymbolArray in types or any(map(_is_array, args)):
            return _EMPTY.__array_function__(function, types, args, named)
        return method(self, function, types, args, named)

    return call


def _operator(method: Any) -> Any:
    """An operator of an expression."""

    @wraps(method)
    def call(self: Any, other: Any, operation: Any) -> Any:
        return NotImplemented if _is_array(other) else method(self, other, operation)

    return call


_EMPTY = SymbolArray.of([])
_PROTOCOL = {"__array_ufunc__": _universal, "__array_function__": _function}


def _is_array(one: Any) -> bool:
    return isinstance(one, np.ndarray) and one.ndim > 0


def _at_symbols(ufunc: Any) -> Callable[..., Any]:
    """A function of numpy on scalars, of which some are expressions."""
    function: Any = _LACKING.get(ufunc.__name__, ufunc)

    def call(*arguments: Any) -> Any:
        found = function(*arguments)
        return ca.SX(found) if _is_symbol(found) else found

    return call


def _chosen(condition: Any, one: Any, other: Any) -> Any:
    """``one`` where a condition holds."""
    if not _is_symbol(condition):
        return one if condition else other
    return ca.if_else(ca.SX(condition), ca.SX(one), ca.SX(other))


def _is_symbol(one: Any) -> bool:
    return isinstance(one, (ca.SX, ca.ArrayInterface))


def _symbols(expression: Any) -> Any:
    """An expression as an array, () of a scalar."""
    entries = ca.vertsplit(ca.SX(expression))
    array = SymbolArray.of(entries)
    return array.reshape(()) if len(entries) == 1 else array


def _objects(given: Any) -> NDArray[Any]:
    """Anything as an array of objects that is no `SymbolArray`."""
    if _is_symbol(given):
        given = _symbols(given)
    return np.asarray(given, dtype=object)


def _viewed(found: Any) -> Any:
    if isinstance(found, tuple):
        return tuple(map(_viewed, found))
    objects = isinstance(found, np.ndarray) and found.dtype == object
    return cast(Any, found).view(SymbolArray) if objects else found


@dataclass(frozen=True)
class TracedFunction:
    """An unknown function and where a model evaluates it.

    places: Arguments of every call, (calls, variables), as a function of (x, u, t, parameters).
    """

    function: UnknownFunction
    places: ca.Function


@dataclass
class FunctionCalls:
    """An unknown function in the body of a model, which records the arguments of every call.

    parameters: (p, 1)
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
        """The function with the places of its calls, in terms of (x, u, t, parameters)."""
        if not self._places:
            raise InputError(f"'{self.name}' is not called in the model: remove it, or call it")
        places = ca.densify(ca.vertcat(*self._places))
        return TracedFunction(self.function, ca.Function("places", symbols, [places]))


OPERATOR_REMEDY = "write numpy.logical_and, logical_or, logical_not for &, |, ~"
BRANCH_REMEDY = (
    "write numpy.where(condition, a, b), numpy.maximum, numpy.logical_and "
    "in place of if, max() and 'and'; or compile the whole equation by numba and name its "
    "arguments, @smcpn.ode(states=[...]) above @numba.njit"
)
CALL_REMEDY = "give an unknown function as the default of its argument, f=smcpn.spline(...)"
PARENTHESIS_REMEDY = (
    f"put an operator or a comma before it, c * (u - x) or v, (u - x), or {CALL_REMEDY}"
)
USE_REMEDY = "call an unknown function with its arguments, as friction(v)"
FUNCTION_REMEDY = (
    "write it with numpy's elementary functions and numpy.where, a table of numbers as "
    "numpy.interp(x, points, values), or erf and expit of scipy.special; or compile the whole "
    "equation by numba and name its arguments, @smcpn.ode(states=[...]) above @numba.njit"
)
TABLE_REMEDY = "look values up in a table by numpy.interp(x, points, values)"
NUMBER_REMEDY = (
    "use numpy functions (np.sin) and np.array([...]), not math.sin, float(), dtype=float or "
    "out = np.zeros(n)"
)
VECTOR_REMEDY = (
    "write each state as an argument of its own, def f(x, v, u, *, k), or give the size of a "
    "vector, @smcpn.ode(sizes={'x': 2})"
)
NO_NUMBER = "a symbol has no value"
_AS_VECTOR = re.compile(r"Slice .*out of bounds|not iterable by design|'SX' has no len\(\)", re.S)
_UNTRACEABLE = re.compile(
    r"__array_ufunc__\(<ufunc '(\w+)'>|no implementation found for '([\w.]+)'"
)
_REMEDIES = {
    re.compile(r"for ([&|^]|unary ~)"): OPERATOR_REMEDY,
    re.compile(r"FunctionCalls"): USE_REMEDY,
    re.compile(r"object is not callable"): CALL_REMEDY,
    re.compile(r"to_int not defined"): TABLE_REMEDY,
}


def argument_names(function: Callable[..., Any]) -> tuple[list[str], dict[str, Any]]:
    """Split a signature into positional names and keyword-only names with their defaults.

    A keyword-only argument without a default maps to `inspect.Parameter.empty`.
    """
    if not callable(function):
        raise InputError(f"model is {shown(function)}: give a function")
    positional: list[str] = []
    keyword: dict[str, Any] = {}
    try:
        signature = inspect.signature(function)
    except ValueError as error:
        raise InputError(
            f"model '{function_name(function)}' has no signature: give a function written in Python"
        ) from error
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise InputError(
                f"model '{function_name(function)}' takes *{name}: "
                "name every state, input and parameter"
            )
        if (
            parameter.kind is not parameter.KEYWORD_ONLY
            and parameter.default is not parameter.empty
        ):
            raise InputError(
                f"model '{function_name(function)}' gives '{name}' a default: remove it from a "
                f"state or input, or write '*, {name}' to make a parameter of it"
            )
        if parameter.kind is parameter.KEYWORD_ONLY:
            keyword[name] = parameter.default
        else:
            positional.append(name)
    return positional, keyword


def trace(
    function: Callable[..., Any],
    positional: Sequence[ca.SX | SymbolArray],
    keyword: Mapping[str, Any],
) -> list[ca.SX]:
    """Evaluate ``function`` on symbols and return its outputs as a list of scalar graphs."""
    return scalars(called(function, positional, keyword), function_name(function))


def called(
    function: Callable[..., Any],
    positional: Sequence[ca.SX | SymbolArray],
    keyword: Mapping[str, Any],
) -> Any:
    """Evaluate ``function`` on symbols and return what it returns."""
    name = function_name(function)
    arrays = not all(isinstance(one, ca.SX) for one in (*positional, *keyword.values()))
    try:
        symbols = _numpy_functions_on_symbols(), special_functions(), _without_a_value()
        with symbols[0], symbols[1], symbols[2], yielding() if arrays else nullcontext():
            return function(*positional, **keyword)
    except Exception as error:
        raise InputError(f"model '{name}' {_reason(error, function)}") from error


def _reason(error: Exception, function: Callable[..., Any]) -> str:
    """Say what a model did that ended in an error, and the remedy."""
    message, line = str(error), _line_of(error, function)
    called_one = _called_of_scipy(error)
    if called_one is None and (ufunc := _UNTRACEABLE.search(message)):
        called_one = ufunc[1] or ufunc[2]
    if called_one is not None:
        return f"calls {called_one}, which cannot be traced: {FUNCTION_REMEDY}"
    if "truth value" in message:
        return f"branches on a traced value: {BRANCH_REMEDY}"
    if "'SX' object is not callable" in message:
        return (
            f"has a quantity before a parenthesis, as if it were a function{line}: "
            f"{PARENTHESIS_REMEDY}"
        )
    if NO_NUMBER in f"{error} {error.__cause__}":
        return f"makes a number of a traced value{line}: {NUMBER_REMEDY}"
    if _AS_VECTOR.search(message):
        return f"uses a single number as a vector{line}: {VECTOR_REMEDY}"
    reason = message.splitlines()[-1] if message else "no message"
    remedy = next((f"; {one}" for sign, one in _REMEDIES.items() if sign.search(reason)), "")
    return f"cannot be traced ({type(error).__name__}: {reason}){remedy}"


def _called_of_scipy(error: Exception) -> str | None:
    """Return the function or class of SciPy in which an error occurred, if in one.

    The method that fails is mostly one of a base class, and the object has the name users know.
    """
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if str(frame.f_globals.get("__name__")).startswith("scipy."):
            owner = frame.f_locals.get("self")
            name = frame.f_code.co_name if owner is None else type(owner).__name__
            if not name.startswith(("_", "wrapper")):
                return f"scipy's {name}"
    return None


def _line_of(error: Exception, function: Callable[..., Any]) -> str:
    """Say which line of a function an error is of; nothing where it is of none, or not there."""
    code = getattr(function, "__code__", None)
    for step in reversed(traceback.extract_tb(error.__traceback__)):
        if code is not None and step.filename == code.co_filename and step.line:
            return f" in {shown(step.line)}"
    return ""


def scalars(returned: Any, name: str) -> list[ca.SX]:
    """Return the scalar graphs of a value that the function of this name returned.

    An entry of a tuple or a list may be a vector itself.
    """
    return [_scalar(output, name, place) for place, output in enumerate(_entries(returned))]


def check_same(traced: Sequence[ca.Function], what: str) -> None:
    """Refuse what was traced twice and differs."""
    first, again = traced
    if first.serialize() != again.serialize():
        raise InputError(
            f"{what} returns something else when it is called again, as random numbers in it do: "
            "take them out (process_noise= of smcpn.Problem and smcpn.sde describe disturbances)"
        )


def _entries(returned: Any) -> list[Any]:
    """Return the entries that a function returned, as a sequence or an array (n,) or (n, 1)."""
    if returned is None:
        return []
    if isinstance(returned, (tuple, list)):
        return [scalar for one in returned for scalar in _of_vector(one)]
    if (
        isinstance(returned, np.ndarray)
        and returned.ndim in (1, 2)
        and returned.shape[1:] in ((), (1,))
    ):
        return list(returned.ravel())
    if isinstance(returned, ca.SX) and returned.shape[1] == 1:
        return ca.vertsplit(returned)
    return [returned]


def _of_vector(entry: Any) -> list[Any]:
    """Return the entries of a vector, or the one that something else is."""
    if isinstance(entry, (tuple, list)) or (isinstance(entry, np.ndarray) and entry.ndim == 1):
        return list(entry)
    if isinstance(entry, ca.SX) and entry.shape[1] == 1:
        return ca.vertsplit(entry)
    return [entry]


def _scalar(output: Any, model: str, place: int) -> ca.SX:
    try:
        expression = ca.SX(output)
    except (NotImplementedError, TypeError, RuntimeError) as error:
        raise InputError(
            f"model '{model}' returns {type(output).__name__} in place {place}: "
            "return one scalar expression per entry"
        ) from error
    if expression.shape != (1, 1):
        raise InputError(
            f"model '{model}' returns an array of shape {expression.shape} in place {place}: "
            "return one scalar expression per entry"
        )
    expression = ca.densify(expression)
    if _has_nan_constant(expression):
        raise InputError(
            f"model '{model}' has a NaN in what it returns in place {place}: "
            "check the constants it is written with"
        )
    return expression


def _has_nan_constant(expression: ca.SX) -> bool:
    graph = ca.Function("graph", ca.symvar(expression), [expression])
    return any(
        graph.instruction_id(k) == ca.OP_CONST
        and graph.instruction_constant(k) != graph.instruction_constant(k)
        for k in range(graph.n_instructions())
    )


@contextmanager
def _numpy_functions_on_symbols() -> Generator[None]:
    """Make ``np.where`` and similar functions accept CasADi symbols, during one trace.

    What they return refuses to enter an array: ``np.array([v, np.sin(x)])`` would fail, though
    ``np.array([v, x])`` works. So it is given the way in that a symbol has.
    """
    before = ca.GlobalOptions.getNumpyMode()
    ca.GlobalOptions.setNumpyMode(1)
    own = vars(ca.ArrayInterfaceSX).get("__array__")
    ca.ArrayInterfaceSX.__array__ = _as_object_array
    try:
        yield
    finally:
        ca.GlobalOptions.setNumpyMode(before)
        if own is None:
            del ca.ArrayInterfaceSX.__array__
        else:
            ca.ArrayInterfaceSX.__array__ = own


@contextmanager
def _without_a_value() -> Generator[None]:
    """Refuse ``float(x)`` of an expression, as ``math.sin(x)`` has it, which gives NaN silently."""
    own = ca.SX.__float__

    def number(self: ca.SX) -> float:
        if not self.is_constant():
            raise TypeError(NO_NUMBER)
        return own(self)

    ca.SX.__float__ = number
    try:
        yield
    finally:
        ca.SX.__float__ = own


def _as_object_array(self: Any, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
    # CasADi calls one expression (1, 1), a symbol enters an array as a scalar.
    expressions = ca.vertsplit(ca.vec(ca.SX(self).T))
    shape = () if len(expressions) == 1 else self.shape
    array = np.empty(len(expressions), dtype=object)
    array[:] = expressions
    return array.reshape(shape)


def function_name(function: Callable[..., Any]) -> str:
    """Return how messages call a function, also a ``functools.partial`` of it."""
    inner = getattr(function, "func", function)
    return getattr(inner, "__name__", type(inner).__name__)
