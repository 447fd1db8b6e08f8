"""The one exception a user is meant to read, and checks of single values that raise it."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches
from numbers import Real
from reprlib import Repr
from typing import Any

SHOWN = 60
"""Characters of a value that a message shows."""
LISTED = 20
"""Names of a list that a message shows."""
LONGEST = 1000
"""Characters of a message; what is in the middle of a longer one is left out."""
EXACT = 64
"""Bits from which a power of two is shown as one."""
COMPARED = 1000
"""Names among which the one that is meant is looked for."""

_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = SHOWN


class InputError(ValueError):
    """An input that cannot be used, in one sentence: the argument, its value and the remedy.

    The command line prints the sentence and leaves with exit code 2. Control characters in it, as
    names from a file may have, are escaped, and it has at most `LONGEST` characters.

    Attributes
    ----------
    argument : str or None
        Name of the argument at fault, dotted where it is nested: ``"solver.order"``.
    """

    def __init__(self, sentence: str, *, argument: str | None = None) -> None:
        sentence = visible(sentence)
        if len(sentence) > LONGEST:
            sentence = f"{sentence[: LONGEST // 2]} ... {sentence[-LONGEST // 3 :]}"
        super().__init__(sentence)
        self.argument = argument


class NotStorableError(InputError):
    """A part of a problem that no file can hold as plain data, such as a function of the user's.

    The sentence names the part, the reason, and what to do: a run is then resumed from the script
    that began it, which has the part.
    """


class ExecutorError(RuntimeError):
    """The workers of an executor cannot go on, in one sentence; a checkpoint keeps the run."""


def output_number(output: int, count: int) -> int:
    """Return the number of one of so many outputs, from 0.

    Raises
    ------
    InputError
        If there is none of this number.
    """
    if not 0 <= output < count:
        raise InputError(
            f"output is {shown(output)}: give one of {count} outputs, from 0", argument="output"
        )
    return output


def whole_number(
    name: str,
    value: Any,
    least: int | None = None,
    most: int | None = None,
    otherwise: str = "",
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
    if not is_bool(value):
        # An object may raise anything when it is asked for a number.
        with suppress(Exception):
            number = operator.index(value)
    low = number is not None and least is not None and number < least
    high = number is not None and most is not None and number > most
    if number is None or low or high:
        remedy = f"give a whole number{bounds(least, most)}{otherwise}"
        raise InputError(f"{name} is {shown(value)}: {remedy}", argument=name)
    return number


def bounds(least: int | None, most: int | None) -> str:
    """Return bounds as a message names them: `` from 1 to 11``."""
    lower = "" if least is None else f" from {least}"
    if most is None:
        return lower
    power = max(most.bit_length() - 1, 0)
    return f"{lower} to {most if most != 1 << power or power < EXACT else f'2^{power}'}"


def real_number(
    name: str,
    value: Any,
    remedy: str = "give a finite number",
    argument: str | None = None,
    above: float = -math.inf,
    below: float = math.inf,
) -> float:
    """Return ``value`` as a float: a finite number between two, neither a bool nor text.

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
    if isinstance(value, Real) and not is_bool(value):
        # A whole number may be too large for a float.
        with suppress(Exception):
            if above < (number := float(value)) < below:
                return number
    raise InputError(f"{name} is {shown(value)}: {remedy}", argument=argument or name)


def is_bool(value: Any) -> bool:
    """True if a value is a truth value, of Python or of numpy, which is not imported for it."""
    of_numpy = type(value).__module__ == "numpy" and str(getattr(value, "dtype", "")) == "bool"
    return isinstance(value, bool) or of_numpy


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
    lower = {name.lower(): name for name in known[:COMPARED]}
    close = get_close_matches(word[:SHOWN].lower(), lower, n=1)
    if close:
        return f"did you mean '{lower[close[0]]}'?"
    return f"choose one of {listed(known)}" if known else "remove it"


def listed(names: Iterable[str]) -> str:
    """Return names as text, the first `LISTED` of them: ``a, b and 999990 more``."""
    names = tuple(names)
    first = ", ".join(name if len(name) <= SHOWN else shown(name) for name in names[:LISTED])
    return first if len(names) <= LISTED else f"{first} and {len(names) - LISTED} more"


def counted(number: int, noun: str) -> str:
    """Return a number of things: ``1 input``, ``2 inputs``."""
    return f"{number} {noun}" + ("s" if number != 1 else "")


def shown(value: Any) -> str:
    """Return a value on one short line, for a message."""
    try:
        text = " ".join(_SHORT.repr(value).split())
    except Exception:
        # A whole number of more digits than Python writes, or a __repr__ that fails.
        text = f"<{type(value).__name__}>"
    text = visible(text)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def visible(text: str, keep: str = "") -> str:
    """Return a text with control characters escaped as Python writes them, but for those kept.

    A terminal obeys control characters, whoever wrote them into a file or a stream.
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one in keep else one.encode("unicode_escape").decode("ascii")
        for one in text
    )
