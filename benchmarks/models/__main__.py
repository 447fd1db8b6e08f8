"""Models as people have them: formulas, limits, published problems, compiled code, events."""

from __future__ import annotations

import sys

from benchmarks.study import command

PARTS = ("formulas", "petab_by_hand", "compiled", "doses", "events")

if __name__ == "__main__":
    sys.exit(command(__name__, PARTS))
