"""``smcpn fit``: the mode of a case and the Gaussian there, in seconds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from smcpn.cases import Case
from smcpn.cli.identify import peak_memory_mb, robust_figures
from smcpn.cli.options import (
    RUN,
    Counted,
    Hold,
    Json,
    Likelihood,
    Model,
    Order,
    Seed,
    SolverName,
    Split,
    Steps,
    System,
    Verbose,
    check_options,
    parsed_steps,
    settings_of,
)
from smcpn.cli.terminal import say
from smcpn.codegen.kernel import CLOCK
from smcpn.columns import align
from smcpn.config import load_system
from smcpn.estimate.laplace import laplace
from smcpn.io.sink import json_text
from smcpn.results.laplace import Laplace
from smcpn.results.posterior import Posterior
from smcpn.results.robust import Robust
from smcpn.results.scores import Score, score_table, scores_of

DRAWS = 1000
"""Draws from the approximation that are scored on the tests, as many as `identify` has."""


@dataclass(frozen=True)
class Fit:
    """A case study, fitted: what is printed."""

    case: Case
    laplace: Laplace
    scores: dict[str, Score]
    seed: int
    wall_s: float
    compile_s: float
    robust: Robust | None = None


def fit(
    system: System,
    hold: Hold = None,
    model: Model = None,
    split: Split = None,
    starts: Annotated[
        int,
        typer.Option(help="Searches from draws of the prior.", min=1, rich_help_panel=RUN),
    ] = 10,
    seed: Seed = None,
    likelihood: Likelihood = None,
    solver: SolverName = None,
    steps: Steps = None,
    order: Order = None,
    robust: Counted = False,
    as_json: Json = False,
    verbose: Verbose = 0,
) -> None:
    """Find the posterior mode of a system and the Gaussian there, and score it on its tests.

    Example: smcpn fit silverbox --starts 20 --json
    """
    options: dict[str, Any] = {
        "seed": seed,
        "likelihood": likelihood,
        "solver": solver,
        "order": order,
        "steps": parsed_steps(steps),
    }
    check_options(**options)
    case = load_system(system, hold=hold, model=model, split=split)
    settings = settings_of(case, **options)
    chosen: int = settings.given["seed"]
    began, compiled = time.perf_counter(), CLOCK.compile_seconds
    found = laplace(
        case.problem, settings.likelihood, solver=settings.solver, starts=starts, seed=chosen
    )
    scored = _scored(found, chosen)
    counted = scored.robust() if robust and scored is not None and found.success else None
    scores = {} if scored is None else _scores(case, scored, counted)
    compiling = CLOCK.compile_seconds - compiled
    wall = time.perf_counter() - began - compiling
    outcome = Fit(case, found, scores, chosen, wall, compiling, counted)
    say(json_text(_as_dict(outcome)) if as_json else _as_text(outcome))


def _scored(found: Laplace, seed: int) -> Posterior | None:
    """Draws to score; the mode alone where there is no Gaussian, None where there is no mode."""
    if found.success:
        return found.to_posterior(DRAWS, seed)
    return found.maximum.to_posterior() if found.maximum.found else None


def _scores(case: Case, posterior: Posterior, robust: Robust | None) -> dict[str, Score]:
    if robust is None:
        simulations = case.simulations(posterior)
    else:
        posterior = robust.posterior
        simulations = case.simulations(posterior, robust.simulate)
    return scores_of(posterior.weights, simulations, case.problem.observe)


def _as_dict(outcome: Fit) -> dict[str, Any]:
    found, maximum = outcome.laplace, outcome.laplace.maximum
    return {
        "system": outcome.case.name,
        "split": outcome.case.split,
        "seed": outcome.seed,
        "starts": len(maximum.starts),
        "agreeing": maximum.agreeing,
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
        "warnings": list(found.warnings),
        "parameters": {
            row.name: {"mode": maximum[row.name], "mean": row.mean, "sd": row.sd}
            for row in found.table()
        },
        **({} if outcome.robust is None else {"robust": robust_figures(outcome.robust)}),
        "scores": {split: vars(score) for split, score in outcome.scores.items()},
    }


def _as_text(outcome: Fit) -> str:
    case = outcome.case
    lines = [
        f"{case.title}: {outcome.laplace.problem.n_samples} samples ({case.note})",
        "",
        outcome.laplace.summary(),
        *([] if outcome.robust is None else ["", outcome.robust.summary(), ""]),
        f"with scoring     {outcome.wall_s:.2f} s, compilation {outcome.compile_s:.2f} s",
    ]
    if outcome.scores:
        lines += ["", align(score_table(outcome.scores, case.published), left=(0, 1))]
    return "\n".join(lines)
