"""``smcpn identify``: run a case study, score it on its tests, and print what came out."""

from __future__ import annotations

import json
import sys
import time
import warnings
from dataclasses import dataclass, replace
from typing import Any

from smcpn.cases import Case, load_case
from smcpn.codegen.kernel import CLOCK, KernelClock
from smcpn.columns import align
from smcpn.errors import InputError
from smcpn.identification import ibis
from smcpn.likelihood.build import (
    LIKELIHOODS,
    Solver,
    check_likelihood,
    default_solver,
    likelihood_name,
)
from smcpn.posterior import Posterior
from smcpn.simulation.particles import Simulation
from smcpn.smc.diagnostics import SamplerWarning
from smcpn.solver import EKF0, RK4


@dataclass(frozen=True)
class Score:
    """RMSE on a test record, over the particles and of the posterior-mean prediction."""

    rmse_min: float
    rmse_mean: float
    rmse_max: float
    rmse_of_mean: float
    unit: str
    fit: float
    coverage: float

    @classmethod
    def of(cls, posterior: Posterior, simulation: Simulation) -> Score:
        """Score the first output of a simulation."""
        rmse = simulation.rmse[:, 0]
        return cls(
            rmse_min=float(rmse.min()),
            rmse_mean=float(posterior.weights @ rmse),
            rmse_max=float(rmse.max()),
            rmse_of_mean=float(simulation.rmse_of_mean[0]),
            unit=simulation.record.y_unit,
            fit=float(simulation.fit[0]),
            coverage=float(simulation.coverage[0]),
        )


@dataclass(frozen=True)
class Outcome:
    """A case study, run: what is printed."""

    case: Case
    posterior: Posterior
    scores: dict[str, Score]
    wall_s: float
    work: KernelClock


def identify_case(
    name: str,
    *,
    particles: int,
    seed: int,
    steps: str | None,
    order: int | None,
    hold: str | None,
    model: str | None,
    split: str | None,
    as_json: bool,
    report: str | None = None,
    compare: bool = False,
    checkpoint: str | None = None,
    likelihood: str | None = None,
) -> None:
    """Run a case study and print a table, or a JSON object and nothing else.

    Raises
    ------
    InputError
        For an unknown system, options out of range, or missing files.
    """
    _check_report(report, compare)
    begin, before = time.perf_counter(), replace(CLOCK)
    wanted = None if steps is None else parsed_steps(steps)
    # Options are refused before files are looked for.
    EKF0(order=3 if order is None else order, steps="auto" if wanted is None else wanted)
    if likelihood is not None:
        check_likelihood(likelihood)
    case = load_case(name, hold=hold, model=model, split=split)
    solver = case_solver(case, likelihood, order, wanted)
    with warnings.catch_warnings():
        # What is printed says the same, once.
        warnings.simplefilter("ignore", SamplerWarning)
        posterior = ibis(
            case.problem,
            solver=solver,
            likelihood=likelihood,
            particles=particles,
            seed=seed,
            progress=not as_json,
            checkpoint=checkpoint,
        )
    simulations = case.simulations(posterior)
    scores = {test: Score.of(posterior, one) for test, one in simulations.items()}
    work = CLOCK.since(before)
    wall = time.perf_counter() - begin - work.compile_seconds
    outcome = Outcome(case, posterior, scores, wall, work)
    print(json.dumps(as_dict(outcome)) if as_json else as_text(outcome))
    if report is not None:
        written = posterior.report(
            report,
            simulations,
            published=case.published,
            truth=case.truth,
            title=f"{case.name}, {case.split} split",
            likelihoods=tuple(LIKELIHOODS) if compare else (),
        )
        print(f"report: {written}", file=sys.stderr)


def _check_report(report: str | None, compare: bool) -> None:
    """Refuse a report that cannot be written before any work is done for it."""
    if report is not None:
        from smcpn.report.html import check_destination

        check_destination(report)
    elif compare:
        raise InputError("--compare adds a page to the report: give --report FILE too")


