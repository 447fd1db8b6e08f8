"""``smcpn identify``: the command and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smcpn.cli.identify import PARTICLES, SEED, Options, identify_case
from smcpn.cli.options import (
    OUTPUT,
    RUN,
    SYSTEM,
    Hold,
    Json,
    Likelihood,
    Quiet,
    ReportFile,
    System,
    Verbose,
    complete_split,
)


def identify(
    system: System,
    hold: Hold = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="A variant of a case study, e.g. duffing-offsets.", rich_help_panel=SYSTEM
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="Whose training and test samples of a case study; the paper's by default.",
            metavar="paper|official",
            autocompletion=complete_split,
            rich_help_panel=SYSTEM,
        ),
    ] = None,
    particles: Annotated[
        int | None,
        typer.Option(help=f"Number of particles; {PARTICLES} by default.", rich_help_panel=RUN),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help=f"Same seed, same result; {SEED} by default.", rich_help_panel=RUN),
    ] = None,
    likelihood: Likelihood = None,
    steps: Annotated[
        str | None,
        typer.Option(
            help="Solver steps per sample, or 'auto'.", metavar="N|auto", rich_help_panel=RUN
        ),
    ] = None,
    order: Annotated[
        int | None,
        typer.Option(help="Order of the solver's prior.", metavar="1-11", rich_help_panel=RUN),
    ] = None,
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
