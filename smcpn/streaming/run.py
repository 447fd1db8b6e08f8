"""A stream from its first sample to its last: lines out, checkpoints, alarms, the view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from smcpn.streaming.checkpointing import Checkpoints
from smcpn.streaming.events import Event, Report
from smcpn.streaming.sink import PROBABILITIES, JsonSink, OutputClosedError, state_fields
from smcpn.streaming.stop import Stop
from smcpn.streaming.stream import Stream
from smcpn.streaming.watch import Watch

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
    absorbed : int
        Samples absorbed so far.
    limit : int, optional
        Samples after which it ends, those before a checkpoint included.
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
    absorbed: int = 0
    limit: int | None = None
    probabilities: tuple[float, ...] = PROBABILITIES
    _alarmed: bool = False
    _degraded: bool = False

    def run(self) -> int:
        """Run to the end, and return the exit code."""
        if self.limit is not None and self.absorbed >= self.limit:
            return 0
        try:
            for _, t, state in self.samples:
                self._deliver(t, state)
                self.checkpoints.save_if_due(self.live)
        except OutputClosedError:
            return PIPE_CLOSED
        finally:
            self.checkpoints.save(self.live)
        return self.stop.exit_code

    def _deliver(self, t: float, state: Any) -> None:
        self.absorbed += 1
        if self.limit is not None and self.absorbed >= self.limit:
            self.stop.request()
        self._tell_alarms(t, state)
        if self.watch is not None:
            self.watch.sample(t, state, self.samples.waiting)
        self.sink.write(state_fields(self.absorbed, t, state, self.probabilities))

    def _tell_alarms(self, t: float, state: Any) -> None:
        """Report an alarm and a loss of accuracy when they begin."""
        alarmed, degraded = bool(state.alarm), bool(state.degraded)
        if alarmed and not self._alarmed:
            message = f"the innovations at t = {t:g} say that the system has changed"
            self.report(Event("alarm", message, t=t))
        if degraded and not self._degraded:
            self.report(Event("degraded", f"behind its budget at t = {t:g}", t=t))
        self._alarmed, self._degraded = alarmed, degraded
