"""Noise of the outputs, and a path of the states through them, before parameters are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.linalg import solveh_banded
from scipy.optimize import brentq

from smcpn.errors import InputError, listed
from smcpn.estimate.path_search.linearisation import Rate
from smcpn.model.record import Record, beside

Array = NDArray[np.float64]
Seen = NDArray[np.bool_]

WINDOW = 7
"""Samples in a row of which a polynomial of degree 5 leaves one number."""
ENOUGH = 2**18
"""Samples of a record by which the noise is judged at most."""
LEAST_NOISE = 1e-6
"""Standard deviation of the noise, as a share of that of the output, at least."""
LEFT_BY_SPLINE = 0.93
"""Mean square of a smoothing spline's residuals, as a share of the variance of the noise."""
LEAST_SAMPLES = 5
"""That a spline, and a window, needs."""
LOG_PENALTIES = (-18.0, 25.0)
"""Log of the least and the greatest penalty of a spline, per cubed sampling interval."""
NEWTON_STEPS = 8


def noise_variances(records: Sequence[Record]) -> Array:
    """Variance of the noise of each output, (q,), by `difference_variances`.

    Raises `InputError` if an output has too few samples.
    """
    counts = np.isfinite(np.concatenate([record.y for record in records])).sum(axis=0)
    for j in np.flatnonzero(counts <= WINDOW).tolist():
        raise InputError(
            f"output {j} has {counts[j]} samples, which do not tell its noise: give "
            f"at least {WINDOW + 1}, or leave it out",
            argument="records",
        )
    return difference_variances(records)


def difference_variances(records: Sequence[Record]) -> Array:
    """Variance of the noise of each output, (q,), from sixth differences.

    Of seven samples in a row, at any times, the combination of unit length that vanishes for
    every polynomial of degree 5: a divided difference. What it leaves is noise, and what a signal
    that is sampled too seldom does in between. Of fewer samples differences are of a lower order.
    """
    shown = [_variance(records, j) for j in range(records[0].n_outputs)]
    return np.maximum(shown, least_variances(records))


def logarithms(records: Sequence[Record]) -> list[Record]:
    """Return the records with the logarithms of their outputs.

    Raises `InputError` if an output is not positive.
    """
    for record in records:
        if np.any(record.y <= 0.0):
            raise InputError(
                f"noise is relative, but record '{record.name}' has an output that is not "
                'positive: give noise="unknown", or outputs above zero',
                argument="noise",
            )
    return [record.with_outputs(np.log(record.y)) for record in records]


def smooth_parts(
    records: Sequence[Record], entered: Array | float, observe: Array
) -> Sequence[Record]:
    """Return records without what the outputs have of amounts that have ``entered``, (T, n)."""
    if isinstance(entered, float):
        return records
    ends = np.cumsum([len(record) for record in records])
    parts = np.split(entered @ observe.T, ends[:-1])
    return [
        replace(record, y=record.y - part, t=record.t if record.dt is None else None,
                y_lower=None, y_upper=None)
        for record, part in zip(records, parts, strict=True)
    ]  # fmt: skip


def stated_deviations(records: Sequence[Record]) -> tuple[Array | None, Array]:
    """Return ``y_sd`` in units of that of each output, (T, q), and variances of these, (q,).

    They are those that values of the mean precision have, NaN of an output of which no deviation is
    stated; the first is None where records state none.
    """
    if records[0].y_sd is None:
        return None, np.full(records[0].n_outputs, np.nan)
    sd = np.concatenate([np.where(record.told, record.y_sd, np.nan) for record in records])
    with np.errstate(invalid="ignore"):
        variances = 1.0 / (np.nansum(sd**-2.0, axis=0) / np.isfinite(sd).sum(axis=0))
    return sd / np.sqrt(variances), variances


def output_variances(records: Sequence[Record]) -> Array:
    """Variance of each output, (q,), one where that is zero."""
    several = len(records) > 1
    y = np.concatenate([record.y for record in records]) if several else records[0].y
    seen, variance = np.isfinite(y).any(axis=0), np.zeros(y.shape[1])
    variance[seen] = np.nanvar(y[:, seen], axis=0)
    return np.where(variance > 0.0, variance, 1.0)


