"""The convention of all benchmarks: a command prints rows of name, value, target, met and note.

``--json`` prints ``{"rows": [...]}`` and nothing else on standard output, ``--check`` exits 1 where
a target is missed, ``--quick`` takes less of everything where a study can.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.executors import executing
from smcpn.errors import InputError
from smcpn.tables.text import align

Value = float | int | bool | str | None


@dataclass(frozen=True)
class Row:
    """A measured figure and its target.

    Attributes
    ----------
    name : str
    value : float, int, bool, str or None
        None where nothing was measured.
    target : str
        Empty for a figure without one.
    met : bool or None
        None without a target, and where nothing was measured, as of a peer that is not installed.
    note : str
    """

    name: str
    value: Value
    target: str = ""
    met: bool | None = None
    note: str = ""


Study = Callable[[bool], Iterable[Row]]
"""From whether it has to be quick to its rows."""


def studies_of(package: str, parts: Iterable[str]) -> dict[str, Study]:
    """Return the studies of a package of benchmarks by name, those of ``STUDIES`` in each part."""
    found: dict[str, Study] = {}
    for part in parts:
        found |= import_module(f"benchmarks.{package}.{part}").STUDIES
    return found


def at_most(name: str, value: float, limit: float, note: str = "") -> Row:
    """Return the row of a figure that should not exceed a limit; nan misses it."""
    return Row(name, value, f"<= {limit:g}", bool(value <= limit), note)


def at_least(name: str, value: float, limit: float, note: str = "") -> Row:
    """Return the row of a figure that should reach a limit; nan misses it."""
    return Row(name, value, f">= {limit:g}", bool(value >= limit), note)


def between(name: str, value: float, low: float, high: float, note: str = "") -> Row:
    """Return the row of a figure that should lie in an interval."""
    return Row(name, value, f"{low:g} to {high:g}", bool(low <= value <= high), note)


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


def command(
    description: str | None,
    studies: Mapping[str, Study],
    arguments: Sequence[str] | None = None,
    finish: Callable[[argparse.Namespace], None] | None = None,
    **options: Mapping[str, Any],
) -> int:
    """Run the studies that a command line names, all by default, print their rows, and judge them.

    Parameters
    ----------
    description : str or None
        Its first line is the help text.
    studies : mapping of str to Study
        A study that an `InputError` ends, for want of data, is a row that was not measured.
    arguments : sequence of str, optional
        By default those of the process.
    finish : callable, optional
        Called with all options at the end, to draw figures.
    **options
        Further options by name, with the arguments of `argparse.ArgumentParser.add_argument`;
        ``executor=benchmarks.executors.option()`` runs the cases of `benchmarks.executors.each`.

    Returns
    -------
    int
        Exit code: 1 with ``--check`` where a target is missed.
    """
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="one JSON object and nothing else")
    parser.add_argument("--check", action="store_true", help="exit 1 where a target is missed")
    parser.add_argument("--quick", action="store_true", help="less of everything, where possible")
    for name, settings in options.items():
        parser.add_argument(f"--{name.replace('_', '-')}", **settings)
    parser.add_argument("studies", nargs="*", choices=[*studies, []], help="all by default")
    chosen = parser.parse_args(arguments)
    rows: list[Row] = []
    with ExitStack() as stack:
        try:
            stack.enter_context(executing(getattr(chosen, "executor", None)))
        except InputError as error:
            parser.error(str(error))
        for name in chosen.studies or studies:
            begin = time.perf_counter()
            found = list(_rows_of(name, studies[name], chosen.quick))
            print(f"{name}: {time.perf_counter() - begin:.0f} s", file=sys.stderr)
            if not chosen.json:
                print(table(found), flush=True)
            rows += found
    if chosen.json:
        print(as_json(rows))
    if finish is not None:
        finish(chosen)
    return exit_code(rows, chosen.check)


def _rows_of(name: str, study: Study, quick: bool) -> Iterator[Row]:
    try:
        for row in study(quick):
            yield replace(row, name=f"{name}: {row.name}" if len(row.name) else name)
    except InputError as error:
        yield absent(name, f"not run: {error}")


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
