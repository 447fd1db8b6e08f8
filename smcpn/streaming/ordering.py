"""Which samples are new: times that strictly increase."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from smcpn.streaming.events import Event, Report
from smcpn.streaming.sample import Sample

SAME = 1e-3
"""Sampling intervals within which two times are one."""
GAP = 1.5
"""Sampling intervals between two samples above which some are missing."""
JUMP = 1000
"""Sampling intervals of a gap that is believed only once the next sample comes after it: one
garbled digit of a time must not make every later sample a late one."""
MEMORY = 65536
"""Times of absorbed samples that are remembered; older ones that come again count as duplicates."""

Placed = list[tuple[Sample, float]]


@dataclass
class _Skipped:
    """A run of samples skipped for the same reason, reported as one."""

    kind: str
    line: int
    first: float
    last: float
    count: int = 1

    def event(self) -> Event:
        times = f"t = {self.first:g}" + (f" to {self.last:g}" if self.count > 1 else "")
        reason = "absorbed before" if self.kind == "duplicate" else "older than one absorbed before"
        message = f"{_samples(self.count)} at {times}: {reason}, skipped"
        return Event(self.kind, message, self.line, self.first, self.count)


class Ordering:
    """Sort out samples by their times: new, duplicate or late; and report gaps.

    Parameters
    ----------
    interval : float, optional
        Sampling interval in seconds; None where the times are irregular: nothing is then a gap.
    report : callable
        Called with every `Event`.
    last : float, optional
        Time of the last sample absorbed before.
    """

    def __init__(self, interval: float | None, report: Report, last: float | None = None) -> None:
        self._interval, self._report = interval, report
        self._same = SAME * (interval or 0.0)
        self._absorbed = [] if last is None else [last]
        self._skipped: _Skipped | None = None
        self._held: tuple[Sample, float] | None = None

    def place(self, sample: Sample, t: float) -> Placed:
        """Return the samples, with their times, that are to be absorbed."""
        if self._absorbed and t <= self._absorbed[-1] + self._same:
            self._skip(sample, t)
            return []
        self._report_skipped()
        if self._held is None:
            if self._intervals_to(t) > JUMP:
                self._held = (sample, t)
                return []
            return self._accept([(sample, t)])
        held, self._held = self._held, None
        if t > held[1] + self._same:
            return self._accept([held, (sample, t)])
        self._refuse(*held, f"the next sample is at t = {t:g}")
        return self.place(sample, t)

    def finish(self) -> None:
        """Report what is still open."""
        self._report_skipped()
        if self._held is not None:
            self._refuse(*self._held, "no sample follows it")
            self._held = None

    def _accept(self, placed: Placed) -> Placed:
        for sample, t in placed:
            intervals = self._intervals_to(t)
            if intervals > GAP:
                missing = round(intervals) - 1
                message = (
                    f"{_samples(missing)} missing between t = {self._absorbed[-1]:g} and {t:g}"
                )
                self._report(Event("gap", message, sample.line, t, missing))
            self._absorbed.append(t)
        if len(self._absorbed) > 2 * MEMORY:
            del self._absorbed[:MEMORY]
        return placed

    def _intervals_to(self, t: float) -> float:
        if not self._absorbed or self._interval is None:
            return 0.0
        return (t - self._absorbed[-1]) / self._interval

    def _skip(self, sample: Sample, t: float) -> None:
        kind = "duplicate" if self._known(t) else "late"
        if self._skipped is not None and self._skipped.kind == kind:
            self._skipped.count += 1
            self._skipped.last = t
            return
        self._report_skipped()
        self._skipped = _Skipped(kind, sample.line, t, t)

    def _known(self, t: float) -> bool:
        """Whether a sample of this time was absorbed, or is too old to tell."""
        if t < self._absorbed[0] - self._same:
            return True
        place = bisect_left(self._absorbed, t - self._same)
        return self._absorbed[place] <= t + self._same

    def _report_skipped(self) -> None:
        if self._skipped is not None:
            self._report(self._skipped.event())
            self._skipped = None

    def _refuse(self, sample: Sample, t: float, why: str) -> None:
        message = f"t = {t:g} jumps ahead by {self._intervals_to(t):.0f} intervals and {why}"
        self._report(Event("bad-time", f"{message}, skipped", sample.line, t))


def _samples(count: int) -> str:
    return "1 sample" if count == 1 else f"{count} samples"
