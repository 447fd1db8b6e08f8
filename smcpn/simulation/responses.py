"""Responses of linear models, over frequency and to a step of an input.

That to a step is exact at every time, by matrix exponentials: with z = (x, 1),
z' = [[A, b], [0, 0]] z from the dead time of the input on, and y = [C, d] z.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from smcpn.arguments import Probability
from smcpn.errors import InputError

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

TIME_CONSTANTS = 7.0
"""Default length in time constants of the slowest pole, after which .1 % is left."""
POINTS = 200
"""Intervals of time."""
PER_PERIOD = 20
"""Intervals a period of the fastest oscillation."""
MOST = 4000
"""Bound of the intervals."""

LARGEST = 20_000_000
"""Entries of the matrices that are solved with at once."""


@dataclass(frozen=True)
class Matrices:
    """A, B, C, D of N draws: (N, n, n), (N, n, m), (N, q, n), (N, q, m); and where they hold.

    Attributes
    ----------
    state, output : ndarray, (N, n), (N, q)
        Operating point of each draw.
    delay : ndarray, (N, m)
        Dead time of each input.
    """

    A: Array
    B: Array
    C: Array
    D: Array
    state: Array
    output: Array
    delay: Array


@dataclass(frozen=True)
class Bode:
    """Frequency response from every input to every output, with that of every draw.

    Attributes
    ----------
    frequency : ndarray, (F,)
        Hz, or cycles a unit of time.
    response : complex ndarray, (F, q, m)
        C (2 pi i f I - A)^-1 B + D at the mean parameters, times exp(-2 pi i f tau) for an input
        with dead time tau.
    draws : complex ndarray, (N, F, q, m)
    delay, draws_delay : ndarray, (m,), (N, m)
        Dead time of each input, at the mean parameters and of every draw.
    t_unit : str
        Unit of time.
    """

    frequency: Array
    response: Complex
    draws: Complex = field(repr=False)
    delay: Array
    draws_delay: Array = field(repr=False)
    t_unit: str = "s"

    @property
    def magnitude(self) -> Array:
        """20 log10 of the magnitude at the mean parameters, dB; -inf of a response that is 0."""
        return _decibel(self.response)

    @property
    def phase(self) -> Array:
        """Phase at the mean parameters in degrees, unwrapped."""
        rest, turned = self._degrees(self.response[None], self.delay[None])
        return (rest - turned)[0]

    def magnitude_interval(self, level: Probability = 0.95) -> tuple[Array, Array]:
        """Lower and upper end of the central ``level`` of the draws, each (F, q, m), dB."""
        return _interval(_decibel(self.draws), level)

    def phase_interval(self, level: Probability = 0.95) -> tuple[Array, Array]:
        """Lower and upper end of the central ``level`` of the draws, each (F, q, m), degrees."""
        rest, turned = self._degrees(self.draws, self.draws_delay)
        centre, _ = self._degrees(self.response[None], self.delay[None])
        # A whole turn is no difference.
        turns = np.round(np.median(rest - centre, axis=1, keepdims=True) / 360.0)
        return _interval(rest - 360.0 * turns - turned, level)

    def _degrees(self, response: Complex, delay: Array) -> tuple[Array, Array]:
        """Phases without their dead times, unwrapped, and by how much these turn them back.

        Apart, because a dead time may turn by circles from one frequency to the next.
        """
        rest = np.angle(response * np.conj(_shifted(self.frequency, delay)))
        turned = 360.0 * self.frequency[:, None, None] * delay[:, None, None, :]
        return np.degrees(np.unwrap(rest, axis=1)), turned


@dataclass(frozen=True)
class StepResponse:
    """Response of every output to a step of one in every input, with that of every draw.

    Attributes
    ----------
    t : ndarray, (T,)
        Time since the step.
    response : ndarray, (T, q, m)
        Deviation of the outputs from the operating point, at the mean parameters.
    draws : ndarray, (N, T, q, m)
    t_unit : str
        Unit of time.
    """

    t: Array
    response: Array
    draws: Array = field(repr=False)
    t_unit: str = "s"

    def interval(self, level: Probability = 0.95) -> tuple[Array, Array]:
        """Lower and upper end of the central ``level`` of the draws, each (T, q, m)."""
        return _interval(self.draws, level)


def frequency_responses(linear: Matrices, frequencies: Array) -> Complex:
    """Return (C (s I - A)^-1 B + D) exp(-s tau), (N, F, q, m), computed by parts of the draws.

    Raises
    ------
    InputError
        At a pole without damping.
    """
    n, s = linear.A.shape[-1], 2j * np.pi * frequencies
    size = max(1, LARGEST // (n * n * len(s)))
    parts: list[Complex] = []
    for a in range(0, len(linear.A), size):
        A, B, C, D = (one[a : a + size, None] for one in (linear.A, linear.B, linear.C, linear.D))
        right = np.broadcast_to(B, (len(B), len(s), *B.shape[2:])).astype(complex)
        try:
            states = np.linalg.solve(s[:, None, None] * np.eye(n) - A, right)
        except np.linalg.LinAlgError:
            raise InputError(
                "frequencies has that of a pole without damping, where the response is infinite: "
                "leave it out",
                argument="frequencies",
            ) from None
        parts.append((C @ states + D) * _shifted(frequencies, linear.delay[a : a + size]))
    return np.concatenate(parts)


def duration_of(poles: Complex, delay: Array) -> float:
    """Return the time in which the slowest of the poles (n,) has settled, after the dead time."""
    rates = np.abs(poles.real)
    rates = rates[rates > 1e-12 * np.abs(poles).max(initial=0.0)]
    slowest = 1.0 / rates.min() if rates.size else 1.0
    return float(TIME_CONSTANTS * slowest + delay.max(initial=0.0))


def step_times(poles: Complex, duration: float) -> Array:
    """Return equally spaced times from 0, which show the fastest oscillation of poles (n,)."""
    periods = duration * np.abs(poles.imag).max(initial=0.0) / (2 * np.pi)
    number = int(np.clip(np.ceil(PER_PERIOD * min(periods, MOST)), POINTS, MOST))
    return np.linspace(0.0, duration, number + 1)


def step_responses(linear: Matrices, t: Array) -> Array:
    """Return the outputs (N, T, q, m) at equally spaced times (T,) from 0 on."""
    from scipy.linalg import expm

    N, n, m = linear.B.shape
    rate = np.zeros((N, m, n + 1, n + 1))
    rate[..., :n, :n] = linear.A[:, None]
    rate[..., :n, n] = np.swapaxes(linear.B, 1, 2)
    output = np.empty((N, m, linear.C.shape[1], n + 1))
    output[..., :n] = linear.C[:, None]
    output[..., n] = np.swapaxes(linear.D, 1, 2)
    h = t[1]
    begins = np.ceil(linear.delay / h - 1e-9)
    first = expm(rate * np.maximum(begins * h - linear.delay, 0.0)[..., None, None])[..., n]
    following = expm(rate * h)
    z = np.zeros((N, m, n + 1))
    result = np.empty((N, len(t), linear.C.shape[1], m))
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(len(t)):
            z = np.where((begins == k)[..., None], first, (following @ z[..., None])[..., 0])
            result[:, k] = np.swapaxes((output @ z[..., None])[..., 0], 1, 2)
    return result


def _shifted(frequencies: Array, delay: Array) -> Complex:
    """exp(-2 pi i f tau) for dead times (N, m), (N, F, 1, m)."""
    return np.exp(-2j * np.pi * frequencies[:, None, None] * delay[:, None, None, :])


def _decibel(response: Complex) -> Array:
    with np.errstate(divide="ignore"):
        return 20.0 * np.log10(np.abs(response))


def _interval(draws: Array, level: float) -> tuple[Array, Array]:
    lower, upper = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return lower, upper
