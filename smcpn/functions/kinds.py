"""Every kind of unknown function by the name of its class: those of this package, once imported."""

from smcpn.functions import spline as _spline  # noqa: F401
from smcpn.functions.unknown import FUNCTIONS

__all__ = ["FUNCTIONS"]
