"""When a stream writes its checkpoint."""

from __future__ import annotations

import time
from typing import Any

from smcpn.errors import InputError
from smcpn.streaming.events import Event, Report

EVERY_SECONDS = 60.0


class Checkpoints:
    """Save an identification every so often.

    Parameters
    ----------
    path : str, optional
        Where to; None saves nothing.
    every : float
        Seconds between two of them.
    report : callable
        Called with every `Event`.
    """

    def __init__(self, path: str | None, every: float, report: Report) -> None:
        self._path, self._every, self._report = path, every, report
        self._last, self._saved = time.monotonic(), None

    def save_if_due(self, live: Any) -> None:
        """Save where the last time is long enough ago."""
        if self._path is not None and time.monotonic() - self._last >= self._every:
            self.save(live)

    def save(self, live: Any) -> None:
        """Save what is new; where that fails it is reported, and the identification goes on."""
        if self._path is None or live.t == self._saved:
            return
        try:
            live.save(self._path)
            self._saved = live.t
        except (OSError, InputError) as error:
            self._report(Event("checkpoint", str(error)))
        self._last = time.monotonic()
