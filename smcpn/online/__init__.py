"""Identification while the data come."""

from smcpn.online.nested import NestedFilter
from smcpn.online.online import Online
from smcpn.online.priority import real_time
from smcpn.online.state import State

__all__ = ["NestedFilter", "Online", "State", "real_time"]
