"""``smcpn fit``: the mode of a case study and the Gaussian there, in seconds."""

from __future__ import annotations

import json as json_module
import time
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from smcpn.cases import CASES, Case, load_case
from smcpn.cli.identify import Score, case_solver, parsed_steps, peak_memory_mb, score_table
from smcpn.codegen.kernel import CLOCK
from smcpn.estimate.laplace import Laplace, laplace
from smcpn.likelihood.build import check_likelihood
from smcpn.posterior import Posterior
from smcpn.solver import EKF0

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


def fit(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(CASES)}.")],
    starts: Annotated[int, typer.Option(help="Searches from draws of the prior.", min=1)] = 10,
    seed: Annotated[int, typer.Option(help="Same seed, same result.")] = 1,
    steps: Annotated[
        str | None, typer.Option(help="Solver steps per sample, or 'auto'.", metavar="N|auto")
    ] = None,
    order: Annotated[
        int | None, typer.Option(help="Order of the solver's prior, 1 to 6.", metavar="1-6")
    ] = None,
    likelihood: Annotated[
        str | None,
        typer.Option(
            help="How data and solver meet.", metavar="marginal|filtering|dalton|fenrir|classical"
        ),
    ] = None,
    hold: Annotated[
        str | None,
        typer.Option(help="Input between samples.", metavar="zoh|foh|bandlimited"),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="A variant of the system, e.g. duffing-offsets.")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="Whose training and test samples.", metavar="paper|official"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
) -> None:
    """Find the posterior mode of a system and the Gaussian there, and score it on its tests.

    Example: smcpn fit silverbox --starts 20 --json
    """
    wanted = None if steps is None else parsed_steps(steps)
    # Options are refused before files are looked for.
    EKF0(order=3 if order is None else order, steps="auto" if wanted is None else wanted)
    if likelihood is not None:
        check_likelihood(likelihood)
    case = load_case(name, hold=hold, model=model, split=split)
    solver = case_solver(case, likelihood, order, wanted)
    began, compiled = time.perf_counter(), CLOCK.compile_seconds
    found = laplace(case.problem, likelihood, solver=solver, starts=starts, seed=seed)
    scores = _scores(case, found, seed)
    compiling = CLOCK.compile_seconds - compiled
    wall = time.perf_counter() - began - compiling
    outcome = Fit(case, found, scores, seed, wall, compiling)
    print(json_module.dumps(_as_dict(outcome)) if json else _as_text(outcome))


def _scores(case: Case, found: Laplace, seed: int) -> dict[str, Score]:
    """Score draws; the mode alone where there is no Gaussian, nothing where there is no mode."""
    posterior: Posterior
    if found.success:
        posterior = found.to_posterior(DRAWS, seed)
    elif found.maximum.found:
        posterior = found.maximum.to_posterior()
    else:
        return {}
    simulations = case.simulations(posterior)
    return {test: Score.of(posterior, one) for test, one in simulations.items()}


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
        "log_density": _number(maximum.log_density),
        "log_likelihood": _number(maximum.log_likelihood),
        "log_evidence": _number(found.log_evidence),
        "concerns": list(found.concerns),
        "parameters": {
            row.name: {
                "mode": _number(maximum[row.name]),
                "mean": _number(row.mean),
                "sd": _number(row.sd),
            }
            for row in found.table()
        },
        "scores": {split: vars(score) for split, score in outcome.scores.items()},
    }


def _number(value: float) -> float | None:
    """JSON has no nan and no infinity."""
    return value if abs(value) < float("inf") else None


def _as_text(outcome: Fit) -> str:
    case = outcome.case
    begun = f"{case.name}, {case.split} split" if case.split else case.name
    lines = [
        f"{begun}: {outcome.laplace.problem.n_samples} samples ({case.note})",
        "",
        outcome.laplace.summary(),
        f"with scoring     {outcome.wall_s:.2f} s, compilation {outcome.compile_s:.2f} s",
    ]
    if outcome.scores:
        lines += ["", score_table(case, outcome.scores)]
    return "\n".join(lines)
