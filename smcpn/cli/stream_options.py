"""Options of ``smcpn stream``: where samples come from and results go."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Annotated

from smcpn.cli.options import DATA, MESSAGES, OUTPUT, RUN, FunctionOptions, Hold, option
from smcpn.errors import InputError, whole_number

STANDARD = "-"
EVERY_SECONDS = 60.0
SOURCE = FunctionOptions.of(
    "io.address", "open_source", "follow", "format", "delimiter", "decimal", "announce", "give_up",
    "ca_file", "credentials", panel=DATA,
)  # fmt: skip
ONLINE = FunctionOptions.of("online.online", "Online", "budget", "forget", "lookahead")
"""Options that `smcpn.Online` has and `smcpn.identify` has not."""


@dataclass(frozen=True)
class StreamOptions:
    """Source of samples and sinks of results, as typed."""

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

        Raises `InputError` for numbers out of range, a folder that does not exist, one file for two
        things.
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
