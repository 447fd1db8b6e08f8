"""Durations as a user writes them: seconds, or a number with a unit."""

from __future__ import annotations

import re

from smcpn.errors import InputError, real_number, shown

UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


def seconds(name: str, value: float | str) -> float:
    """Return a duration in seconds: ``0.0015`` and ``"1.5 ms"`` are the same.

    Raises
    ------
    InputError
        For anything but a positive duration.
    """
    mend = "give positive seconds, or a text such as '1.5 ms'"
    if isinstance(value, str):
        match = re.fullmatch(r"\s*([0-9.eE+-]+)\s*(us|ms|s|min|h)\s*", value)
        try:
            number = float(match[1]) * UNITS[match[2]] if match else float("nan")
        except ValueError:
            number = float("nan")
    else:
        number = real_number(name, value, mend)
    if not number > 0.0:
        raise InputError(f"{name} is {shown(value)}: {mend}")
    return number
