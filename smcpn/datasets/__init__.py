"""Benchmark records, read from the user's files or generated, never shipped."""

from smcpn.datasets.bouc_wen import BoucWen, bouc_wen
from smcpn.datasets.silverbox import Silverbox, silverbox

__all__ = ["BoucWen", "Silverbox", "bouc_wen", "silverbox"]
