"""A stream from its first sample to its last: lines out, checkpoints, alarms, the view."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from smcpn.errors import InputError
from smcpn.io.events import Event, Report
from smcpn.io.parse import Sample
from smcpn.io.sink import PROBABILITIES, JsonSink, OutputClosedError, state_fields
from smcpn.io.stream import Stream
from smcpn.io.watch import Watch
from smcpn.signals import Stop

EVERY_SECONDS = 60.0
"""Time between two checkpoints."""


class Checkpoints:
    """Writes the checkpoint of a stream at intervals of time.

    Parameters
    ----------
    path : str, optional
        File to write; None writes nothing.
    every : float
        Seconds between two of them.
    report : callable
        Called with every `Event`.
    """

    def __init__(self, path: str | None, every: float, report: Report) -> None:
        self._path, self._every, self._report = path, every, report
        self._last, self._saved = time.monotonic(), None

    def save_if_due(self, live: Any) -> None:
        """Write the checkpoint if the last one is at least ``every`` seconds old."""
        if self._path is not None and time.monotonic() - self._last >= self._every:
            self.save(live)

    def save(self, live: Any) -> None:
        """Write the checkpoint if there is a new sample; a failure is reported as an event."""
        if self._path is None or live.t == self._saved:
            return
        try:
            live.save(self._path)
            self._saved = live.t
        except (OSError, InputError) as error:
            self._report(Event("checkpoint", str(error)))
        self._last = time.monotonic()


PIPE_CLOSED = 141
"""Exit code where the reader of standard output has left, as a shell knows it (SIGPIPE)."""


@dataclass
class Run:
    """What a command puts together.

    Attributes
    ----------
    live : Online
    samples : Stream
    sink : JsonSink
    checkpoints : Checkpoints
    stop : Stop
    report : callable
        Called with every `Event`.
    watch : Watch, optional
    limit : int, optional
        Samples after which it ends.
    probabilities : tuple of float
        Quantiles in the output.
    """

    live: Any
    samples: Stream
    sink: JsonSink
    checkpoints: Checkpoints
    stop: Stop
    report: Report
    watch: Watch | None = None
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
                # Before the end is told: what goes on from here is not the end.
                self.checkpoints.save(self.live)
            if self.samples.ended and self.assimilated:
                self._finish()
        except OutputClosedError:
            return PIPE_CLOSED
        return self.stop.exit_code

    def _deliver(self, sample: Sample, t: float, state: Any) -> None:
        self.assimilated += 1
        if self.limit is not None and self.assimilated >= self.limit:
            self.stop.request()
        self._tell(sample, t, state)
        if self.watch is not None:
            self.watch.sample(t, state, self.samples.waiting)
        self.sink.write(state_fields(t, state, self.probabilities))

    def _finish(self) -> None:
        """Tell the posterior once nothing is under way and no later input is waited for."""
        self.stop.at_once = True
        state = self.live.finish()
        self.sink.write({**state_fields(state.t, state, self.probabilities), "final": True})

    def _tell(self, sample: Sample, t: float, state: Any) -> None:
        """Report an alarm, a loss of accuracy where it begins, and a sample that did not count."""
        if state.alarm is not None:
            message = f"the system has changed at about t = {state.alarm.since:g}"
            self.report(Event("alarm", message, sample.line, t))
        if state.degraded and not self._degraded:
            message = f"few particles count at t = {t:g}: {state.ess:.0f} effective ones"
            self.report(Event("degraded", message, sample.line, t))
        self._degraded = bool(state.degraded)
        if state.status in ("duplicate", "late"):
            message = f"t = {t:g} falls on the time of a sample assimilated before, skipped"
            self.report(Event(state.status, message, sample.line, t))
