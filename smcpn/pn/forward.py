"""The filter's loop, compiled once for every model: adaptive or fixed steps.

Equation numbers are those of Bosch, Hennig, Tronarp (2021), 'Calibrated adaptive probabilistic ODE
solvers'. Mean and covariance are kept in Nordsieck coordinates m_j = h^j x^(j) / j! of the step
just done, so that a change of step is a scaling, and the diffusion as the process noise of the
step itself, in the square of the state's unit: no power of h is ever formed that could leave the
range of numbers.

A step predicts the mean (10a), evaluates f and its Jacobian (11a), and estimates the local
diffusion and from it the local error (21)-(29). These need no covariance: the state before the
step counts as exact. Where coupled processes share one diffusion, each counts in the tolerance of
its state, so that no unit matters; with the same tolerance for all, the equations are those of the
paper. A step that is rejected ends here; an accepted one predicts the covariance (10b) and
conditions on the residual being zero (11). Square roots of covariances are triangular factors by
Householder reflections.
"""

from __future__ import annotations

from math import isfinite, log, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.routine import call_address
from smcpn.pn import step_control
from smcpn.pn.iwp import extrapolate, extrapolate_rows, rescale

if TYPE_CHECKING:
    from smcpn.pn.layout import CompiledLayout

Array = NDArray[np.float64]

DONE, FULL, UNDERFLOW, DIVERGED, EXHAUSTED = range(5)
"""How a run ends: all stops reached, storage used up, or the failure."""
ROUNDING = float(np.finfo(float).eps)
"""Least residual in units of its rate: one that happens to come out as zero would claim that the
step is without error."""


class Field(NamedTuple):
    """Addresses of the compiled vector field and Jacobian, and parameters.

    The vector field has one entry per process, the Jacobian one row.
    """

    rate: int
    jacobian: int
    parameters: Array


class Inputs(NamedTuple):
    """Piecewise polynomials: coefficients (K, degree + 1, n_inputs) in s = -1..1 on a piece."""

    edges: Array
    coefficients: Array


class Control(NamedTuple):
    """Settings of the step control.

    ``variance`` is the known variance of the diffusion over a time ``unit``; 0 where it is
    estimated anew at every step. With ``fixed`` every stop ends a single step. The local error is
    of this ``order`` in h; ``own`` and ``memory`` are the exponents a and b of `step_control`.
    """

    fixed: bool
    rtol: float
    atol: float
    order: int
    own: float
    memory: float
    max_steps: int
    variance: float
    unit: float


class State(NamedTuple):
    """State of the loop, changed in place; a further call continues from it.

    ``clock`` holds time, step that the coordinates belong to, step to try, and error of the step
    before. ``counts`` holds accepted and rejected steps, grid points stored, and stops reached.
    """

    clock: Array
    counts: NDArray[np.int64]
    mean: Array
    factor: Array


class Store(NamedTuple):
    """Results at every grid point; index 0 is the initial state.

    ``noise`` is the variance of the process noise of the step that led here, per process,
    ``residual`` the squared normalised residuals and ``log_det`` the logarithm of the determinant
    of the innovation covariance (in units of the rate of the tops).
    """

    time: Array
    step: Array
    mean: Array
    factor: Array
    noise: Array
    residual: Array
    log_det: Array


class Work(NamedTuple):
    """Work arrays of one step."""

    predicted: Array
    x: Array
    u: Array
    rate: Array
    top_scale: Array
    coupling: Array
    residual: Array
    noise: Array
    error: Array
    unit: Array
    local: Array
    whitened: Array
    rows: Array


def workspace(layout: CompiledLayout, n_inputs: int) -> Work:
    """Arrays for ``n_inputs`` inputs."""
    size, d, n = layout.order + 1, len(layout.top), len(layout.process)
    entries = size * layout.width
    return Work(
        np.empty((size, d)),
        np.empty(n),
        np.empty(n_inputs),
        np.empty(d),
        np.empty(d),
        np.zeros((d, n)),
        np.empty(d),
        np.empty(d),
        np.empty(d),
        np.empty(d),
        np.empty((layout.width, entries)),
        np.empty(layout.width),
        np.empty((entries, 2 * entries)),
    )


