"""One line that says how far a run is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from smcpn.smc.sampler import Progress

Report = Callable[[Progress], None]

REFRESH_SECONDS = 0.1


@contextmanager
def progress_line(wanted: bool | Report | None) -> Generator[Report | None]:
    """Yield the function to call with each `Progress`, or None for silence.

    None means: where standard error is a terminal. ``True`` on something else writes the last
    line only, so that a log is not filled.
    """
    if callable(wanted):
        yield wanted
    elif wanted is False or (wanted is None and not sys.stderr.isatty()):
        yield None
    else:
        line = _Line(live=sys.stderr.isatty())
        try:
            yield line.show
        finally:
            line.close()


class _Line:
    def __init__(self, live: bool) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(stderr=True), auto_refresh=False) if live else None
        if self._live is not None:
            self._live.start()
        self._pace = Pace(time.perf_counter())
        self._shown, self._text = 0.0, ""

    def show(self, progress: Progress) -> None:
        now = time.perf_counter()
        remaining = self._pace.remaining(progress, now)
        self._text = progress_text(progress, now - self._pace.begin, remaining)
        if self._live is not None and now - self._shown > REFRESH_SECONDS:
            self._shown = now
            self._live.update(self._text, refresh=True)

    def close(self) -> None:
        if self._live is not None:
            self._live.update(self._text, refresh=True)
            self._live.stop()
        elif self._text:
            print(self._text, file=sys.stderr)


class Pace:
    """How fast a population goes, from what it has done since it was first seen.

    Rejuvenations come at about geometric times, so the whole work up to a sample is about
    proportional to it. What was done before, by the run that this one goes on from, took none of
    the time here.

    Parameters
    ----------
    begin : float
        Seconds.

    Attributes
    ----------
    begin : float
    """

    def __init__(self, begin: float) -> None:
        self.begin = begin
        self._first, self._first_seen = 0, begin
        self._last: int | None = None

    def remaining(self, progress: Progress, now: float) -> float | None:
        """Seconds that the population will take yet; None as long as nothing tells.

        Parameters
        ----------
        progress : Progress
        now : float
            Seconds, on the clock of ``begin``.
        """
        if self._last is None or progress.sample < self._last:
            # A new population begins again, with more steps for instance.
            self._first, self._first_seen = progress.sample, now
        self._last = progress.sample
        left = progress.n_samples - progress.sample
        if left == 0:
            return 0.0
        done = progress.sample - self._first
        return (now - self._first_seen) * left / done if done else None


def progress_text(progress: Progress, seconds: float, remaining: float | None) -> str:
    """Render where a run stands, after so many seconds and with so many to go."""
    last = progress.rejuvenations[-1:]
    moved = f"  accepted {last[0].acceptance:.2f} x {last[0].moves}" if last else ""
    left = "" if remaining is None else f", {remaining:.1f} s left"
    return (
        f"{progress.sample}/{progress.n_samples}  ESS {progress.ess:.0f}"
        f"  rejuvenations {len(progress.rejuvenations)}{moved}"
        f"  log-evidence {progress.log_evidence:.1f}"
        f"  {seconds:.1f} s{left}"
    )
