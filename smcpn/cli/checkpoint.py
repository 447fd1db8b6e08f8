"""``smcpn resume``, ``inspect``, ``report`` and ``export``: work with the file of a run."""

from __future__ import annotations

import os
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smcpn.base.files import file_path, write_output
from smcpn.cli.cases import CASES
from smcpn.cli.config.document import SUFFIX
from smcpn.cli.options import (
    FunctionOptions,
    Json,
    Quiet,
    ReportFile,
    Verbose,
    check_written,
    taking,
)
from smcpn.cli.terminal import remark, say
from smcpn.errors import InputError

if TYPE_CHECKING:
    from smcpn.model.problem import Problem
    from smcpn.results.posterior import Posterior

File = Annotated[Path, typer.Argument(help="A checkpoint, as run.h5.", metavar="FILE")]


@taking(FunctionOptions.of("run.identify", "identify", "threads", "executor"))
def resume(
    file: File,
    data: Annotated[
        Path | None,
        typer.Option(help="CSV of samples that follow the last record.", metavar="CSV"),
    ] = None,
    report: ReportFile = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    **options: Any,
) -> None:
    """Continue an interrupted run or discovery to its end, or extend a finished run by more data.

    The CSV names its columns in the first line: inputs and outputs as the model does, t where the
    record has times. The result is what the run would have had uninterrupted.

    Example: smcpn resume run.h5 --data more.csv
    """
    from smcpn.checkpoint.run import read_run
    from smcpn.discovery.results.discovery import Discovery
    from smcpn.io.read import following_record
    from smcpn.io.sink import json_text
    from smcpn.run.restore import stored_problem
    from smcpn.run.resume import resume as resumed

    file = file_path("FILE", file)
    with as_sentences():
        more = None
        if data is not None:
            more = following_record(data, stored_problem(read_run(file).header, file))
        talks = not (as_json or quiet or verbose)
        posterior = resumed(file, data=more, progress=talks, **options)
    if isinstance(posterior, Discovery):
        from smcpn.cli.discovering import document_of

        say(json_text(document_of(posterior)) if as_json else posterior)
    else:
        say(json_text(as_dict(posterior)) if as_json else posterior.summary())
    written = None if report is None else posterior.report(report)
    if written is not None and not quiet:
        remark(f"report: {written}")


def inspect(
    file: Annotated[
        Path,
        typer.Argument(help="A checkpoint, as run.h5; or a system, as mysystem.", metavar="FILE"),
    ],
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Draw the first record, before anything is fitted.",
            metavar="FILE.png|svg|pdf",
        ),
    ] = None,
) -> None:
    """Print what a checkpoint holds, of a run, discovery or stream, or the records of a system.

    Example: smcpn inspect run.h5

    Example: smcpn inspect mysystem --plot record.png
    """
    check_written(None, plot)
    file = file_path("FILE", file)
    with as_sentences():
        is_system = str(file) in CASES or file.is_dir() or file.suffix in (SUFFIX, ".py")
        problem = _of_system(file) if is_system else _of_checkpoint(file, plot is not None)
    if plot is not None and problem is not None:
        from smcpn.report.trajectories import record_figure

        names = problem.ode.inputs, tuple(map(str, problem.observe))
        record_figure(problem.records[0], *names).savefig(plot, bbox_inches="tight")
        remark(f"picture: {plot}")


def _of_system(name: Path) -> Problem:
    """Print the records that a system learns from, and return its problem."""
    from smcpn.cli.config import load_system

    problem = load_system(str(name)).problem
    say("\n".join(repr(record)[1:-1] for record in problem.records))
    return problem


def _of_checkpoint(file: Path, needed: bool) -> Problem | None:
    """Print what is in a checkpoint, and return its problem where it is needed."""
    from smcpn.checkpoint.inspection import inspect as described
    from smcpn.checkpoint.run import read_run
    from smcpn.run.restore import stored_problem

    say(described(file))
    return stored_problem(read_run(file).header, file) if needed else None


