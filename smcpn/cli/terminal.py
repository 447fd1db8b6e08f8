"""Standard input, output and error: what a command prints, and streams that are closed."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress

from smcpn.errors import visible

BROKEN_PIPE = 141
"""Exit code where the reader of standard output has left."""


def say(text: object) -> None:
    """Print to standard output, control characters escaped but for line ends."""
    print(visible(str(text), keep="\n"))


def remark(text: object) -> None:
    """Print one line to standard error, control characters escaped."""
    print(visible(str(text)), file=sys.stderr)


class VisibleFormatter(logging.Formatter):
    """A formatter that escapes control characters."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        return visible(super().format(record), keep="\n")


def open_missing_streams() -> None:
    """Open what was closed of the three standard streams, empty.

    A file that is opened later would take the place of a missing one, and receive what is printed.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def discard_output() -> None:
    """Discard what is left for standard output, which Python would try to write at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def leave_closed_output() -> None:
    """Exit where the reader of standard output has left."""
    discard_output()
    sys.exit(BROKEN_PIPE)
