"""``smcpn identify``: the command and its options."""

from __future__ import annotations

import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from smcpn.base.signals import exit_code
from smcpn.cli.config import load_system
from smcpn.cli.options import (
    NOTHING_KEPT,
    OUTPUT,
    Counted,
    FunctionOptions,
    Hold,
    Json,
    Model,
    Quiet,
    ReportFile,
    Split,
    System,
    Verbose,
    check_written,
    option,
    taking,
)
from smcpn.cli.terminal import remark, say
from smcpn.codegen.clock import CLOCK
from smcpn.errors import InputError


@taking(
    FunctionOptions.of(
        "run.identify", "identify", "particles", "seed", "method", "start", "state_particles",
        "likelihood", "solver", "checkpoint", "executor", "cpu",
    ),
    FunctionOptions.of("model.solver", "EKF0", "steps", "order"),
)  # fmt: skip
def identify(
    system: System,
    hold: Hold = None,
    model: Model = None,
    split: Split = None,
    report: ReportFile = None,
    picture: Annotated[
        Path | None,
        option(OUTPUT, "Draw the first test and its prediction.", metavar="FILE.png|svg|pdf"),
    ] = None,
    compare: Annotated[
        bool, option(OUTPUT, "Compare all likelihoods in the report (compiles some).", "--compare")
    ] = False,
    robust: Counted = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    **options: Any,
) -> None:
    """Identify a system and score the posterior on its test records.

    Options replace what a configuration says.

    Example: smcpn identify mysystem/config.toml --report mysystem.html

    Example: smcpn identify silverbox --steps auto --json

    Example: smcpn identify silverbox --executor loky:8
    """
    begin, before = time.perf_counter(), replace(CLOCK)
    _check_files(report, picture, compare)
    case = load_system(system, hold=hold, model=model, split=split)
    report, picture = report or case.report, picture or case.picture
    _check_files(report, picture, compare)
    from smcpn.cli.outcome import as_dict, as_text, identified, written
    from smcpn.io.sink import json_text

    talks = not (as_json or quiet or verbose)
    try:
        outcome = identified(case, options, begin, before, talks, robust)
    except KeyboardInterrupt:
        if options["checkpoint"] is not None or case.settings.checkpoint is not None:
            raise
        remark(NOTHING_KEPT)
        raise typer.Exit(exit_code(signal.SIGINT)) from None
    say(json_text(as_dict(outcome)) if as_json else as_text(outcome))
    for what, file in written(outcome, report, picture, compare):
        if not quiet:
            remark(f"{what}: {file}")


def _check_files(report: Path | None, picture: Path | None, compare: bool) -> None:
    """Refuse files that cannot be written before any work is done for them."""
    check_written(report, picture)
    if compare and report is None:
        raise InputError("--compare adds a page to the report: give --report FILE too")