def least_variances(records: Sequence[Record]) -> Array:
    """Variance of each output's noise that is not gone below, (q,): errors of whoever simulated."""
    return LEAST_NOISE**2 * output_variances(records)


def _variance(records: Sequence[Record], j: int) -> float:
    squares: list[Array] = []
    for record in records:
        seen = np.flatnonzero(np.isfinite(record.y[:, j]))[:ENOUGH]
        t, y = record.t[seen], record.y[seen, j]
        window = min(WINDOW, len(t))
        if window > 1:
            t = np.lib.stride_tricks.sliding_window_view(t, window)
            y = np.lib.stride_tricks.sliding_window_view(y, window)
            length, weights = np.ptp(t, axis=1)[:, None], np.empty(t.shape)
            for k in range(window):
                apart = (t[:, k, None] - np.delete(t, k, axis=1)) / length
                weights[:, k] = 1.0 / np.prod(apart, axis=1)
            squares.append(np.sum(weights * y, axis=1) ** 2 / np.sum(weights**2, axis=1))
    if not squares:
        return float(output_variances(records)[j])
    return float(np.mean(np.concatenate(squares)))


class Equations(NamedTuple):
    """The equations of a system, of which some may be known before any parameter is.

    Attributes
    ----------
    states : sequence of str
    rate : Rate
    values : ndarray, (d,)
        Any values of its parameters.
    known : ndarray of bool, (n,)
        Equations that depend on none of them: one whose state is seen tells a hidden state in it.
    """

    states: Sequence[str]
    rate: Rate
    values: Array
    known: Seen


class Start(NamedTuple):
    """A first path of T samples, of all records one after the other.

    path, rate: (T, n), states and their time derivatives.
    deviation: (n,), standard deviation of what the noise is in the units of each state.
    """

    path: Array
    rate: Array
    deviation: Array


def first_path(
    records: Sequence[Record],
    observe: Array,
    variances: Array,
    equations: Equations,
    relative: bool = False,
    entered: Array | float = 0.0,
) -> Start:
    """Return smoothed states, hidden ones from the equations that are known.

    Outputs are ``observe @ x``, (q, n), with noise of ``variances``, (q,); ``relative`` says that
    records and variances are of the logarithms of the outputs. Of amounts that have ``entered``,
    (T, n), records have what is left without them, and rates are those of the equations. A state
    that is neither seen nor told by a known equation is refused.
    """
    pseudo = np.linalg.pinv(observe)
    seen = np.isclose(np.diag(pseudo @ observe), 1.0)
    outputs = np.concatenate([_splines(record, record.y, variances) for record in records], axis=1)
    sizes = np.ones(len(observe))
    if relative:
        outputs[0] = np.exp(outputs[0])
        outputs[1] *= outputs[0]
        sizes = np.sqrt(np.mean(outputs[0] ** 2, axis=0))
    path, slope = outputs @ pseudo.T
    path = path + entered
    deviation = np.sqrt(pseudo**2 @ (sizes**2 * variances))
    t, u = np.concatenate([r.t for r in records]), np.concatenate([r.u for r in records])
    while not seen.all():
        for i in np.flatnonzero(equations.known & seen).tolist():
            hidden = _hidden_in(i, path, u, t, equations, seen)
            if len(hidden) == 1:
                break
        else:
            names = listed(equations.states[k] for k in np.flatnonzero(~seen).tolist())
            raise InputError(
                f"state {names} is neither observed nor in a known equation of one that is: "
                "observe it, or give an equation such as x' = v as known"
            )
        j = int(hidden[0])
        _solve(i, j, path, slope[:, i], u, t, equations)
        begins = np.cumsum([0, *(len(record) for record in records)])
        for record, begin in zip(records, begins, strict=False):
            part = slice(begin, begin + len(record))
            smooth = path[part, j] - np.broadcast_to(entered, path.shape)[part, j]
            slope[part, j] = np.gradient(smooth, record.t)
        share = deviation[i] / _rms(path[:, i])
        deviation[j], seen[j] = share * _rms(path[:, j]), True
    return Start(path, slope, deviation)


