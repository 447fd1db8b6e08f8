"""Published problems with their own noise columns, against the outputs that their tables hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from scipy import stats

import smcpn
from benchmarks.rows import Row, near
from benchmarks.stiff.collection import PUBLISHED, read_table
from benchmarks.study import study

CLOSE = 1e-3
TOLERANCE = 1e-8
TABLES: Mapping[str, tuple[str, str]] = {
    "Bruno": ("Bruno_JExpBot2016", ""),
    "Elowitz": ("Elowitz_Nature2000", "sigma"),
    "Borghans": ("Borghans_BiophysChem1997", "sigma"),
    "Perelson": ("Perelson_Science1996", "sd_task0_model0_perelson1_V"),
    "Crauste": ("Crauste_CellSystems2017", ""),
}
"""Folder of each problem, and the parameter that is the standard deviation of log10 of its values;
none where each value has a standard deviation of its own."""


def golden(folder: str, sd: float | None) -> float:
    """Log-likelihood of the values in a table given the outputs in another, by SciPy."""
    measured = read_table(folder, "measurementData")
    y = np.array([float(row["measurement"]) for row in measured])
    outputs = np.array([float(row["simulation"]) for row in read_table(folder, "simulatedData")])
    if sd is None:
        own = np.array([float(row["noiseParameters"]) for row in measured])
        return float(stats.norm.logpdf(y, outputs, own).sum())
    logarithms = stats.norm.logpdf(np.log10(y), np.log10(outputs), sd)
    return float((logarithms - np.log(y * np.log(10.0))).sum())


@study("petab-by-hand")
def petab_by_hand(quick: bool) -> Iterator[Row]:
    """Log-likelihoods at published optima, against SciPy on the published outputs."""
    for name, (folder, scatter) in TABLES.items():
        one = PUBLISHED[name]()
        function = smcpn.LogLikelihood(one.problem, solver=smcpn.Rosenbrock(tolerance=TOLERANCE))
        found = float(function(one.optimum[None])[0])
        values = dict(zip(one.problem.names, one.optimum.tolist(), strict=True))
        note = f"published {one.log_likelihood:g}, off by {found - one.log_likelihood:+.2g}"
        yield near(name, found, golden(folder, values.get(scatter)), CLOSE, note)
