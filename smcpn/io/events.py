"""Events of a stream: bad lines, gaps, lost connections, alarms; and the log that writes them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, TextIO

from smcpn.errors import visible

KINDS = {
    "settings": "settings of the configuration that do not apply to a stream",
    "format": "how lines are written, where it was guessed, and the date of time zero",
    "units": "units in a header that the problem knows nothing of: values are taken as they are",
    "bad-line": "a line that is no sample, skipped",
    "bad-time": "a sample far ahead in time that no later one confirms, skipped",
    "duplicate": "samples that were assimilated before, skipped",
    "late": "samples older than one assimilated before, skipped: their information is lost",
    "late-dose": "a dose given before the last sample, and new, left out",
    "doses": "doses in a column that nothing reads",
    "gap": "more than one and a half sampling intervals without a sample",
    "untimed": "lines without time or sequence number: what is doubled or lost is not recognised",
    "connected": "a connection was made",
    "disconnected": "a connection was lost or refused; it is tried again",
    "restarted": "a followed file was cut short or replaced",
    "alarm": "the innovations say that the system has changed",
    "degraded": "the identification is behind, or gave up part of its work",
    "checkpoint": "a checkpoint was read or written",
    "events": "the file of events can no longer be written",
    "end": "the source has ended",
    "final": "the posterior of all samples, once rejuvenations under way are done",
}
"""Every kind of event with its meaning."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a stream, to report.

    kind: A key of `KINDS`.
    message: One sentence for a person.
    line: Line of the source.
    t: Time of the sample, seconds.
    count: Samples or lines that it covers.
    state: What a line of the output has, of the posterior in the end.
    """

    kind: str
    message: str
    line: int | None = None
    t: float | None = None
    count: int = 1
    state: dict[str, Any] | None = None

    def __str__(self) -> str:
        line = "" if self.line is None else f" {self.line}"
        return f"{self.kind}{line}: {self.message}"


Report = Callable[[Event], None]


class EventLog:
    """Write events, one line each.

    They are JSON objects with the wall-clock time in ``at``, or sentences.
    """

    def __init__(self, file: TextIO, as_json: bool) -> None:
        self._file, self._json = file, as_json

    def __call__(self, event: Event) -> None:
        """Write one event; where that fails the identification goes on."""
        try:
            print(self._text(event), file=self._file, flush=True)
        except (OSError, ValueError) as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        to_file = self._file is not sys.stderr
        self.close()
        self._file, self._json = sys.stderr if to_file else open_nowhere(), False
        if to_file:
            self(Event("events", f"no longer written to the file: {error}"))

    def _text(self, event: Event) -> str:
        if not self._json:
            return f"smcpn: {visible(str(event))}"
        fields = {key: value for key, value in asdict(event).items() if value is not None}
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        return json.dumps({"event": fields.pop("kind"), "at": at, **fields})

    def close(self) -> None:
        """Close the file, unless it is a standard stream."""
        if self._file is not sys.stderr:
            # The failure of the write that left something was reported then.
            with suppress(OSError):
                self._file.close()


def open_nowhere() -> TextIO:
    """Return a file that keeps nothing."""
    return open(os.devnull, "w", encoding="utf-8")
