"""Every kind of unknown function, and the public function that makes one of checked settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smcpn.functions.gaussian_process import GaussianProcess, gaussian_process
from smcpn.functions.linearised_network import LinearisedNetwork, linearised_network
from smcpn.functions.network import Network, network
from smcpn.functions.spline import Spline, spline
from smcpn.functions.unknown import UnknownFunction

KINDS: dict[type[UnknownFunction], Callable[..., UnknownFunction]] = {
    Spline: spline,
    GaussianProcess: gaussian_process,
    Network: network,
    LinearisedNetwork: linearised_network,
}
"""A maker takes the labels of the variables, and by name the other fields of the class."""
NAMES = {make.__name__: make for make in KINDS.values()}
"""Makers by name, which is the kind in files."""


def kind_of(function: Any) -> str | None:
    """Name of the kind of a function; None for one of the user's own."""
    make = KINDS.get(type(function))
    return None if make is None else make.__name__
