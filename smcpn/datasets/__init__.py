"""Benchmark records, read from the user's files or generated, never shipped."""

from smcpn.datasets.bouc_wen import BoucWen, bouc_wen
from smcpn.datasets.emps import Emps, emps
from smcpn.datasets.silverbox import Silverbox, silverbox

__all__ = ["BoucWen", "Emps", "Silverbox", "bouc_wen", "emps", "silverbox"]
