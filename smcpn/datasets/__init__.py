"""Benchmark records, read from the user's files or generated, never shipped."""

from smcpn.datasets.bouc_wen import BoucWen, bouc_wen
from smcpn.datasets.cascaded_tanks import CascadedTanks, cascaded_tanks
from smcpn.datasets.emps import Emps, emps
from smcpn.datasets.lynx_hare import lynx_hare
from smcpn.datasets.nanodrone import NanoDrone, nanodrone
from smcpn.datasets.silverbox import Silverbox, silverbox
from smcpn.datasets.theophylline import Theophylline, theophylline

__all__ = [
    "BoucWen",
    "CascadedTanks",
    "Emps",
    "NanoDrone",
    "Silverbox",
    "Theophylline",
    "bouc_wen",
    "cascaded_tanks",
    "emps",
    "lynx_hare",
    "nanodrone",
    "silverbox",
    "theophylline",
]
