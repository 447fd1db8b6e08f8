"""From a source to an identification: sample by sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from smcpn.io.axis import Clock, Ordering
from smcpn.io.events import Event, Report
from smcpn.io.parse import Sample
from smcpn.io.sources import AHEAD, Item, Reader, Receipt, Source
from smcpn.model.problem import Problem
from smcpn.signals import Stop


class Live(Protocol):
    """What a stream updates: `smcpn.Online`."""

    def update(self, u: Any, y: Any, t: float | None = None) -> Any:
        """Assimilate one sample and return the state after it."""
        ...


class Stream:
    """Update an identification with the samples of a source.

    Iterate over it: each step yields a sample, its time in seconds and the state after it. What
    is skipped and what happens besides is reported. The source is read in a thread of its own.

    Parameters
    ----------
    live : Online
    source : Source
    problem : Problem
        Its first record states the sampling interval and the time of the first sample.
    report : callable
        Called with every `Event`, in the order of the samples.
    last : float, optional
        Time of the last sample that ``live`` has assimilated.
    stop : Stop, optional
        Ends the iteration after the sample in hand.
    idle : callable, optional
        Called ten times a second while no sample comes.
    ahead : int
        Most items read ahead.

    Attributes
    ----------
    waiting : int
        Items read ahead at the moment.
    ended : bool
        Whether the source has ended.

    Examples
    --------
    >>> import smcpn.io as streaming
    >>> source = streaming.Samples([(0.0, 0.0, 1.0), (0.1, 0.0, 0.9)])
    >>> source.name
    'iterator'
    """

    def __init__(
        self,
        live: Live,
        source: Source,
        problem: Problem,
        report: Report,
        *,
        last: float | None = None,
        stop: Stop | None = None,
        idle: Callable[[], None] | None = None,
        ahead: int = AHEAD,
    ) -> None:
        self._live, self._source, self._report = live, source, report
        self._stop = Stop() if stop is None else stop
        self._idle, self._ahead = idle, ahead
        record = problem.records[0]
        interval = record.interval if record.uniform else None
        start = float(record.t[0])
        first = None
        if last is not None and not source.replays:
            first = None if interval is None else last + interval
            source.position.t = last
            if interval is not None:
                source.position.number = round((last - start) / interval)
        self._counted_on = first
        self._clock = Clock(interval, start, first)
        self._ordering = Ordering(interval, report, last)
        self.waiting = 0
        self.ended = False

    def __iter__(self) -> Iterator[tuple[Sample, float, Any]]:
        reader = Reader(self._source, self._ahead)
        try:
            while not self._stop.requested:
                try:
                    item = reader.take()
                except EOFError:
                    self.ended = True
                    self._report(Event("end", f"{self._source.name} has ended"))
                    break
                self.waiting = reader.waiting
                if item is not None:
                    yield from self._assimilate(item)
                elif self._idle is not None:
                    self._idle()
        finally:
            reader.close()
            self._ordering.finish()

    def _assimilate(self, item: Item) -> Iterator[tuple[Sample, float, Any]]:
        if isinstance(item, Receipt):
            item.acknowledge()
        elif isinstance(item, Event):
            if item.kind == "bad-line":
                self._clock.bad_line()
            self._report(item)
        else:
            t = self._clock.time_of(item)
            self._tell_counted(item, t)
            for sample, time in self._ordering.place(item, t):
                yield sample, time, self._live.update(sample.u, sample.y, time)

    def _tell_counted(self, sample: Sample, t: float) -> None:
        """Say once that a resumed source without times is taken to go on where it was left."""
        if self._counted_on is not None and sample.t is None and sample.number is None:
            message = f"the lines state no time: counted on from t = {t:g}"
            self._report(Event("untimed", message, sample.line, t))
        self._counted_on = None
