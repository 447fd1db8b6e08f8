"""The argument ``delay`` of a problem: dead times of inputs, checked and made into a `Delay`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, floor, isfinite
from typing import Any, NamedTuple

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.base.units import duration
from smcpn.errors import InputError, listed, real_number, shown
from smcpn.model.distribution import Distribution, support
from smcpn.model.entries import by_scalar, is_name
from smcpn.model.ode import ODE
from smcpn.model.record import CONTEXT, Record

Array = NDArray[np.float64]

ARGUMENT = "delay"
MOST_INTERVALS = 512
"""Sampling intervals between the bounds of a dead time: each particle picks its samples of them."""
MOST_ARRIVALS = 16
"""Samples of a delayed input that arrive in one interval, which is cut at each of them."""
LONGEST = 10**5
"""Sampling intervals in a dead time, at most."""
ROUNDING = 1e-9
BEGIN, END = 1, 5
"""Places of the edges among the numbers of an interval that `smcpn.model.dosing` moves."""
_REMEDY = "give a time that is not negative, or the name of a parameter"


@dataclass(frozen=True)
class Delay:
    """Dead times: the equation's u(t) is the record's u(t - tau).

    inputs: Numbers of the inputs that are delayed, ascending.
    sources: Of each the place of its dead time in theta (int), or the dead time (float).
    bounds: Least and greatest dead time of each.
    names: Of the parameters that hold a dead time, learned or fixed.
    lagged: Whether an interval of a record is moved within that of `smcpn.model.dosing.Dosing`, by
        lags of doses that are parameters.
    """

    inputs: tuple[int, ...]
    sources: tuple[int | float, ...]
    bounds: tuple[tuple[float, float], ...]
    names: tuple[str, ...] = ()
    lagged: bool = False

    @classmethod
    def of(
        cls,
        given: Any,
        ode: ODE,
        free: Mapping[str, Distribution],
        fixed: Mapping[str, float],
    ) -> Delay | None:
        """Read the argument ``delay`` of a model; None where there is none.

        free: Parameters that theta begins with, in its order.
        """
        if given is None or (isinstance(given, Mapping) and not given):
            return None
        if not isinstance(given, Mapping):
            example = ode.inputs[0] if ode.inputs else "u"
            raise _refused(
                f'delay is {shown(given)}: give a dict such as {{"{example}": "tau"}}, from an '
                "input to a time or a parameter's name"
            )
        taken = by_scalar(given, ode, ARGUMENT)
        for name in taken:
            if name not in ode.inputs:
                raise _refused(
                    f"delay names {shown(name)}, which is no input of model '{ode.name}' "
                    f"({listed(ode.inputs) or 'it has none'})",
                    name,
                )
        inputs = tuple(sorted(map(ode.inputs.index, taken)))
        pairs = [_source(ode.inputs[i], taken[ode.inputs[i]], free, fixed) for i in inputs]
        return cls(
            inputs,
            tuple(one for one, _ in pairs),
            tuple(bounds for _, bounds in pairs),
            tuple(name for name in taken.values() if is_name(name)),
        )

    @property
    def keys(self) -> tuple[tuple[bool, float], ...]:
        """For each delayed input what is the same where the dead time is the same."""
        return tuple((isinstance(one, int), one) for one in self.sources)

    def seconds(self, theta: ca.SX) -> list[ca.SX]:
        """Dead time of each delayed input."""
        return [theta[one] if isinstance(one, int) else ca.SX(one) for one in self.sources]

    def labelled(self, inputs: Sequence[str], names: Sequence[str]) -> dict[str, float | str]:
        """As plain data: input to a dead time or the name of a parameter."""
        return {
            inputs[i]: names[one] if isinstance(one, int) else one
            for i, one in zip(self.inputs, self.sources, strict=True)
        }

    def spans(self, records: Sequence[Record]) -> tuple[Span, ...]:
        """Samples that arrive about an interval, of each delayed input."""
        for record in records:
            check_context(record, max(lower for lower, _ in self.bounds))
        lengths, unit = [record.interval for record in records], records[0].t_unit
        spans: list[Span] = []
        for lower, upper in self.bounds:
            check_length(upper, min(lengths), unit)
            span = Span(1 + floor(lower / max(lengths)), 1 + floor(upper / min(lengths)), 1)
            if self.lagged or not all(record.uniform for record in records):
                each = [
                    _uneven_span(*_with_times_before(r, upper, self.lagged), lower, upper)
                    for r in records
                ]
                least, most, cuts = zip(*each, strict=True)
                span = Span(min(least), max(most), max(cuts))
            if span.most - span.least > MOST_INTERVALS:
                raise _refused(
                    f"delay reaches from {lower:g} to {duration(upper, unit)}, "
                    f"{span.most - span.least} sampling intervals of "
                    f"{duration(min(lengths), unit)}: give a prior that "
                    f"spans at most {MOST_INTERVALS}, or resample the record"
                )
            if span.cuts > MOST_ARRIVALS:
                raise _refused(
                    f"{records[0].name}: {span.cuts} samples of a delayed input arrive in one "
                    f"interval between samples, at most {MOST_ARRIVALS} may: give the samples in "
                    "its gap, with outputs that are NaN, or resample the record"
                )
            spans.append(span)
        return tuple(spans)

    def spans_between(self, record: Record) -> tuple[Span, ...]:
        """Samples that arrive about any interval that is not shorter or longer than a record's."""
        (shortest, longest), parts = intervals_of(record), parts_of(record)

        def within(time: float) -> int:
            """Samples in so long a time, at most."""
            given = 1 + floor(time / shortest)
            return given + (given + 1) * (parts - 1)

        cuts, moved = within(longest), longest if self.lagged else 0.0
        if cuts > MOST_ARRIVALS:
            raise _refused(
                f"{record.name}: delay in a stream with intervals from {shortest:g} to "
                f"{longest:g}, in one of which {cuts} samples of a delayed input may arrive, at "
                f"most {MOST_ARRIVALS} may: give the record times that differ less"
            )
        return tuple(
            Span(floor(lower / longest) - parts * self.lagged, within(upper + moved), cuts)
            for lower, upper in self.bounds
        )


