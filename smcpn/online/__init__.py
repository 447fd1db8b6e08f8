"""Identification while the data come."""

from smcpn.online.nested import NestedFilter
from smcpn.online.online import Online
from smcpn.online.state import State

__all__ = ["NestedFilter", "Online", "State"]
