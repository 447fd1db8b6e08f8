"""The Fenrir paper: ``python -m benchmarks.papers.fenrir [--quick] [EXPERIMENT ...]``.

Its four experiments, ours beside the published numbers; ``--figures FOLDER`` draws them as well
(``docs/figures`` for the documentation). ``--quick`` takes few runs and a solver of order 2: it
shows that everything runs, and its figures are not those of the paper.

Source: Tronarp, Bosch and Hennig, *Fenrir: Physics-Enhanced Regression for Initial Value Problems*
(ICML 2022).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.papers.fenrir_fits import Plan, compile_all, workers
from benchmarks.papers.fenrir_inference import NAMES, inference
from benchmarks.papers.fenrir_outcome import Outcome
from benchmarks.papers.fenrir_pendulum import pendulum
from benchmarks.papers.fenrir_published import SELECTION
from benchmarks.papers.fenrir_seir import seir
from benchmarks.papers.fenrir_selection import selection
from benchmarks.solver_figures import save

EXPERIMENTS: dict[str, Callable[[ProcessPoolExecutor, Plan], Outcome]] = {
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
QUICK = Plan(runs=2, order=2, lengths=21)


def main(arguments: list[str] | None = None) -> int:
    """Run the experiments asked for; the exit code does not depend on targets."""
    options = _parser().parse_args(arguments)
    names = options.experiments or list(EXPERIMENTS)
    plan = QUICK if options.quick else Plan()
    plan = replace(plan, runs=options.runs or plan.runs, order=options.order or plan.order)
    outcomes = {}
    with workers() as pool:
        begin = time.perf_counter()
        compile_all(pool, [one for name in names for one in SETTINGS_OF[name]], plan.order)
        print(f"compiling: {time.perf_counter() - begin:.0f} s", file=sys.stderr)
        for name in names:
            begin = time.perf_counter()
            outcomes[name] = EXPERIMENTS[name](pool, plan)
            print(f"{name}: {time.perf_counter() - begin:.0f} s", file=sys.stderr)
            if not options.json:
                print(f"{name}\n{outcomes[name].text()}\n", flush=True)
    if options.json:
        print(json.dumps({n: [asdict(r) for r in o.rows] for n, o in outcomes.items()}, indent=1))
    if options.figures:
        for outcome in outcomes.values():
            for figure, draw in outcome.figures.items():
                save(draw(), options.figures, figure)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.papers.fenrir", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few runs, order 2, fewer starts")
    parser.add_argument("--runs", type=int, help="records of each setting, 100 by default")
    parser.add_argument("--order", type=int, help="of the solver, 3 by default; the paper has 5")
    parser.add_argument("--json", action="store_true", help="print one JSON object of rows")
    parser.add_argument("--figures", type=Path, metavar="FOLDER", help="draw the figures there")
    parser.add_argument("experiments", nargs="*", choices=[*EXPERIMENTS, []], help="all by default")
    return parser


if __name__ == "__main__":
    sys.exit(main())
