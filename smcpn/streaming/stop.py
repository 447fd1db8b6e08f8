"""A request to stop, from a signal or from the reader of the output."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager

from smcpn.signals import HANDLED, at_first_signal, exit_code


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
    """Yield a `Stop` that the first signal requests; a second one ends the process at once.

    Parameters
    ----------
    signals : tuple of int
    """
    stop = Stop()
    with at_first_signal(stop.obey, signals):
        yield stop
