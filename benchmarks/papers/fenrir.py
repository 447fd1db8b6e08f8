"""The experiments of the Fenrir paper, ours against the published numbers.

``--figures FOLDER`` draws them as well
(``docs/figures`` for the documentation). ``--quick`` takes few runs and a solver of order 2: it
shows that everything runs: medians of a hundred records are no target for two of them.

Source: Tronarp, Bosch and Hennig, *Fenrir: Physics-Enhanced Regression for Initial Value Problems*
(ICML 2022).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.executors import local, option
from benchmarks.papers.fenrir_fits import Plan, compile_all
from benchmarks.papers.fenrir_inference import NAMES, inference
from benchmarks.papers.fenrir_outcome import Outcome
from benchmarks.papers.fenrir_pendulum import pendulum
from benchmarks.papers.fenrir_published import SELECTION
from benchmarks.papers.fenrir_seir import seir
from benchmarks.papers.fenrir_selection import selection
from benchmarks.rows import Row, command, unjudged
from benchmarks.solver_figures import save

EXPERIMENTS: dict[str, Callable[[Plan], Outcome]] = {
    "inference": inference,
    "selection": selection,
    "seir": seir,
    "pendulum": pendulum,
}
SETTINGS_OF = {
    "inference": NAMES[::2],  # both noises share a kernel
    "selection": tuple(SELECTION),
    "seir": ("seir",),
    "pendulum": ("pendulum",),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "runs": {"type": int, "help": "records of each setting, 100 by default"},
    "order": {"type": int, "help": "of the solver, 3 by default; the paper has 5"},
    "figures": {"type": Path, "metavar": "FOLDER", "help": "draw the figures there"},
}
FEW = "few records, and a solver of order 2"
QUICK = Plan(runs=2, order=2, lengths=21)


def main(arguments: list[str] | None = None) -> int:
    """Run the experiments asked for, print their rows, and draw where a folder is given."""
    outcomes: list[Outcome] = []

    def rows(name: str, quick: bool) -> list[Row]:
        plan = _plan(quick, arguments)
        compile_all(SETTINGS_OF[name], plan.order)
        outcomes.append(EXPERIMENTS[name](plan))
        rows = outcomes[-1].rows
        if not quick:
            return rows
        return [
            unjudged(row, FEW) if "median" in row.name or "outliers" in row.name else row
            for row in rows
        ]

    def draw(options: argparse.Namespace) -> None:
        for outcome in outcomes if options.figures else ():
            for figure, make in outcome.figures.items():
                save(make(), options.figures, figure)

    studies = {name: partial(rows, name) for name in EXPERIMENTS}
    return command(__doc__, studies, arguments, draw, executor=option(local()), **OPTIONS)


def _plan(quick: bool, arguments: list[str] | None) -> Plan:
    parser = argparse.ArgumentParser(add_help=False)
    for name in ("runs", "order"):
        parser.add_argument(f"--{name}", **OPTIONS[name])
    given, _ = parser.parse_known_args(arguments)
    plan = QUICK if quick else Plan()
    return replace(plan, runs=given.runs or plan.runs, order=given.order or plan.order)


if __name__ == "__main__":
    sys.exit(main())
