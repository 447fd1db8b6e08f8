"""One line that says what a computation is at, on a terminal, in a notebook, or in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any

Say = Callable[[str], None]

FIRST = 1.0
"""Seconds after which a line is shown for the first time."""
SHOWN_EVERY, LOGGED_EVERY = 0.25, 10.0
"""Seconds between two lines where they replace each other, and where they do not."""

_OUTER: ContextVar[Say | None] = ContextVar("status", default=None)


@contextmanager
def status(wanted: bool | None) -> Generator[Say]:
    """Yield a function that shows a line of text in place of the one before.

    None means: on a terminal and in a notebook. ``True`` on something else, as a log is, writes a
    line every ten seconds. Inside another line the text goes there.
    """
    outer = _OUTER.get()
    if outer is not None:
        yield outer
        return
    line = Line(wanted is True) if wanted is not False and (wanted or is_watched()) else None
    with routed(_nowhere if line is None else line.say) as say:
        try:
            yield say
        finally:
            if line is not None:
                line.end()


@contextmanager
def routed(say: Say) -> Generator[Say]:
    """Let a function show the lines of all that runs inside."""
    token = _OUTER.set(say)
    try:
        yield say
    finally:
        _OUTER.reset(token)


def is_watched() -> bool:
    """Whether somebody sees lines that replace each other."""
    return in_notebook() or sys.stderr.isatty()


def in_notebook() -> bool:
    """Whether this runs in a kernel of Jupyter."""
    shell = sys.modules.get("IPython")
    running = None if shell is None else shell.get_ipython()
    return running is not None and type(running).__name__ == "ZMQInteractiveShell"


def _nowhere(text: str) -> None:
    """Show nothing."""


class Line:
    """A line of status, where standard error goes.

    Parameters
    ----------
    logged : bool
        Whether to write lines below each other where they cannot replace each other.
    """

    def __init__(self, logged: bool) -> None:
        self._logged = logged
        self._due = time.monotonic() + (FIRST if is_watched() else LOGGED_EVERY)
        self._shown: Any = None

    def say(self, text: str) -> None:
        """Show a text, unless one was shown just now."""
        now = time.monotonic()
        if now < self._due:
            return
        replaced = is_watched()
        self._due = now + (SHOWN_EVERY if replaced else LOGGED_EVERY)
        if in_notebook():
            self._in_notebook(text)
        elif replaced:
            self._on_terminal(text)
        elif self._logged:
            print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Remove what replaces itself."""
        if self._shown is None:
            return
        if in_notebook():
            self._in_notebook("")
        else:
            self._shown.stop()

    def _in_notebook(self, text: str) -> None:
        display: Any = import_module("IPython.display").display
        bundle = {"text/plain": text}
        if self._shown is None:
            self._shown = display(bundle, raw=True, display_id=True)
        else:
            self._shown.update(bundle, raw=True)

    def _on_terminal(self, text: str) -> None:
        from rich.console import Console
        from rich.markup import escape
        from rich.status import Status

        if self._shown is None:
            self._shown = Status(escape(text), console=Console(stderr=True))
            self._shown.start()
        else:
            self._shown.update(escape(text))
