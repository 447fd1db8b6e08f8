"""Units of measurement by name, as `pint` knows them."""

from __future__ import annotations

import re
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
