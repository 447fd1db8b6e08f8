"""Smoothing, joint draws and dense output of a stored filter run, in compiled code.

Equation numbers are those of Bosch, Hennig, Tronarp (2021), 'Calibrated adaptive probabilistic ODE
solvers'. Everything rests on the backward kernel of one step: given the state after it, the state
before is normal with mean mu + G (x - mu^-) and covariance B B' (13). One triangularisation of

    [ A L   Q^1/2 ]      [ P^1/2     0 ]
    [ L     0     ]  to  [ G P^1/2   B ]

gives all three, so that nothing is inverted but a triangle that contains the process noise. Where
derivatives restart, the step after holds the states only, and the same array has their rows on
top.

The prior is Markov: between two steps the filter's moments are a prediction, and a step cut in two
is two steps that share its diffusion. So a run can be given further grid points, at which nothing
is observed (`refined`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.routine import routine
from smcpn.pn.forward import clear, copy, predicted_rows, solve_lower, triangularise
from smcpn.pn.iwp import extrapolate, rescale

if TYPE_CHECKING:
    from smcpn.pn.layout import CompiledLayout, Indices

Array = NDArray[np.float64]


class Run(NamedTuple):
    """Filtered moments on the grid, as `forward.Store` has them.

    ``restart`` marks a point that repeats the time of the one before, with derivatives from their
    exact values.
    """

    time: Array
    step: Array
    mean: Array
    factor: Array
    noise: Array
    restart: NDArray[np.bool_]


class Step(NamedTuple):
    """Work arrays of one backward step; ``row`` says which row holds an entry, -1 for none."""

    rows: Array
    row: NDArray[np.int64]
    predicted: Array
    scaled: Array
    future: Array
    vector: Array
    noise_before: Array
    noise_after: Array


def workspace(layout: CompiledLayout) -> Step:
    """Work arrays of any number of steps."""
    size, d = layout.order + 1, len(layout.top)
    entries = size * layout.width
    return Step(
        np.empty((2 * entries, 2 * entries)),
        np.empty((size, d), np.int64),
        np.empty((size, d)),
        np.empty((size, d)),
        np.empty((entries, 2 * entries)),
        np.empty(entries),
        np.empty(d),
        np.empty(d),
    )


def smooth(layout: CompiledLayout, run: Run, mean: Array, factor: Array, step: Step):
    """Fill smoothed means (N, order + 1, d) and factors (N, B, entries, entries), (13)."""
    last = len(run.time) - 1
    copy(run.mean[last], mean[last])
    for block in range(layout.n_blocks):
        copy(run.factor[last, block], factor[last, block])
    for n in range(last - 1, -1, -1):
        ratio, own = _begin(layout, run, n, step)
        for block in range(layout.n_blocks):
            pivots = _kernel(layout, run, n, block, run.factor[n, block], ratio, step)
            _smooth_mean(layout, block, pivots, mean[n + 1], own, ratio, step, mean[n])
            after, before = factor[n + 1, block], factor[n, block]
            _smooth_factor(layout, block, pivots, after, own, ratio, step, before)


def sample(layout: CompiledLayout, run: Run, noise: Array, scale: Array, paths: Array, step: Step):
    """Draw joint paths (S, N, order + 1, d) backwards from standard normal ``noise`` (same shape).

    ``scale`` (d,) is the standard deviation that multiplies every process.
    """
    last = len(run.time) - 1
    entries = (layout.order + 1) * layout.width
    for path in range(paths.shape[0]):
        copy(run.mean[last], paths[path, last])
    for block in range(layout.n_blocks):
        _scatter(layout, block, run.factor[last, block], 0, 0, 1.0, noise, scale, paths, last)
    for n in range(last - 1, -1, -1):
        ratio, own = _begin(layout, run, n, step)
        for block in range(layout.n_blocks):
            pivots = _kernel(layout, run, n, block, run.factor[n, block], ratio, step)
            for path in range(paths.shape[0]):
                after, before = paths[path, n + 1], paths[path, n]
                _smooth_mean(layout, block, pivots, after, own, ratio, step, before)
            _scatter(layout, block, step.rows, entries, pivots, ratio, noise, scale, paths, n)


def interpolate(
    layout: CompiledLayout,
    run: Run,
    times: Array,
    left: Indices,
    mean_after: Array,
    factor_after: Array,
    smoothed: bool,
    mean: Array,
    factor: Array,
    steps: Array,
    step: Step,
):
    """Moments between the grid points ``left`` and the next; ``steps`` (T,) are the coordinates.

    ``mean_after``, ``factor_after`` are the smoothed moments on the grid, unused for a filter.
    """
    entries = (layout.order + 1) * layout.width
    noise_before, noise_after = step.noise_before, step.noise_after
    for k in range(len(times)):
        n = left[k]
        h = times[k] - run.time[n]
        power = 2 * layout.order + 1
        whole = run.time[n + 1] - run.time[n]
        rest = run.time[n + 1] - times[k]
        for p in range(len(layout.top)):
            noise_before[p] = run.noise[n + 1, p] * (h / whole) ** power
            noise_after[p] = run.noise[n + 1, p] * (rest / whole) ** power
        steps[k] = h
        rescale(run.mean[n], h / run.step[n], mean[k])
        extrapolate(mean[k])
        for block in range(layout.n_blocks):
            rows = step.rows
            predicted_rows(
                layout, block, run.factor[n, block], entries, h / run.step[n], noise_before, rows
            )
            triangularise(rows, entries, entries, 2 * entries)
            _in_order(layout, block, rows, factor[k, block])
        if smoothed:
            rescale(mean[k], rest / h, step.scaled)
            copy(step.scaled, step.predicted)
            extrapolate(step.predicted)
            copy(layout.row, step.row)
            own = rest / run.step[n + 1]
            for block in range(layout.n_blocks):
                pivots = _smoothing_rows(
                    layout, block, factor[k, block], rest / h, noise_after, step
                )
                _smooth_mean(layout, block, pivots, mean_after[n + 1], own, rest / h, step, mean[k])
                _smooth_factor(
                    layout, block, pivots, factor_after[n + 1, block], own, rest / h, step,
                    factor[k, block],
                )  # fmt: skip


def _scatter(
    layout: CompiledLayout,
    block: int,
    rows: Array,
    first_row: int,
    first_column: int,
    ratio: float,
    noise: Array,
    scale: Array,
    paths: Array,
    n: int,
):
    """Add L e to the paths at grid point n, L the factor of a block that begins there in ``rows``.

    The factor is in coordinates of a step ``ratio`` times as long as those of the point.
    """
    width, entries = layout.width, (layout.order + 1) * layout.width
    for p in range(len(layout.top)):
        if layout.block[p] != block:
            continue
        for path in range(paths.shape[0]):
            shrink = 1.0
            for j in range(layout.order + 1):
                row = first_row + j * width + layout.place[p]
                value = 0.0
                for column in range(entries):
                    q = p - layout.place[p] + column % width
                    value += rows[row, first_column + column] * noise[path, n, column // width, q]
                paths[path, n, j, p] += scale[p] * value * shrink
                shrink /= ratio


def _begin(layout: CompiledLayout, run: Run, n: int, step: Step) -> tuple[float, float]:
    """Predict from grid point n to the next; returns how the length of their steps changes.

    Of the two ratios the first turns coordinates of n into those that were predicted, the second
    coordinates of the next point into these.
    """
    if run.restart[n + 1]:
        copy(run.mean[n], step.scaled)
        copy(run.mean[n], step.predicted)
        for p in range(len(layout.top)):
            for j in range(layout.order + 1):
                state = j < layout.top[p]
                step.row[j, p] = j * layout.width + layout.place[p] if state else -1
        return 1.0, run.step[n] / run.step[n + 1]
    rescale(run.mean[n], run.step[n + 1] / run.step[n], step.scaled)
    copy(step.scaled, step.predicted)
    extrapolate(step.predicted)
    copy(layout.row, step.row)
    return run.step[n + 1] / run.step[n], 1.0


def _kernel(
    layout: CompiledLayout,
    run: Run,
    n: int,
    block: int,
    factor: Array,
    ratio: float,
    step: Step,
) -> int:
    """Leave P^1/2, G P^1/2 and B in ``step.rows``; returns the size of P."""
    if not run.restart[n + 1]:
        return _smoothing_rows(layout, block, factor, ratio, run.noise[n + 1], step)
    rows, entries = step.rows, (layout.order + 1) * layout.width
    clear(rows, 2 * entries, 2 * entries)
    pivots = 0
    first = block * layout.width
    for s in range(layout.width):
        for j in range(layout.top[first + s]):
            row = step.row[j, first + s]
            for column in range(entries):
                rows[row, column] = factor[j * layout.width + s, column]
            pivots = max(pivots, row + 1)
    for e in range(entries):
        for column in range(entries):
            rows[entries + e, column] = factor[e, column]
    # The rows of the states sit on top; those between them and the lower half are zero.
    triangularise(rows, pivots, 2 * entries, entries)
    return pivots


def _smoothing_rows(
    layout: CompiledLayout,
    block: int,
    factor: Array,
    ratio: float,
    noise: Array,
    step: Step,
) -> int:
    """Compute the rows of `_kernel` for a step with process noise, whose P has all entries."""
    entries, rows = (layout.order + 1) * layout.width, step.rows
    predicted_rows(layout, block, factor, entries, ratio, noise, rows)
    power = 1.0
    for j in range(layout.order + 1):
        for e in range(j * layout.width, (j + 1) * layout.width):
            for column in range(entries):
                rows[entries + e, column] = power * factor[e, column]
                rows[entries + e, entries + column] = 0.0
        power *= ratio
    triangularise(rows, entries, 2 * entries, 2 * entries)
    return entries


def _smooth_mean(
    layout: CompiledLayout,
    block: int,
    pivots: int,
    after: Array,
    own: float,
    ratio: float,
    step: Step,
    mean: Array,
):
    """Mu + G (after - mu^-); ``after`` is in coordinates whose step is ``1 / own`` of ours."""
    size, width, entries = layout.order + 1, layout.width, (layout.order + 1) * layout.width
    for p in range(len(layout.top)):
        if layout.block[p] != block or layout.place[p] > 0:
            continue
        for s in range(width):
            power = 1.0
            for j in range(size):
                row = step.row[j, p + s]
                if row >= 0:
                    step.vector[row] = power * after[j, p + s] - step.predicted[j, p + s]
                power *= own
        solve_lower(step.rows, pivots, step.vector)
        for s in range(width):
            power = 1.0
            for j in range(size):
                value = step.scaled[j, p + s]
                for column in range(pivots):
                    value += step.rows[entries + j * width + s, column] * step.vector[column]
                mean[j, p + s] = value * power
                power /= ratio


def _smooth_factor(
    layout: CompiledLayout,
    block: int,
    pivots: int,
    after: Array,
    own: float,
    ratio: float,
    step: Step,
    factor: Array,
):
    """Triangular factor of G Sigma G' + B B', Sigma = after after'."""
    size, width, entries = layout.order + 1, layout.width, (layout.order + 1) * layout.width
    first, future, rows = block * width, step.future, step.rows
    for column in range(entries):
        for s in range(width):
            power = 1.0
            for j in range(size):
                row = step.row[j, first + s]
                if row >= 0:
                    step.vector[row] = power * after[j * width + s, column]
                power *= own
        solve_lower(rows, pivots, step.vector)
        for e in range(entries):
            value = 0.0
            for k in range(pivots):
                value += rows[entries + e, k] * step.vector[k]
            future[e, column] = value
    for e in range(entries):
        for column in range(entries):
            future[e, entries + column] = rows[entries + e, pivots + column]
    triangularise(future, entries, entries, 2 * entries)
    power = 1.0
    for j in range(size):
        for e in range(j * width, (j + 1) * width):
            for column in range(entries):
                factor[e, column] = power * future[e, column] if column <= e else 0.0
        power /= ratio


def _in_order(layout: CompiledLayout, block: int, rows: Array, factor: Array):
    """Triangularised rows, tops first, as a factor entry by entry."""
    width = layout.width
    for s in range(width):
        p = block * width + s
        for j in range(layout.order + 1):
            row = layout.row[j, p]
            for column in range(factor.shape[1]):
                factor[j * width + s, column] = rows[row, column] if column <= row else 0.0


def refined(layout: CompiledLayout, run: Run, times: Array) -> Run:
    """Insert points at increasing ``times`` that are not in the run, each within a step of it."""
    if not len(times):
        return run
    left = np.searchsorted(run.time, times, side="right") - 1
    mean, factor = run.mean[left].copy(), run.factor[left].copy()
    step = np.empty(len(times))
    predict, work = routine(interpolate), workspace(layout)
    predict(layout, run, times, left, run.mean, run.factor, False, mean, factor, step, work)

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
