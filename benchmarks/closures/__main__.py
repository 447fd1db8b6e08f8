"""Unknown functions in equations, and posteriors of many parameters, against targets and peers.

``--quick`` takes shorter records and fewer seeds, and judges them by the same targets.
"""

from __future__ import annotations

import sys
from importlib import import_module

from benchmarks.executors import option
from benchmarks.rows import Study, command

PARTS: tuple[str, ...] = (
    "families",
    "gradients",
    "pendulum",
    "real",
    "many",
    "nuts",
)  # fmt: skip
"""Modules of this package with a mapping ``STUDIES`` each, one a line."""


def studies() -> dict[str, Study]:
    """All studies by name, in the order of the parts."""
    found: dict[str, Study] = {}
    for part in PARTS:
        found |= import_module(f"benchmarks.closures.{part}").STUDIES
    return found


if __name__ == "__main__":
    sys.exit(command(__doc__, studies(), executor=option()))
