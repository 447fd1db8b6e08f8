"""Read the entries of a document that may be damaged, or of another program."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from smcpn.arguments import shown
from smcpn.errors import InputError

DAMAGED = "the file is damaged, or none of smcpn's"


def entry(document: Any, name: str, *kinds: type) -> Any:
    """Return an entry that is of one of these types; ``float`` takes whole numbers as well.

    Raises
    ------
    InputError
        If it is absent or something else.
    """
    if not isinstance(document, Mapping) or name not in document:
        raise InputError(f"stored problem lacks '{name}': {DAMAGED}")
    value = document[name]
    if float in kinds:
        kinds = (*kinds, int)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise InputError(f"stored '{name}' is {shown(value)}: {DAMAGED}")
    return value


def texts(document: Any, name: str) -> tuple[str, ...]:
    """Return an entry that is a list of strings."""
    values = entry(document, name, list)
    if not all(isinstance(value, str) for value in values):
        raise InputError(f"stored '{name}' is {shown(values)}: {DAMAGED}")
    return tuple(values)


def numbers(document: Any, name: str) -> dict[str, float]:
    """Return an entry that maps names to finite numbers."""
    values = entry(document, name, dict)
    found = {key: float(entry(values, key, float)) for key in values}
    if not all(map(math.isfinite, found.values())):
        raise InputError(f"stored '{name}' is {shown(values)}: {DAMAGED}")
    return found


def words(document: Any, name: str) -> dict[str, str]:
    """Return an entry that maps names to text."""
    values = entry(document, name, dict)
    return {key: entry(values, key, str) for key in values}
