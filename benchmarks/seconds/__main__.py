"""How long a user waits, in seconds of the processor and as ratios to a peer, measured in one run.

``--quick`` takes shorter records and fewer repetitions, and judges them by the same targets.
"""

from __future__ import annotations

import sys

from benchmarks.study import command

PARTS = (
    "commands", "functions", "identify", "lifted", "update",
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(command(__name__, PARTS))
