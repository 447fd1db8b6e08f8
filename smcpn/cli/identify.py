"""What ``smcpn identify`` does: run a case, score it on its tests, and print what came out."""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

import smcpn
from smcpn.cases import Case, load_case
from smcpn.cli.options import (
    OUTPUT,
    RUN,
    SEED,
    Hold,
    Json,
    Likelihood,
    Model,
    Order,
    Quiet,
    ReportFile,
    Seed,
    Split,
    Steps,
    System,
    Verbose,
)
from smcpn.codegen.kernel import CLOCK, KernelClock
from smcpn.columns import align
from smcpn.errors import InputError
from smcpn.likelihood.registry import LIKELIHOODS, check_likelihood, likelihood_name
from smcpn.results.posterior import Posterior
from smcpn.results.scores import Score, score_table, scores_of
from smcpn.simulation.particles import Simulation
from smcpn.smc.replicates import SamplerWarning
from smcpn.solver import EKF0

PARTICLES = 1000
"""Where neither option nor configuration says otherwise."""


@dataclass(frozen=True)
class Outcome:
    """A case, run: what is printed."""

    case: Case
    posterior: Posterior
    scores: dict[str, Score]
    wall_s: float
    work: KernelClock


@dataclass(frozen=True)
class Options:
    """The options of ``smcpn identify``, which explains them; None leaves it to the case."""

    particles: int | None = None
    seed: int | None = None
    steps: str | None = None
    order: int | None = None
    likelihood: str | None = None
    hold: str | None = None
    model: str | None = None
    split: str | None = None
    report: Path | None = None
    picture: Path | None = None
    checkpoint: Path | None = None
    compare: bool = False
    as_json: bool = False
    quiet: bool = False
    verbose: int = 0

    def check(self) -> int | str | None:
        """Refuse what cannot be before files are looked for, and return the steps.

        Raises
        ------
        InputError
            For options out of range.
        """
        steps = None if self.steps is None else parsed_steps(self.steps)
        EKF0(
            order=3 if self.order is None else self.order, steps="auto" if steps is None else steps
        )
        if self.likelihood is not None:
            check_likelihood(self.likelihood)
        return steps


def identify_case(name: str, options: Options) -> None:
    """Run a case and print a table, or a JSON object and nothing else.

    Raises
    ------
    InputError
        For an unknown system, options out of range, or missing files.
    """
    begin, before = time.perf_counter(), replace(CLOCK)
    steps = options.check()
    _check_files(options.report, options.picture, options.compare)
    case = load_case(name, hold=options.hold, model=options.model, split=options.split)
    report = options.report or case.choices.report
    picture = options.picture or case.choices.picture
    _check_files(report, picture, options.compare)
    solver = case.solver(options.likelihood, options.order, steps)
    with warnings.catch_warnings():
        # What is printed says the same, once.
        warnings.simplefilter("ignore", SamplerWarning)
        posterior = smcpn.identify(case.problem, solver=solver, **_arguments(case, options))
    simulations = case.simulations(posterior)
    scores = scores_of(posterior.weights, simulations, case.problem.observe)
    work = CLOCK.since(before)
    wall = time.perf_counter() - begin - work.compile_seconds
    outcome = Outcome(case, posterior, scores, wall, work)
    print(json.dumps(as_dict(outcome)) if options.as_json else as_text(outcome))
    for what, file in _written(outcome, simulations, report, picture, options.compare):
        if not options.quiet:
            print(f"{what}: {file}", file=sys.stderr)


def _arguments(case: Case, options: Options) -> dict[str, Any]:
    """Further arguments of `ibis`: those of the case, in which the options stand."""
    given = {
        "particles": options.particles,
        "seed": options.seed,
        "checkpoint": options.checkpoint,
        "likelihood": options.likelihood or case.choices.likelihood,
    }
    return {
        "particles": PARTICLES,
        "seed": SEED,
        "progress": not (options.as_json or options.quiet or options.verbose),
        **case.choices.arguments,
        **{key: value for key, value in given.items() if value is not None},
    }


def _written(
    outcome: Outcome,
    simulations: Mapping[str, Simulation],
    report: Path | None,
    picture: Path | None,
    compare: bool,
) -> Iterator[tuple[str, Path]]:
    """Write what is asked for, and yield what it is and where."""
    case = outcome.case
    if picture is not None:
        simulation = next(iter(simulations.values()))
        simulation.plot().savefig(picture, bbox_inches="tight")
        yield "picture", picture
    if report is not None:
        yield (
            "report",
            outcome.posterior.report(
                report,
                simulations,
                published=case.published,
                truth=case.truth,
                title=case.title,
                likelihoods=tuple(LIKELIHOODS) if compare else (),
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
        "warnings": list(posterior.warnings),
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
        f"{case.title}: {len(posterior.theta)} particles, "
        f"seed {posterior.seed}, "
        f"{case.problem.n_samples} samples ({case.note})",
        "",
        posterior.summary(),
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


# ---- ``smcpn identify``: the command and its options.


def identify(
    system: System,
    hold: Hold = None,
    model: Model = None,
    split: Split = None,
    particles: Annotated[
        int | None,
        typer.Option(help=f"Number of particles; {PARTICLES} by default.", rich_help_panel=RUN),
    ] = None,
    seed: Seed = None,
    likelihood: Likelihood = None,
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
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
) -> None:
    """Identify a system and score the posterior on its test records.

    Options stand in for what a configuration says.

    Example: smcpn identify mysystem/config.toml --report mysystem.html

    Example: smcpn identify silverbox --steps auto --json
    """
    identify_case(
        system,
        Options(
            particles=particles,
            seed=seed,
            steps=steps,
            order=order,
            likelihood=likelihood,
            hold=hold,
            model=model,
            split=split,
            report=report,
            picture=picture,
            checkpoint=checkpoint,
            compare=compare,
            as_json=as_json,
            quiet=quiet,
            verbose=verbose,
        ),
    )
