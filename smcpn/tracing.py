"""Call a Python function once with symbols and keep the expression graph it returns."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import casadi as ca

from smcpn.errors import InputError

BRANCH_MEND = (
    "write numpy.where(condition, a, b), numpy.maximum, numpy.logical_and "
    "in place of if, max() and 'and'"
)


def argument_names(function: Callable[..., Any]) -> tuple[list[str], dict[str, Any]]:
    """Split a signature into positional names and keyword-only names with their defaults.

    A keyword-only argument without a default maps to `inspect.Parameter.empty`.

    Raises
    ------
    InputError
        If the function takes ``*args`` or ``**kwargs``, whose names cannot be known.
    """
    positional: list[str] = []
    keyword: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise InputError(
                f"model '{_name(function)}' takes *{name}: name every state, input and parameter"
            )
        if parameter.kind is parameter.KEYWORD_ONLY:
            keyword[name] = parameter.default
        else:
            positional.append(name)
    return positional, keyword


def trace(
    function: Callable[..., Any],
    positional: list[ca.SX],
    keyword: Mapping[str, ca.SX | float],
) -> list[ca.SX]:
    """Evaluate ``function`` on symbols and return its outputs as a list of scalar graphs.

    Raises
    ------
    InputError
        If the function branches on a symbol, returns something that is not a scalar
        expression, or contains a NaN constant (``math.sin(x)`` and ``float(x)`` of a symbol
        silently give one).
    """
    name = _name(function)
    try:
        with _numpy_functions_on_symbols():
            returned = function(*positional, **keyword)
    except Exception as error:
        if "truth value" in str(error):
            raise InputError(f"model '{name}' branches on a traced value: {BRANCH_MEND}") from error
        raise InputError(
            f"model '{name}' cannot be traced ({type(error).__name__}: "
            f"{str(error).splitlines()[-1] if str(error) else 'no message'}); {BRANCH_MEND}"
        ) from error
    outputs = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    return [_scalar(output, name, place) for place, output in enumerate(outputs)]


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
            "use numpy functions (np.sin), not math.sin or float(), which lose the symbol"
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
def _numpy_functions_on_symbols() -> Iterator[None]:
    """Let ``np.where`` and friends act on CasADi symbols, for the time of one trace."""
    before = ca.GlobalOptions.getNumpyMode()
    ca.GlobalOptions.setNumpyMode(1)
    try:
        yield
    finally:
        ca.GlobalOptions.setNumpyMode(before)


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)
