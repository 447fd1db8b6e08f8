"""Equations found from data: exact supports beside the field's, and whether probabilities hold.

``--quick`` takes fewer seeds and shorter records, and judges them by the same targets.
"""

from __future__ import annotations

import sys

from benchmarks.executors import local
from benchmarks.study import command

PARTS = (
    "seeds", "grids", "offset", "clean", "calibration", "doubts", "reliability",
    "records", "shrinkage", "shim", "samples", "kills",
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(command(__name__, PARTS, executor=local()))
