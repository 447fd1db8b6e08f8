"""Measured values of an output with standard deviations of their own, or known by limits alone.

A row of numbers holds y_sd, y_lower and y_upper for every output and then the values, where a
density asks for more than these, and the values alone elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.model.record import BESIDE, Record, beside

Array = NDArray[np.float64]

Y_SD = BESIDE[0]
"""Name under which a formula, or ``noise``, takes the standard deviation of each value."""


BESIDE_PARTS = 5
"""Numbers of each output in a `Beside.column`."""


@dataclass(frozen=True)
class Beside:
    """Symbols of what is known of a sample beside its value, (q, 1) each.

    sd: Standard deviation of each output's value.
    lower, upper: Limits between which a value lies that was not measured itself.
    has_lower, has_upper: 1 where there is such a limit.
    """

    sd: ca.SX
    lower: ca.SX
    upper: ca.SX
    has_lower: ca.SX
    has_upper: ca.SX

    @classmethod
    def of(cls, n_outputs: int) -> Self:
        """Make fresh symbols."""
        names = ("sd", "lower", "upper", "has_lower", "has_upper")
        return cls(*(ca.SX.sym(name, n_outputs, 1) for name in names))

    @classmethod
    def split(cls, column: ca.SX) -> Self:
        """The parts of a `column`."""
        size = column.numel() // BESIDE_PARTS
        return cls(*ca.vertsplit(column, size)) if size else cls.of(0)

    @property
    def column(self) -> ca.SX:
        """All of them, (5 q, 1)."""
        return ca.vertcat(self.sd, self.lower, self.upper, self.has_lower, self.has_upper)

    @property
    def flags(self) -> ca.SX:
        """Which limits there are, (2 q, 1)."""
        return ca.vertcat(self.has_lower, self.has_upper)

    @property
    def limited(self) -> ca.SX:
        """1 where a value is known by its limits, (q, 1)."""
        return ca.fmax(self.has_lower, self.has_upper)


class SampleNumbers(NamedTuple):
    """Numbers that a density may depend on at samples beside outputs, parameters and values.

    beside: (T, 5 q) or (T, 0), as `Beside.column`.
    u: (T, n)
    t: (T, 1)
    """

    beside: Array
    u: Array
    t: Array

    @classmethod
    def of(cls, record: Record, width: int) -> Self:
        """Numbers of a record; ``width`` is 0 where a density asks for nothing beside y."""
        if not width:
            return cls(np.empty((len(record), 0)), record.u, record.t[:, None])
        sd, *limits = (beside(record, name) for name in BESIDE)
        filled = [np.nan_to_num(one, posinf=0.0) for one in (sd, *limits)]
        flags = [np.isfinite(one).astype(float) for one in limits]
        return cls(np.column_stack([*filled, *flags]), record.u, record.t[:, None])

    def without_limits(self) -> Self:
        """The samples as if every value had been measured itself."""
        beside = self.beside.copy()
        beside[:, beside.shape[1] // BESIDE_PARTS :] = 0.0
        return self._replace(beside=beside)

    def repeated(self, times: int) -> Self:
        """The numbers of each sample so many times in a row."""
        return type(self)(*(np.repeat(one, times, axis=0) for one in self))

    def mean(self) -> Self:
        """One row, of the means over the samples."""
        return type(self)(*(one.mean(axis=0, keepdims=True) for one in self))


def measured_rows(record: Record, width: int) -> Array:
    """Outputs of a record as rows of a kernel have them, (T, width), NaN where not known.

    They are the values alone, or y_sd, y_lower and y_upper of all outputs and then the values.
    """
    if width == record.n_outputs:
        return record.y
    if not record.n_outputs:
        return np.full((len(record), width), np.nan)
    columns = [beside(record, name) for name in BESIDE]
    return np.column_stack([*(np.where(np.isfinite(x), x, np.nan) for x in columns), record.y])


def outputs_of(template: Record, measured: Array) -> dict[str, Any]:
    """Arguments of a record like another one, with outputs as of `measured_rows`, (T, width)."""
    if measured.shape[1] == template.n_outputs:
        return {"y": measured}
    parts = np.split(measured, 1 + len(BESIDE), axis=1)
    named = dict(zip((*BESIDE, "y"), parts, strict=True))
    return {name: one for name, one in named.items() if getattr(template, name) is not None}
