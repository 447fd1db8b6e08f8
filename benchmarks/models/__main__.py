"""Models as people have them: compiled equations, and what else cannot be traced."""

from __future__ import annotations

import sys

from benchmarks.study import command

PARTS = ("compiled",)

if __name__ == "__main__":
    sys.exit(command(__name__, PARTS))
