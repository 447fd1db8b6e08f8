"""Modes of a posterior: the parts that particles fall into, each with its weight, mean and sd."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smcpn.base.tables import Column, Table, table_text, words
from smcpn.smc.particles import effective_sample_size

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

VALLEY = 0.1
"""Density between two modes, relative to that of the lower one, below which they are two."""
LEAST_WEIGHT, LEAST_PARTICLES = 0.02, 8.0
"""Weight of a mode, and distinct particles in it, from which it is told from chance."""
BINS, REACH, TAIL = 256, 4.0, 0.002
"""Of a density along a line, bandwidths that its kernel reaches, and weight beyond either end."""
FEW_MODES = 4
"""Most modes that a summary prints."""
APART = 3.0
"""Standard deviations between the means of modes from which a parameter differs by mode."""


@dataclass(frozen=True)
class PosteriorMode:
    """One of several modes of a posterior.

    weight: Its share of the posterior.
    mean, sd: (d,), of the values of the parameters in it.
    """

    weight: float
    mean: Array
    sd: Array


def posterior_modes(theta: Array, values: Array, weights: Array) -> tuple[PosteriorMode, ...]:
    """Return the modes of weighted particles, the heaviest first; one where no valley parts them.

    ``theta`` are unconstrained coordinates, in which valleys are looked for, ``values`` are
    natural, both (N, d); the sum of ``weights`` is one.
    """
    found: list[PosteriorMode] = []
    for part in _parted(theta, weights):
        weight = float(weights[part].sum())
        own = weights[part] / weight
        mean = own @ values[part]
        found.append(PosteriorMode(weight, mean, np.sqrt(own @ np.square(values[part] - mean))))
    return tuple(sorted(found, key=lambda one: -one.weight))


def _parted(theta: Array, weights: Array) -> Iterator[Indices]:
    """Yield the particles of each mode: parts are parted again while a valley is found."""
    waiting: list[Indices] = [np.flatnonzero(weights > 0)]
    while waiting:
        part = waiting.pop()
        below = _beside_valley(theta[part], weights[part], float(weights.sum()))
        if below is None:
            yield part
        else:
            waiting += [part[below], part[~below]]


def _beside_valley(theta: Array, weights: Array, total: float) -> NDArray[np.bool_] | None:
    """Return which of the particles lie on one side of the deepest valley, None where none is.

    A valley of the density along a coordinate or a principal axis: what hangs together has none
    along any line, however curved it is.
    """
    distinct = min(float(effective_sample_size(np.log(weights))), len(np.unique(theta[:, 0])))
    if distinct < 2 * LEAST_PARTICLES:
        return None
    share = weights / weights.sum()
    sd = np.sqrt(share @ np.square(theta - share @ theta))
    scaled = (theta - share @ theta)[:, sd > 0] / sd[sd > 0]
    axes = np.linalg.eigh((scaled * share[:, None]).T @ scaled)[1]
    lines = np.hstack([scaled, scaled @ axes])
    best, deepest = None, VALLEY
    for line in lines.T:
        depth, place = _valley(line, share, distinct)
        below = line < place
        lesser = min(float(share[below].sum()), float(share[~below].sum()))
        kept = (
            lesser * distinct >= LEAST_PARTICLES and lesser * weights.sum() > LEAST_WEIGHT * total
        )
        if depth < deepest and kept:
            best, deepest = below, depth
    return best


def _valley(line: Array, share: Array, distinct: float) -> tuple[float, float]:
    """Depth of the deepest valley of a density, relative to the lower of its sides, and its place.

    The bandwidth of the kernel is Silverman's: too wide where there are several modes.
    """
    order = np.argsort(line)
    ends = np.searchsorted(np.cumsum(share[order]), (TAIL, 1.0 - TAIL))
    line = np.clip(line, *line[order][np.minimum(ends, len(line) - 1)])
    edges = np.linspace(line.min(), line.max(), BINS + 1)
    step = edges[1] - edges[0]
    if not step > 0.0:
        return 1.0, 0.0
    heights = np.histogram(line, edges, weights=share)[0]
    spread = np.sqrt(share @ np.square(line - share @ line))
    bandwidth = max(1.06 * spread * distinct**-0.2 / step, 0.5)
    reach = min(int(np.ceil(REACH * bandwidth)), BINS // 2 - 1)
    kernel = np.exp(-0.5 * np.square(np.arange(-reach, reach + 1) / bandwidth))
    density = np.convolve(heights, kernel, "same")
    before = np.maximum.accumulate(density)
    after = np.maximum.accumulate(density[::-1])[::-1]
    # Sums that round to nothing are no valley beside another one.
    depth = density / np.maximum(np.minimum(before, after), np.finfo(float).tiny)
    # The middle of a wide valley, not its first bin.
    lowest = np.flatnonzero(depth <= depth.min() + 1e-12)
    place = int(lowest[len(lowest) // 2])
    return float(depth[place]), float(edges[place] + step / 2)


def apart(modes: Sequence[PosteriorMode]) -> NDArray[np.bool_]:
    """Return which parameters differ by mode, (d,)."""
    first = modes[0]
    differ = np.zeros(len(first.mean), dtype=bool)
    for other in modes[1:]:
        differ |= np.abs(other.mean - first.mean) > APART * np.hypot(first.sd, other.sd) / 2
    return differ


def mode_lines(names: Sequence[str], modes: Sequence[PosteriorMode]) -> list[str]:
    """Lines of a summary: a column for each of several modes; none of a single one."""
    if len(modes) < 2:
        return []
    shown = modes[:FEW_MODES]
    heads = (f"mode {k} ({100 * one.weight:.3g} %)" for k, one in enumerate(shown))
    rows = [
        [name, *(f"{one.mean[j]:.5g} +- {one.sd[j]:.2g}" for one in shown)]
        for j, name in enumerate(names)
    ]
    rest = len(modes) - len(shown)
    notes = [f"and {rest} more modes"] if rest else []
    return table_text(Table((words(), *map(Column, heads)), rows, notes=notes)).splitlines()
