"""Unknown functions in equations, and posteriors of many parameters, against targets and peers.

``--quick`` takes shorter records and fewer seeds, and judges them by the same targets.
"""

from __future__ import annotations

import sys

from benchmarks.study import command

PARTS = (
    "families", "gradients", "pendulum", "real", "many", "nuts",
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(command(__name__, PARTS))
