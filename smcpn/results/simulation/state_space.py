"""A linear state-space model with the draws of a posterior: poles, responses, their bands.

x' = A (x - x0) + B (u - u0),    y = y0 + C (x - x0) + D (u - u0)

That to a step is exact at every time, by matrix exponentials: with z = (x, 1), z' = [[A, b], [0,
0]] z from the dead time of the input on, and y = [C, d] z.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.base.arguments import Numbers, Positive, Probability, checked
from smcpn.base.late_binding import late_bound
from smcpn.base.tables import Card, Column, Fact, Table, WithCard, fact_lines, table_text
from smcpn.base.units import frequency_unit
from smcpn.errors import InputError, counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from scipy import signal


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

    state, output: (N, n), (N, q), operating point of each draw.
    delay: (N, m), dead time of each input.
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
    delay, draws_delay : ndarray, (m,), (N, m)
        Dead time of each input, at the mean parameters and of every draw.
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
    """

    t: Array
    response: Array
    draws: Array = field(repr=False)
    t_unit: str = "s"

    def interval(self, level: Probability = 0.95) -> tuple[Array, Array]:
        """Lower and upper end of the central ``level`` of the draws, each (T, q, m)."""
        return _interval(self.draws, level)


def frequency_responses(linear: Matrices, frequencies: Array) -> Complex:
    """Return (C (s I - A)^-1 B + D) exp(-s tau), (N, F, q, m), computed by parts of the draws."""
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


AT_RESONANCE = 21
"""Further ones at every resonance, within five half-widths."""
HIGHEST = 1e100
"""Bound of frequencies in Hz, beyond which numbers end."""


@dataclass(frozen=True)
class Pole:
    """A pole, or a pair of conjugate ones, with the central 95 % of the draws.

    Attributes
    ----------
    pole : complex
        At the mean parameters, 1/time; of a pair the one with the positive imaginary part.
    frequency : float
        Natural frequency |pole| / 2 pi: Hz where time is in seconds.
    damping : float
        Damping ratio -Re(pole) / |pole|; negative where it is unstable, nan of a pole at 0.
    frequency_interval, damping_interval : tuple of float
    """

    pole: complex
    frequency: float
    damping: float
    frequency_interval: tuple[float, float]
    damping_interval: tuple[float, float]


