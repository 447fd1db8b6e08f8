"""The one exception a user is meant to read."""

from __future__ import annotations

import operator
from contextlib import suppress
from numbers import Real
from typing import Any

import numpy as np


class InputError(ValueError):
    """An input that cannot be used: one sentence that names the thing and the mend.

    The command line prints the sentence and leaves with exit code 2.
    """


class NotStorableError(InputError):
    """A part of a problem that no file can hold as plain data, such as a function of the user's.

    The sentence names the part, the reason, and what to do: a run is then resumed from the script
    that began it, which has the part.
    """


# ---- Numbers a user passes: accepted in every form that is exact, refused in one sentence.

SHOWN = 60
"""Characters of a value that a message shows."""


def whole_number(
    name: str, value: Any, least: int, most: int | None = None, otherwise: str = ""
) -> int:
    """Return ``value`` as an int: Python's or numpy's, neither a bool nor a float.

    Parameters
    ----------
    name : str
        The argument, for the message.
    least, most : int
        Bounds, both allowed.
    otherwise : str
        What is accepted besides, as the message should end: ``", or 'auto'"``.

    Raises
    ------
    InputError
        For anything else.
    """
    number = None
    if not isinstance(value, (bool, np.bool_)):
        with suppress(TypeError):
            number = operator.index(value)
    if number is None or number < least or (most is not None and number > most):
        bounds = f"from {least}" if most is None else f"from {least} to {most}"
        raise InputError(f"{name} is {shown(value)}: give a whole number {bounds}{otherwise}")
    return number


def real_number(name: str, value: Any, mend: str = "give a finite number") -> float:
    """Return ``value`` as a float: a finite number, neither a bool nor text.

    Raises
    ------
    InputError
        For anything else; the message ends with ``mend``.
    """
    if isinstance(value, Real) and not isinstance(value, bool) and np.isfinite(float(value)):
        return float(value)
    raise InputError(f"{name} is {shown(value)}: {mend}")


def shown(value: Any) -> str:
    """Return a value on one short line, for a message."""
    text = " ".join(repr(value).split())
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."
