"""Call a Python function once with symbols and keep the expression graph it returns."""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError, shown
from smcpn.model.symbol_array import SymbolArray, special_functions, yielding

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

    Raises
    ------
    InputError
        If the function takes ``*args`` or ``**kwargs``, whose names cannot be known, or gives a
        positional argument a default.
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
    """Evaluate ``function`` on symbols and return its outputs as a list of scalar graphs.

    Raises
    ------
    InputError
        As `called` and `scalars`.
    """
    return scalars(called(function, positional, keyword), function_name(function))


def called(
    function: Callable[..., Any],
    positional: Sequence[ca.SX | SymbolArray],
    keyword: Mapping[str, Any],
) -> Any:
    """Evaluate ``function`` on symbols and return what it returns.

    Raises
    ------
    InputError
        If the function branches on a symbol, or raises.
    """
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

    Raises
    ------
    InputError
        If it is something that is not a scalar expression, or contains a NaN constant.
    """
    return [_scalar(output, name, place) for place, output in enumerate(_entries(returned))]


def check_same(traced: Sequence[ca.Function], what: str) -> None:
    """Refuse what was traced twice and differs.

    Raises
    ------
    InputError
        For random numbers, for instance.
    """
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
