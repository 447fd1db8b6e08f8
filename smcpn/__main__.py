"""The command ``smcpn``, and ``python -m smcpn``."""

from __future__ import annotations

import os
import signal
from types import FrameType


def main() -> None:
    """Load and run the command line, which an interrupt ends in one sentence from here on."""
    before = signal.signal(signal.SIGINT, _leave)
    from smcpn.cli.app import main as run

    signal.signal(signal.SIGINT, before)
    try:
        run()
    finally:
        # The process unloads, which an interrupt would end in a traceback.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _leave(number: int, frame: FrameType | None) -> None:
    # Nothing is to be kept yet, and a package that is half loaded turns exceptions into others.
    os.write(2, b"smcpn: interrupted\n")
    os._exit(128 + number)


if __name__ == "__main__":
    main()