def advance(
    field: Field,
    layout: CompiledLayout,
    inputs: Inputs,
    state: State,
    work: Work,
    control: Control,
    stops: Array,
    store: Store,
) -> int:
    """Step until the last of ``stops``, times to be met exactly, or a full store, or a failure."""
    clock, counts = state.clock, state.counts
    piece = 0
    while counts[3] < len(stops):
        if counts[2] == len(store.time):
            return FULL
        if counts[0] + counts[1] >= control.max_steps:
            return EXHAUSTED
        stop = float(stops[counts[3]])
        time, h, remaining = clock[0], clock[2], stop - clock[0]
        h = remaining if control.fixed else step_control.length(h, remaining)
        if not step_control.moves(time, h):
            return UNDERFLOW
        last = h == remaining
        following = stop if last else time + h
        piece = _input_at(inputs, following, piece, work.u)
        rescale(state.mean, h / clock[1], work.predicted)
        extrapolate(work.predicted)
        _linearise(field, layout, following, h, work)
        error = local_error(layout, control, h, state.mean, clock[1], work)
        if not control.fixed and not error < 1.0:
            counts[1] += 1
            clock[2] = h * step_control.factor(error, control.order)
            clock[3] = 0.0
            continue
        if control.fixed and not isfinite(error):
            return DIVERGED
        _known_noise(control, layout, h, work)
        log_det = _update(layout, state, h, work)
        proposed = h * step_control.factor_with_memory(
            error, clock[3], control.order, control.own, control.memory
        )
        clock[2] = step_control.wanted_next(proposed, clock[2], last)
        clock[0], clock[1], clock[3] = following, h, max(error, 1e-4)
        counts[0] += 1
        _keep(state, store, work, log_det)
        if last:
            counts[3] += 1
    return DONE


def _input_at(inputs: Inputs, time: float, piece: int, u: Array) -> int:
    """Input at a time, of the piece that ends there rather than the one that begins."""
    while piece < len(inputs.edges) - 2 and time > inputs.edges[piece + 1]:
        piece += 1
    while piece > 0 and time <= inputs.edges[piece]:
        piece -= 1
    begin, end = inputs.edges[piece], inputs.edges[piece + 1]
    s = (2.0 * time - begin - end) / (end - begin)
    coefficients = inputs.coefficients[piece]
    for k in range(len(u)):
        value = 0.0
        for power in range(coefficients.shape[0] - 1, -1, -1):
            value = value * s + coefficients[power, k]
        u[k] = value
    return piece


def _states(layout: CompiledLayout, mean: Array, h: float, x: Array):
    for i in range(len(x)):
        k = layout.derivative[i]
        x[i] = mean[k, layout.process[i]] * layout.scale[i] / h**k


def _linearise(field: Field, layout: CompiledLayout, time: float, h: float, work: Work):
    """Residual of the ODE at the predicted mean (11a) and its slope, in Nordsieck coordinates."""
    _states(layout, work.predicted, h, work.x)
    call_address(field.rate, work.x, work.u, time, field.parameters, work.rate)
    d, n = len(layout.top), len(work.x)
    for p in range(d):
        top = layout.top[p]
        scale = 1.0
        for j in range(1, top + 1):
            scale *= h / j
        work.top_scale[p] = scale
        work.rate[p] *= scale
        work.residual[p] = work.rate[p] - work.predicted[top, p]
    if layout.coupled:
        slopes = work.coupling.reshape(d * n)
        call_address(field.jacobian, work.x, work.u, time, field.parameters, slopes)
        for i in range(n):
            weight = layout.scale[i] / h ** layout.derivative[i]
            for p in range(d):
                work.coupling[p, i] *= work.top_scale[p] * weight


