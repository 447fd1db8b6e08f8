"""``smcpn export``: the model of a run for other programs, as C source, FMU, CSV or LaTeX."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from smcpn.cli.checkpoint import File, as_sentences
from smcpn.cli.options import FunctionOptions, taking
from smcpn.cli.terminal import say
from smcpn.errors import InputError
from smcpn.values.files import file_path, write_output


@taking(FunctionOptions.of("solver", "EKF0", "steps"))
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
