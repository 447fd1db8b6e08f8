"""``smcpn stream``: the command and its options."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from smcpn.cli.names import EVERY_SECONDS, FORMATS, STANDARD
from smcpn.cli.options import (
    MESSAGES,
    OUTPUT,
    RUN,
    SYSTEM,
    Hold,
    Likelihood,
    Order,
    Particles,
    Seed,
    StateParticles,
    Steps,
    System,
    Verbose,
    check_options,
    completing,
    whole_or_auto,
)
from smcpn.config import load_system
from smcpn.errors import InputError, whole_number
from smcpn.files import file_path
from smcpn.io.dialect import check_marks

SAMPLES = "Samples"
"""Title under which ``--help`` lists options."""

Source = Annotated[
    str,
    typer.Option(
        "--from",
        help="Where samples come from.",
        metavar="FILE|-|URL",
        rich_help_panel=SAMPLES,
    ),
]
Follow = Annotated[
    bool,
    typer.Option("--follow", help="Read the file as it grows.", rich_help_panel=SAMPLES),
]
Format = Annotated[
    str | None,
    typer.Option(
        help="Recognised line by line if left out.",
        metavar="|".join(FORMATS),
        autocompletion=completing(FORMATS),
        rich_help_panel=SAMPLES,
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(help="Columns of CSV without a header.", metavar="t,u,y", rich_help_panel=SAMPLES),
]
Delimiter = Annotated[
    str | None,
    typer.Option(help="What separates columns, where the guess is wrong.", rich_help_panel=SAMPLES),
]
Decimal = Annotated[
    str | None,
    typer.Option(
        help="Decimal mark, where the guess is wrong.", metavar=".|,", rich_help_panel=SAMPLES
    ),
]
Announce = Annotated[
    bool,
    typer.Option(
        "--announce",
        help='Send {"resume_after": t} to a TCP server.',
        rich_help_panel=SAMPLES,
    ),
]
GiveUp = Annotated[
    float | None,
    typer.Option(help="End after this many seconds without data.", rich_help_panel=SAMPLES),
]
CaFile = Annotated[
    str | None,
    typer.Option(help="Certificates that TLS believes.", metavar="FILE", rich_help_panel=SAMPLES),
]
Credentials = Annotated[
    str | None,
    typer.Option(
        help="User and password for a broker, a line each; or SMCPN_USER, SMCPN_PASSWORD.",
        metavar="FILE",
        rich_help_panel=SAMPLES,
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(help="Stop after this many samples.", rich_help_panel=SAMPLES),
]
Lookahead = Annotated[
    int | None,
    typer.Option(help="Samples that a band-limited input waits for.", rich_help_panel=SYSTEM),
]
Budget = Annotated[
    str | None,
    typer.Option(
        help="Time per sample; unlimited if left out.",
        metavar="'1.5 ms'",
        rich_help_panel=RUN,
    ),
]
RealTime = Annotated[
    bool,
    typer.Option(
        "--real-time",
        help="Updates come before all else on this machine; Linux, for those who may.",
        rich_help_panel=RUN,
    ),
]
Forget = Annotated[
    str | None,
    typer.Option(
        help="Forget old samples, for parameters that drift.",
        metavar="'5 s'",
        rich_help_panel=RUN,
    ),
]
CheckpointFile = Annotated[
    str | None,
    typer.Option(
        help="Written as it runs; resumed if it exists.",
        metavar="FILE",
        rich_help_panel=RUN,
    ),
]
CheckpointEvery = Annotated[
    float, typer.Option(help="Seconds between checkpoints.", rich_help_panel=RUN)
]
Lines = Annotated[
    str, typer.Option(help="Where lines go.", metavar="FILE|-", rich_help_panel=OUTPUT)
]
Quantiles = Annotated[bool, typer.Option(help="Write quantiles.", rich_help_panel=OUTPUT)]
Events = Annotated[
    str | None,
    typer.Option(
        help="Events as JSON lines; '-' is standard error.",
        metavar="FILE|-",
        rich_help_panel=MESSAGES,
    ),
]
Watch = Annotated[
    bool,
    typer.Option("--watch", help="Live view in the terminal.", rich_help_panel=MESSAGES),
]
Serve = Annotated[
    str | None,
    typer.Option(
        help="Live page for browsers; on this machine only if no host is named.",
        metavar="[HOST:]PORT",
        rich_help_panel=MESSAGES,
    ),
]


@dataclass(frozen=True)
class StreamOptions:
    """The options of ``smcpn stream``, as `stream` describes them."""

    model: System
    source: Source = STANDARD
    to: Lines = STANDARD
    checkpoint: CheckpointFile = None
    checkpoint_every: CheckpointEvery = EVERY_SECONDS
    budget: Budget = None
    forget: Forget = None
    particles: Particles = None
    seed: Seed = None
    likelihood: Likelihood = None
    steps: int | str | None = None
    order: Order = None
    state_particles: int | str | None = None
    hold: Hold = None
    lookahead: Lookahead = None
    format: Format = None
    columns: Columns = None
    delimiter: Delimiter = None
    decimal: Decimal = None
    follow: Follow = False
    announce: Announce = False
    give_up: GiveUp = None
    ca_file: CaFile = None
    credentials: Credentials = None
    limit: Limit = None
    events: Events = None
    quantiles: Quantiles = True
    watch: Watch = False
    serve: Serve = None
    real_time: RealTime = False

    @property
    def settings(self) -> dict[str, Any]:
        """Options that replace settings of the case where they are not None."""
        names = ("particles", "seed", "likelihood", "order", "steps", "state_particles")
        return {name: getattr(self, name) for name in names}

    def check(self) -> None:
        """Check the options, before files are looked for.

        Raises
        ------
        InputError
            For numbers out of range, a folder that does not exist, one file for two things.
        """
        for option, seconds in (
            ("--checkpoint-every", self.checkpoint_every),
            ("--give-up", self.give_up),
        ):
            if seconds is not None and not 0 < seconds < math.inf:
                raise InputError(f"{option} is {seconds:g}: give seconds above 0")
        if self.limit is not None:
            whole_number("--limit", self.limit, 1)
        check_options(**self.settings)
        check_marks(self.delimiter, self.decimal)
        named = {
            "--from": self.source,
            "--to": self.to,
            "--checkpoint": self.checkpoint,
            "--events": self.events,
        }
        paths = {
            option: os.path.abspath(path)
            for option, path in named.items()
            if path is not None and path != STANDARD
        }
        if len(set(paths.values())) < len(paths):
            raise InputError(f"two of {', '.join(paths)} are the same file: name another one")
        for option in ("--to", "--checkpoint", "--events"):
            if option in paths and not os.path.isdir(os.path.dirname(paths[option])):
                raise InputError(f"{option} is '{named[option]}', whose folder does not exist")


def stream_model(options: StreamOptions) -> int:
    """Identify while the samples come, and return the exit code.

    Raises
    ------
    InputError
        For options, a model, a source or a checkpoint that cannot be used.
    """
    options.check()
    if options.checkpoint is not None:
        # What a model does when it is loaded may change the folder.
        path = file_path("--checkpoint", options.checkpoint)
        options = replace(options, checkpoint=str(path))
    case = load_system(options.model, hold=options.hold)
    from smcpn.cli.streaming import streamed

    return streamed(case, options)


def stream(
    system: System,
    source: Source = STANDARD,
    follow: Follow = False,
    format: Format = None,
    columns: Columns = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    announce: Announce = False,
    give_up: GiveUp = None,
    ca_file: CaFile = None,
    credentials: Credentials = None,
    limit: Limit = None,
    hold: Hold = None,
    lookahead: Lookahead = None,
    particles: Particles = None,
    seed: Seed = None,
    likelihood: Likelihood = None,
    steps: Steps = None,
    order: Order = None,
    state_particles: StateParticles = None,
    budget: Budget = None,
    real_time: RealTime = False,
    forget: Forget = None,
    checkpoint: CheckpointFile = None,
    checkpoint_every: CheckpointEvery = EVERY_SECONDS,
    to: Lines = STANDARD,
    quantiles: Quantiles = True,
    events: Events = None,
    watch: Watch = False,
    serve: Serve = None,
    verbose: Verbose = 0,
) -> None:
    """Identify while the samples come: CSV or JSON lines in, a JSON line per sample out.

    Options replace what a configuration says.

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
        likelihood=likelihood,
        steps=whole_or_auto("steps", steps),
        order=order,
        state_particles=whole_or_auto("state_particles", state_particles),
        hold=hold,
        lookahead=lookahead,
        format=format,
        columns=columns,
        delimiter=delimiter,
        decimal=decimal,
        follow=follow,
        announce=announce,
        give_up=give_up,
        ca_file=ca_file,
        credentials=credentials,
        limit=limit,
        events=events,
        quantiles=quantiles,
        watch=watch,
        serve=serve,
        real_time=real_time,
    )
    raise typer.Exit(stream_model(options))
