"""The one exception a user is meant to read, and checks of single values that raise it."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches
from numbers import Real
from typing import Any

SHOWN = 60
"""Characters of a value that a message shows."""


class InputError(ValueError):
    """An input that cannot be used, in one sentence: the argument, its value and the remedy.

    The command line prints the sentence and leaves with exit code 2.

    Attributes
    ----------
    argument : str or None
        Name of the argument at fault, dotted where it is nested: ``"solver.order"``.
    """

    def __init__(self, sentence: str, *, argument: str | None = None) -> None:
        super().__init__(sentence)
        self.argument = argument


class NotStorableError(InputError):
    """A part of a problem that no file can hold as plain data, such as a function of the user's.

    The sentence names the part, the reason, and what to do: a run is then resumed from the script
    that began it, which has the part.
    """


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
    if not _is_bool(value):
        with suppress(TypeError):
            number = operator.index(value)
    if number is None or number < least or (most is not None and number > most):
        bounds = f"from {least}" if most is None else f"from {least} to {most}"
        sentence = f"{name} is {shown(value)}: give a whole number {bounds}{otherwise}"
        raise InputError(sentence, argument=name)
    return number


def real_number(
    name: str, value: Any, remedy: str = "give a finite number", argument: str | None = None
) -> float:
    """Return ``value`` as a float: a finite number, neither a bool nor text.

    Parameters
    ----------
    name : str
        What it is, for the message.
    remedy : str
        How the message ends.
    argument : str, optional
        Name of the argument, where ``name`` says more.

    Raises
    ------
    InputError
        For anything else.
    """
    if isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(float(value)):
        return float(value)
    raise InputError(f"{name} is {shown(value)}: {remedy}", argument=argument or name)


def _is_bool(value: Any) -> bool:
    """Whether a value is a truth value, of Python or of numpy, which is not imported for it."""
    return isinstance(value, bool) or str(getattr(value, "dtype", "")) == "bool"


def one_of(name: str, value: Any, known: Iterable[str]) -> str:
    """Return ``value``, which must be one of the known words.

    Raises
    ------
    InputError
        For anything else; the message suggests the word that is meant, or lists all.
    """
    known = tuple(known)
    if isinstance(value, str) and value in known:
        return value
    word = value if isinstance(value, str) else ""
    raise InputError(f"{name} is {shown(value)}: {nearest(word, known)}", argument=name)


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a remedy for a word that is not known: the one that is meant, or all of them."""
    known = tuple(known)
    lower = {name.lower(): name for name in known}
    close = get_close_matches(word.lower(), lower, n=1)
    if close:
        return f"did you mean '{lower[close[0]]}'?"
    return f"choose one of {', '.join(known)}" if known else "remove it"


def shown(value: Any) -> str:
    """Return a value on one short line, for a message."""
    text = " ".join(repr(value).split())
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."
