"""Libraries written as text, ``"poly(3) + sin + u*cos(x)"``, for the command line."""

from __future__ import annotations

import ast
import math
from typing import Any

import numpy as np

from smcpn.discovery.equations.library import Library, fourier, polynomials, terms
from smcpn.errors import InputError, nearest, shown

MOST_CHARACTERS = 1000
FUNCTIONS: dict[str, Any] = {
    "abs": np.abs, "acos": np.arccos, "asin": np.arcsin, "atan": np.arctan, "cos": np.cos,
    "cosh": np.cosh, "exp": np.exp, "log": np.log, "sign": np.sign, "sin": np.sin,
    "sinh": np.sinh, "sqrt": np.sqrt, "tan": np.tan, "tanh": np.tanh,
}  # fmt: skip
MAKERS = ("poly", "polynomials", "fourier")


def read_library(text: str) -> Library:
    """Return the library that a text describes.

    ``poly(3)`` and ``fourier(2, 0.5)`` are `polynomials` and `fourier` of all variables, or of
    those named behind the numbers, ``poly(2, x, v)``. ``sin`` is that of each variable, ``sin(x)``
    of one; ``x`` is a variable itself. ``+`` and ``*`` are those of `Library`.

    Raises
    ------
    InputError
        If it is none; names of variables are checked when the library is applied.

    Examples
    --------
    >>> read_library("poly(2) + sin(x)").candidates(["x"]).names
    ('1', 'x', 'x^2', 'sin(x)')
    """
    try:
        if len(text) > MOST_CHARACTERS:
            raise ValueError
        return _library(ast.parse(text.strip(), mode="eval").body, text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, InputError):
            raise
        raise _unread(text) from None


def _library(node: ast.expr, text: str) -> Library:
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
        first, second = _library(node.left, text), _library(node.right, text)
        return first + second if isinstance(node.op, ast.Add) else first * second
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        power = node.right.value if isinstance(node.right, ast.Constant) else None
        if type(power) is int and 1 <= power <= 20:
            return math.prod(
                [_library(node.left, text)] * (power - 1), start=_library(node.left, text)
            )
    if isinstance(node, ast.Name):
        if node.id in MAKERS:
            raise InputError(
                f"library names {node.id} without a number: write {node.id}(3)", argument="library"
            )
        if node.id in FUNCTIONS:
            return terms(**{node.id: FUNCTIONS[node.id]})
        return polynomials(1, variables=[node.id], constant=False)
    if isinstance(node, ast.Constant) and node.value == 1:
        return polynomials(0)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _called(node.func.id, node.args, text)
    raise _unread(text)


def _called(name: str, arguments: list[ast.expr], text: str) -> Library:
    numbers = [one.value for one in arguments if isinstance(one, ast.Constant)]
    variables = [one.id for one in arguments if isinstance(one, ast.Name)]
    if len(numbers) + len(variables) < len(arguments) or not arguments:
        raise _unread(text)
    if name in FUNCTIONS:
        if numbers:
            raise _unread(text)
        return terms(variables=variables, **{name: FUNCTIONS[name]})
    if name not in MAKERS:
        raise InputError(
            f"library {shown(text)} has the function '{name}', which is not known here: "
            f"{nearest(name, (*MAKERS, *FUNCTIONS))}",
            argument="library",
        )
    most = 2 if name == "fourier" else 1
    if not 1 <= len(numbers) <= most:
        raise _unread(text)
    chosen = variables or None
    if name != "fourier":
        return polynomials(numbers[0], variables=chosen)  # pyright: ignore[reportArgumentType]
    frequency = numbers[1] if len(numbers) > 1 else 1.0
    return fourier(numbers[0], frequency=frequency, variables=chosen)  # pyright: ignore[reportArgumentType]


def _unread(text: str) -> InputError:
    return InputError(
        f'library {shown(text)} cannot be read: write for example "poly(3) + sin(x) * u"',
        argument="library",
    )
