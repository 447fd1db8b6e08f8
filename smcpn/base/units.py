"""Units of measurement by name, as `pint` knows them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from smcpn.errors import InputError, shown

LONGEST_UNIT = 60
_POWER = re.compile(r"\*\*|\^")
_SMALL = re.compile(r"(\*\*|\^)\s*\(?\s*[-+]?\d(\.\d+)?\s*\)?(?!\s*(\*\*|\^|\d))")


@cache
def registry() -> Any:
    """Return the units that `pint` defines."""
    # Reading the definitions takes a quarter of a second: only where there is a unit.
    import pint

    return pint.UnitRegistry()


def unit(name: str) -> Any:
    """Return a unit by its name, such as ``"mm"`` or ``"m/s^2"``."""
    return _read(name, lambda: registry().Unit(name))


@lru_cache(maxsize=1024)
def is_unit(word: str) -> bool:
    """Return whether a word is the name of a unit."""
    if len(word) > LONGEST_UNIT:
        return False
    try:
        unit(time_unit(word))
    except InputError:
        return False
    return True


@lru_cache(maxsize=1024)
def conversion(name: str, to: str) -> Callable[[Any], Any]:
    """Return the function that converts numbers and arrays: ``"degC"`` to ``"K"`` by its offset."""
    known = [_known(one) for one in (name, to)]

    def converted(values: Any) -> Any:
        try:
            return registry().Quantity(values, known[0]).to(known[1]).magnitude
        except Exception as error:
            raise InputError(f"unit '{name}' does not convert to '{to}': {error}") from error

    factor, double = converted(1.0), converted(2.0)
    proportional = converted(0.0) == 0.0 and double == 2.0 * factor
    # pint takes 50 us for a number.
    return (lambda values: values * factor) if proportional else converted


def _known(name: str) -> Any:
    try:
        # A file may write "hrs".
        return unit(time_unit(name))
    except InputError as error:
        raise InputError(
            f"unit {shown(name)} is not known: write it as pint does ('mm', 'N', 'm/s^2', "
            "'degC'), or leave 'to' out to carry it as a name"
        ) from error


def quantity(text: str) -> Any:
    """Return a number with its unit, such as ``"1.5 ms"``."""
    return _read(text, lambda: registry().Quantity(text))


def _read(text: str, parse: Any) -> Any:
    """Read a text that pint evaluates: it is short, and no power of a power."""
    # In this order: the patterns take long of a long text.
    short = len(text) <= LONGEST_UNIT and text.isprintable()
    if short and len(_POWER.findall(text)) == len(_SMALL.findall(text)):
        try:
            return parse()
        except Exception as error:
            # pint raises AttributeError, TypeError, AssertionError, tokenize's errors...
            raise InputError(f"{shown(text)} is no unit") from error
    raise InputError(f"{shown(text)} is no unit")


_TIMES = {
    "ns": ("ns", "nanosecond", "nanoseconds"),
    "us": ("us", "\N{MICRO SIGN}s", "\N{GREEK SMALL LETTER MU}s", "microsecond", "microseconds"),
    "ms": ("ms", "msec", "millisecond", "milliseconds"),
    "s": ("s", "sec", "secs", "second", "seconds"),
    "min": ("min", "mins", "minute", "minutes"),
    "h": ("h", "hr", "hrs", "hour", "hours"),
    "day": ("d", "day", "days"),
    "week": ("week", "weeks"),
    "month": ("month", "months"),
    "year": ("y", "yr", "yrs", "year", "years"),
}
PARTS_OF_A_SECOND = ("ns", "us", "ms")
_SPELT = {spelling: name for name, spellings in _TIMES.items() for spelling in spellings}


def time_unit(name: str) -> str:
    """Return the usual name of a unit of time: ``"h"`` of ``"Hours"``; any other name as it is.

    What CF conventions count from (``"days since 1900-01-01"``) is left out.
    """
    word = name.split(" since ")[0].strip()
    # One letter is another unit as a capital.
    return _SPELT.get(word if len(word) < 3 else word.lower(), word)


def model_time(unit: str) -> str:
    """Return the unit in which a model counts times that were measured in ``unit``.

    A part of a second is that of an instrument, whose model is in seconds.
    """
    unit = time_unit(unit)
    return "s" if unit in PARTS_OF_A_SECOND else unit


def frequency_unit(time: str) -> str:
    """Return the unit of frequencies by that of time: ``"Hz"`` of ``"s"``, ``"cycles/h"``."""
    return "Hz" if time == "s" else f"cycles/{time or 'time'}"


def time_label(unit: str) -> str:
    """Name of the time axis: ``"time (h)"``."""
    return f"time ({unit})" if unit else "time"


def duration(value: float, time: str) -> str:
    """Write a time with its unit: ``"0.5 h"``."""
    return f"{value:g} {time}".rstrip()
