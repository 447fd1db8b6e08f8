"""Runs through executors: the same bytes, what happens when workers fail, time, and scaling.

``--quick`` takes fewer kills, workers and repetitions. The full form also tells strong and weak
scaling to a thousand cores, by a simulation with constants that are measured here.
"""

from __future__ import annotations

import sys

from benchmarks.study import command

PARTS = ("agreement", "failures", "speed", "memory", "simulation")

if __name__ == "__main__":
    sys.exit(command(__name__, PARTS))