def as_dict(outcome: Outcome) -> dict[str, Any]:
    """What ``--json`` prints."""
    posterior = outcome.posterior
    return {
        "system": outcome.case.name,
        "split": outcome.case.split,
        "particles": len(posterior.theta),
        "seed": posterior.seed,
        "likelihood": likelihood_name(posterior.solver, posterior.likelihood),
        "steps": posterior.solver.steps,
        "solver_share": posterior.budget.claimed,
        "step_change": posterior.budget.change,
        "wall_s": outcome.wall_s,
        "identify_s": posterior.timing.wall,
        "kernel_s": outcome.work.run_seconds,
        "compile_s": outcome.work.compile_seconds,
        "peak_memory_mb": peak_memory_mb(),
        "theta_steps": outcome.work.theta_steps,
        "log_evidence": posterior.log_evidence,
        "log_evidence_se": posterior.log_evidence_se,
        "rejuvenations": len(posterior.rejuvenations),
        "acceptance": posterior.acceptance,
        "concerns": list(posterior.concerns),
        "parameters": {
            name: {"mean": posterior.mean[name], "sd": posterior.sd[name]}
            for name in posterior.names
        },
        "scores": {split: vars(score) for split, score in outcome.scores.items()},
    }


def as_text(outcome: Outcome) -> str:
    """What is printed for a person."""
    case, posterior = outcome.case, outcome.posterior
    peak = peak_memory_mb()
    memory = "" if peak is None else f", peak memory {peak:.0f} MB"
    lines = [
        f"{case.name}, {case.split} split: {len(posterior.theta)} particles, "
        f"seed {posterior.seed}, "
        f"{case.problem.n_samples} samples ({case.note})",
        "",
        posterior.summary(),
        f"with scoring     {outcome.wall_s:.2f} s{memory}",
        "",
        score_table(case, outcome.scores),
    ]
    return "\n".join(lines)


def score_table(case: Case, scores: dict[str, Score]) -> str:
    """Scores on the tests of a case, beside the published ones."""
    header = ["RMSE over the particles", "min", "mean", "max", "of the mean", "fit %", "in band %"]
    rows = [header]
    for split, score in scores.items():
        figures = [score.rmse_min, score.rmse_mean, score.rmse_max, score.rmse_of_mean]
        percent = [f"{score.fit:.2f}", f"{100 * score.coverage:.1f}"]
        rows.append([f"{split} ({score.unit})", *(f"{v:.3g}" for v in figures), *percent])
        published = case.published.get(split)
        if published is not None:
            paper = (published.rmse_min, published.rmse_mean, published.rmse_max)
            rows.append(["  PN-SMC paper", *(f"{v:.3g}" for v in paper), "", "", ""])
    return align(rows, left=(0,))


def peak_memory_mb() -> float | None:
    """Largest resident size of this process so far, in megabytes; None on Windows."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


def case_solver(
    case: Case, likelihood: str | None, order: int | None, steps: int | str | None
) -> Solver:
    """The case's solver, or the one that goes with a likelihood, with the options in place."""
    solver = default_solver(case.problem, likelihood)
    if isinstance(solver, RK4):
        if order is not None:
            raise InputError(
                f"--order is {order}: the classical likelihood integrates by Runge-Kutta, which "
                "has no order to choose; leave it out"
            )
        return replace(solver, steps=case.steps if steps is None else steps)
    if order is None:
        order = case.order if isinstance(solver, EKF0) else solver.order
    return replace(solver, order=order, steps=case.steps if steps is None else steps)


def parsed_steps(text: str) -> int | str:
    """Return the value of ``--steps``.

    Raises
    ------
    InputError
        If it is neither a whole number nor "auto".
    """
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise InputError(f"--steps is '{text}': give a whole number or 'auto'") from None
