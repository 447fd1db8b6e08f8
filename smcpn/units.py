"""Units of measurement by name, as `pint` knows them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
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
    """Return a unit by its name, such as ``"mm"`` or ``"m/s^2"``.

    Raises
    ------
    InputError
        If it is not known.
    """
    return _read(name, lambda: registry().Unit(name))


@cache
def conversion(name: str, to: str) -> Callable[[Any], Any]:
    """Return the function that converts numbers and arrays, ``"degC"`` to ``"K"`` with its offset.

    Raises
    ------
    InputError
        If a unit is not known, or they measure different things.
    """
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
        return unit(name)
    except InputError as error:
        raise InputError(
            f"unit {shown(name)} is not known: write it as pint does ('mm', 'N', 'm/s^2', "
            "'degC'), or leave 'to' out to carry it as a name"
        ) from error


def quantity(text: str) -> Any:
    """Return a number with its unit, such as ``"1.5 ms"``.

    Raises
    ------
    InputError
        If it is none.
    """
    return _read(text, lambda: registry().Quantity(text))


def _read(text: str, parse: Any) -> Any:
    """Read a text that pint evaluates: it is short, and no power of a power."""
    simple = len(_POWER.findall(text)) == len(_SMALL.findall(text))
    if simple and len(text) <= LONGEST_UNIT and text.isprintable():
        try:
            return parse()
        except Exception as error:
            # pint raises AttributeError, TypeError, AssertionError, tokenize's errors...
            raise InputError(f"{shown(text)} is no unit") from error
    raise InputError(f"{shown(text)} is no unit")
