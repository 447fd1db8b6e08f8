"""Options of ``smcpn stream``: where samples come from and results go."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Annotated

from smcpn.cli.options import DATA, MESSAGES, OUTPUT, RUN, Decimal, Delimiter, Hold, option
from smcpn.errors import InputError, whole_number
from smcpn.io.dialect import check_marks

FORMATS = ("csv", "json")
STANDARD = "-"
EVERY_SECONDS = 60.0
ONLINE = ("budget", "forget", "lookahead")
"""Options that `smcpn.Online` has and `smcpn.identify` has not."""


@dataclass(frozen=True)
class StreamOptions:
    """Source of samples and sinks of results, as typed."""

    source: Annotated[
        str, option(DATA, "Where samples come from.", "--from", metavar="FILE|-|URL")
    ] = STANDARD
    follow: Annotated[bool, option(DATA, "Read the file as it grows.", "--follow")] = False
    format: Annotated[
        str | None, option(DATA, "Recognised line by line if left out.", words=FORMATS)
    ] = None
    columns: Annotated[
        str | None, option(DATA, "Columns of CSV without a header.", metavar="t,u,y")
    ] = None
    delimiter: Delimiter = None
    decimal: Decimal = None
    announce: Annotated[
        bool, option(DATA, 'Send {"resume_after": t} to a TCP server.', "--announce")
    ] = False
    give_up: Annotated[float | None, option(DATA, "End after this many seconds without data.")] = (
        None
    )
    ca_file: Annotated[
        str | None, option(DATA, "Certificates that TLS believes.", metavar="FILE")
    ] = None
    credentials: Annotated[
        str | None,
        option(
            DATA,
            "User and password for a broker, a line each; or SMCPN_USER, SMCPN_PASSWORD.",
            metavar="FILE",
        ),
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
        for name, seconds in (
            ("--checkpoint-every", self.checkpoint_every),
            ("--give-up", self.give_up),
        ):
            if seconds is not None and not 0 < seconds < math.inf:
                raise InputError(f"{name} is {seconds:g}: give seconds above 0")
        if self.limit is not None:
            whole_number("--limit", self.limit, 1)
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
        for name in ("--to", "--checkpoint", "--events"):
            if name in paths and not os.path.isdir(os.path.dirname(paths[name])):
                raise InputError(f"{name} is '{named[name]}', whose folder does not exist")
