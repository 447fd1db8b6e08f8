"""The progress line: who sees it, and what it says of the time that is left."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from smcpn.run.progress import ProgressLine, display, progress_line
from smcpn.smc.rejuvenation import Cost
from smcpn.smc.sampler import Progress

NO_COST = Cost(0, 0, 0, 0.0)


def at(sample: int) -> Progress:
    return Progress(
        sample=sample, n_samples=1000, ess=900.0, log_evidence=-1.0, rejuvenations=(),
        cost=NO_COST,
    )  # fmt: skip


@pytest.fixture
def timed():
    """Return a function that shows a sample at a time, and returns the seconds that are left."""
    clock = [0.0]
    shown = display(Console(file=io.StringIO()))
    shown.get_time = lambda: clock[0]
    line = ProgressLine(shown)

    def show(sample: int, now: float) -> float | None:
        clock[0] = now
        line.show(at(sample))
        (task,) = shown.tasks
        assert task.get_time() == now
        return task.time_remaining

    return show


def test_a_run_from_the_beginning_goes_on_at_its_pace(timed):
    assert timed(0, 11.0) is None
    timed(125, 13.0)
    assert timed(250, 15.0) == pytest.approx(12.0)
    assert timed(1000, 31.0) == 0.0


def test_after_a_resume_only_what_was_done_since_counts(timed):
    assert timed(800, 11.0) is None
    timed(850, 13.0)
    # 50 samples in 2 s: the 100 left take 4 s.
    assert timed(900, 15.0) == pytest.approx(4.0)


def test_a_population_that_begins_again_is_timed_anew(timed):
    timed(0, 0.0)
    timed(1000, 100.0)
    assert timed(0, 110.0) is None
    timed(250, 112.0)
    assert timed(500, 114.0) == pytest.approx(4.0)


def test_without_a_terminal_only_the_last_line_is_written_and_only_if_it_is_asked_for(capsys):
    for wanted in (None, False):
        with progress_line(wanted) as report:
            assert report is None
    with progress_line(True) as report:
        assert report is not None
        for sample in (0, 500, 1000):
            report(at(sample))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.strip().startswith(
        "1000/1000 effective particles 900  rounds of moves 0  log-evidence"
    )


def test_a_function_is_called_instead():
    told = []
    with progress_line(told.append) as report:
        assert report is not None
        report(at(3))
    assert [progress.sample for progress in told] == [3]
