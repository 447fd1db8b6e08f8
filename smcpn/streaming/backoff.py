"""One connection after the other: attempts, waiting times, and when to give up."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from threading import Event as Flag
from typing import TypeVar

from smcpn.streaming.events import Event
from smcpn.streaming.source import Break

FIRST_SECONDS, LONGEST_SECONDS = 0.1, 5.0
T = TypeVar("T")


class Backoff:
    """Waiting times that double from 0.1 s to 5 s, and when to give up.

    Parameters
    ----------
    give_up : float, optional
        Seconds without data after which no further attempt is made; never by default.
    """

    def __init__(self, give_up: float | None = None) -> None:
        self._give_up = give_up
        self._next = FIRST_SECONDS
        self._last_success = time.monotonic()

    def reset(self) -> None:
        """Count from here: data has come. A connection alone says little."""
        self._next, self._last_success = FIRST_SECONDS, time.monotonic()

    def wait(self) -> float | None:
        """Seconds to the next attempt; None to give up."""
        silent = time.monotonic() - self._last_success
        if self._give_up is not None and silent >= self._give_up:
            return None
        seconds, self._next = self._next, min(2 * self._next, LONGEST_SECONDS)
        return seconds


def reconnecting(
    name: str, connection: Callable[[], Generator[T, None, str]], stop: Flag, backoff: Backoff
) -> Iterator[T | Event | Break]:
    """Yield what one connection after the other delivers.

    Parameters
    ----------
    name : str
        For messages.
    connection : callable
        Connects and yields until the connection is lost; returns why, or raises OSError.
    stop : threading.Event
    backoff : Backoff
    """
    while not stop.is_set():
        try:
            reason = yield from connection()
        except OSError as error:
            reason = error.strerror or str(error) or type(error).__name__
        if stop.is_set():
            return
        yield Break(lossy=True)
        seconds = backoff.wait()
        what = "given up" if seconds is None else f"next attempt in {seconds:.1f} s"
        yield Event("disconnected", f"{name}: {reason}; {what}")
        if seconds is None:
            return
        stop.wait(seconds)
