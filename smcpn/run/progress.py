"""Progress of a run as one line on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from smcpn.base.status import Say, in_notebook, is_watched, routed, status
from smcpn.errors import InputError, shown
from smcpn.smc.sampler import Progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Display

Report = Callable[[Progress], None]

REFRESHES_PER_SECOND = 4
SPEED_SECONDS = 1e6
"""Time over which the speed is averaged: all of a run. Rejuvenations come at about geometric times,
so that the whole work up to a sample is about proportional to it, and the latest is not."""


@contextmanager
def progress_line(wanted: bool | Report | None) -> Generator[Report | None]:
    """Yield the function to call with each `Progress`, or None for silence.

    None means: on a terminal and in a notebook. ``True`` on something else writes a line every ten
    seconds and the last one. Searches show theirs in it.
    """
    check_progress(wanted)
    if callable(wanted):
        yield wanted
    elif wanted is False or (wanted is None and not is_watched()):
        with status(False):
            yield None
    elif not sys.stderr.isatty():
        with status(wanted) as say:
            log = Log(say)
            yield log.show
        if not in_notebook():
            print(log.last, file=sys.stderr)
    else:
        # Only where something is shown: the import takes a tenth of a second.
        from rich.console import Console

        with display(Console(stderr=True)) as bar:
            line = ProgressLine(bar)
            with routed(line.say):
                yield line.show


def check_progress(wanted: Any) -> None:
    """Refuse what is no way to show progress."""
    if wanted is not None and not isinstance(wanted, bool) and not callable(wanted):
        raise InputError(
            f"progress is {shown(wanted)}: give True, False, a function of a Progress, or None",
            argument="progress",
        )


def display(console: Console) -> Display:
    """Return a line of `rich`: samples of all, the description, time used and time left."""
    from rich import progress as rich_progress

    return rich_progress.Progress(
        rich_progress.MofNCompleteColumn(),
        rich_progress.TextColumn("{task.description}"),
        rich_progress.TimeElapsedColumn(),
        rich_progress.TextColumn("left"),
        rich_progress.TimeRemainingColumn(),
        console=console,
        auto_refresh=console.is_terminal,
        refresh_per_second=REFRESHES_PER_SECOND,
        speed_estimate_period=SPEED_SECONDS,
    )


class Log:
    """Lines of a run where they do not replace each other, and the last of them.

    ``say`` shows a line now and then.
    """

    def __init__(self, say: Say) -> None:
        self._say, self.last = say, ""

    def show(self, progress: Progress) -> None:
        """Show the progress of the run."""
        self.last = f"{progress.sample}/{progress.n_samples} {description(progress)}"
        self._say(self.last)


class ProgressLine:
    """A line that follows one population after the other."""

    def __init__(self, display: Display) -> None:
        self._display, self._task = display, display.add_task("")
        self._begin = display.tasks[0].start_time
        self._last: int | None = None

    def say(self, text: str) -> None:
        """Show what is done before the first sample."""
        self._display.update(self._task, description=text.replace("[", r"\["))

    def show(self, progress: Progress) -> None:
        """Show the progress of the run."""
        if self._last is None or progress.sample < self._last:
            # The speed is that of what is done here: a run may go on from a checkpoint, and a new
            # population begins again, with more steps for instance.
            self._display.reset(self._task, completed=progress.sample, total=progress.n_samples)
            self._display.tasks[0].start_time = self._begin
        self._last = progress.sample
        self._display.update(
            self._task, completed=progress.sample, description=description(progress)
        )


def description(progress: Progress) -> str:
    """Return the text of the line for a population."""
    last = progress.rejuvenations[-1:]
    moved = f" ({100 * last[0].acceptance:.0f} % accepted)" if last else ""
    return (
        f"effective particles {progress.ess:.0f}  rounds of moves {len(progress.rejuvenations)}"
        f"{moved}  log-evidence {progress.log_evidence:.1f}"
        f"{progress.workers and '  '}{progress.workers}"
    )
