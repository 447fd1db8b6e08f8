"""Ends of the searches for a maximum, in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SAME, ROUNDED = 0.01, 1e-12
"""Ends whose log densities differ by less, or by so small a share of them, which a sum over many
samples rounds away, are said to be the same maximum."""
TWICE_BELOW = 3.0
"""Nats below the highest end down to which a height matters: what holds a twentieth as much shifts
the log-evidence by .05."""
TOLD = 3
"""Most heights that are told one by one."""


def as_high(one: float, top: float) -> bool:
    """True if a log density is as high as another one or higher, up to what searches leave."""
    size = abs(top) if np.isfinite(top) else 0.0
    return bool(one > top - SAME - ROUNDED * size)


def heights(ends: Sequence[float]) -> list[tuple[float, int]]:
    """Return the different heights of ends, the highest first, and how many ended at each."""
    found: list[tuple[float, int]] = []
    for end in sorted(ends, reverse=True):
        if found and as_high(end, found[-1][0]):
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((end, 1))
    return found


def where_ended(searches: int, ends: Sequence[float], density: str = "log posterior") -> str:
    """Say how many of the searches ended at which height, and how many did not converge.

    Parameters
    ----------
    searches : int
    ends : sequence of float
        Heights of those that converged.
    density : str
        What they climbed.
    """
    told = heights(ends)
    parts = [f"{count} at {height:.6g}" for height, count in told[:TOLD]]
    if told:
        parts[0] = f"{told[0][1]} ended at {density} {told[0][0]:.6g}"
    if lower := sum(count for _, count in told[TOLD:]):
        parts.append(f"{lower} lower")
    if searches > len(ends):
        parts.append(f"{searches - len(ends)} did not converge")
    return ", ".join(parts)
