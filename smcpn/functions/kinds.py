"""Every kind of unknown function, and the public function that makes one of checked settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smcpn.functions.spline import Spline, spline
from smcpn.functions.unknown import UnknownFunction

KINDS: dict[type[UnknownFunction], Callable[..., UnknownFunction]] = {Spline: spline}
"""A maker takes the labels of the variables, and by name the other fields of the class."""
NAMES = {make.__name__: (kind, make) for kind, make in KINDS.items()}
"""Class and maker by the name of the latter, which is the kind in files."""


def kind_of(function: Any) -> str | None:
    """Name of the kind of a function; None for one of the user's own."""
    make = KINDS.get(type(function))
    return None if make is None else make.__name__
