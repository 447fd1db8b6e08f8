"""Likelihoods of disturbed models against exact answers, peers and a real record.

``--quick`` takes shorter records and fewer seeds, and judges them by the same targets.
"""

from __future__ import annotations

import sys
from importlib import import_module

from benchmarks.executors import option
from benchmarks.rows import Study, command

PARTS: tuple[str, ...] = (
    "discrete",
    "particle",
    "kalman",
    "smc2",
    "states",
    "tanks",
)  # fmt: skip
"""Modules of this package with a mapping ``STUDIES`` each, one a line."""


def studies() -> dict[str, Study]:
    """All studies by name, in the order of the parts."""
    found: dict[str, Study] = {}
    for part in PARTS:
        found |= import_module(f"benchmarks.process_noise.{part}").STUDIES
    return found


if __name__ == "__main__":
    sys.exit(command(__doc__, studies(), executor=option()))
