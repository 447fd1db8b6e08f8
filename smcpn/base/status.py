"""One line that says what a computation is at, on a terminal, in a notebook, or in a log."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any

Say = Callable[[str], None]

FIRST = 1.0
"""Seconds after which a line is shown for the first time."""
AT_WORK = "at work"
"""Text of the line where nothing has been said by then."""
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
    line = StatusLine(wanted is True) if wanted is not False and (wanted or is_watched()) else None
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


def tell(text: str) -> None:
    """Show a text in the line of the computation that this is a part of, if it has one."""
    say = _OUTER.get()
    if say is not None:
        say(text)


def is_watched() -> bool:
    """True if somebody sees lines that replace each other."""
    return in_notebook() or sys.stderr.isatty()


def in_notebook() -> bool:
    """True if this runs in a kernel of Jupyter."""
    shell = sys.modules.get("IPython")
    running = None if shell is None else shell.get_ipython()
    return running is not None and type(running).__name__ == "ZMQInteractiveShell"


def _nowhere(text: str) -> None:
    """Show nothing."""


class StatusLine:
    """A line of status, where standard error goes.

    With ``logged`` lines are written below each other where they cannot replace each other.
    """

    def __init__(self, logged: bool) -> None:
        self._logged, self._replaced = logged, is_watched()
        self._due = time.monotonic() + (FIRST if self._replaced else LOGGED_EVERY)
        self._shown: Any = None
        self._text, self._lock = AT_WORK, threading.Lock()
        # What takes long may say nothing before it does, as the compiler.
        self._first = threading.Timer(FIRST, self._show_first)
        self._first.daemon = True
        if self._replaced:
            self._first.start()

    def say(self, text: str) -> None:
        """Show a text, unless one was shown just now."""
        with self._lock:
            self._text = text
            if time.monotonic() >= self._due:
                self._show()

    def end(self) -> None:
        """Remove what replaces itself."""
        self._first.cancel()
        with self._lock:
            self._due = float("inf")
            if self._shown is None:
                return
            if in_notebook():
                self._in_notebook("")
            else:
                self._shown.stop()

    def _show_first(self) -> None:
        with self._lock:
            if self._shown is None and self._due < float("inf"):
                self._show()

    def _show(self) -> None:
        self._due = time.monotonic() + (SHOWN_EVERY if self._replaced else LOGGED_EVERY)
        if in_notebook():
            self._in_notebook(self._text)
        elif self._replaced:
            self._on_terminal(self._text)
        elif self._logged:
            print(self._text, file=sys.stderr, flush=True)

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