def report(
    files: Annotated[
        list[Path],
        typer.Argument(help="A checkpoint, or several of models of the same data.", metavar="FILE"),
    ],
    to: Annotated[
        Path | None, typer.Option(help="The report; FILE with .html by default.", metavar="HTML")
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(help="Folder for every figure as SVG and PDF.", metavar="FOLDER"),
    ] = None,
) -> None:
    """Draw the report of a finished or unfinished run, or one that compares several.

    Example: smcpn report run.h5 --to run.html

    Example: smcpn report linear.h5 cubic.h5 --to comparison.html
    """
    from smcpn.run.resume import load

    paths = [file_path("FILE", file) for file in files]
    if len(paths) > 1 and to is None:
        raise InputError(f"--to is missing: name the report that compares {len(paths)} runs")
    with as_sentences():
        posteriors = [load(path) for path in paths]
        if len(paths) > 1 and to is not None:
            stems = [path.stem for path in paths]
            names = stems if len(set(stems)) == len(stems) else [str(file) for file in files]
            written = _compared(dict(zip(names, posteriors, strict=True)), to, figures)
        else:
            target = _own_report(files[0].with_suffix(".html")) if to is None else to
            written = posteriors[0].report(target, figures=figures)
    say(written)


@taking(FunctionOptions.of("model.solver", "EKF0", "steps"))
def export(
    file: File,
    c: Annotated[
        Path | None,
        typer.Option("--c", help="Folder for C source with a simulator.", metavar="FOLDER"),
    ] = None,
    fmu: Annotated[Path | None, typer.Option(help="FMU of FMI 3.0.", metavar="FILE")] = None,
    csv: Annotated[
        Path | None, typer.Option(help="Parameter table as CSV.", metavar="FILE")
    ] = None,
    latex: Annotated[
        Path | None, typer.Option(help="Parameter table as LaTeX.", metavar="FILE")
    ] = None,
    **options: Any,
) -> None:
    """Write the model of a run with its mean parameters, or its table, for other programs.

    Example: smcpn export run.h5 --c oscillator --fmu oscillator.fmu
    """
    if c is None and fmu is None and csv is None and latex is None:
        raise InputError("nothing is to be written: give --c, --fmu, --csv or --latex")
    from smcpn.run.resume import load

    steps = options["steps"] or "auto"
    with as_sentences():
        posterior = load(file_path("FILE", file))
    if c is not None:
        for path in posterior.to_c(c, steps=steps):
            say(path)
    if fmu is not None:
        say(posterior.to_fmu(fmu, steps=steps))
    if csv is not None:
        say(posterior.to_csv(csv))
    if latex is not None:
        path = file_path("--latex", latex)
        write_output(path, f"{posterior.to_latex()}\n".encode())
        say(path)


def _compared(posteriors: dict[str, Posterior], to: Path, figures: Path | None) -> Path:
    """Write the page that compares runs on the records that all learned from."""
    from smcpn.report.comparison import over_records, write_comparison
    from smcpn.report.page import check_destination, figure_folder
    from smcpn.results.compare import compare

    path = check_destination(to)
    if len(posteriors) < 2:
        raise InputError("FILE is given twice: name runs of different models")
    comparison = compare(posteriors)
    folder = None if figures is None else figure_folder(figures)
    simulations = over_records(posteriors)
    return write_comparison(comparison, posteriors, simulations, path, figures=folder)


def _own_report(path: Path) -> Path:
    """Refuse a file that nobody named, unless it is a report or there is none."""
    from smcpn.report.page import is_report

    if os.path.lexists(path) and not is_report(path):
        raise InputError(f"{path} is no report and is not overwritten: name another by --to")
    return path


@contextmanager
def as_sentences() -> Generator[None]:
    """Print warnings about the file as sentences; those about the sampler are in the summary."""
    from smcpn.checkpoint.container import CheckpointWarning
    from smcpn.smc.replicates import SamplerWarning

    with warnings.catch_warnings():
        warnings.simplefilter("always", CheckpointWarning)
        warnings.simplefilter("ignore", SamplerWarning)
        warnings.showwarning = lambda message, *_, **__: remark(f"smcpn: {message}")
        yield


def as_dict(posterior: Posterior) -> dict[str, Any]:
    """Return the fields that ``--json`` prints."""
    from smcpn.cli.outcome import parameters

    return {
        "samples": posterior.problem.n_given,
        "particles": len(posterior.theta),
        "log_evidence": posterior.log_evidence,
        "log_evidence_se": posterior.log_evidence_se,
        "rejuvenations": len(posterior.rejuvenations),
        "warnings": list(posterior.warnings),
        "verdict": posterior.verdict.document(),
        "parameters": parameters(posterior),
    }
