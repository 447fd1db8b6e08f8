"""Identification while the data come."""

from smcpn.base.priority import real_time
from smcpn.online.nested import NestedFilter
from smcpn.online.online import Online
from smcpn.online.state import State

__all__ = ["NestedFilter", "Online", "State", "real_time"]
