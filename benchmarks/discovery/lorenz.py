"""E-SINDy's Lorenz: how often the most probable model is exact, degree 5, the noise not told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.discovery import peers
from benchmarks.discovery.answers import Answer, answer, difference
from benchmarks.discovery.systems import LORENZ
from benchmarks.executors import each
from benchmarks.rows import Row, absent, at_least, at_most
from benchmarks.study import study


class Cell(NamedTuple):
    """Noise as a share of the rms, seconds of record, what is asked, and E-SINDy's best figure.

    That is the best of plain, bagging and library bagging in Fasel et al. (2022), of 1000 seeds.
    """

    share: float
    duration: float
    target: float
    published: float | None

    @property
    def name(self) -> str:
        """As in the names of rows."""
        return f"{100 * self.share:g} % T {self.duration:g}"


CELLS = (
    Cell(0.01, 2.0, 0.98, 0.67),
    Cell(0.01, 4.0, 0.99, 1.0),
    Cell(0.01, 10.0, 0.99, 1.0),
    Cell(0.025, 2.0, 0.95, 0.19),
    Cell(0.025, 4.0, 0.98, 0.86),
    Cell(0.025, 10.0, 0.99, 1.0),
    Cell(0.05, 2.0, 0.85, 0.0),
    Cell(0.05, 4.0, 0.97, 0.37),
    Cell(0.05, 10.0, 0.97, 0.81),
    Cell(0.1, 4.0, 0.85, None),
)
SEEDS, QUICK_SEEDS = 100, 2
SECONDS = {2.0: 2.0, 4.0: 2.0, 10.0: 5.0}
"""Of the processor at most, by the duration of the record."""


def found(cell: Cell, seed: int) -> Answer:
    """Our answer for one seed."""
    record = LORENZ.record(cell.duration, cell.share, seed)
    return answer(record, library=LORENZ.library, states=LORENZ.states)


def exact_by_peer(cell: Cell, seed: int) -> dict[str, bool]:
    """Whether pysindy's ensemble has the exact support, by threshold."""
    record = LORENZ.record(cell.duration, cell.share, seed)
    supports = peers.supports(LORENZ, record.y, ("ensemble",))
    return {setting: names == frozenset(LORENZ.truth) for setting, names in supports.items()}


def _both(task: tuple[Cell, int]) -> tuple[Answer, dict[str, bool]]:
    return found(*task), exact_by_peer(*task) if peers.installed else {}


@study("lorenz")
def lorenz(quick: bool) -> Iterator[Row]:
    """Every cell of the table; the quick form leaves out the long records."""
    cells = [cell for cell in CELLS if not (quick and cell.duration > 4.0)]
    seeds = range(QUICK_SEEDS if quick else SEEDS)
    runs = each(_both, [(cell, seed) for cell in cells for seed in seeds])
    for cell in cells:
        ours, theirs = zip(*(next(runs) for _ in seeds), strict=True)
        yield from rows(cell, ours, theirs)


def rows(cell: Cell, ours: Sequence[Answer], theirs: Sequence[dict[str, bool]]) -> Iterator[Row]:
    """Rows of a cell."""
    truth = frozenset(LORENZ.truth)
    exact = float(np.mean([one.best == truth for one in ours]))
    included = float(np.mean([one.included == truth for one in ours]))
    note = f"{len(ours)} seeds; by inclusion > .5: {included:.2f}"
    if cell.published is not None:
        note += f"; E-SINDy {cell.published:.2f}"
    yield at_least(f"{cell.name} exact support", exact, cell.target, note + wrong(ours, truth))
    seconds = [one.seconds for one in ours]
    note = f"median of the processor; most {max(seconds):.1f}"
    yield at_most(f"{cell.name} s", float(np.median(seconds)), SECONDS[cell.duration], note)
    name = f"{cell.name} pysindy's ensemble"
    if theirs[0]:
        setting, share = best_setting(theirs)
        yield Row(name, share, note=f"same data, best threshold of the cell: {setting}")
    else:
        yield absent(name, "pysindy is not installed")


def best_setting(runs: Sequence[dict[str, bool]]) -> tuple[str, float]:
    """Setting with the largest share of exact supports over all seeds, and that share."""
    shares = {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
    best = max(shares, key=lambda name: shares[name])
    return best, shares[best]


def wrong(answers: Sequence[Answer], truth: frozenset[str]) -> str:
    """The most frequent of the wrong supports by what they have too many and too few."""
    misses = Counter(difference(one.best, truth) for one in answers if one.best != truth)
    if not misses:
        return ""
    second = sum(one.rank(truth) in (2, 3) for one in answers)
    common = ", ".join(f"{text} ({count})" for text, count in misses.most_common(3))
    return f"; wrong: {common}; truth second or third: {second}"
