"""Equations found from data: exact supports beside the field's, and whether probabilities hold.

``--quick`` takes fewer seeds and shorter records, and judges them by the same targets.
"""

from __future__ import annotations

import sys

from benchmarks.executors import local, option
from benchmarks.rows import command, studies_of

STUDIES = studies_of("discovery", (
    "seeds",
    "lorenz",
    "grids",
    "offset",
    "clean",
    "calibration",
    "doubts",
    "reliability",
    "records",
    "shrinkage",
    "shim",
))  # fmt: skip


if __name__ == "__main__":
    sys.exit(command(__doc__, STUDIES, executor=option(local())))
