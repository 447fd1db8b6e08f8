"""What arrives: checked, and put on the time axis of the stream."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.arguments import real_number, shown
from smcpn.errors import InputError
from smcpn.record import Record

Array = NDArray[np.float64]

LONGEST_GAP = 100_000
"""Sampling intervals without a sample beyond which the stream is not the same experiment."""


@dataclass(frozen=True)
class Arrival:
    """Where a sample belongs.

    Attributes
    ----------
    status : str
        ``"absorbed"``, ``"late"`` or ``"duplicate"``.
    t : float
        Time on the axis of the stream.
    missing : int
        Samples that are missing before it.
    """

    status: str
    t: float
    missing: int = 0


class TimeAxis:
    """The sampling times of a stream.

    Parameters
    ----------
    record : Record
        With ``dt`` the samples lie on a grid, and times of arrival are rounded to it. Otherwise
        times are taken as they are, and ``record.interval`` is the usual distance.
    """

    def __init__(self, record: Record) -> None:
        self._grid, self._interval, self._start = (
            record.dt is not None,
            record.interval,
            record.start,
        )
        self.count = 0
        self.last_given = self.last = -math.inf

    def place(self, t: float | None) -> Arrival:
        """Place a sample, after which it is part of the axis unless it is late or a duplicate.

        Raises
        ------
        InputError
            For a time that is no number, a missing one where it is needed, or too long a gap.
        """
        if t is None:
            return self._next()
        t = real_number("t", t, "give a time in seconds")
        if self.count == 0:
            if self._grid:
                self._start = t
            return self._accepted(Arrival("absorbed", t), t)
        distance = (t - self.last_given) / self._interval
        if distance <= 0.0 or (self._grid and distance < 0.5):
            same = distance == 0.0 or (self._grid and abs(distance) < 0.5)
            return Arrival("duplicate" if same else "late", t)
        steps = max(1, round(distance))
        if steps > LONGEST_GAP:
            raise InputError(
                f"t is {t:g}: {steps} sampling intervals after the sample before it; begin a new "
                "Online after so long a gap"
            )
        placed = self._start + self._interval * (self.count + steps - 1) if self._grid else t
        return self._accepted(Arrival("absorbed", placed, steps - 1), t)

    def filled(self, arrival: Arrival) -> Array:
        """Times of the samples missing before an arrival, (missing,), once it is placed."""
        m = arrival.missing
        if self._grid:
            first = self.count - 1 - m
            return self._start + self._interval * np.arange(first, first + m)
        return self._before + (arrival.t - self._before) * np.arange(1, m + 1) / (m + 1)

    def _next(self) -> Arrival:
        if not self._grid:
            raise InputError(
                "t is missing: the problem's record has times of its own, so update(u, y, t) needs "
                "the time of every sample; give the record dt where they are equally spaced"
            )
        t = self._start + self._interval * self.count
        return self._accepted(Arrival("absorbed", t), t)

    def _accepted(self, arrival: Arrival, given: float) -> Arrival:
        self._before = self.last
        self.last, self.last_given = arrival.t, given
        self.count += 1 + arrival.missing
        return arrival


class Columns:
    """Inputs or outputs of a sample as an array of known length."""

    def __init__(self, name: str, size: int) -> None:
        self._name, self._size = name, size

    def __call__(self, values: Any) -> Array:
        """Return ``values`` as floats, (size,).

        Raises
        ------
        InputError
            If they are no numbers, or not as many.
        """
        try:
            array = np.asarray(values, dtype=float).ravel()
        except (TypeError, ValueError) as error:
            raise InputError(
                f"{self._name} is {shown(values)}: give {self._size} numbers"
            ) from error
        if len(array) != self._size:
            raise InputError(
                f"{self._name} has {len(array)} values: the problem has {self._size} of them"
            )
        return array