def _splines(record: Record, y: Array, variances: Array) -> Array:
    """Smoothed outputs and their time derivatives, (2, T, q)."""
    result = np.zeros((2, *y.shape))
    for j, variance in enumerate(variances):
        seen = np.isfinite(y[:, j])
        if seen.sum() < LEAST_SAMPLES:
            if seen.any():
                result[0, :, j] = np.interp(record.t, record.t[seen], y[seen, j])
            continue
        sd = beside(record, "y_sd")[seen, j] / np.sqrt(variance)
        sd = np.where(np.isfinite(sd), sd, 1.0)
        spline = _smoothing_spline(record.t[seen], y[seen, j], LEFT_BY_SPLINE * variance, sd)
        # A cubic beyond the ends would run away.
        inside = np.clip(record.t, record.t[seen][0], record.t[seen][-1])
        result[0, :, j], result[1, :, j] = spline(inside), spline.derivative()(inside)
    return result


def _smoothing_spline(
    t: Array, y: Array, mean_square: float, sd: Array | float = 1.0
) -> CubicSpline:
    """Natural cubic smoothing spline whose residuals have a given mean square, in units of ``sd``.

    Reinsch's algorithm (Green and Silverman 1994, section 2.3.3): with second derivatives gamma,
    and D of these units, (R + penalty Q'D^2 Q) gamma = Q'y, and the residuals are
    penalty D^2 Q gamma.
    """
    step, sd = np.diff(t), np.broadcast_to(sd, t.shape)
    apart = np.stack([1.0 / step[:-1], -1.0 / step[:-1] - 1.0 / step[1:], 1.0 / step[1:]])
    apart *= np.lib.stride_tricks.sliding_window_view(sd, 3).T
    stiffness, square = np.zeros((3, len(t) - 2)), np.zeros((3, len(t) - 2))
    stiffness[0], stiffness[1, :-1] = (step[:-1] + step[1:]) / 3.0, step[1:-1] / 6.0
    square[0] = np.sum(apart**2, axis=0)
    square[1, :-1] = apart[1, :-1] * apart[0, 1:] + apart[2, :-1] * apart[1, 1:]
    square[2, :-2] = apart[2, :-2] * apart[0, 2:]
    right = np.diff(np.diff(y) / step)

    def residuals(log_penalty: float) -> Array:
        penalty = np.exp(log_penalty)
        bent = solveh_banded(stiffness + penalty * square, right, lower=True)
        result = np.zeros(len(y))
        for k in range(3):
            result[k : k + len(bent)] += penalty * apart[k] * bent
        return result

    def excess(log_penalty: float) -> float:
        return float(np.mean(residuals(log_penalty) ** 2) / mean_square - 1.0)

    low, high = 3.0 * np.log(np.median(step)) + np.array(LOG_PENALTIES)
    if excess(low) >= 0.0:
        best = low
    elif excess(high) <= 0.0:
        best = high
    else:
        best = cast(float, brentq(excess, low, high, xtol=0.02))
    return CubicSpline(t, y - sd * residuals(best), bc_type="natural")


def _hidden_in(
    i: int, path: Array, u: Array, t: Array, equations: Equations, seen: Seen
) -> NDArray[np.intp]:
    """Hidden states that a known equation depends on."""
    _, by = equations.rate.with_derivatives(path[None], u, t, equations.values[None])
    return np.flatnonzero(~seen & np.any(by[0, :, i, : path.shape[1]] != 0.0, axis=0))


def _solve(
    i: int, j: int, path: Array, slope: Array, u: Array, t: Array, equations: Equations
) -> None:
    """Set the hidden state j where equation i has the slope of state i, by Newton steps."""
    for _ in range(NEWTON_STEPS):
        value, by = equations.rate.with_derivatives(path[None], u, t, equations.values[None])
        derivative = by[0, :, i, j]
        told = derivative != 0.0
        step = np.where(told, (slope - value[0, :, i]) / np.where(told, derivative, 1.0), 0.0)
        path[:, j] += step
        if np.all(np.abs(step) <= 1e-9 * np.abs(path[:, j]).max()):
            break


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(values**2))) or 1.0
