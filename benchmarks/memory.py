"""Memory of the process that asks."""

from __future__ import annotations

import resource
import sys


def peak_memory() -> float:
    """Largest resident size so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1.0 if sys.platform == "darwin" else 1024.0)
