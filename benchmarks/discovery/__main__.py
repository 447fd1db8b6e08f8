"""Equations found from data: exact supports beside the field's, and whether probabilities hold.

``--quick`` takes fewer seeds and shorter records, and judges them by the same targets.
"""

from __future__ import annotations

import sys
from importlib import import_module

from benchmarks.executors import local, option
from benchmarks.rows import Study, command

PARTS: tuple[str, ...] = (
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
)  # fmt: skip
"""Modules of this package with a mapping ``STUDIES`` each, one a line."""


def studies() -> dict[str, Study]:
    """All studies by name, in the order of the parts."""
    found: dict[str, Study] = {}
    for part in PARTS:
        found |= import_module(f"benchmarks.discovery.{part}").STUDIES
    return found


if __name__ == "__main__":
    sys.exit(command(__doc__, studies(), executor=option(local())))
