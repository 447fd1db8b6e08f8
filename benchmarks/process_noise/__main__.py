"""Likelihoods of disturbed models against exact answers, peers and a real record.

``--quick`` takes shorter records and fewer seeds, and judges them by the same targets.
"""

from __future__ import annotations

import sys

from benchmarks.study import command

PARTS = (
    "discrete", "particle", "kalman", "smc2", "states", "tanks",
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(command(__name__, PARTS))