def local_error(
    layout: CompiledLayout,
    control: Control,
    h: float,
    mean_before: Array,
    h_before: float,
    work: Work,
) -> float:
    """Local diffusion (21), (23), and the error h D_n (27)-(29) in units of the tolerance."""
    _units(layout, control, mean_before, work)
    if layout.coupled:
        _local_noise_coupled(layout, work)
    else:
        _local_noise(layout, work)
    total = 0.0
    for i in range(len(work.x)):
        k, p = layout.derivative[i], layout.process[i]
        ratio = layout.scale[i] / h**k
        # A rate off by e for a step moves entry k of its chain by e h^(top - k) / (top - k)!.
        for j in range(layout.top[p] - k, layout.top[p]):
            ratio *= (j + 1.0) / (j - layout.top[p] + k + 1.0)
        before = abs(mean_before[k, p] * layout.scale[i] / h_before**k)
        tolerance = control.atol + control.rtol * max(before, abs(work.x[i]))
        total += (work.error[p] * ratio / tolerance) ** 2
    return sqrt(total / len(work.x))


def _units(layout: CompiledLayout, control: Control, mean_before: Array, work: Work):
    """Unit of each process: the tolerance of its state where coupled ones share one diffusion."""
    in_tolerances = layout.coupled and not layout.diagonal
    for i in range(len(work.x)):
        if layout.derivative[i] == 0:
            p = layout.process[i]
            size = max(abs(mean_before[0, p]), abs(work.x[i]))
            work.unit[p] = control.atol + control.rtol * size if in_tolerances else 1.0


def _local_noise(layout: CompiledLayout, work: Work):
    """EKF0: H picks the top, S = Q_top Gamma."""
    d = len(layout.top)
    total = 0.0
    for p in range(d):
        work.error[p] = _squares(layout.noise_factor[layout.top[p]])
        work.noise[p] = (work.residual[p] ** 2 + _rounding(work, p)) / work.error[p]
        total += work.noise[p] / d
    for p in range(d):
        if not layout.diagonal:
            work.noise[p] = total
        work.error[p] = sqrt(work.error[p] * work.noise[p])


def _local_noise_coupled(layout: CompiledLayout, work: Work):
    """EKF1: S = H (Q x Gamma) H' of every block, through V = H Q^1/2."""
    d, size, width = len(layout.top), layout.order + 1, layout.width
    total = 0.0
    local, whitened = work.local, work.whitened
    for block in range(layout.n_blocks):
        first = block * width
        _noise_seen(layout, first, work)
        for s in range(width):
            p = first + s
            work.error[p] = _squares(local[s])
            whitened[s] = work.residual[p]
            if layout.diagonal and width > 1:
                # (22), (23): no closed form maximises over Gamma, H = E_1 in its place.
                top = _squares(layout.noise_factor[layout.top[p]])
                work.noise[p] = (work.residual[p] ** 2 + _rounding(work, p)) / top
        if layout.diagonal and width > 1:
            for s in range(width):
                work.error[first + s] = 0.0
                for other in range(width):
                    for j in range(other * size, (other + 1) * size):
                        work.error[first + s] += local[s, j] ** 2 * work.noise[first + other]
            continue
        triangularise(local, width, width, width * size)
        solve_lower(local, width, whitened)
        for s in range(width):
            rounding = _rounding(work, first + s) / work.error[first + s]
            work.noise[first + s] = whitened[s] ** 2 + rounding
            total += work.noise[first + s] / d
            if layout.diagonal:
                work.error[first + s] *= work.noise[first + s]
    for p in range(d):
        if not layout.diagonal:
            work.noise[p] = total * work.unit[p] ** 2
            work.error[p] *= total
        work.error[p] = sqrt(work.error[p])


def _rounding(work: Work, p: int) -> float:
    return (ROUNDING * work.rate[p]) ** 2


