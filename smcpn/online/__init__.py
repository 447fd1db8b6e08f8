"""Identification while the data come."""

from smcpn.online.nested import NestedFilter
from smcpn.online.online import Online
from smcpn.online.state import State
from smcpn.process.priority import real_time

__all__ = ["NestedFilter", "Online", "State", "real_time"]
