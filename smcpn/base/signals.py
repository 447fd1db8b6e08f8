"""SIGINT and SIGTERM: the first lets the process end in order, the second ends it at once.

A run of `identify` ends by an exception (`orderly_termination`), a stream by a request that it
reads between samples (`stop_on_signals`).
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

HANDLED = (signal.SIGINT, signal.SIGTERM)


class Terminated(SystemExit):
    """Raised at SIGTERM; an exit of the user's own code is a plain `SystemExit`."""


def exit_code(number: int) -> int:
    """Conventional exit code of a process that a signal ended: 130 or 143."""
    return 128 + int(number)


@contextmanager
def at_first_signal(
    obey: Callable[[int], None], signals: tuple[int, ...] = HANDLED
) -> Generator[None]:
    """Call ``obey`` with the first signal; the next one has the system's own effect.

    Outside the main thread, where Python allows no handler, nothing changes.

    ``obey`` takes the number of the signal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        for each in signals:
            # Python's handlers wait for a kernel to return, the system's do not.
            signal.signal(each, signal.SIG_DFL)
        obey(number)

    before = {each: signal.signal(each, handle) for each in signals}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def orderly_termination() -> Generator[None]:
    """Turn SIGTERM into `Terminated`, a `SystemExit` with code 143.

    SIGINT is a `KeyboardInterrupt` already. What holds resources is then left
    in order.
    """
    with at_first_signal(_leave):
        yield


def _leave(number: int) -> None:
    if number == signal.SIGTERM:
        raise Terminated(exit_code(number))
    raise KeyboardInterrupt


@contextmanager
def uninterrupted() -> Generator[None]:
    """Hold back Ctrl-C until the end, as where half a result would break the next call."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[tuple[int, FrameType | None]] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: held.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if held and callable(before):
            before(*held[0])


class Stop:
    """A request to stop, set by a signal or a limit and read between samples.

    signal: The signal that set it.
    at_once: Nothing more is to be kept: the next signal ends the process, whatever it is doing.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self.requested = False
        self.at_once = False

    def request(self) -> None:
        """Ask to stop after the sample in hand."""
        self.requested = True

    def obey(self, number: int) -> None:
        """Stop because of a signal."""
        if self.at_once:
            # Threads at work would hold up an orderly exit.
            os._exit(exit_code(number))
        self.signal = number
        self.request()

    @property
    def exit_code(self) -> int:
        """Exit code of a process that a signal has stopped: 143 for SIGTERM, 130 for SIGINT."""
        return 0 if self.signal is None else exit_code(self.signal)


@contextmanager
def stop_on_signals(signals: tuple[int, ...] = HANDLED) -> Generator[Stop]:
    """Yield a `Stop` that the first signal requests; a second one ends the process at once."""
    stop = Stop()
    with at_first_signal(stop.obey, signals):
        yield stop
