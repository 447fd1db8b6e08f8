"""The input between two samples: held, linear, band-limited, or a known function of time."""

from __future__ import annotations

from functools import lru_cache
from math import factorial

import numpy as np
from numpy.typing import NDArray

from smcpn.model.record import CONTEXT, Record

Array = NDArray[np.float64]

KAISER_BETA = 12.0
"""Stop band below -118 dB, pass band to 0.88 of the Nyquist frequency with 2 x 64 taps."""


def substep_times(record: Record, parts: int) -> Array:
    """Times ``t_k + j/parts (t_{k+1} - t_k)``, j = 0..parts, shape (T - 1, parts + 1)."""
    fractions = np.arange(parts + 1) / parts
    return record.t[:-1, None] + np.diff(record.t)[:, None] * fractions


def substep_inputs(record: Record, parts: int) -> Array:
    """Input at `substep_times`, shape (T - 1, parts + 1, n_inputs).

    A held input jumps at a sample: the first point of an interval has the value after the jump,
    the last point the value before the next one, so that a step never sees the jump.
    """
    if record.n_inputs == 0:
        return np.empty((len(record) - 1, parts + 1, 0))
    if record.u_function is not None:
        times = substep_times(record, parts)
        values = np.asarray(record.u_function(times.ravel()), dtype=float)
        return values.reshape(*times.shape, record.n_inputs)
    return {"zoh": _held, "foh": _linear, "bandlimited": _bandlimited}[record.hold](record, parts)


def start_derivatives(record: Record, order: int) -> Array:
    """Time derivatives 1..order of the input at the first sample, shape (order, n_inputs)."""
    head = record if len(record) < 3 else record[:3]
    return interval_derivatives(head, order)[0]


def interval_derivatives(record: Record, order: int, spacing: Array | None = None) -> Array:
    """Time derivatives 1..order of the input after each sample, shape (T - 1, order, n_inputs).

    A held input has none, a linear one its slope; of a smooth input they are those of the
    polynomial through nine points, an eighth of the sampling interval apart.

    Parameters
    ----------
    spacing : ndarray, (T - 1,), optional
        Length of the intervals, where it is not to be that by the times of the record.
    """
    derivatives = np.zeros((len(record) - 1, order, record.n_inputs))
    if order == 0 or record.n_inputs == 0:
        return derivatives
    lengths = (np.diff(record.t) if spacing is None else spacing)[:, None]
    if record.smooth:
        return smooth_derivatives(substep_inputs(record, 8), lengths, order)
    elif record.hold == "foh":
        derivatives[:, 0] = np.diff(record.u, axis=0) / lengths
    return derivatives


def smooth_derivatives(points: Array, spacing: Array, order: int) -> Array:
    """Time derivatives 1..order at the first of nine points of each interval, (m, order, n).

    Parameters
    ----------
    points : ndarray, (m, 9, n)
        Equally spaced.
    spacing : ndarray, (m, 1)
        Length of the intervals.
    """
    taylor = np.linalg.solve(np.vander(np.arange(9.0), increasing=True), points)
    parts = [taylor[:, k] * factorial(k) / (spacing / 8) ** k for k in range(1, order + 1)]
    return np.stack(parts, axis=1)


def padded_input(record: Record) -> Array:
    """Input with `CONTEXT` samples on either side, (T + 2 CONTEXT, n_inputs), as interpolated.

    Beyond what is known the end value is held.
    """
    before, after = record.input_around()
    known = np.concatenate([before, record.u, after])
    pad = ((CONTEXT - len(before), CONTEXT - len(after)), (0, 0))
    return np.pad(known, pad, mode="edge")


def _held(record: Record, parts: int) -> Array:
    return np.repeat(record.u[:-1, None, :], parts + 1, axis=1)


def _linear(record: Record, parts: int) -> Array:
    fractions = (np.arange(parts + 1) / parts)[None, :, None]
    return record.u[:-1, None, :] * (1 - fractions) + record.u[1:, None, :] * fractions


def _bandlimited(record: Record, parts: int) -> Array:
    # To import it takes half a second.
    from scipy import signal

    if record.periodic:
        fine = signal.resample(record.u, parts * len(record), axis=0)
    else:
        fine = _sinc_interpolate(record, parts)
    intervals = np.asarray(fine).reshape(len(record), parts, record.n_inputs)
    return np.concatenate([intervals[:-1], intervals[1:, :1]], axis=1)


def _sinc_interpolate(record: Record, parts: int) -> Array:
    """Kaiser-windowed sinc through the samples."""
    from scipy import signal

    padded = padded_input(record)
    fine = np.empty((len(record) * parts, record.n_inputs))
    for j in range(parts):
        kernel = sinc_taps(j / parts)
        for channel in range(record.n_inputs):
            values = signal.correlate(padded[:, channel], kernel, mode="valid", method="direct")
            fine[j::parts, channel] = values[1 : 1 + len(record)]
    return fine


@lru_cache(maxsize=2048)
def sinc_taps(shift: float) -> Array:
    """Weights of the samples -63, ..., 64 about one for the input a ``shift`` after it, (128,)."""
    taps = np.arange(-CONTEXT + 1, CONTEXT + 1)
    window = np.i0(KAISER_BETA * np.sqrt(1 - ((taps - shift) / CONTEXT) ** 2))
    weights = np.sinc(taps - shift) * window / np.i0(KAISER_BETA)
    weights.setflags(write=False)
    return weights
