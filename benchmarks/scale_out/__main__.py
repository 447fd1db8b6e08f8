"""Runs through executors: the same bytes, what happens when workers fail, time, and scaling.

``--quick`` takes fewer kills, workers and repetitions. ``--simulate`` prints strong and weak
scaling to a thousand cores, by a simulation with constants that are measured here.
"""

from __future__ import annotations

import sys

from benchmarks.rows import command, studies_of

STUDIES = studies_of("scale_out", (
    "agreement",
    "failures",
    "speed",
    "memory",
))  # fmt: skip


def main() -> int:
    """Run the studies, or print the simulation."""
    if "--simulate" in sys.argv:
        from benchmarks.scale_out.simulation import table

        print(table())
        return 0
    return command(__doc__, STUDIES)


if __name__ == "__main__":
    sys.exit(main())
