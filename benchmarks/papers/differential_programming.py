"""The differential programming paper's experiments and its sequel's, ours against the published.

``--figures FOLDER`` draws the forecasts as well (``docs/figures`` for the documentation).
``--quick`` leaves out least squares on pairs and the slower half of the experiments.

Sources: Yang, Bhouri and Perdikaris, *Bayesian differential programming for robust systems
identification under uncertainty* (2020); Bhouri and Perdikaris, *Gaussian processes meet
NeuralODEs* (2022).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from benchmarks.papers.differential_programming_studies import (
    FORECAST_TITLES,
    equations,
    glycolysis,
    sequel_glycolysis,
    sequel_lotka_volterra,
)
from benchmarks.papers.fenrir_outcome import Outcome
from benchmarks.rows import Row, command
from benchmarks.solver_figures import save

STUDIES: dict[str, Callable[[bool], Outcome]] = {
    "spiral": partial(equations, ("spiral, dense", "spiral, sparse", "spiral, noisy")),
    **{name: partial(equations, (name,)) for name in FORECAST_TITLES if "spiral" not in name},
    "glycolysis": glycolysis,
    "sequel-lotka-volterra": sequel_lotka_volterra,
    "sequel-glycolysis": sequel_glycolysis,
}
QUICK = ("spiral", "lotka-volterra", "sequel-lotka-volterra")


def main(arguments: list[str] | None = None) -> int:
    """Run the studies, print their rows, and draw their figures where a folder is given."""
    outcomes: list[Outcome] = []

    def rows(name: str, quick: bool) -> Iterable[Row]:
        outcomes.append(STUDIES[name](quick))
        return outcomes[-1].rows

    def draw(options: argparse.Namespace) -> None:
        for outcome in outcomes if options.figures else ():
            for ending, make in outcome.figures.items():
                save(make(), options.figures, f"differential_programming_{ending}")

    given = sys.argv[1:] if arguments is None else arguments
    if "--quick" in given and not set(given) & set(STUDIES):
        given = [*given, *QUICK]
    folder = {"type": Path, "metavar": "FOLDER", "help": "draw the figures there"}
    studies = {name: partial(rows, name) for name in STUDIES}
    return command(__doc__, studies, given, draw, figures=folder)


if __name__ == "__main__":
    sys.exit(main())
