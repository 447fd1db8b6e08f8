"""``smcpn identify``: the command and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smcpn.cli.identify import PARTICLES, Options, identify_case
from smcpn.cli.options import (
    OUTPUT,
    RUN,
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
