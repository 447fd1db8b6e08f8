"""Two tanks in cascade: a pump fills the upper one, the level of the lower one is measured.

M. Schoukens and J.-P. Noel (2016), "Cascaded tanks", nonlinearbenchmark.org. Pump and level are in
volts, 1024 samples each to learn from and to test on, 4 s apart. Both records begin with the same
unknown levels. The upper tank can overflow, partly into the lower one.
"""

from __future__ import annotations

from dataclasses import dataclass

from smcpn.base.arguments import checked
from smcpn.datasets.inventory import columns_of, require_file
from smcpn.model.record import Record

SAMPLES = 1024
INTERVAL = 4.0
"""Seconds."""
SATURATION = 10.0
"""Volts, the highest reading of the level sensor."""


@dataclass(frozen=True)
class CascadedTanks:
    """The records of the benchmark: pump voltage in, level of the lower tank out.

    Attributes
    ----------
    train, test : Record
        As measured. A level of `SATURATION` says only that the level was not lower.
    """

    train: Record
    test: Record


@checked
def cascaded_tanks(hold: str = "zoh") -> CascadedTanks:
    """Read ``dataBenchmark.csv``.

    Parameters
    ----------
    hold : str
        The input between samples. A computer's output is held.

    Raises
    ------
    InputError
        If the file is missing or is not what it should be.
    """
    path = require_file("cascaded_tanks", "dataBenchmark.csv", "from nonlinearbenchmark.org")
    names = ["uEst", "yEst", "uVal", "yVal"]
    columns = columns_of(path, names, "the cascaded tanks", rows=SAMPLES).T
    train, test = (
        Record(u=u, y=y, dt=INTERVAL, hold=hold, y_unit="V", name=f"cascaded tanks {what}")
        for what, u, y in (("training", *columns[:2]), ("test", *columns[2:]))
    )
    return CascadedTanks(train, test)
