"""One harness for all benchmarks: studies that yield rows, and the command that runs them.

A study is a function of its size that yields rows. It has two sizes: the full one, and that of
``--quick``, whose targets allow for its standard error where so few runs scatter (`at_most` and its
like take it as ``se``). ``--check`` exits 1 where a target is missed, ``--json FILE`` writes
``{"rows": [...]}``, and ``--list`` names the studies.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.clock import processor_seconds
from benchmarks.executors import executing
from benchmarks.rows import Row, absent, as_json, exit_code, table
from smcpn.errors import InputError


@dataclass(frozen=True)
class Picture:
    """A figure of a study, drawn where ``--figures`` names a folder for it."""

    name: str
    draw: Callable[[], Any]


@dataclass(frozen=True)
class Passage:
    """A part of the page that ``--markdown`` writes for the documentation."""

    text: str


Result = Row | Picture | Passage


@dataclass(frozen=True, eq=False)
class Study:
    """A measurement in two sizes.

    results: From a size to rows, pictures and passages.
    full, quick: Sizes, by default whether it has to be quick; ``quick`` is None for a study that is
        left out of the quick form.
    """

    name: str
    results: Callable[[Any], Iterable[Result]]
    full: Any = False
    quick: Any = True

    def __call__(self, size: Any) -> Iterator[Result]:
        """Yield what a size of it measures."""
        yield from self.results(size)

    @property
    def summary(self) -> str:
        """First line of its documentation."""
        return (self.results.__doc__ or "").strip().partition("\n")[0]


def study(
    name: str, *, full: Any = False, quick: Any = True
) -> Callable[[Callable[[Any], Iterable[Result]]], Study]:
    """Return a decorator that makes a study of a function of its size."""
    return lambda results: Study(name, results, full, quick)


def studies_of(*modules: str) -> list[Study]:
    """Return the studies that modules hold, in their order; those of one kind in ``STUDIES``."""
    found = dict[Study, None]()
    for module in map(import_module, modules):
        kept = [one for one in vars(module).values() if isinstance(one, Study)]
        found |= dict.fromkeys([*kept, *getattr(module, "STUDIES", ())])
    return list(found)


def command(module: str, parts: Iterable[str] = (), executor: str | None = None) -> int:
    """Run the studies of a module that is a command, or of the parts of its package.

    module: Its ``__name__``; the first line of its documentation is the help text.
    parts: Modules of the package that hold the studies; by default the command itself does.
    executor: Who runs the cases of `benchmarks.executors.each` by default.
    """
    itself = sys.modules[module]
    names = [f"{itself.__package__}.{part}" for part in parts] or [module]
    return run(itself.__doc__, studies_of(*names), executor=executor)


@dataclass
class Report:
    """What studies have yielded so far."""

    rows: list[Row] = field(default_factory=list[Row])
    pictures: list[Picture] = field(default_factory=list[Picture])
    passages: list[str] = field(default_factory=list[str])

    def add(self, one: Study, quick: bool) -> list[Row]:
        """Run a study and return its rows; an `InputError`, for want of data, ends it in one."""
        found = list[Row]()
        try:
            for result in one(one.quick if quick else one.full):
                if isinstance(result, Picture):
                    self.pictures.append(result)
                elif isinstance(result, Passage):
                    self.passages.append(result.text)
                else:
                    named = f"{one.name}: {result.name}" if result.name else one.name
                    found.append(replace(result, name=named))
        except InputError as error:
            found.append(absent(one.name, f"not run: {error}"))
        self.rows += found
        return found


def run(
    description: str | None,
    studies: Iterable[Study],
    arguments: Sequence[str] | None = None,
    executor: str | None = None,
) -> int:
    """Run the studies that a command line names, all by default, print their rows, and judge them.

    Returns
    -------
    int
        Exit code: 1 with ``--check`` where a target is missed.
    """
    known = {one.name: one for one in studies}
    parser = _parser(description, list(known), executor)
    chosen = parser.parse_args(arguments)
    if chosen.list:
        print("\n".join(f"{one.name}: {one.summary}" for one in known.values()))
        return 0
    report = Report()
    with ExitStack() as stack:
        try:
            stack.enter_context(executing(chosen.executor))
        except InputError as error:
            parser.error(str(error))
        for name in chosen.studies or known:
            if chosen.quick and known[name].quick is None:
                continue
            begin, used = time.perf_counter(), processor_seconds()
            found = report.add(known[name], chosen.quick)
            wall, worked = time.perf_counter() - begin, processor_seconds() - used
            print(f"{name}: {wall:.0f} s, {worked:.1f} s of processor", file=sys.stderr)
            print(table(found), flush=True)
    _write(report, chosen)
    return exit_code(report.rows, chosen.check)


def _parser(
    description: str | None, names: list[str], executor: str | None
) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("studies", nargs="*", choices=[*names, []], help="all by default")
    parser.add_argument("--list", action="store_true", help="name the studies")
    parser.add_argument("--quick", action="store_true", help="less of everything, where possible")
    parser.add_argument("--check", action="store_true", help="exit 1 where a target is missed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there")
    parser.add_argument("--figures", type=Path, metavar="FOLDER", help="draw the figures there")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the page there")
    parser.add_argument(
        "--executor", default=executor, metavar="loky:N|dask:ADDRESS|mpi",
        help=f"who runs independent seeds and records, by default {executor or 'this process'}",
    )  # fmt: skip
    return parser


def _write(report: Report, chosen: argparse.Namespace) -> None:
    if chosen.json:
        chosen.json.write_text(as_json(report.rows))
    if chosen.markdown:
        chosen.markdown.write_text("\n".join(["# Measured\n", *report.passages]))
    for picture in report.pictures if chosen.figures else ():
        from benchmarks.pictures import save

        save(picture.draw(), chosen.figures, picture.name)