@checked
@dataclass(frozen=True, eq=False, repr=False)
class StateSpace(WithCard):
    """A model linearised at an operating point, at the mean parameters and at every draw.

    Attributes
    ----------
    name : str
        Of the model.
    states, inputs, outputs : tuple of str
    A, B, C, D : ndarray, (n, n), (n, m), (q, n), (q, m)
        At the mean parameters: derivatives of the state and the outputs by the state and the
        inputs. D is not 0 where an output contains a derivative, as an acceleration does.
    state, input, output : ndarray, (n,), (m,), (q,)
        The operating point at the mean parameters.
    time : float
        At which a model that depends on time was linearised.
    at_rest : bool
        Whether the operating point is an equilibrium. Where it is not, the derivative of the state
        there is missing from the linear model.
    delay : ndarray, (m,)
        Dead time of each input; the matrices, `to_scipy` and `to_control` leave it out.
    draws : Matrices
        The same of N equally weighted draws, each at its own operating point.
    t_unit : str
        Unit of time, that of the record of a posterior.
    """

    name: str
    states: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    A: Array
    B: Array
    C: Array
    D: Array
    state: Array
    input: Array
    output: Array
    time: float
    at_rest: bool
    delay: Array
    draws: Matrices
    t_unit: str = "s"

    def to_scipy(self) -> signal.StateSpace:
        """Return it at the mean parameters as a `scipy.signal.StateSpace`."""
        from scipy import signal  # its import takes half a second

        return signal.StateSpace(self.A, *self._shaped())

    def to_control(self) -> Any:
        """Return it at the mean parameters as a ``control.StateSpace``, with names.

        Raises
        ------
        InputError
            If the package ``control`` (python-control) is not installed.
        """
        try:
            import control  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise InputError(
                "to_control needs python-control, which is not installed: pip install control"
            ) from None
        return control.ss(
            self.A, *self._shaped(), name=self.name, states=list(self.states),
            inputs=list(self.inputs) or 1, outputs=list(self.outputs),
        )  # fmt: skip

    def _shaped(self) -> tuple[Array, Array, Array]:
        """B, C and D; of a model without input with an input that does nothing."""
        if self.inputs:
            return self.B, self.C, self.D
        return np.zeros((len(self.A), 1)), self.C, np.zeros((len(self.C), 1))

    def poles(self) -> list[Pole]:
        """Return the eigenvalues of A, the slowest first, with the intervals of the draws.

        A pole of a draw belongs to the nearest one at the mean parameters, no two to the same.
        """
        found = np.linalg.eigvals(self.A).astype(complex)
        centre: Complex = found[np.lexsort((-np.imag(found), np.abs(found)))]
        matched = _matched(np.linalg.eigvals(self.draws.A).astype(complex), centre)
        return [
            _pole(one, draws)
            for one, draws in zip(centre.tolist(), matched.T, strict=True)
            if one.imag >= 0.0
        ]

    def bode(self, frequencies: Numbers | None = None) -> Bode:
        """Return the frequency response at the mean parameters and of every draw.

        Parameters
        ----------
        frequencies : array_like, (F,), optional
            Hz, or cycles a unit of time, above 0; by default from a tenth of the slowest pole to
            ten times the fastest.

        Raises
        ------
        InputError
            If the model has no input, or a frequency is not a number above 0 or is that of a pole
            without damping.
        """
        if not self.inputs:
            raise InputError(f"model '{self.name}' has no input: it has no frequency response")
        chosen = self._frequencies() if frequencies is None else np.sort(frequencies, axis=None)
        if not (chosen.size and (chosen > 0).all() and (chosen < HIGHEST).all()):
            raise InputError(
                "frequencies has a value that is no frequency: give "
                f"{frequency_unit(self.t_unit)}, above 0"
            )
        return Bode(
            chosen,
            frequency_responses(self._at_mean(), chosen)[0],
            frequency_responses(self.draws, chosen),
            self.delay,
            self.draws.delay,
            self.t_unit,
        )

    @late_bound
    def plot_bode(self, frequencies: Numbers | None = None) -> Figure:
        """Plot magnitude and phase from every input to every output, with their 95 % bands.

        Parameters
        ----------
        frequencies : array_like, (F,), optional
            As of `bode`.

        Raises
        ------
        InputError
            As `bode`.
        """
        ...

    def step(self, duration: Positive | None = None) -> StepResponse:
        """Return the response to a step of one in each input, at the mean parameters and of draws.

        Parameters
        ----------
        duration : float, optional
            In the unit of time; by default seven time constants of the slowest pole, beyond the
            longest dead time.

        Raises
        ------
        InputError
            If the model has no input, or grows beyond all numbers in this time.
        """
        if not self.inputs:
            raise InputError(f"model '{self.name}' has no input: it has no step response")
        mean = self._at_mean()
        poles = np.linalg.eigvals(self.A).astype(complex)
        t = step_times(poles, duration or duration_of(poles, self.delay))
        response = step_responses(mean, t)[0]
        if not np.isfinite(response).all():
            raise InputError(
                f"duration is {t[-1]:.4g}, over which the response cannot be computed in double "
                "precision: give a shorter one",
                argument="duration",
            )
        return StepResponse(t, response, step_responses(self.draws, t), self.t_unit)

    @late_bound
    def plot_step(self, duration: Positive | None = None) -> Figure:
        """Plot the step response from every input to every output, with its 95 % band.

        Parameters
        ----------
        duration : float, optional
            As of `step`.

        Raises
        ------
        InputError
            As `step`.
        """
        ...

    def _at_mean(self) -> Matrices:
        """The model at the mean parameters as the only draw."""
        here = (self.A, self.B, self.C, self.D, self.state, self.output, self.delay)
        return Matrices(*(one[None] for one in here))

    @override
    def card(self) -> Card:
        """Card with poles and the point of linearisation."""
        notes = [*fact_lines(self._point()), "all: print(x.summary())"]
        return Card(replace(self._pole_table(), notes=notes))

    @override
    def picture(self) -> Figure | None:
        return self.plot_bode() if self.inputs else None

    def summary(self) -> str:
        """The operating point, the poles with their intervals, and the matrices, as text."""
        matrices = [
            f"{name} =\n{np.array2string(matrix, precision=5, suppress_small=True)}"
            for name, matrix in (("A", self.A), ("B", self.B), ("C", self.C), ("D", self.D))
            if matrix.size
        ]
        table = table_text(self._pole_table())
        point = fact_lines(self._point())
        return "\n".join([self.heading, *point, "", table, "", *matrices])

    @property
    def heading(self) -> str:
        """The model and its operating point in a line."""
        where = "an equilibrium" if self.at_rest else "a point that is no equilibrium"
        return (
            f"'{self.name}' linearised at {where}: {counted(len(self.states), 'state')}, "
            f"{counted(len(self.inputs), 'input')}, {counted(len(self.outputs), 'output')}"
        )

    def _point(self) -> list[Fact]:
        kinds = (
            ("state", self.states, self.state),
            ("input", self.inputs, self.input),
            ("output", self.outputs, self.output),
            ("delay", self.inputs if self.delay.any() else (), self.delay),
        )
        return [
            (kind, ", ".join(f"{n} {v:.5g}" for n, v in zip(names, values, strict=True)))
            for kind, names, values in kinds
            if names
        ]

    def _pole_table(self) -> Table:
        ends = [Column("2.5 %", ".5g"), Column("97.5 %", ".5g")]
        shares = [Column("2.5 %", ".4g"), Column("97.5 %", ".4g")]
        columns = [
            Column(f"pole (1/{self.t_unit or 'time'})"),
            Column(f"frequency ({frequency_unit(self.t_unit)})", ".5g"), *ends,
            Column("damping ratio", ".4g"), *shares,
        ]  # fmt: skip
        rows = [
            [_shown(one.pole), one.frequency, *one.frequency_interval, one.damping,
             *one.damping_interval]
            for one in self.poles()
        ]  # fmt: skip
        return Table(columns, rows, self.heading)

    def _frequencies(self) -> Array:
        """Frequencies that show every pole at the mean parameters, with points at resonances."""
        poles = np.linalg.eigvals(self.A)
        size = np.abs(poles)
        size = size[size > 1e-12 * size.max(initial=0.0)] / (2 * np.pi)
        low, high = (size.min(), size.max()) if size.size else (1.0, 1.0)
        spread = np.geomspace(low / 10, high * 10, POINTS)
        around = [
            (one.imag + np.linspace(-5, 5, AT_RESONANCE) * one.real) / (2 * np.pi)
            for one in poles
            if one.imag > 0 and one.real
        ]
        every = np.unique(np.concatenate([spread, *around]))
        return every[(every >= spread[0]) & (every <= spread[-1])]


