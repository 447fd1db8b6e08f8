"""ODR-BINDy's three systems over noise and duration, beside the best method of pysindy.

The noise is not told, and is drawn anew for every seed. Of pysindy the method and threshold that
have the most exact supports in a cell are taken: who uses it cannot know them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.discovery import peers
from benchmarks.discovery.answers import Answer, answer
from benchmarks.discovery.lorenz import best_setting, wrong
from benchmarks.discovery.systems import GRIDS
from benchmarks.executors import each
from benchmarks.rows import Row, absent, at_least
from benchmarks.study import study

SHARES = (0.025, 0.05, 0.1, 0.2, 0.4)
DURATIONS = {
    "Lorenz": (4.0, 7.0, 10.0),
    "Roessler": (10.0, 20.0, 30.0),
    "van der Pol": (4.0, 8.0, 12.0),
}
SEEDS, QUICK_SEEDS = 20, 2
QUICK_SHARES = (0.05, 0.2)


class Cell(NamedTuple):
    """A system, its noise as a share of the pooled standard deviation, and its duration."""

    system: str
    share: float
    duration: float

    @property
    def name(self) -> str:
        """As in the names of rows."""
        return f"{self.system} {100 * self.share:g} % T {self.duration:g}"


CELLS = tuple(
    Cell(system, share, duration)
    for system, durations in DURATIONS.items()
    for share in SHARES
    for duration in durations
)


def found(cell: Cell, seed: int) -> Answer:
    """Our answer for one seed."""
    system = GRIDS[cell.system]
    record = system.record(cell.duration, cell.share, seed)
    return answer(record, library=system.library, states=system.states)


def exact_by_peer(cell: Cell, seed: int) -> dict[str, bool]:
    """Whether pysindy has the exact support, by method and threshold."""
    system = GRIDS[cell.system]
    supports = peers.supports(system, system.record(cell.duration, cell.share, seed).y)
    return {setting: names == frozenset(system.truth) for setting, names in supports.items()}


def _both(task: tuple[Cell, int]) -> tuple[Answer, dict[str, bool]]:
    return found(*task), exact_by_peer(*task) if peers.installed else {}


@study("grids")
def grids(quick: bool) -> Iterator[Row]:
    """Every cell; the quick form takes two levels of noise and the shortest records."""
    shortest = {system: durations[0] for system, durations in DURATIONS.items()}
    cells = [
        cell
        for cell in CELLS
        if not quick or (cell.share in QUICK_SHARES and cell.duration == shortest[cell.system])
    ]
    seeds = range(QUICK_SEEDS if quick else SEEDS)
    runs = each(_both, [(cell, seed) for cell in cells for seed in seeds])
    for cell in cells:
        ours, theirs = zip(*(next(runs) for _ in seeds), strict=True)
        yield from rows(cell, ours, theirs)


def rows(cell: Cell, ours: Sequence[Answer], theirs: Sequence[dict[str, bool]]) -> Iterator[Row]:
    """Rows of a cell."""
    truth = frozenset(GRIDS[cell.system].truth)
    exact = float(np.mean([one.best == truth for one in ours]))
    included = float(np.mean([one.included == truth for one in ours]))
    note = f"{len(ours)} seeds; by inclusion > .5: {included:.2f}{wrong(ours, truth)}"
    name = f"{cell.name} exact support"
    if not theirs[0]:
        yield Row(name, exact, note=note)
        yield absent(f"{cell.name} pysindy", "pysindy is not installed")
        return
    setting, share = best_setting(theirs)
    best = f"pysindy's best: {setting}" if share else "pysindy: none exact"
    yield at_least(name, exact, share, f"{best}; {note}")
