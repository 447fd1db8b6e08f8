"""A live view of a stream in the terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from smcpn.base.units import duration
from smcpn.io.channels import Sample
from smcpn.io.events import Event, Report

FRAME_SECONDS = 0.125
"""At most eight frames a second."""
LINE_SECONDS = 10.0
"""Between lines where there is no terminal."""
RECENT = 1024
"""Samples whose latency the view sums up, and events it keeps for a frame."""
HISTORY = 32
_BARS = "▁▂▃▄▅▆▇█"


@dataclass
class Watch:
    """The figures that the view shows, written by the identifying thread.

    t_unit: Unit of time.
    t: Time of the last sample.
    state: After the last sample.
    waiting: Items read ahead.
    latencies: Seconds, of the last `RECENT` samples.
    events: Events of each kind.
    sentences: Events to be printed above the view.
    """

    t_unit: str = "s"
    samples: int = 0
    t: float = 0.0
    state: Any = None
    waiting: int = 0
    latencies: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    events: dict[str, int] = field(default_factory=dict)
    sentences: deque[str] = field(default_factory=lambda: deque(maxlen=RECENT))

    def sample(self, sample: Sample, t: float, state: Any, waiting: int) -> None:
        """Keep the state after a sample."""
        self.samples += 1
        self.t, self.state, self.waiting = t, state, waiting
        self.latencies.append(state.latency)

    @property
    def when(self) -> str:
        """Time of the last sample, with its unit."""
        return f"t = {duration(self.t, self.t_unit)}"

    def event(self, event: Event) -> None:
        """Count an event."""
        self.events[event.kind] = self.events.get(event.kind, 0) + event.count
        self.sentences.append(str(event))


class Frames:
    """Makes the frames of a view from a `Watch`."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._means: dict[str, deque[float]] = {}
        self._before = (time.monotonic(), 0)
        self._rate = 0.0

    def text(self) -> str:
        """Return one line, for a log."""
        self._measure()
        watch, p50, p99 = self._watch, *self._latency()
        if watch.state is None:
            return "no sample yet"
        values = "  ".join(
            f"{name} {mean:.4g} ± {watch.state.sd[name]:.2g}"
            for name, mean in watch.state.mean.items()
        )
        return (
            f"{watch.samples} samples, {watch.when}, {self._rate:.0f}/s  {values}  "
            f"effective particles {watch.state.ess:.0f}  latency {1e3 * p50:.2f} ms, of 99 % at "
            f"most {1e3 * p99:.2f} ms"
        )

    def render(self) -> Any:
        """Return a table for rich."""
        from rich.table import Table
        from rich.text import Text

        self._measure()
        watch = self._watch
        # Text, not str: what a bad line holds is no markup.
        title = Text(self._title())
        table = Table(box=None, pad_edge=False, title_justify="left", title=title)
        if watch.state is None:
            return title
        for heading in ("parameter", "mean", "sd", "history of the mean"):
            table.add_column(heading, justify="right" if heading in ("mean", "sd") else "left")
        for name, mean in watch.state.mean.items():
            history = self._means.setdefault(name, deque(maxlen=HISTORY))
            history.append(float(mean))
            sd = watch.state.sd[name]
            table.add_row(name, f"{mean:.5g}", f"{sd:.2g}", sparkline(list(history)))
        table.caption, table.caption_justify = Text(self._caption()), "left"
        return table

    def _title(self) -> str:
        if self._watch.state is None:
            return "waiting for samples"
        return f"{self._watch.samples} samples, {self._watch.when}, {self._rate:.0f} per second"

    def _caption(self) -> str:
        watch, p50, p99 = self._watch, *self._latency()
        innovation = ", ".join(f"{v:.3g}" for v in np.atleast_1d(watch.state.innovation))
        alarms = self._watch.events.get("alarm", 0)
        alarm = f"   ALARMS {alarms}: the system has changed" if alarms else ""
        events = "  ".join(f"{kind} {count}" for kind, count in sorted(watch.events.items()))
        return (
            f"effective particles {watch.state.ess:.0f}   innovation {innovation} sd   "
            f"latency {1e3 * p50:.2f} ms, of 99 % at most {1e3 * p99:.2f} ms   "
            f"waiting {watch.waiting}{alarm}\n{events}"
        )

    def _measure(self) -> None:
        now, (before, samples) = time.monotonic(), self._before
        if now - before >= 1.0:
            self._rate = (self._watch.samples - samples) / (now - before)
            self._before = (now, self._watch.samples)

    def _latency(self) -> tuple[float, float]:
        recent = list(self._watch.latencies)
        if not recent:
            return np.nan, np.nan
        p50, p99 = np.quantile(recent, [0.5, 0.99])
        return float(p50), float(p99)


def sparkline(values: list[float]) -> str:
    """Draw values as bars between their least and their largest."""
    low, high = min(values), max(values)
    if not high > low:
        return _BARS[0] * len(values)
    scale = (len(_BARS) - 1) / (high - low)
    return "".join(_BARS[round((value - low) * scale)] for value in values)


@contextmanager
def watching(
    wanted: bool, report: Report, printed: bool = True, t_unit: str = "s"
) -> Generator[tuple[Watch | None, Report]]:
    """Yield the `Watch` to store samples in, and the function to report events with.

    On a terminal the view is drawn on standard error by a thread of its own. Elsewhere a line is
    written every ten seconds and at the end.

    ``report`` is where events go otherwise; if it is ``printed`` to standard error, the view prints
    the events in its place. ``t_unit`` is the problem's unit of time.
    """
    if not wanted:
        yield None, report
        return
    watch = Watch(t_unit)
    live = sys.stderr.isatty()

    def count_and_report(event: Event) -> None:
        watch.event(event)
        if not (live and printed):
            report(event)

    done = threading.Event()
    if live:
        show, arguments = _show_live, (watch, done, printed)
    else:
        show, arguments = _show_lines, (watch, done)
    thread = threading.Thread(target=show, args=arguments, name="smcpn-watch", daemon=True)
    thread.start()
    try:
        yield watch, count_and_report
    finally:
        done.set()
        thread.join(timeout=2.0)


def _show_lines(watch: Watch, done: threading.Event) -> None:
    frames = Frames(watch)
    while not done.wait(LINE_SECONDS):
        print(frames.text(), file=sys.stderr, flush=True)
    print(frames.text(), file=sys.stderr, flush=True)


def _show_live(watch: Watch, done: threading.Event, printed: bool) -> None:
    from rich.console import Console
    from rich.live import Live

    frames, console, over = Frames(watch), Console(stderr=True), False
    with Live(console=console, auto_refresh=False) as live:
        while not over:
            over = done.wait(FRAME_SECONDS)
            while watch.sentences:
                sentence = watch.sentences.popleft()
                if printed:
                    # What a bad line holds is no markup.
                    console.print(sentence, markup=False, highlight=False)
            live.update(frames.render(), refresh=True)
