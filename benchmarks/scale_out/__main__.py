"""Runs through executors: the same bytes, what happens when workers fail, time, and scaling.

``--quick`` takes fewer kills, workers and repetitions. ``--simulate`` prints strong and weak
scaling to a thousand cores, by a simulation with constants that are measured here.
"""

from __future__ import annotations

import sys
from importlib import import_module

from benchmarks.rows import Study, command

PARTS: tuple[str, ...] = (
    "agreement",
    "failures",
    "speed",
    "memory",
)  # fmt: skip
"""Modules of this package with a mapping ``STUDIES`` each, one a line."""


def studies() -> dict[str, Study]:
    """All studies by name, in the order of the parts."""
    found: dict[str, Study] = {}
    for part in PARTS:
        found |= import_module(f"benchmarks.scale_out.{part}").STUDIES
    return found


def main() -> int:
    """Run the studies, or print the simulation."""
    if "--simulate" in sys.argv:
        from benchmarks.scale_out.simulation import table

        print(table())
        return 0
    return command(__doc__, studies())


if __name__ == "__main__":
    sys.exit(main())
