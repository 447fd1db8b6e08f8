"""``smcpn stream``: the command and its options."""

from __future__ import annotations

from typing import Annotated

import typer

from smcpn.cli.options import (
    MESSAGES,
    OUTPUT,
    RUN,
    SYSTEM,
    Hold,
    System,
    Verbose,
    complete_format,
)
from smcpn.streaming.address import STANDARD
from smcpn.streaming.checkpointing import EVERY_SECONDS
from smcpn.streaming.formats import FORMATS
from smcpn.streaming.session import StreamOptions, stream_model

SAMPLES = "Samples"


def stream(
    system: System,
    source: Annotated[
        str,
        typer.Option(
            "--from",
            help="Where samples come from.",
            metavar="FILE|-|URL",
            rich_help_panel=SAMPLES,
        ),
    ] = STANDARD,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Read the file as it grows.", rich_help_panel=SAMPLES),
    ] = False,
    format: Annotated[
        str | None,
        typer.Option(
            help="Told by each line if left out.",
            metavar="|".join(FORMATS),
            autocompletion=complete_format,
            rich_help_panel=SAMPLES,
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Columns of CSV without a header.", metavar="t,u,y", rich_help_panel=SAMPLES
        ),
    ] = None,
    announce: Annotated[
        bool,
        typer.Option(
            "--announce",
            help='Send {"resume_after": t} to a TCP server.',
            rich_help_panel=SAMPLES,
        ),
    ] = False,
    give_up: Annotated[
        float | None,
        typer.Option(help="Seconds without data until no more attempts.", rich_help_panel=SAMPLES),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(help="Stop after this many samples.", rich_help_panel=SAMPLES),
    ] = None,
    hold: Hold = None,
    lookahead: Annotated[
        int | None,
        typer.Option(help="Samples that a band-limited input waits for.", rich_help_panel=SYSTEM),
    ] = None,
    particles: Annotated[
        int, typer.Option(help="Number of particles.", rich_help_panel=RUN)
    ] = 1000,
    seed: Annotated[int, typer.Option(help="Same seed, same result.", rich_help_panel=RUN)] = 1,
    steps: Annotated[
        int | None, typer.Option(help="Solver steps per sample.", rich_help_panel=RUN)
    ] = None,
    order: Annotated[
        int, typer.Option(help="Order of the solver's prior.", rich_help_panel=RUN)
    ] = 3,
    budget: Annotated[
        str | None,
        typer.Option(
            help="Time per sample; unlimited if left out.",
            metavar="'1.5 ms'",
            rich_help_panel=RUN,
        ),
    ] = None,
    forget: Annotated[
        str | None,
        typer.Option(
            help="Forget old samples, for parameters that drift.",
            metavar="'5 s'",
            rich_help_panel=RUN,
        ),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            help="Written as it runs; resumed if it exists.",
            metavar="FILE",
            rich_help_panel=RUN,
        ),
    ] = None,
    checkpoint_every: Annotated[
        float, typer.Option(help="Seconds between checkpoints.", rich_help_panel=RUN)
    ] = EVERY_SECONDS,
    to: Annotated[
        str, typer.Option(help="Where lines go.", metavar="FILE|-", rich_help_panel=OUTPUT)
    ] = STANDARD,
    quantiles: Annotated[bool, typer.Option(help="Tell quantiles.", rich_help_panel=OUTPUT)] = True,
    events: Annotated[
        str | None,
        typer.Option(
            help="Events as JSON lines; '-' is standard error.",
            metavar="FILE|-",
            rich_help_panel=MESSAGES,
        ),
    ] = None,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Live view in the terminal.", rich_help_panel=MESSAGES),
    ] = False,
    verbose: Verbose = 0,
) -> None:
    """Identify while the samples come: CSV or JSON lines in, a JSON line per sample out.

    Example: smcpn stream model.py --from tcp://rig:5000 --checkpoint rig.h5 --watch

    Example: tail -f log.csv | smcpn stream mysystem --to posterior.jsonl
    """
    options = StreamOptions(
        model=system,
        source=source,
        to=to,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        budget=budget,
        forget=forget,
        particles=particles,
        seed=seed,
        steps=steps,
        order=order,
        hold=hold,
        lookahead=lookahead,
        format=format,
        columns=columns,
        follow=follow,
        announce=announce,
        give_up=give_up,
        limit=limit,
        events=events,
        quantiles=quantiles,
        watch=watch,
    )
    raise typer.Exit(stream_model(options))
