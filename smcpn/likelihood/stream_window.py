"""Samples of a stream as a window of rows is written from them, and what comes before the first."""

from __future__ import annotations

from functools import cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from smcpn.model.hold import sinc_taps, smooth_derivatives
from smcpn.model.record import CONTEXT, Record

Array = NDArray[np.float64]


class Samples(Protocol):
    """The samples of a stream that rows may depend on."""

    def __len__(self) -> int: ...

    def samples(self, a: int, b: int) -> tuple[Array, Array, Array]:
        """Times, inputs and outputs of the samples [a, b)."""
        ...


class StreamWindow:
    """Samples of a stream, as a `smcpn.likelihood.rows.Window`.

    The input between them is what `smcpn.model.hold` makes of a record.

    Parameters
    ----------
    template : Record
        Tells the hold, the number of inputs, and the function where the input is one.
    history : Samples
        What a band-limited input is interpolated from.
    begin : int
        Number of the first sample.
    samples : ndarray, (m, 1 + n + q)
        Time, inputs and outputs.
    """

    def __init__(self, template: Record, history: Samples, begin: int, samples: Array) -> None:
        self._template, self._history, self.begin, n = template, history, begin, template.n_inputs
        self.t, self.u, self.y = samples[:, 0], samples[:, 1 : 1 + n], samples[:, 1 + n :]
        self.spacing = self.t[1:] - self.t[:-1]

    def times(self, parts: int) -> Array:
        """Times of `inputs`, (m - 1, parts + 1)."""
        return self.t[:-1, None] + self.spacing[:, None] * _fractions(parts)

    def inputs(self, parts: int) -> Array:
        """Input at both ends and within each interval, (m - 1, parts + 1, n)."""
        template, n = self._template, self._template.n_inputs
        if n == 0:
            return np.empty((len(self.t) - 1, parts + 1, 0))
        if template.u_function is not None:
            times = self.times(parts)
            values = np.asarray(template.u_function(times.ravel()), dtype=float)
            return values.reshape(*times.shape, n)
        if template.hold == "bandlimited":
            return self._band_limited(parts)
        if template.hold == "zoh":
            return np.repeat(self.u[:-1, None], parts + 1, axis=1)
        rising, falling = _weights(parts)
        return self.u[:-1, None] * falling + self.u[1:, None] * rising

    def derivatives(self, order: int) -> Array:
        """Time derivatives 1..order of the input after each sample, (m - 1, order, n)."""
        template, n = self._template, self._template.n_inputs
        derivatives = np.zeros((len(self.t) - 1, order, n))
        if n == 0 or order == 0:
            return derivatives
        spacing = self.spacing[:, None]
        if template.smooth:
            return smooth_derivatives(self.inputs(8), spacing, order)
        if template.hold == "foh":
            derivatives[:, 0] = (self.u[1:] - self.u[:-1]) / spacing
        return derivatives

    def inputs_before(self, number: int) -> Array:
        """The last inputs before the first sample: the first one is held."""
        return np.repeat(self.u[:1], number, axis=0)

    def _band_limited(self, parts: int) -> Array:
        """Windowed sinc over the intervals."""
        history, first, last = self._history, self.begin, self.begin + len(self.t) - 1
        a, b = first - CONTEXT + 1, last + CONTEXT + 1
        known = history.samples(max(a, 0), min(b, len(history)))[1]
        if a < 0 or b > len(history):
            pad = ((max(-a, 0), max(b - len(history), 0)), (0, 0))
            known = np.pad(known, pad, mode="edge")
        windows = np.lib.stride_tricks.sliding_window_view(known, 2 * CONTEXT, axis=0)
        # The window of the last sample gives the value at the end of the last interval.
        fine = np.einsum("pw,tnw->tpn", _taps(parts), windows)
        return np.concatenate([fine[:-1], fine[1:, :1]], axis=1)


@cache
def _fractions(parts: int) -> Array:
    return np.arange(parts + 1) / parts


@cache
def _weights(parts: int) -> tuple[Array, Array]:
    """Weights of the sample after and of that before, (1, parts + 1, 1)."""
    rising = _fractions(parts)[None, :, None]
    return rising, 1 - rising


@cache
def _taps(parts: int) -> Array:
    return np.array([sinc_taps(j / parts) for j in range(parts)])


def head_record(template: Record, history: Samples) -> Record:
    """The first samples of a stream, as far as the state at the first one depends on them.

    A linear input has a slope there that is not known yet. Nothing depends on it: where the input
    bends at the samples the derivatives restart at the first one.
    """
    t, u, _ = history.samples(0, min(len(history), CONTEXT + 3))
    times = [t[0], t[0] + template.interval]
    if template.n_inputs == 0:
        return Record(t=times)
    if template.u_function is not None:
        return Record(u=template.u_function, t=times)
    if template.hold != "bandlimited":
        return Record(u=u[[0, 0]], t=times, hold=template.hold)
    known = np.pad(u, ((0, max(0, 3 - len(u))), (0, 0)), mode="edge")
    return Record(
        u=known[:3], dt=template.interval, start=float(t[0]), hold="bandlimited", u_after=known[3:]
    )


def samples_ahead(template: Record, lookahead: int | None) -> int:
    """Samples known beyond one before it counts; by default what the hold of a record needs."""
    if lookahead is not None:
        return lookahead
    interpolated = template.n_inputs > 0 and template.u_function is None
    return CONTEXT if interpolated and template.hold == "bandlimited" else 0
