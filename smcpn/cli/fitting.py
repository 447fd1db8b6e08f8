"""Fit a case, score it on its tests, and print the result: ``smcpn fit`` at work."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smcpn.base.tables import fact_lines, table_text
from smcpn.cli.cases import Case
from smcpn.cli.options import settings_of
from smcpn.cli.outcome import peak_memory_mb, robust_figures, simulated
from smcpn.codegen.clock import CLOCK
from smcpn.estimate.laplace import laplace
from smcpn.results.laplace import Laplace
from smcpn.results.posterior import Posterior, Robust
from smcpn.results.scores import (
    Score,
    score_note,
    score_table,
    scores_of,
    with_tests,
)
from smcpn.results.simulation.simulation import Simulation
from smcpn.results.validation import Verdict

DRAWS = 1000
"""Draws from the approximation that are scored on the tests, as many as `identify` has."""


@dataclass(frozen=True)
class Fit:
    """A case study, fitted: what is printed, and what a report draws.

    The posterior is that of the draws which are scored: the mode alone where there is no Gaussian,
    None where there is no mode.
    """

    case: Case
    laplace: Laplace
    posterior: Posterior | None
    simulations: Mapping[str, Simulation]
    seed: int
    wall_s: float
    compile_s: float
    robust: Robust | None = None

    @property
    def scores(self) -> dict[str, Score]:
        """Scores of the tests by name."""
        return scores_of(self.simulations, self.case.problem.observe)

    @property
    def verdict(self) -> Verdict:
        """That of the approximation, which knows of the scores."""
        return with_tests(self.laplace.verdict, self.scores)


def fitted(
    case: Case, options: Mapping[str, Any], starts: int | None, search: str, robust: bool
) -> Fit:
    """Fit a case, and score what is found on its tests."""
    settings = settings_of(case, **options)
    chosen: int = settings.given["seed"]
    began, compiled = time.perf_counter(), CLOCK.compile_seconds
    found = laplace(
        case.problem,
        settings.likelihood,
        solver=settings.solver,
        starts=starts,
        search=search,
        seed=chosen,
        executor=settings.given.get("executor"),
    )
    scored = _scored(found, chosen)
    counted = scored.robust() if robust and scored is not None and found.success else None
    simulations = {} if scored is None else simulated(case, scored, counted)
    compiling = CLOCK.compile_seconds - compiled
    wall = time.perf_counter() - began - compiling
    return Fit(case, found, scored, simulations, chosen, wall, compiling, counted)


def _scored(found: Laplace, seed: int) -> Posterior | None:
    """Draws to score, see `Fit`."""
    if found.success:
        return found.to_posterior(DRAWS, seed)
    return found.maximum.to_posterior() if found.maximum.found else None


def as_dict(outcome: Fit) -> dict[str, Any]:
    """Return the fields that ``--json`` prints."""
    found, maximum = outcome.laplace, outcome.laplace.maximum
    return {
        "system": outcome.case.name,
        "split": outcome.case.split,
        "seed": outcome.seed,
        "starts": len(maximum.starts),
        "agreeing": maximum.agreeing,
        "ends": list(maximum.ends),
        "evaluations": maximum.evaluations,
        "likelihood": found.likelihood,
        "steps": found.solver.steps,
        "wall_s": outcome.wall_s,
        "search_s": maximum.seconds,
        "compile_s": outcome.compile_s,
        "peak_memory_mb": peak_memory_mb(),
        "success": found.success and maximum.success,
        "reason": found.reason or maximum.reason,
        "log_density": maximum.log_density,
        "log_likelihood": maximum.log_likelihood,
        "log_evidence": found.log_evidence,
        "gaussian": None if found.check is None else found.check.document(),
        "warnings": list(found.warnings),
        "verdict": outcome.verdict.document(),
        "parameters": {
            row.name: {"mode": maximum[row.name], "mean": row.mean, "sd": row.sd}
            for row in found.table()
        },
        **({} if outcome.robust is None else {"robust": robust_figures(outcome.robust)}),
        "scores": {split: vars(score) for split, score in outcome.scores.items()},
    }


def as_text(outcome: Fit) -> str:
    """Return the tables that are printed for a person."""
    case = outcome.case
    lines = [
        f"{case.title}: {outcome.laplace.problem.n_given} samples ({case.note})",
        "",
        *outcome.laplace.summary_lines(),
        *([] if outcome.robust is None else ["", outcome.robust.summary(), ""]),
        *fact_lines(
            [("with scoring", f"{outcome.wall_s:.2f} s, compilation {outcome.compile_s:.2f} s")]
        ),
    ]
    if outcome.scores:
        lines += ["", table_text(score_table(outcome.scores, case.published))]
        lines += score_note(outcome.scores, DRAWS if outcome.laplace.success else 1)
    return "\n".join([*lines, "", *outcome.verdict.lines])
