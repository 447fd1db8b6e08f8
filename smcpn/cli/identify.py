"""``smcpn identify``: run a case, score it on its tests, and print the result."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

import smcpn
from smcpn.cases import Case
from smcpn.cli.options import (
    OUTPUT,
    RUN,
    Counted,
    Hold,
    Json,
    Likelihood,
    Method,
    Model,
    Order,
    Particles,
    Quiet,
    ReportFile,
    Seed,
    SolverName,
    Split,
    Start,
    Steps,
    System,
    Verbose,
    check_options,
    parsed_steps,
    settings_of,
)
from smcpn.cli.terminal import remark, say
from smcpn.codegen.kernel import CLOCK, KernelClock
from smcpn.columns import align
from smcpn.config import load_system
from smcpn.errors import InputError
from smcpn.io.sink import json_text
from smcpn.likelihood.registry import LIKELIHOODS
from smcpn.results.posterior import Posterior
from smcpn.results.robust import Robust
from smcpn.results.scores import Score, score_table, scores_of
from smcpn.simulation.particles import Simulation
from smcpn.smc.replicates import SamplerWarning


def identify(
    system: System,
    hold: Hold = None,
    model: Model = None,
    split: Split = None,
    particles: Particles = None,
    seed: Seed = None,
    method: Method = None,
    start: Start = None,
    likelihood: Likelihood = None,
    solver: SolverName = None,
    steps: Steps = None,
    order: Order = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Keep the run in this HDF5 file, and go on from it.",
            metavar="FILE",
            rich_help_panel=RUN,
        ),
    ] = None,
    report: ReportFile = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            help="Draw the first test and its prediction.",
            metavar="FILE.png|svg|pdf",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="Compare all likelihoods in the report (compiles some).",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    robust: Counted = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
) -> None:
    """Identify a system and score the posterior on its test records.

    Options replace what a configuration says.

    Example: smcpn identify mysystem/config.toml --report mysystem.html

    Example: smcpn identify silverbox --steps auto --json
    """
    begin, before = time.perf_counter(), replace(CLOCK)
    options: dict[str, Any] = {
        "particles": particles,
        "seed": seed,
        "method": method,
        "start": start,
        "likelihood": likelihood,
        "solver": solver,
        "order": order,
        "steps": parsed_steps(steps),
        "checkpoint": checkpoint,
    }
    check_options(**options)
    _check_files(report, picture, compare)
    case = load_system(system, hold=hold, model=model, split=split)
    report, picture = report or case.report, picture or case.picture
    _check_files(report, picture, compare)
    talks = not (as_json or quiet or verbose)
    outcome = _identified(case, options, begin, before, talks, robust)
    say(json_text(as_dict(outcome)) if as_json else as_text(outcome))
    for what, file in _written(outcome, report, picture, compare):
        if not quiet:
            remark(f"{what}: {file}")


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


def _identified(
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
        # What is printed says the same, once.
        warnings.simplefilter("ignore", SamplerWarning)
        posterior = smcpn.identify(case.problem, progress=progress, **settings.given)
    counted = posterior.robust() if robust else None
    scored = posterior if counted is None else counted.posterior
    simulations = case.simulations(scored, None if counted is None else counted.simulate)
    scores = scores_of(scored.weights, simulations, case.problem.observe)
    work = CLOCK.since(before)
    wall = time.perf_counter() - begin - work.compile_seconds
    return Outcome(case, posterior, simulations, scores, wall, work, counted)


def _written(
    outcome: Outcome,
    report: Path | None,
    picture: Path | None,
    compare: bool,
) -> Iterator[tuple[str, Path]]:
    """Write the requested files, and yield the kind and path of each."""
    case, simulations = outcome.case, outcome.simulations
    if picture is not None:
        simulation = next(iter(simulations.values()))
        simulation.plot().savefig(picture, bbox_inches="tight")
        yield "picture", picture
    if report is not None:
        model = outcome.posterior.problem.model
        comparable = [name for name, kind in LIKELIHOODS.items() if kind.takes_noise(model)]
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


def _check_files(report: Path | None, picture: Path | None, compare: bool) -> None:
    """Refuse files that cannot be written before any work is done for them."""
    if report is not None:
        from smcpn.report.html import check_destination

        check_destination(report)
    elif compare:
        raise InputError("--compare adds a page to the report: give --report FILE too")
    if picture is not None:
        from smcpn.report.style import check_picture

        check_picture(picture)


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
        "rejuvenations": len(posterior.rejuvenations),
        "acceptance": posterior.acceptance,
        "warnings": list(posterior.warnings),
        "parameters": parameters(posterior),
        **({} if outcome.robust is None else {"robust": robust_figures(outcome.robust)}),
        "scores": {split: vars(score) for split, score in outcome.scores.items()},
    }


def parameters(posterior: Posterior) -> dict[str, dict[str, float]]:
    """Return mean and standard deviation of every parameter, for ``--json``."""
    return {
        name: {"mean": posterior.mean[name], "sd": posterior.sd[name]} for name in posterior.names
    }


def robust_figures(robust: Robust) -> dict[str, Any]:
    """Return robust standard deviations and what they come from, for ``--json``."""
    return {
        "sd": robust.sd,
        "factor": robust.factor,
        "not_judged": list(robust.not_judged),
        "learning_rate": robust.learning_rate,
        "n_effective": robust.n_effective,
        "samples": robust.samples,
        "bandwidth": robust.bandwidth,
    }


def as_text(outcome: Outcome) -> str:
    """Return the tables that are printed for a person."""
    case, posterior = outcome.case, outcome.posterior
    peak = peak_memory_mb()
    memory = "" if peak is None else f", peak memory {peak:.0f} MB"
    lines = [
        f"{case.title}: {len(posterior.theta)} particles, "
        f"seed {posterior.seed}, "
        f"{case.problem.n_samples} samples ({case.note})",
        "",
        posterior.summary(),
        *([] if outcome.robust is None else ["", outcome.robust.summary(), ""]),
        f"with scoring     {outcome.wall_s:.2f} s{memory}",
        "",
        align(score_table(outcome.scores, case.published), left=(0, 1)),
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
