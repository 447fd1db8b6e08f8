"""Leave in order when asked to: the interrupt of a terminal, the request of a queue."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

TERMINATED = 128 + int(signal.SIGTERM)
"""Conventional exit code of a process that SIGTERM ended."""


@contextmanager
def orderly_termination() -> Generator[None]:
    """Turn SIGTERM into `SystemExit` with code 143, as SIGINT is `KeyboardInterrupt`.

    What holds resources is then left in order. A second signal ends the process at once. Outside
    the main thread, where Python allows no handler, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        if number == signal.SIGTERM:
            raise SystemExit(TERMINATED)
        raise KeyboardInterrupt

    handled = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, leave) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
