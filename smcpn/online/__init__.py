"""Identification while the data come."""

from smcpn.online.online import Online
from smcpn.online.state import State

__all__ = ["Online", "State"]
