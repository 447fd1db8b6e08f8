"""``smcpn stream``: the command and its options."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from smcpn.cli.options import (
    DATA,
    MESSAGES,
    OUTPUT,
    RUN,
    Hold,
    System,
    Taken,
    Verbose,
    option,
    taking,
)
from smcpn.config import load_system
from smcpn.errors import InputError, whole_number
from smcpn.files import file_path
from smcpn.io.dialect import check_marks

STANDARD = "-"
EVERY_SECONDS = 60.0
SOURCE = Taken.of(
    "io.address", "open_source", "follow", "format", "delimiter", "decimal", "announce", "give_up",
    "ca_file", "credentials", panel=DATA,
)  # fmt: skip
ONLINE = Taken.of("online.online", "Online", "budget", "forget", "lookahead")
"""Options that `smcpn.Online` has and `smcpn.identify` has not."""


@dataclass(frozen=True)
class StreamOptions:
    """Where samples come from and results go, as typed."""

    source: Annotated[
        str, option(DATA, "Where samples come from.", "--from", metavar="FILE|-|URL")
    ] = STANDARD
    columns: Annotated[
        str | None, option(DATA, "Columns of CSV without a header.", metavar="t,u,y")
    ] = None
    limit: Annotated[int | None, option(DATA, "Stop after this many samples.")] = None
    hold: Hold = None
    real_time: Annotated[
        bool,
        option(
            RUN,
            "Updates come before all else on this machine; Linux, for those who may.",
            "--real-time",
        ),
    ] = False
    checkpoint: Annotated[
        str | None, option(RUN, "Written as it runs; resumed if it exists.", metavar="FILE")
    ] = None
    checkpoint_every: Annotated[float, option(RUN, "Seconds between checkpoints.")] = EVERY_SECONDS
    to: Annotated[str, option(OUTPUT, "Where lines go.", metavar="FILE|-")] = STANDARD
    quantiles: Annotated[bool, option(OUTPUT, "Write quantiles.")] = True
    events: Annotated[
        str | None,
        option(MESSAGES, "Events as JSON lines; '-' is standard error.", metavar="FILE|-"),
    ] = None
    watch: Annotated[bool, option(MESSAGES, "Live view in the terminal.", "--watch")] = False
    serve: Annotated[
        str | None,
        option(
            MESSAGES,
            "Live page for browsers; on this machine only if no host is named.",
            metavar="[HOST:]PORT",
        ),
    ] = None

    def check(self) -> None:
        """Check the options, before files are looked for.

        Raises
        ------
        InputError
            For numbers out of range, a folder that does not exist, one file for two things.
        """
        if not 0 < self.checkpoint_every < math.inf:
            seconds = f"{self.checkpoint_every:g}"
            raise InputError(f"--checkpoint-every is {seconds}: give seconds above 0")
        if self.limit is not None:
            whole_number("--limit", self.limit, 1)
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
        for name in ("--to", "--checkpoint", "--events"):
            if name in paths and not os.path.isdir(os.path.dirname(paths[name])):
                raise InputError(f"{name} is '{named[name]}', whose folder does not exist")


def stream_model(system: str, options: StreamOptions, taken: Mapping[str, Any]) -> int:
    """Identify while the samples come, and return the exit code.

    Parameters
    ----------
    system : str
    options : StreamOptions
    taken : mapping of str to Any
        Options of `smcpn.Online` and of the source; None leaves one to the system, or to its
        default.

    Raises
    ------
    InputError
        For options, a model, a source or a checkpoint that cannot be used.
    """
    options.check()
    check_marks(taken.get("delimiter"), taken.get("decimal"))
    if options.checkpoint is not None:
        # What a model does when it is loaded may change the folder.
        path = file_path("--checkpoint", options.checkpoint)
        options = replace(options, checkpoint=str(path))
    case = load_system(system, hold=options.hold)
    from smcpn.cli.streaming import streamed

    return streamed(case, options, taken)


@taking(
    Taken.of("run.identify", "identify", "particles", "seed", "likelihood", "state_particles"),
    Taken.of("solver", "EKF0", "steps", "order"),
    ONLINE,
    SOURCE,
)
def stream(system: System, options: StreamOptions, verbose: Verbose = 0, **taken: Any) -> None:
    """Identify while the samples come: CSV or JSON lines in, a JSON line per sample out.

    Options replace what a configuration says.

    Example: smcpn stream model.py --from tcp://rig:5000 --checkpoint rig.h5 --watch

    Example: tail -f log.csv | smcpn stream mysystem --to posterior.jsonl
    """
    raise typer.Exit(stream_model(system, options, taken))