def _noise_seen(layout: CompiledLayout, first: int, work: Work):
    """H Q^1/2 of a block at unit diffusion, (width, width (order + 1))."""
    size, width, local, unit = layout.order + 1, layout.width, work.local, work.unit
    clear(local, width, size * width)
    for s in range(width):
        p = first + s
        for j in range(layout.top[p] + 1):
            local[s, s * size + j] = unit[p] * layout.noise_factor[layout.top[p], j]
        for i in range(len(layout.process)):
            other = layout.process[i] - first
            if 0 <= other < width:
                k = layout.derivative[i]
                slope = work.coupling[p, i] * unit[layout.process[i]]
                for j in range(k + 1):
                    local[s, other * size + j] -= slope * layout.noise_factor[k, j]


def _squares(row: Array) -> float:
    total = 0.0
    for k in range(len(row)):
        total += row[k] * row[k]
    return total


def _known_noise(control: Control, layout: CompiledLayout, h: float, work: Work):
    """Process noise of a step where the diffusion does not follow from the step itself."""
    if control.variance > 0.0:
        noise = control.variance * (h / control.unit) ** (2 * layout.order + 1)
        for p in range(len(layout.top)):
            work.noise[p] = noise


def predicted_rows(
    layout: CompiledLayout,
    block: int,
    factor: Array,
    used: int,
    ratio: float,
    noise: Array,
    rows: Array,
):
    """Factor of the predicted covariance (10b) of a block, (width (order + 1), used + own noise).

    ``used`` columns of ``factor`` may differ from zero; its coordinates are scaled by ``ratio``.
    """
    size, width, first = layout.order + 1, layout.width, block * layout.width
    clear(rows, size * width, used + size * width)
    for s in range(width):
        p = first + s
        power = 1.0
        for j in range(size):
            row = rows[layout.row[j, p]]
            for column in range(used):
                row[column] = power * factor[j * width + s, column]
            power *= ratio
        extrapolate_rows(rows, layout.row, p, used)
        root = sqrt(noise[p])
        for j in range(size):
            row = rows[layout.row[j, p]]
            for i in range(j + 1):
                row[used + s * size + i] = root * layout.noise_factor[j, i]


def _update(layout: CompiledLayout, state: State, h: float, work: Work) -> float:
    """Condition on the residual being zero (11), block by block; returns log det S.

    With H M in the first rows of the predicted factor M, one triangularisation leaves the factor
    of S, the gain times it, and the factor of the filtered covariance. The tops follow from the
    other entries, without error: there is no noise on the residual.
    """
    size, width = layout.order + 1, layout.width
    entries = size * width
    used = entries - width
    rows, ratio, log_det = work.rows, h / state.clock[1], 0.0
    d = len(layout.top)
    shared = d // (layout.n_blocks * width)
    for block in range(layout.n_blocks):
        first, factor = block * width, state.factor[block]
        predicted_rows(layout, block, factor, used, ratio, work.noise, rows)
        if layout.coupled:
            _subtract_coupled(layout, first, work, rows, used + entries)
        triangularise(rows, entries, entries, used + entries)
        for s in range(width):
            p = first + s
            for j in range(size):
                if j != layout.top[p]:
                    row = layout.row[j, p]
                    for column in range(used):
                        filled = width + column <= row
                        factor[j * width + s, column] = rows[row, width + column] if filled else 0.0
            log_det += 2.0 * shared * log(rows[s, s])
        _update_mean(layout, first, shared, state.mean, work)
        _tie_tops(layout, first, state.mean, factor, used, work)
    for p in range(d):
        log_det -= 2.0 * log(work.top_scale[p])
    return log_det


def _subtract_coupled(layout: CompiledLayout, first: int, work: Work, rows: Array, n_columns: int):
    for i in range(len(layout.process)):
        other = layout.process[i]
        if first <= other < first + layout.width:
            entry = rows[layout.row[layout.derivative[i], other]]
            for s in range(layout.width):
                slope = work.coupling[first + s, i]
                if slope != 0.0:
                    for column in range(n_columns):
                        rows[s, column] -= slope * entry[column]


