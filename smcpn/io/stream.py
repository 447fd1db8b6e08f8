"""From a source to an identification, sample by sample, with its output and checkpoints."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from smcpn.base.signals import Stop
from smcpn.errors import InputError, listed
from smcpn.io.axis import DOUBTFUL_GAP, TimeAxis
from smcpn.io.channels import Moment, Sample
from smcpn.io.events import Event, Report
from smcpn.io.fields import DAY, kind_of
from smcpn.io.sink import PROBABILITIES, JsonSink, OutputClosedError, state_fields
from smcpn.io.sources import AHEAD, Item, Reader, Receipt, Source
from smcpn.model.dose import Dose

MANY_SKIPPED = 1000
"""Samples skipped in a row of which is told while they come, and again at ten times as many."""
MOST_DOUBTFUL = 2
"""Samples whose times are far ahead of those before that wait for the ones that follow."""
EVERY_SECONDS = 60.0
"""Between two checkpoints."""
PIPE_CLOSED = 141
"""Exit code where the reader of standard output has left, as a shell knows it (SIGPIPE)."""

Step = tuple[Sample, float, Any]
"""A sample, its time, and the state after it."""


class Live(Protocol):
    """An identification that a stream updates: `smcpn.Online`."""

    @property
    def axis(self) -> TimeAxis:
        """Time axis of its samples."""
        ...

    @property
    def doses(self) -> Sequence[Dose]:
        """Doses given so far."""
        ...

    def update(
        self,
        u: Any,
        y: Any,
        t: float | None = None,
        *,
        y_sd: Any = None,
        y_lower: Any = None,
        y_upper: Any = None,
        doses: Any = (),
    ) -> Any:
        """Assimilate one sample and return the state after it."""
        ...

    def give(self, doses: Any) -> None:
        """Take doses that are no sample's."""
        ...


class Observer(Protocol):
    """Receiver of each sample and the state after it, such as the terminal and the live page."""

    def sample(self, sample: Sample, t: float, state: Any, waiting: int) -> None:
        """Receive a sample, its time, the state after it, and the number of samples that wait."""
        ...


class Clock:
    """Assigns times to samples.

    A sample's time is the one its source states, of dates that since the first; else its sequence
    number times the sampling interval; else that of the sample before and one interval. In the last
    case a bad line keeps its place in time.

    The first sample of the axis's record has the sequence number zero; ``first`` is the time of the
    first sample that states none, by default that of the record's first.
    """

    def __init__(self, axis: TimeAxis, first: float | None = None) -> None:
        self._axis = axis
        # Counted from the last time stated, so that the sum gathers no rounding.
        self._origin, self._ticks = axis.start if first is None else first, 0

    def time_of(self, sample: Sample) -> float:
        """Return the time of a sample.

        Raises `InputError` if it states none and the sampling interval is not known, or a date
        where those before have numbers, or the other way.
        """
        if sample.moment is not None:
            return self._set(self._since_first(sample, sample.moment), sample)
        if sample.t is not None:
            if self._axis.epoch is not None:
                raise self._of_other_kind(sample, "a number", kind_of(self._axis.epoch))
            return self._set(sample.t, sample)
        if not self._axis.regular:
            raise InputError(
                f"line {sample.line} states no time and the problem's record is irregular: "
                "send t with every sample"
            )
        if sample.number is not None:
            return self._set(self._axis.start + self._axis.interval * sample.number, sample)
        t = self._origin + self._axis.interval * self._ticks
        self._ticks += 1
        return t

    def bad_line(self) -> None:
        """Count a line that is no sample: where times are counted it keeps its place."""
        self._ticks += 1

    def _since_first(self, sample: Sample, moment: Moment) -> float:
        """Time since the first date, which a resumed run has from its checkpoint."""
        axis = self._axis
        if axis.epoch is None:
            if math.isfinite(axis.given):
                raise self._of_other_kind(sample, moment.kind, "numbers")
            axis.epoch = moment.date
        if kind_of(axis.epoch) != moment.kind:
            raise self._of_other_kind(sample, moment.kind, kind_of(axis.epoch))
        return moment.since(axis.epoch)

    @staticmethod
    def _of_other_kind(sample: Sample, stated: str, before: str) -> InputError:
        return InputError(
            f"line {sample.line} has {stated} for a time, the samples before {before}: nobody "
            "knows the time between; send what was sent before, or begin another checkpoint"
        )

    def _set(self, t: float, sample: Sample) -> float:
        if not sample.is_dose:
            self._origin, self._ticks = t, 1
        return t


