"""Models as people have them: what is written in a line is computed as a plain reference does."""

from __future__ import annotations

import sys

from benchmarks.study import command

PARTS = ("formulas", "petab_by_hand")

if __name__ == "__main__":
    sys.exit(command(__name__, PARTS))
