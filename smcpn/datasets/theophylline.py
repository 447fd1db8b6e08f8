"""Theophylline: twelve subjects swallow a drug, and its concentration in the serum is measured.

The data of R. Upton in Boeckmann, Sheiner and Beal (1994), which R brings along as
``datasets::Theoph``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smcpn.base.arguments import checked
from smcpn.datasets.inventory import columns_of, require_file
from smcpn.model.record import Record

SAMPLES = 132
FILE = "theophylline.csv"
COMMAND = "Rscript -e 'write.csv(datasets::Theoph, \"theophylline.csv\", row.names=FALSE)'"


@dataclass(frozen=True)
class Theophylline:
    """A record for each subject, time in hours and concentrations in mg/L.

    Attributes
    ----------
    records : tuple of Record
        Eleven samples each, at irregular times. The one of the dose itself, and any that is zero,
        is missing: the model has no drug in the blood then, and its noise is relative.
    doses : tuple of float
        mg per kg of body weight.
    """

    records: tuple[Record, ...]
    doses: tuple[float, ...]


@checked
def theophylline() -> Theophylline:
    """Read ``theophylline.csv``, as R writes its data set ``Theoph``.

    Raises
    ------
    InputError
        If the file is missing or is not what it should be.
    """
    path = require_file("theophylline", FILE, f"by {COMMAND} with R (Debian's r-base-core)")
    names = ["Subject", "Dose", "Time", "conc"]
    table = columns_of(path, names, "theophylline", rows=SAMPLES)
    subjects = [table[table[:, 0] == number] for number in np.unique(table[:, 0])]
    records = tuple(
        Record(
            t=time,
            y=np.where((time > 0.0) & (concentration > 0.0), concentration, np.nan),
            y_unit="mg/L",
            t_unit="h",
            name=f"subject {number:.0f}",
        )
        for number, _, time, concentration in (
            (rows[0, 0], rows[:, 1], rows[:, 2], rows[:, 3]) for rows in subjects
        )
    )
    return Theophylline(records, tuple(float(rows[0, 1]) for rows in subjects))
