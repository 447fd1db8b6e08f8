"""Exact supports over noise and duration, on two grids of the field, beside pysindy.

E-SINDy's Lorenz, degree 5, and ODR-BINDy's three systems. The noise is not told, and is drawn anew
for every seed. Of pysindy the setting that has the most exact supports in a cell is taken: who uses
it cannot know it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.discovery import peers
from benchmarks.discovery.answers import Answer, answer, wrong
from benchmarks.discovery.systems import GRIDS, LORENZ, System
from benchmarks.executors import each
from benchmarks.rows import Row, absent, at_least, at_most, least_of, reached, unjudged
from benchmarks.study import Study


@dataclass(frozen=True)
class Cell:
    """A system, its noise, and how long it is seen.

    system: Of `GRIDS`; empty for E-SINDy's Lorenz.
    share: Noise as a share of the spread that is the convention of the grid.
    target: Share of exact supports; without one it is pysindy's.
    published: The best of plain, bagging and library bagging in Fasel et al. (2022), of 1000 seeds.
    """

    system: str
    share: float
    duration: float
    target: float | None = None
    published: float | None = None

    @property
    def of(self) -> System:
        """The system."""
        return GRIDS[self.system] if self.system else LORENZ

    @property
    def truth(self) -> frozenset[str]:
        """Names of the coefficients that are not zero."""
        return frozenset(self.of.truth)

    @property
    def name(self) -> str:
        """As in the names of rows."""
        return f"{self.system} {100 * self.share:g} % T {self.duration:g}".strip()


E_SINDY = (
    Cell("", 0.01, 2.0, 0.98, 0.67),
    Cell("", 0.01, 4.0, 0.99, 1.0),
    Cell("", 0.01, 10.0, 0.99, 1.0),
    Cell("", 0.025, 2.0, 0.95, 0.19),
    Cell("", 0.025, 4.0, 0.98, 0.86),
    Cell("", 0.025, 10.0, 0.99, 1.0),
    Cell("", 0.05, 2.0, 0.85, 0.0),
    Cell("", 0.05, 4.0, 0.97, 0.37),
    Cell("", 0.05, 10.0, 0.97, 0.81),
    Cell("", 0.1, 4.0, 0.85, None),
)
SECONDS = {2.0: 2.0, 4.0: 2.0, 10.0: 5.0}
"""Of the processor at most in E-SINDy's grid, by the duration of the record."""
DURATIONS = {
    "Lorenz": (4.0, 7.0, 10.0),
    "Roessler": (10.0, 20.0, 30.0),
    "van der Pol": (4.0, 8.0, 12.0),
}
ODR_BINDY = tuple(
    Cell(system, share, duration)
    for system, durations in DURATIONS.items()
    for share in (0.025, 0.05, 0.1, 0.2, 0.4)
    for duration in durations
)
MOST = 0.95
"""Share of exact supports that few seeds are judged by at most."""
QUICK_CELLS = tuple(E_SINDY[k] for k in (4, 9))


def _found(task: tuple[Cell, int]) -> tuple[Answer, dict[str, bool]]:
    """Answer for a seed, and whether pysindy has the exact support, by method and threshold."""
    (cell, seed), system = task, task[0].of
    record = system.record(cell.duration, cell.share, seed)
    ours = answer(record, library=system.library, states=system.states)
    if not peers.installed:
        return ours, {}
    methods = ("STLSQ", "ensemble", "weak") if cell.target is None else ("ensemble",)
    supports = peers.supports(system, record.y, methods)
    return ours, {setting: names == cell.truth for setting, names in supports.items()}


def cells_of(size: tuple[Sequence[Cell], int]) -> Iterator[Row]:
    """How often the most probable model is exact, cell by cell, by seeds of the noise."""
    cells, count = size
    runs, few = each(_found, [(cell, seed) for cell in cells for seed in range(count)]), count < 20
    exact: list[bool] = []
    aims: list[float] = []
    for cell in cells:
        ours, theirs = zip(*(next(runs) for _ in range(count)), strict=True)
        for row in rows(cell, ours, theirs):
            if few and row.name.endswith("exact support"):
                yield unjudged(row, f"{count} seeds")
            elif few and row.name.endswith(" s"):
                # Beside other work the same takes up to twice as long.
                yield reached(row, 2.5 * SECONDS[cell.duration])
            else:
                yield row
        exact += [one.best == cell.truth for one in ours]
        peer = best_setting(theirs)[1] if theirs[0] else 0.0
        aims += [peer if cell.target is None else cell.target] * count
    if few:
        aim, runs_of_all = min(float(np.mean(aims)), MOST), len(exact)
        least = least_of(aim, runs_of_all, runs_of_all + 1)
        yield at_least(
            "exact supports of all cells", float(np.mean(exact)), least, f"aim {aim:.2f}"
        )


def rows(cell: Cell, ours: Sequence[Answer], theirs: Sequence[dict[str, bool]]) -> Iterator[Row]:
    """Rows of a cell."""
    exact = float(np.mean([one.best == cell.truth for one in ours]))
    included = float(np.mean([one.included == cell.truth for one in ours]))
    note = f"{len(ours)} seeds; by inclusion > .5: {included:.2f}"
    if cell.published is not None:
        note += f"; E-SINDy {cell.published:.2f}"
    note += wrong(ours, cell.truth)
    setting, share = best_setting(theirs) if theirs[0] else ("", None)
    name = f"{cell.name} exact support"
    if cell.target is None and share is not None:
        best = f"pysindy's best: {setting}" if share else "pysindy: none exact"
        yield at_least(name, exact, share, f"{best}; {note}")
        return
    yield (
        Row(name, exact, note=note)
        if cell.target is None
        else at_least(name, exact, cell.target, note)
    )
    if cell.target is not None:
        seconds = [one.seconds for one in ours]
        note = f"median of the processor; most {max(seconds):.1f}"
        yield at_most(f"{cell.name} s", float(np.median(seconds)), SECONDS[cell.duration], note)
    if share is None:
        yield absent(f"{cell.name} pysindy", "pysindy is not installed")
    else:
        note = f"same data, best threshold of the cell: {setting}"
        yield Row(f"{cell.name} pysindy's ensemble", share, note=note)


def best_setting(runs: Sequence[dict[str, bool]]) -> tuple[str, float]:
    """Setting with the largest share of exact supports over all seeds, and that share."""
    shares = {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
    best = max(shares, key=lambda name: shares[name])
    return best, shares[best]


STUDIES = [
    Study("lorenz", cells_of, (E_SINDY, 100), (QUICK_CELLS, 1)),
    Study("grids", cells_of, (ODR_BINDY, 20), None),
]
