"""Rows of benchmarks: a measured figure, its target, and whether this is met.

A figure of few runs scatters. Its row takes the standard error ``se`` of this size, and the limit
gives way by `ERRORS` of these, as the target then says: what is as good as its target is refused by
chance once in `FALSE_ALARMS`. Shares of few runs give way by `most_of` and `least_of`.

A figure that is known to miss what it aims at is judged by what was reached (`reached`), so that a
quick form is red where something got worse. docs/benchmarks.md tells such misses.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.special import bdtrc, chdtri

from smcpn.base.tables import align

FALSE_ALARMS = 1e-3
"""Chance that a figure of few runs, as good as its target, misses it."""
ERRORS = 3.3
"""Standard errors beyond its target that a figure of few runs may be: a normal one is farther on
either side in one of `FALSE_ALARMS`."""
Value = float | int | bool | str | None


@dataclass(frozen=True)
class Row:
    """A measured figure and its target.

    value: None where nothing was measured.
    target: Empty for a figure without one.
    met: None without a target, and where nothing was measured, as of a peer that is not installed.
    """

    name: str
    value: Value
    target: str = ""
    met: bool | None = None
    note: str = ""


def at_most(name: str, value: float, limit: float, note: str = "", se: float = 0.0) -> Row:
    """Return the row of a figure that should not exceed a limit; nan misses it."""
    met = bool(value <= limit + ERRORS * se)
    return Row(name, value, f"<= {limit:g}{_scatter(se)}", met, note)


def at_least(name: str, value: float, limit: float, note: str = "", se: float = 0.0) -> Row:
    """Return the row of a figure that should reach a limit; nan misses it."""
    met = bool(value >= limit - ERRORS * se)
    return Row(name, value, f">= {limit:g}{_scatter(se)}", met, note)


def between(
    name: str, value: float, low: float, high: float, note: str = "", se: float = 0.0
) -> Row:
    """Return the row of a figure that should lie in an interval."""
    met = bool(low - ERRORS * se <= value <= high + ERRORS * se)
    return Row(name, value, f"{low:g} to {high:g}{_scatter(se)}", met, note)


def equal(name: str, value: Any, expected: Any, note: str = "") -> Row:
    """Return the row of what should be a number, text or truth value exactly."""
    return Row(name, value, str(expected), bool(value == expected), note)


def share_error(share: float, runs: int) -> float:
    """Return the standard error of a share of so many independent runs."""
    return float(np.sqrt(share * (1.0 - share) / runs))


def most_of(share: float, runs: int, full: int) -> float:
    """Return a limit on a share for fewer runs than it is meant for: what chance makes of it."""
    if runs >= full:
        return share
    counts = np.arange(runs + 1)
    return float(np.argmax(bdtrc(counts, runs, share) <= FALSE_ALARMS)) / runs


def least_of(share: float, runs: int, full: int) -> float:
    """Return the same of a share that is to be reached."""
    return 1.0 - most_of(1.0 - share, runs, full)


def rms_of(limit: float, numbers: float, full: float) -> float:
    """Return a limit on the root mean square of fewer standard normal numbers than it is for."""
    if numbers >= full:
        return limit
    return max(limit, float(np.sqrt(chdtri(numbers, FALSE_ALARMS) / numbers)))


def reached(row: Row, limit: float, most: bool = True) -> Row:
    """Return a row that misses its target by a number that is known, judged by that.

    row: With the target that it should have.
    limit: What was reached, with room for the scatter of one run.
    most: Whether the figure should not exceed it; otherwise it should not fall below.
    """
    if row.met:
        return row
    judged = (at_most if most else at_least)(row.name, float(row.value or np.nan), limit)
    missed = f"aim {row.target} is missed: see docs/benchmarks.md"
    return replace(judged, note="; ".join(part for part in (row.note, missed) if part))


def _scatter(se: float) -> str:
    return f" within {ERRORS:g} se of {se:.2g}" if se else ""


def near(name: str, value: float, expected: float, tolerance: float, note: str = "") -> Row:
    """Return the row of a figure with a known answer."""
    met = bool(abs(value - expected) <= tolerance)
    return Row(name, value, f"{expected:.10g} +- {tolerance:g}", met, note)


def unjudged(row: Row, why: str) -> Row:
    """Return a figure without its target, as where a quick form is too small to judge it."""
    note = "; ".join(part for part in (row.note, f"no target: {why}") if part)
    return replace(row, target="", met=None, note=note)


def absent(name: str, why: str) -> Row:
    """Return the row of what could not be measured, such as a peer that is not installed."""
    return Row(name, None, note=why)


def told(figures: Mapping[str, Any], prefix: str = "") -> Iterator[Row]:
    """Yield figures without a target; those in a nested mapping have its name before theirs."""
    for name, value in figures.items():
        if isinstance(value, Mapping):
            yield from told(value, f"{prefix}{name} ")
        else:
            yield Row(f"{prefix}{name}", value)


def exit_code(rows: Iterable[Row], check: bool) -> int:
    """Return 1 if targets are to be met and one is not."""
    return int(check and any(row.met is False for row in rows))


def as_json(rows: Iterable[Row]) -> str:
    """Return ``{"rows": [...]}``; a number that is not finite is null."""
    return json.dumps({"rows": [_plain(row) for row in rows]}, indent=1)


def _plain(row: Row) -> dict[str, Any]:
    plain = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in asdict(row).items()
    }
    value = plain["value"]
    return plain | ({"value": None} if isinstance(value, float) and not np.isfinite(value) else {})


def table(rows: Iterable[Row]) -> str:
    """Return rows as text in columns."""
    lines = [["", "value", "target", "met", ""]]
    for row in rows:
        met = {None: "", True: "yes", False: "NO"}[row.met]
        lines.append([row.name, _text(row.value), row.target, met, row.note])
    return align(lines, left=(0, 2, 3, 4))


def _text(value: Value) -> str:
    if isinstance(value, (float, np.floating)):
        return f"{value:.5g}"
    return "" if value is None else str(value)