def _update_mean(layout: CompiledLayout, first: int, shared: int, mean: Array, work: Work):
    """Means of a block (11d): of its own processes, or of all that share it."""
    size, width, rows = layout.order + 1, layout.width, work.rows
    for twin in range(shared):
        for s in range(width):
            work.whitened[s] = work.residual[first + twin + s]
        solve_lower(rows, width, work.whitened)
        for s in range(width):
            p = first + twin + s
            for j in range(size):
                value = work.predicted[j, p]
                if j != layout.top[p]:
                    row = layout.row[j, p]
                    for column in range(width):
                        value += rows[row, column] * work.whitened[column]
                mean[j, p] = value
            work.error[p] = work.whitened[s] ** 2
            mean[layout.top[p], p] = work.rate[p]


def _tie_tops(
    layout: CompiledLayout, first: int, mean: Array, factor: Array, used: int, work: Work
):
    width = layout.width
    for s in range(width):
        for column in range(used):
            factor[layout.top[first + s] * width + s, column] = 0.0
    if not layout.coupled:
        return
    for i in range(len(layout.process)):
        other, k = layout.process[i], layout.derivative[i]
        if first <= other < first + width:
            moved = mean[k, other] - work.predicted[k, other]
            for s in range(width):
                slope, top = work.coupling[first + s, i], layout.top[first + s]
                mean[top, first + s] += slope * moved
                for column in range(used):
                    entry = factor[k * width + other - first, column]
                    factor[top * width + s, column] += slope * entry


def _keep(state: State, store: Store, work: Work, log_det: float):
    n = state.counts[2]
    store.time[n], store.step[n] = state.clock[0], state.clock[1]
    copy(state.mean, store.mean[n])
    for block in range(state.factor.shape[0]):
        copy(state.factor[block], store.factor[n, block])
    for p in range(len(work.noise)):
        store.noise[n, p] = work.noise[p]
        store.residual[n, p] = work.error[p]
    store.log_det[n] = log_det
    state.counts[2] += 1


def triangularise(rows: Array, n_pivots: int, n_rows: int, n_columns: int):
    """Make ``rows`` lower triangular in its first ``n_pivots`` rows, leaving rows rows' as it is.

    Row k is reflected onto its k-th entry, which becomes the non-negative diagonal; what is right
    of it is left as scratch. A row that has nothing there, of a singular covariance, is skipped.
    """
    for k in range(min(n_pivots, n_columns)):
        beyond = 0.0
        for j in range(k + 1, n_columns):
            beyond += rows[k, j] * rows[k, j]
        head = rows[k, k]
        if beyond == 0.0:
            if head < 0.0:
                for r in range(k, n_rows):
                    rows[r, k] = -rows[r, k]
            continue
        norm = sqrt(head * head + beyond)
        # head - norm without cancellation
        first = head - norm if head <= 0.0 else -beyond / (head + norm)
        scale = 2.0 / (first * first + beyond)
        for r in range(k + 1, n_rows):
            dot = rows[r, k] * first
            for j in range(k + 1, n_columns):
                dot += rows[r, j] * rows[k, j]
            dot *= scale
            rows[r, k] -= dot * first
            for j in range(k + 1, n_columns):
                rows[r, j] -= dot * rows[k, j]
        rows[k, k] = norm


def clear(rows: Array, n_rows: int, n_columns: int):
    """Set the first rows and columns to zero."""
    for r in range(n_rows):
        for column in range(n_columns):
            rows[r, column] = 0.0


def copy(source: NDArray[Any], target: NDArray[Any]):
    """Copy a matrix."""
    for r in range(source.shape[0]):
        for column in range(source.shape[1]):
            target[r, column] = source[r, column]


def solve_lower(lower: Array, n: int, vector: Array):
    """Overwrite ``vector`` by the solution of L y = vector; a zero pivot gives zero."""
    for i in range(n):
        value = vector[i]
        for j in range(i):
            value -= lower[i, j] * vector[j]
        vector[i] = value / lower[i, i] if lower[i, i] > 0.0 else 0.0
