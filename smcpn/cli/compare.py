"""``smcpn compare``: systems of the same data ranked by evidence and by test error, in seconds."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from smcpn.cli.config import load_system
from smcpn.cli.options import (
    FunctionOptions,
    Json,
    ReportFile,
    Starts,
    Verbose,
    check_written,
    taking,
)
from smcpn.cli.terminal import remark, say
from smcpn.errors import InputError


@taking(FunctionOptions.of("run.identify", "identify", "seed"))
def compare(
    systems: Annotated[
        list[str],
        typer.Argument(
            help="Two or more configurations of models of the same data, or case studies.",
            metavar="SYSTEM...",
        ),
    ],
    starts: Starts = None,
    report: ReportFile = None,
    as_json: Json = False,
    verbose: Verbose = 0,
    **options: Any,
) -> None:
    """Rank models of the same data by their evidence and by their errors on tests.

    Evidence and posterior are those of Laplace's approximation at the mode.

    Example: smcpn compare linear/config.toml cubic/config.toml --report comparison.html
    """
    if len(systems) < 2:
        raise InputError(f"systems is {systems[0]}: give two or more to compare")
    check_written(report)
    cases = [load_system(system) for system in systems]
    from smcpn.cli.comparing import as_dict, as_text, compared, written
    from smcpn.io.sink import json_text

    found = compared(systems, cases, starts, options["seed"])
    say(json_text(as_dict(found)) if as_json else as_text(found))
    if report is not None:
        remark(f"report: {written(found, report)}")
