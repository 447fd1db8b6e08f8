"""A request to stop, from a signal or from the reader of the output."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """Set once, asked between samples.

    Attributes
    ----------
    signal : int, optional
        The signal that asked for it.
    requested : bool
    at_once : bool
        Nothing more is to be kept: the next signal ends the process, whatever it is doing.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self.requested = False
        self.at_once = False

    def request(self) -> None:
        """Ask to stop after the sample in hand."""
        self.requested = True

    @property
    def exit_code(self) -> int:
        """Exit code of a process that a signal has stopped: 143 for SIGTERM, 130 for SIGINT."""
        return 0 if self.signal is None else 128 + self.signal


@contextmanager
def stop_on_signals(signals: tuple[int, ...] = (signal.SIGINT, signal.SIGTERM)) -> Generator[Stop]:
    """Yield a `Stop` that the first signal requests; a second one ends the process at once.

    Parameters
    ----------
    signals : tuple of int
    """
    stop = Stop()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.at_once:
            # Threads at work would hold up an orderly exit.
            os._exit(128 + number)
        stop.signal = number
        stop.request()
        for each in signals:
            # Python's handlers wait for a kernel to return, the system's do not.
            signal.signal(each, signal.SIG_DFL)

    before = {each: signal.signal(each, handle) for each in signals}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
