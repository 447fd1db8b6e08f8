"""Runs through executors: the same bytes, what happens when workers fail, time, and memory.

``--quick`` takes fewer kills, workers and repetitions.
"""

from __future__ import annotations

import sys

from benchmarks.study import command

PARTS = ("agreement", "failures", "speed", "memory")

if __name__ == "__main__":
    sys.exit(command(__name__, PARTS))
