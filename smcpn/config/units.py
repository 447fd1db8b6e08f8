"""Units of columns, converted by `pint`."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError

Array = NDArray[np.float64]


def converted(values: Array, unit: str, to: str) -> Array:
    """Convert values from a unit to another, ``"degC"`` to ``"K"`` with its offset.

    Raises
    ------
    InputError
        If a unit is not known, or they measure different things.
    """
    registry = _registry()
    known = [_known(registry, name) for name in (unit, to)]
    try:
        return np.asarray(registry.Quantity(values, known[0]).to(known[1]).magnitude, dtype=float)
    except Exception as error:
        raise InputError(f"unit '{unit}' does not convert to '{to}': {error}") from error


def _known(registry: Any, name: str) -> Any:
    try:
        return registry.Unit(name)
    except Exception as error:
        raise InputError(
            f"unit '{name}' is not known: write it as pint does ('mm', 'N', 'm/s^2', 'degC'), or "
            "leave 'to' out to carry it as a name"
        ) from error


@cache
def _registry() -> Any:
    # Reading the definitions takes a quarter of a second: only where something is converted.
    import pint

    return pint.UnitRegistry()
