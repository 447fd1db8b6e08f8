"""SIGINT and SIGTERM: the first is obeyed in order, the second ends the process at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

HANDLED = (signal.SIGINT, signal.SIGTERM)


class Terminated(SystemExit):
    """What SIGTERM raises; an exit of the user's own code is a plain `SystemExit`."""


def exit_code(number: int) -> int:
    """Conventional exit code of a process that a signal ended: 130 or 143."""
    return 128 + int(number)


@contextmanager
def at_first_signal(
    obey: Callable[[int], None], signals: tuple[int, ...] = HANDLED
) -> Generator[None]:
    """Call ``obey`` with the first signal; the next one has the system's own effect.

    Outside the main thread, where Python allows no handler, nothing changes.

    Parameters
    ----------
    obey : callable
        Takes the number of the signal.
    signals : tuple of int
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
