"""Lines of a table that say that nothing was measured, in columns as those of NONMEM."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import counted
from smcpn.model.units_and_times import MeasuredSamples

Array = NDArray[np.float64]

NO_MEASUREMENT = frozenset({"MDV", "EVID"})
"""Columns, in either case, that are not 0 in lines whose outputs are no measurements."""


def flags_among(names: Iterable[str], used: Collection[str]) -> list[str]:
    """Return the columns that say where nothing was measured, but for those that are outputs."""
    return [one for one in names if one.upper() in NO_MEASUREMENT and one not in used]


def is_flagged(values: Iterable[float]) -> bool:
    """True if one of the numbers in these columns, of which some may be missing, is not 0."""
    return any(abs(one) > 0.0 for one in values)


def told_of(flags: Iterable[str], samples: str = "samples") -> str:
    """Return a sentence on the samples whose outputs are missing."""
    return f"outputs of {samples} are missing, where {' or '.join(flags)} is not 0"


def without_unmeasured(y: Array, flags: Mapping[str, Array]) -> tuple[Array, str]:
    """Return outputs, with NaN where a column flags them, and a sentence on these or ""."""
    flagged = np.zeros(len(y), dtype=bool)
    for one in flags.values():
        flagged |= np.abs(one) > 0.0
    count = int((~np.isnan(y[flagged])).any(axis=1).sum())
    if not count:
        return y, ""
    return np.where(flagged[:, None], np.nan, y), told_of(flags, counted(count, "sample"))


def without_twins(samples: MeasuredSamples, rows: NDArray[np.int_]) -> NDArray[np.int_]:
    """Return rows without those that hold nothing beside others of their time, as doses do."""
    if samples.t is None or samples.u.shape[1] or not samples.y.shape[1]:
        return rows
    t, known = samples.t[rows], np.isfinite(samples.y[rows]).any(axis=1)
    first = np.append(True, t[1:] != t[:-1])[: len(t)]
    time = np.cumsum(first) - 1
    alone = np.bincount(time, known)[time] == 0.0
    return rows[known | (first & alone)]
