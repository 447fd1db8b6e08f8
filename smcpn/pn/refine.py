"""A filter run with further grid points, at which nothing was observed.

The prior is Markov: between two steps the filter's moments are a prediction, and a step cut in two
is two steps that share its diffusion. What holds for the points of a run holds for these too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.library import entry_point
from smcpn.pn import backward
from smcpn.pn.backward import Run
from smcpn.pn.layout import Layout

Array = NDArray[np.float64]


def refined(layout: Layout, run: Run, times: Array) -> Run:
    """Insert points at increasing ``times`` that are not in the run, each within a step of it."""
    if not len(times):
        return run
    left = np.searchsorted(run.time, times, side="right") - 1
    mean, factor = run.mean[left].copy(), run.factor[left].copy()
    step = np.empty(len(times))
    predict = entry_point(backward.interpolate)
    predict(layout, run, times, left, run.mean, run.factor, False, mean, factor, step)

    def merged(old: Array, new: Array) -> Array:
        return np.insert(old, left + 1, new, axis=0)

    time, before = merged(run.time, times), merged(run.step, step)
    mean, factor = merged(run.mean, mean), merged(run.factor, factor)
    changed = np.union1d(left + 1 + np.arange(len(times)), left + 2 + np.arange(len(times)))
    changed = changed[changed < len(time)]
    # The new points, and those a shorter step leads to: coordinates and noise are of its length.
    after = before.copy()
    after[changed] = time[changed] - time[changed - 1]
    whole = run.time[left + 1] - run.time[left]
    noise = merged(run.noise, run.noise[left + 1])
    lengths = merged(run.step, whole)
    power = 2 * layout.order + 1
    noise[changed] *= (after[changed] / lengths[changed])[:, None] ** power
    ratio = (after / before)[changed, None] ** np.arange(layout.order + 1)
    mean[changed] *= ratio[:, :, None]
    factor[changed] *= np.repeat(ratio, layout.width, axis=1)[:, None, :, None]
    restart = np.insert(run.restart, left + 1, False)
    return Run(time, after, mean, factor, noise, restart)