def _shown(pole: complex) -> str:
    return f"{pole.real:.4g} ± {pole.imag:.4g}i" if pole.imag else f"{pole.real:.4g}"


def _damping(poles: Complex) -> Array:
    size = np.abs(poles)
    return np.where(size > 0, -poles.real / np.where(size > 0, size, 1.0), np.nan)


def _pole(centre: complex, draws: Complex) -> Pole:
    frequency, damping = np.abs(draws) / (2 * np.pi), _damping(draws)
    known = damping[np.isfinite(damping)]
    low, high = np.quantile(known, [0.025, 0.975]) if known.size else (np.nan, np.nan)
    least, most = np.quantile(frequency, [0.025, 0.975])
    return Pole(
        pole=centre,
        frequency=abs(centre) / (2 * np.pi),
        damping=float(_damping(np.array([centre]))[0]),
        frequency_interval=(float(least), float(most)),
        damping_interval=(float(low), float(high)),
    )


def _matched(poles: Complex, centre: Complex) -> Complex:
    """Poles (N, n), each in the place of the one of ``centre`` (n,) that it belongs to."""
    from scipy import optimize

    matched = np.empty_like(poles)
    for one, into in zip(poles, matched, strict=True):
        _, places = optimize.linear_sum_assignment(np.abs(centre[:, None] - one[None, :]))
        into[:] = one[places]
    return matched
