"""``smcpn stream``: the command and its options."""

from __future__ import annotations

from typing import Annotated

import typer

from smcpn.cases import CASES
from smcpn.streaming.address import STANDARD
from smcpn.streaming.checkpointing import EVERY_SECONDS
from smcpn.streaming.session import StreamOptions, stream_model


def stream(
    model: Annotated[
        str, typer.Argument(help=f"One of {', '.join(CASES)}, or model.py[:problem].")
    ],
    source: Annotated[
        str, typer.Option("--from", help="Where samples come from.", metavar="FILE|-|URL")
    ] = STANDARD,
    to: Annotated[str, typer.Option(help="Where lines go.", metavar="FILE|-")] = STANDARD,
    checkpoint: Annotated[
        str | None, typer.Option(help="Written as it runs; resumed if it exists.", metavar="FILE")
    ] = None,
    checkpoint_every: Annotated[
        float, typer.Option(help="Seconds between checkpoints.")
    ] = EVERY_SECONDS,
    budget: Annotated[
        str | None, typer.Option(help="Time per sample; unlimited if left out.", metavar="'1.5 ms'")
    ] = None,
    forget: Annotated[
        str | None, typer.Option(help="Forget old samples, for parameters that drift.")
    ] = None,
    particles: Annotated[int, typer.Option(help="Number of particles.")] = 1000,
    seed: Annotated[int, typer.Option(help="Same seed, same result.")] = 1,
    steps: Annotated[int | None, typer.Option(help="Solver steps per sample.")] = None,
    order: Annotated[int, typer.Option(help="Order of the solver's prior.")] = 3,
    hold: Annotated[
        str | None, typer.Option(help="Input of a case.", metavar="zoh|foh|bandlimited")
    ] = None,
    lookahead: Annotated[
        int | None, typer.Option(help="Samples that a band-limited input waits for.")
    ] = None,
    format: Annotated[
        str | None, typer.Option(help="Told by each line if left out.", metavar="csv|json")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="Columns of CSV without a header.", metavar="t,u,y")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Read the file as it grows.")] = False,
    announce: Annotated[
        bool, typer.Option("--announce", help='Send {"resume_after": t} to a TCP server.')
    ] = False,
    give_up: Annotated[
        float | None, typer.Option(help="Seconds without data until no more attempts.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Stop after this many samples.")] = None,
    events: Annotated[
        str | None,
        typer.Option(help="Events as JSON lines; '-' is standard error.", metavar="FILE|-"),
    ] = None,
    quantiles: Annotated[bool, typer.Option(help="Tell quantiles.")] = True,
    watch: Annotated[bool, typer.Option("--watch", help="Live view in the terminal.")] = False,
) -> None:
    """Identify while the samples come: CSV or JSON lines in, a JSON line per sample out.

    Example: smcpn stream model.py --from tcp://rig:5000 --checkpoint rig.h5 --watch
    """
    options = StreamOptions(
        model=model,
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
