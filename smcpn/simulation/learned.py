"""Samples of a record that a posterior has learned from, and the begin of a part of one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from smcpn.model.problem import Problem
from smcpn.model.record import Record

ALIKE = 64
"""Samples of two records that are compared to tell whether they are one."""


class FromTheStart(NamedTuple):
    """A record learned from, and the samples from its beginning to the end of another record."""

    learned: Record
    record: Record


def begins_as(own: Record, record: Record, same: bool) -> bool:
    """True if two records begin alike: they are one, or variants of one."""
    n = min(len(own), len(record), ALIKE)
    alike = own.t[0] == record.t[0] and np.array_equal(own.u[:n], record.u[:n])
    if not (same and own.n_outputs == record.n_outputs):
        return alike
    y, other = own.y[:n], record.y[:n]
    return alike and bool(np.all((y == other) | np.isnan(y) | np.isnan(other)))


def from_the_start(problem: Problem, record: Record, same: bool) -> FromTheStart | None:
    """Return what a part of a record is simulated over, so that its first state follows.

    None where it is no part, or what it was cut from has no beginning that was learned from.

    Parameters
    ----------
    same : bool
        Whether the record measures what those of the problem do.
    """
    if record.cut is None:
        return None
    first, whole = record.cut.first, record.cut.whole
    end = first + len(record)
    if not np.array_equal(whole.u[first:end], record.u):
        return None
    for own in problem.records:
        begin = int(np.searchsorted(whole.t, own.t[0] - 1e-6 * own.interval))
        if begin < first and begins_as(own, whole[begin:], same):
            y = np.full((end - begin, record.n_outputs), np.nan)
            y[first - begin :] = record.y
            longer = whole[begin:end].with_hold(record.hold).with_outputs(y)
            return FromTheStart(own, longer)
    return None


def learned_samples(problem: Problem, record: Record) -> tuple[tuple[int, int], ...]:
    """Return the samples [a, b) of a record that are those of a record learned from."""
    found = {_shared(own, record) for own in problem.records}
    return tuple(sorted(one for one in found if one[0] < one[1]))


def _shared(own: Record, record: Record) -> tuple[int, int]:
    """Samples [a, b) of a record that another one has too; none where they differ."""
    slack = 1e-6 * record.interval
    begin = max(own.t[0], record.t[0]) - slack
    i, a = int(np.searchsorted(own.t, begin)), int(np.searchsorted(record.t, begin))
    n = min(len(own) - i, len(record) - a)
    if n <= 0 or own.n_outputs != record.n_outputs or own.n_inputs != record.n_inputs:
        return 0, 0
    y, other = own.y[i : i + n], record.y[a : a + n]
    alike = (
        np.allclose(own.t[i : i + n], record.t[a : a + n], rtol=0.0, atol=slack)
        and np.array_equal(own.u[i : i + n], record.u[a : a + n])
        and bool(np.all((y == other) | np.isnan(y) | np.isnan(other)) and (y == other).any())
    )
    return (a, a + n) if alike else (0, 0)