def intervals_of(record: Record) -> tuple[float, float]:
    """Shortest and longest interval that a stream like a record may have, but for rounding."""
    t = record.t[record.given]
    intervals, slack = np.diff(t), 4 * np.finfo(float).eps * float(np.abs(t).max())
    shortest, longest = float(intervals.min()), float(intervals.max())
    return shortest * (1.0 - ROUNDING) - slack, longest * (1.0 + ROUNDING) + slack


def parts_of(record: Record) -> int:
    """Parts into which doses cut an interval of a record, at most."""
    return int(np.diff(np.flatnonzero(record.given)).max())


class Span(NamedTuple):
    """Samples of a delayed input that arrive before and in an interval between two samples.

    least, most: Least and greatest number of samples between that which begins the interval and the
        last one to arrive before it.
    cuts: Samples that arrive in the interval, at most.
    """

    least: int
    most: int
    cuts: int

    @property
    def lags(self) -> range:
        """Places of the samples that may be needed, before the one that begins an interval."""
        return range(self.most, self.least - self.cuts - 2, -1)


@lru_cache(maxsize=256)
def _uneven_span(times: bytes, more: int, moved: bytes, lower: float, upper: float) -> Span:
    """Samples that arrive about an interval of samples at these times, for all dead times.

    So many of them, ``more``, are before the first sample. Each interval begins and ends somewhere
    within that of ``moved``, where there are such.
    """
    t = np.frombuffer(times)
    here = np.arange(more - 1, len(t) - 1)
    begin, end, rounding = t[here], t[here + 1], 1e-9 * (t[more + 1] - t[more])
    latest = begin
    if moved:
        begin, latest = np.frombuffer(moved).reshape(2, -1)
        end = latest
    least, most = (
        here + 1 - np.searchsorted(t, at - delay, side="right")
        for at, delay in ((latest, lower - rounding), (begin, upper + rounding))
    )
    # Most arrive where the last of them does at the end of the interval, or for the longest one.
    earliest, latest = (
        np.searchsorted(t, end - delay + rounding, side="right") - 1 for delay in (upper, lower)
    )
    cuts = 0
    for number in range(int((latest - earliest).max()) + 1):
        last = np.minimum(earliest + number, latest)
        edge = np.clip(t[last], end - upper, end - lower) - (end - begin) - rounding
        cuts = max(cuts, int((last + 1 - np.searchsorted(t, edge)).max()))
    return Span(int(least.min()), int(most.max()), cuts)


