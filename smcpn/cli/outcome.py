"""Run a case, score it on its tests, and print the result: ``smcpn identify`` at work."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import smcpn
from smcpn.base.tables import fact_lines, table_text
from smcpn.cli.cases import Case
from smcpn.cli.options import settings_of
from smcpn.codegen.clock import CLOCK, KernelClock
from smcpn.likelihood.registry import LIKELIHOODS
from smcpn.results.posterior import Posterior, Robust
from smcpn.results.scores import (
    Score,
    particles_scored,
    score_note,
    score_table,
    scores_of,
    with_tests,
)
from smcpn.results.simulation.simulation import Simulation
from smcpn.results.validation import Verdict
from smcpn.smc.replicates import SamplerWarning


@dataclass(frozen=True)
class Outcome:
    """A case, run: what is printed."""

    case: Case
    posterior: Posterior
    simulations: Mapping[str, Simulation]
    scores: dict[str, Score]
    wall_s: float
    work: KernelClock
    robust: Robust | None = None

    @property
    def verdict(self) -> Verdict:
        """That of the posterior, which knows of the scores."""
        return with_tests(self.posterior.verdict, self.scores)


def identified(
    case: Case,
    options: Mapping[str, Any],
    begin: float,
    before: KernelClock,
    progress: bool,
    robust: bool,
) -> Outcome:
    """Run a case, and score the posterior on its tests."""
    settings = settings_of(case, **options)
    with warnings.catch_warnings():
        # The printed summary has the warnings.
        warnings.simplefilter("ignore", SamplerWarning)
        posterior = smcpn.identify(case.problem, progress=progress, **settings.given)
    counted = posterior.robust() if robust else None
    simulations = simulated(case, posterior, counted)
    scores = scores_of(simulations, case.problem.observe)
    work = CLOCK.since(before)
    wall = time.perf_counter() - begin - work.compile_seconds
    return Outcome(case, posterior, simulations, scores, wall, work, counted)


def simulated(case: Case, posterior: Posterior, robust: Robust | None) -> dict[str, Simulation]:
    """Simulate the tests of a case with draws, or with those of a robust posterior."""
    scored = posterior if robust is None else robust.posterior
    simulate = None if robust is None else robust.simulate
    return case.simulations(scored, simulate, particles_scored(scored, case.tests.values()))


def written(
    outcome: Outcome,
    report: Path | None,
    picture: Path | None,
    compare: bool,
) -> Iterator[tuple[str, Path]]:
    """Write the requested files, and yield the kind and path of each."""
    case, simulations = outcome.case, outcome.simulations
    if picture is not None:
        simulation = next(iter(simulations.values()))
        from smcpn.report.style import save_picture

        save_picture(simulation.plot(), picture)
        yield "picture", picture
    if report is not None:
        model = outcome.posterior.problem.model
        comparable = [
            name for name, kind in LIKELIHOODS.items() if kind.takes(model) and not kind.estimated
        ]
        yield (
            "report",
            outcome.posterior.report(
                report,
                simulations,
                published=case.published,
                truth=case.truth,
                title=case.title,
                likelihoods=comparable if compare else (),
                robust=outcome.robust,
            ),
        )


def as_dict(outcome: Outcome) -> dict[str, Any]:
    """Return the fields that ``--json`` prints."""
    posterior = outcome.posterior
    return {
        "system": outcome.case.name,
        "split": outcome.case.split,
        "particles": len(posterior.theta),
        "seed": posterior.seed,
        "likelihood": posterior.likelihood,
        "steps": posterior.solver.steps,
        "shift": None if posterior.shift is None else posterior.shift.as_dict(),
        "wall_s": outcome.wall_s,
        "identify_s": posterior.timing.wall,
        "kernel_s": outcome.work.run_seconds,
        "compile_s": outcome.work.compile_seconds,
        "peak_memory_mb": peak_memory_mb(),
        "theta_steps": outcome.work.theta_steps,
        "log_evidence": posterior.log_evidence,
        "log_evidence_se": posterior.log_evidence_se,
        "method": None if posterior.method is None else vars(posterior.method),
        "rejuvenations": len(posterior.rejuvenations),
        "acceptance": posterior.acceptance,
        "warnings": list(posterior.warnings),
        "verdict": outcome.verdict.document(),
        "parameters": parameters(posterior),
        **({} if outcome.robust is None else {"robust": robust_figures(outcome.robust)}),
        "scores": {split: vars(score) for split, score in outcome.scores.items()},
    }


def parameters(posterior: Posterior) -> dict[str, dict[str, float]]:
    """Return mean and standard deviation of every parameter, for ``--json``."""
    return {row.name: {"mean": row.mean, "sd": row.sd} for row in posterior.table()}


def robust_figures(robust: Robust) -> dict[str, Any]:
    """Return robust standard deviations and what they come from, for ``--json``."""
    return {
        "sd": robust.sd,
        "factor": robust.factor,
        "not_judged": list(robust.not_judged),
        "learning_rate": robust.learning_rate,
        "n_effective": robust.n_effective,
        "samples": robust.samples,
        "drift_p": robust.drift_p,
        "degrees_of_freedom": robust.degrees_of_freedom,
    }


def as_text(outcome: Outcome) -> str:
    """Return the tables that are printed for a person."""
    case, posterior = outcome.case, outcome.posterior
    peak = peak_memory_mb()
    memory = "" if peak is None else f", peak memory {peak:.0f} MB"
    lines = [
        f"{case.title}: {len(posterior.theta)} particles, "
        f"seed {posterior.seed}, "
        f"{case.problem.n_given} samples ({case.note})",
        "",
        *posterior.summary_lines(),
        *([] if outcome.robust is None else ["", outcome.robust.summary(), ""]),
        *fact_lines([("with scoring", f"{outcome.wall_s:.2f} s{memory}")]),
        "",
        table_text(score_table(outcome.scores, case.published)),
        *score_note(outcome.scores, len(posterior.theta)),
        "",
        *outcome.verdict.lines,
    ]
    return "\n".join(lines)


def peak_memory_mb() -> float | None:
    """Largest resident size of this process so far, in megabytes; None on Windows."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)