@dataclass
class _Skipped:
    """A run of samples skipped for the same reason, reported as one event."""

    kind: str
    line: int
    first: float
    last: float
    count: int = 1

    def event(self, remark: str = "") -> Event:
        times = f"t = {self.first:g}" + (f" to {self.last:g}" if self.count > 1 else "")
        reason = (
            "assimilated before"
            if self.kind == "duplicate"
            else "older than one assimilated before"
        )
        message = f"{_samples(self.count)} at {times}: {reason}, skipped{remark}"
        return Event(self.kind, message, self.line, self.first, self.count)


class Stream:
    """Updates an identification with the samples of a source.

    Iterate over it: each step yields a sample, its time in seconds and the state after it. What
    is skipped and what happens besides is reported; `smcpn.io.axis` has the rule of what is new.
    The source is read in a thread of its own.

    Parameters
    ----------
    live : Online
    source : Source
    report : callable
        Called with every `Event`, in the order of the samples.
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
        report: Report,
        *,
        stop: Stop | None = None,
        idle: Callable[[], None] | None = None,
        ahead: int = AHEAD,
    ) -> None:
        self._live, self._axis, self._source, self._report = live, live.axis, source, report
        self._stop = Stop() if stop is None else stop
        self._idle, self._ahead = idle, ahead
        self._counted_on = self._resume_source()
        self._clock = Clock(self._axis, self._counted_on)
        self._dated = False
        self._skipped: _Skipped | None = None
        self._many = MANY_SKIPPED
        self._doubtful: list[tuple[Sample, float]] = []
        self._flagged: tuple[Sample, float] | None = None
        self.waiting = 0
        self.ended = False

    def __iter__(self) -> Iterator[Step]:
        reader = Reader(self._source, self._ahead)
        try:
            while not self._stop.requested:
                try:
                    item = reader.take()
                except EOFError:
                    self.ended = True
                    break
                self.waiting = reader.waiting
                if item is not None:
                    yield from self._take(item)
                elif self._idle is not None:
                    self._idle()
            # A source that replays has the line again when the stream goes on.
            if self.ended or not self._source.replays:
                yield from self._take_flagged()
            if self.ended:
                self._report(Event("end", f"{self._source.name} has ended"))
        finally:
            reader.close()
            self._report_skipped()
            self._refuse_doubtful("no sample follows it")

    def _resume_source(self) -> float | None:
        """Set the position that a source resumes from; return its next time if known."""
        axis, position = self._axis, self._source.position
        if self._source.replays or not math.isfinite(axis.given):
            return None
        position.t = axis.given if axis.epoch is None else None
        if not axis.regular:
            return None
        position.number = round((axis.given - axis.start) / axis.interval)
        return axis.given + axis.interval

    def _take(self, item: Item) -> Iterator[Step]:
        if isinstance(item, Receipt):
            item.acknowledge()
        elif isinstance(item, Event):
            if item.kind == "bad-line":
                self._clock.bad_line()
            self._report(item)
        else:
            t = self._clock.time_of(item)
            self._report_counted(item, t)
            self._report_epoch(item)
            if item.is_dose and self._axis.intervals_to(t) > DOUBTFUL_GAP:
                self._refuse(item, t, "states a dose alone")
            elif item.is_dose:
                self._live.give(self._doses(item, t))
            else:
                yield from self._take_flagged(t)
                if item.flagged and item.timed and self._axis.status(t) == "new":
                    self._flagged = item, t
                else:
                    yield from self._place(item, t)

    def _take_flagged(self, t: float | None = None) -> Iterator[Step]:
        """Update with a line on which nothing was measured, unless a sample has its time."""
        waiting, self._flagged = self._flagged, None
        if waiting is not None and t is not None and self._axis.same(waiting[1], t):
            self._live.give(self._doses(*waiting))
        elif waiting is not None:
            yield from self._place(*waiting)

    def _place(self, sample: Sample, t: float) -> Iterator[Step]:
        """Update with a sample, unless its time is doubtful: then those that follow decide."""
        if self._axis.status(t) == "new":
            self._report_skipped()
            self._many = MANY_SKIPPED
            yield from self._decide(t)
            if self._axis.intervals_to(t) > DOUBTFUL_GAP:
                self._doubtful.append((sample, t))
                return
        yield from self._update(sample, t)

    def _decide(self, t: float) -> Iterator[Step]:
        """Update with the doubtful sample that a time follows, and refuse the others.

        A clock that is set forward and a wrong time may come one after the other: the sample after
        both is near to one of them. Of three that are far from each other, and later and later,
        all are believed: the stream is sparse.
        """
        ahead = self._axis.intervals_to(t)
        gaps = [ahead - self._axis.intervals_to(other) for _, other in self._doubtful]
        followed = [k for k, gap in enumerate(gaps) if 0.0 < gap <= DOUBTFUL_GAP]
        if followed:
            believed = [self._doubtful.pop(followed[0])]
        elif len(gaps) == MOST_DOUBTFUL and gaps[0] > gaps[1] > 0.0:
            believed, self._doubtful = self._doubtful, []
        else:
            believed = []
        if followed or ahead <= DOUBTFUL_GAP:
            self._refuse_doubtful(f"the next sample is at t = {t:g}")
        elif len(self._doubtful) == MOST_DOUBTFUL:
            self._refuse(*self._doubtful.pop(0), f"the next sample is at t = {t:g}")
        for one in believed:
            yield from self._update(*one)

    def _update(self, sample: Sample, t: float) -> Iterator[Step]:
        self._begin_at_dose(sample, t)
        before = self._axis.given
        more: dict[str, Any] = dict(sample.beside)
        if sample.doses and self._axis.status(t) == "new":
            more["doses"] = self._doses(sample, t)
        state = self._live.update(sample.u, sample.y, t, **more)
        if state.status in ("duplicate", "late"):
            self._skip(state.status, sample, t)
            return
        if state.missing and self._axis.regular:
            message = (
                f"{_samples(state.missing)} missing between t = {before:g} and {t:g}; their input "
                "is that of the hold"
            )
            self._report(Event("gap", message, sample.line, t, state.missing))
        yield sample, t, state

    def _begin_at_dose(self, sample: Sample, t: float) -> None:
        """Begin with a dose that lines gave before the first sample, as a file of them does."""
        first = min((one.time for one in self._live.doses), default=t)
        if first < t and not (len(sample.u) or self._axis.grid or math.isfinite(self._axis.given)):
            self._live.update(None, None, first)

    def _doses(self, sample: Sample, t: float) -> list[Dose]:
        """Doses of a line, without those before the last sample, which are reported."""
        doses = [one.at(t) for one in sample.doses]
        late = [one for one in doses if one.time < self._axis.last]
        if any(one not in self._live.doses for one in late):
            message = (
                f"a dose at t = {late[0].time:g} came after the sample at t = {self._axis.last:g} "
                "and is left out: send doses before the samples that follow them"
            )
            self._report(Event("late-dose", message, sample.line, late[0].time, len(late)))
        return [one for one in doses if one not in late]

    def _skip(self, kind: str, sample: Sample, t: float) -> None:
        if self._skipped is not None and self._skipped.kind == kind:
            self._skipped.count += 1
            self._skipped.last = t
            if self._skipped.count == self._many:
                self._many *= 10
                self._report_skipped("; was the clock of the source set back?")
            return
        self._report_skipped()
        self._skipped = _Skipped(kind, sample.line, t, t)

    def _report_skipped(self, remark: str = "") -> None:
        if self._skipped is not None:
            self._report(self._skipped.event(remark))
            self._skipped = None

    def _refuse_doubtful(self, why: str) -> None:
        doubtful, self._doubtful = self._doubtful, []
        for sample, t in doubtful:
            self._refuse(sample, t, why)

    def _refuse(self, sample: Sample, t: float, why: str) -> None:
        gap = self._axis.intervals_to(t)
        message = f"t = {t:g} jumps ahead by {gap:.0f} intervals and {why}, skipped"
        self._report(Event("bad-time", message, sample.line, t))

    def _report_epoch(self, sample: Sample) -> None:
        """Report once of which date times are counted."""
        first = self._axis.epoch
        if self._dated or sample.moment is None or first is None:
            return
        self._dated = True
        message = f"t = 0 is {first.isoformat(sep=' ')}"
        if first.date() == DAY:
            message = (
                f"t = 0 is {first.time()} in hours, minutes and seconds; samples after midnight "
                "count as late without dates"
            )
        self._report(Event("format", message, sample.line, 0.0))

    def _report_counted(self, sample: Sample, t: float) -> None:
        """Report once that a resumed source without times is assumed to continue where it was."""
        if self._counted_on is not None and not sample.timed:
            message = f"the lines state no time: counted on from t = {t:g}"
            self._report(Event("untimed", message, sample.line, t))
        self._counted_on = None


def _samples(count: int) -> str:
    return "1 sample" if count == 1 else f"{count} samples"


class Checkpoints:
    """Writes the checkpoint of a stream at intervals of time.

    Without a path nothing is written; ``every`` are the seconds between two of them, and ``report``
    is called with every `Event`.
    """

    def __init__(self, path: str | None, every: float, report: Report) -> None:
        self._path, self._every, self._report = path, every, report
        self._last, self._saved = time.monotonic(), (None, ())

    def save_if_due(self, live: Any) -> None:
        """Write the checkpoint if the last one is at least ``every`` seconds old."""
        if self._path is not None and time.monotonic() - self._last >= self._every:
            self.save(live)

    def save(self, live: Any) -> None:
        """Write the checkpoint if there is a new sample; a failure is reported as an event."""
        known = live.t, live.doses
        if self._path is None or known == self._saved:
            return
        try:
            live.save(self._path)
            self._saved = known
        except (OSError, InputError) as error:
            self._report(Event("checkpoint", str(error)))
        self._last = time.monotonic()


@dataclass
class StreamRun:
    """A stream with its output, checkpoints and view: what ``smcpn stream`` runs.

    report: Called with every `Event`.
    limit: Samples after which it ends.
    probabilities: Quantiles in the output.
    """

    live: Any
    samples: Stream
    sink: JsonSink
    checkpoints: Checkpoints
    stop: Stop
    report: Report
    observers: Sequence[Observer] = ()
    limit: int | None = None
    probabilities: tuple[float, ...] = PROBABILITIES
    assimilated: int = field(default=0, init=False)
    _degraded: bool = field(default=False, init=False)

    def run(self) -> int:
        """Run to the end, and return the exit code."""
        try:
            try:
                for sample, t, state in self.samples:
                    self._deliver(sample, t, state)
                    self.checkpoints.save_if_due(self.live)
            finally:
                # Before `finish`, after which a resumed run would not go on to the same bytes.
                self.checkpoints.save(self.live)
            if self.samples.ended and self.live.sample:
                self._finish()
        except OutputClosedError:
            return PIPE_CLOSED
        return self.stop.exit_code

    def _deliver(self, sample: Sample, t: float, state: Any) -> None:
        self.assimilated += 1
        if self.limit is not None and self.assimilated >= self.limit:
            self.stop.request()
        self._report_state(sample, t, state)
        for observer in self.observers:
            observer.sample(sample, t, state, self.samples.waiting)
        self.sink.write(state_fields(t, state, self.probabilities))

    def _finish(self) -> None:
        """Report the posterior once nothing is under way and no later input is waited for."""
        self.stop.at_once = True
        state = self.live.finish()
        each = [f"{name} {mean:.4g} +- {state.sd[name]:.2g}" for name, mean in state.mean.items()]
        fields = state_fields(state.t, state, self.probabilities)
        message = f"{_samples(state.sample)}, {listed(each)}"
        self.report(Event("final", message, t=state.t, count=state.sample, state=fields))

    def _report_state(self, sample: Sample, t: float, state: Any) -> None:
        """Report an alarm, and a loss of accuracy where it begins."""
        if state.alarm is not None:
            message = f"the system has changed at about t = {state.alarm.since:g}"
            self.report(Event("alarm", message, sample.line, t))
        if state.degraded and not self._degraded:
            message = (
                f"means and deviations are rough from t = {t:g} until the particles are moved, "
                f"which are worth {state.ess:.0f} independent draws"
            )
            self.report(Event("degraded", message, sample.line, t))
        self._degraded = bool(state.degraded)
