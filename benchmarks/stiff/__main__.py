"""Stiff problems: accuracy and cost of Rosenbrock steps, published optima, searches that find them.

``trajectory`` compares with diffrax where that is installed.
"""

from __future__ import annotations

import sys

from benchmarks.study import command

PARTS = ("trajectories", "searches", "posteriors", "again", "algebraic")

if __name__ == "__main__":
    sys.exit(command(__name__, PARTS))