def _with_times_before(record: Record, upper: float, lagged: bool) -> tuple[bytes, int, bytes]:
    """Times of the samples and of those that may arrive after the first, and how many these are.

    The last ones are the edges between which each interval is moved, none where it is not.
    """
    known = 0 if record.t_before is None else len(record.t_before)
    number = known + ceil(upper / spacing_before(record)) + 2
    times = np.append(times_before(record, number), record.t)
    edges = record.u[1:, [BEGIN - record.held, END - record.held]].T if lagged else np.empty((2, 0))
    first = times[number - 1 : number + 1, None] if lagged else np.empty((2, 0))
    return times.tobytes(), number, np.hstack([first, edges]).tobytes()


def times_before(record: Record, number: int) -> Array:
    """Times of the last samples before the first one, (number,).

    They are those of a record that this one was cut from; further back, spaced as of
    `spacing_before`.
    """
    known = np.empty(0) if record.t_before is None else record.t_before[-number:]
    known = np.append(known, record.t[0])
    more = np.arange(number + 1 - len(known), 0, -1)
    return np.append(known[0] - spacing_before(record) * more, known[:-1])


def spacing_before(record: Record) -> float:
    """Time between samples before those known, which is that between the first two given."""
    given = record.t[record.given][:2]
    return float(given[1] - given[0]) if len(given) == 2 else record.interval


def inputs_before(record: Record, number: int) -> Array:
    """The last inputs before the first sample, (number, n_inputs).

    Of a periodic record they are those of the period before, of one that was cut from another those
    that are known; further back the first one known is held.
    """
    if record.periodic:
        return np.take(record.u[record.given], np.arange(-number, 0), axis=0, mode="wrap")
    before, _ = record.input_around()
    known = np.concatenate([before[max(0, len(before) - number) :], record.u[:1]])
    return np.pad(known, ((number + 1 - len(known), 0), (0, 0)), mode="edge")[:-1]


def _source(
    name: str, value: Any, free: Mapping[str, Distribution], fixed: Mapping[str, float]
) -> tuple[int | float, tuple[float, float]]:
    """Place in theta or the time, and the bounds, of the dead time of an input."""
    what = f"delay of '{name}'"
    if is_name(value) and value in free:
        lower, upper = support(free[value])
        if not (lower >= 0.0 and isfinite(upper)):
            raise _refused(
                f"{what}: the prior of '{value}' reaches from {lower:g} to {upper:g}, but a dead "
                "time needs bounds that are not negative: give a prior such as "
                "scipy.stats.uniform(0, 0.5), or truncate it",
                name,
            )
        return list(free).index(value), (lower, upper)
    if is_name(value) and value not in fixed:
        raise _refused(
            f"{what} is '{value}', which has no prior: give prior={{'{value}': ...}} a "
            "distribution with bounds, or a number to fix it",
            name,
        )
    number = real_number(what, fixed.get(value, value), _REMEDY, argument=f"{ARGUMENT}.{name}")
    if not 0.0 <= number < np.inf:
        raise _refused(f"{what} is {shown(number)}: {_REMEDY}", name)
    return number, (number, number)


def check_length(upper: float, interval: float, unit: str) -> None:
    """Refuse a dead time of more sampling intervals than are looked at."""
    if upper > LONGEST * interval:
        raise _refused(
            f"delay reaches to {duration(upper, unit)}, more than {LONGEST} sampling intervals of "
            f"{duration(interval, unit)}: give a shorter one, or shift the input of the record"
        )


def check_context(record: Record, least: float) -> None:
    """Refuse a dead time that reaches beyond what a part of a record knows of its inputs."""
    if record.u_function is not None:
        return
    known = 0 if record.u_before is None else len(record.u_before)
    if known == CONTEXT and least > known * record.interval:
        back, far = (duration(one, record.t_unit) for one in (least, known * record.interval))
        raise _refused(
            f"{record.name}: delay reaches {back} back, and a record cut from another "
            f"knows {known} samples before it, {far}: give the whole "
            "record, and leave the outputs before out by record.hide"
        )


def _refused(sentence: str, key: str = "") -> InputError:
    return InputError(sentence, argument=f"{ARGUMENT}.{key}" if key else ARGUMENT)
