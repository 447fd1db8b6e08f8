"""`smcpn.estimate_delay`: the dead time of an output, and the low-order linear model beside it.

An output y that follows an input u by a linear model of first or second order is, for given poles,
linear in all else,

    y(t) = sum_i b_i h_i(t - tau) + offset + free decay,

with the exact responses h_i to the held input. For each dead time the poles are searched for, by
least squares from the best of a grid, and the sum of squares S is a profile over tau
(`smcpn.profile`): its 95 % interval ends where n / 2 log S has risen by 1.92. Of T errors that are
correlated by rho from one to the next only n = T (1 - rho) / (1 + rho) are counted. At each
tau the best of three models counts, by Akaike's criterion: first order, second order, and that with
a zero.

Ljung, L. (1999), System Identification, sections 4.2 and 16.4. Golub, G., Pereyra, V. (1973), SIAM
J. Numer. Anal. 10, 413-432, for leaving out what is linear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, signal
from typing_extensions import override

from smcpn.base.arguments import Index, Positive, checked
from smcpn.base.late_binding import late_bound
from smcpn.base.tables import Card, Table, WithCard, fact_lines
from smcpn.errors import InputError, output_number
from smcpn.estimate.profile import ENOUGH, PRIOR, Profile, crossing
from smcpn.model.record import Record, check_values_alone

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

SAMPLES, FEWEST = 5000, 20
"""Of a long record the first that are looked at; and fewest that are measured."""
LONGEST, MOST = 0.25, 100
"""Longest dead time by default: a share of the record, and sampling intervals."""
CELLS, BEST, ZOOMED, ZOOMS, FINE = 40, 5, 12, 4, 8
"""Dead times of the first look at least, those of them that are looked at first, and of each closer
look; how many of these there may be, and how many dead times that fit are enough."""
RATES, DAMPINGS = 14, np.array([0.1, 0.3, 0.7, 1.5, 4.0])
"""Of the grid: rates of poles, evenly on a logarithmic scale, and dampings of second order."""
SLOWEST, FASTEST, DAMPED = 0.2, 3.0, (0.03, 30.0)
"""Least rate over that of the record's duration, greatest over that of sampling; dampings."""
ROUNDING = 1e-14
"""Share of a sum of squares that rounding leaves."""
INSIDE = 1e-9
"""Distance of the ends of the grid from the bounds of a search."""
POOR = 50.0
"""Fit in percent below which a linear model says little."""


@checked
@dataclass(frozen=True, repr=False)
class DelayEstimate(WithCard):
    """A dead time with its 95 % interval, and the linear model that it goes with.

    Attributes
    ----------
    record : Record
        One input and one output, as far as they were looked at.
    delay : float
        In the record's unit of time.
    low, high : float
        Ends of its 95 % interval; 0, or inf where the longest that was tried fits as well.
    order : int
        Of the model.
    gain : float
        Static gain: change of the output over that of a constant input.
    poles : ndarray of complex, (order,)
    zero : bool
        Whether the model has a zero.
    fit : float
        100 (1 - rms error / standard deviation of y).
    simulated : ndarray, (T,)
        Output of the model.
    profile : Profile
        Over the dead time.
    """

    record: Record
    delay: float
    low: float
    high: float
    order: int
    gain: float
    poles: Complex
    zero: bool
    fit: float
    simulated: Array
    profile: Profile

    @property
    def model(self) -> str:
        """The linear model in words: its gain with time constants, or frequency and damping."""
        if np.isreal(self.poles).all():
            times = " and ".join(self._time(one) for one in sorted(-1.0 / self.poles.real))
            dynamics = f"time constant{'s' * (self.order > 1)} {times}"
        else:
            rate = float(np.abs(self.poles[0]))
            damping = float(-self.poles[0].real) / rate
            unit = f" rad/{self.record.t_unit}" if self.record.t_unit else ""
            dynamics = f"angular frequency {rate:.3g}{unit}, damping {damping:.3g}"
        zero = ", with a zero" * self.zero
        return f"gain {self.gain:.3g}, {dynamics}{zero}; fit {self.fit:.3g} %"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences on what speaks against it."""
        told = list[str]()
        if self.fit < POOR:
            told.append(
                f"a linear model explains only {self.fit:.2g} % of the output: do not believe its "
                "dead time, and look at the picture"
            )
        if np.isinf(self.high):
            told.append("the longest dead time that was tried fits as well: give a longer longest=")
        return tuple(told)

    def __str__(self) -> str:
        between = f"{self.low:.3g} to {self._time(self.high)}"
        if np.isinf(self.high):
            between = f"from {self._time(self.low)} on"
        return f"dead time {self._time(self.delay)} ({between} with 95 %)"

    def _time(self, value: float) -> str:
        return f"{value:.3g} {self.record.t_unit}".rstrip()

    @override
    def card(self) -> Card:
        return Card(Table(title=str(self), notes=[self.model, *self.warnings]))

    def summary(self) -> str:
        """The dead time, the model and warnings, as text."""
        warnings = fact_lines((), self.warnings)
        return "\n".join([str(self), self.model, *warnings])

    @override
    def picture(self) -> Figure:
        return self.plot()

    @late_bound
    def plot(self) -> Figure:
        """Plot the profile over the dead time, and the output measured and by the model."""
        ...


@checked
def estimate_delay(
    record: Record, *, input: Index = 0, output: Index = 0, longest: Positive | None = None
) -> DelayEstimate:
    """Return the dead time from an input to an output, found by linear models of low order.

    What a linear model of second order does not follow in time counts as dead time. It is a first
    look, for the prior of ``delay`` in a problem and for first values of gain and time constants.

    Parameters
    ----------
    record : Record
        Sampled uniformly; outputs may be missing. Of a long one the first 5000 samples count.
        A band-limited input is taken for linear between samples.
    input, output : int
        Numbers, from 0. Other inputs are disturbances here: choose a part where they rest.
    longest : float, optional
        Longest dead time that is tried; by default a quarter of the record, or 100 intervals.

    Raises
    ------
    InputError
        If the record is too short or not uniform, the input or the output does not move, or
        there is none of that number.

    Examples
    --------
    >>> found = smcpn.estimate_delay(record)  # doctest: +SKIP
    >>> found.delay, found.low, found.high  # doctest: +SKIP
    """
    part = _looked_at(record, input, output)
    most = min(LONGEST * len(part), MOST) if longest is None else longest / part.interval
    if not most < len(part) / 2:
        raise InputError(
            f"longest is {longest!r}, and the record lasts {part.interval * len(part):.4g}: give "
            "less than half of that",
            argument="longest",
        )
    families = [_Family(part, order, zero) for order, zero in ((1, False), (2, False), (2, True))]
    found = [family.profile(most) for family in families]
    levels = [family.level(one.sums.min()) for family, one in zip(families, found, strict=True)]
    best = int(np.argmin(levels))
    return families[best].result(found[best], _joint(families, found, best))


def _joint(
    families: Sequence[_Family], found: Sequence[_SumsOfSquares], best: int
) -> tuple[Array, Array]:
    """Return dead times, and how far the best of all models there is below the best of all."""
    every = np.unique(np.concatenate([one.delays[one.searched] for one in found]))
    worth = families[best].worth(found[best])
    levels = [
        np.interp(every, one.delays[one.searched], family.level(one.sums[one.searched], worth))
        for family, one in zip(families, found, strict=True)
    ]
    level = np.min(levels, axis=0)
    return every, level - level.min()


def _looked_at(record: Record, input: int, output: int) -> Record:
    """Return the one input and output that are looked at, of a record that can be."""
    check_values_alone(record, "estimate_delay")
    if not record.uniform:
        raise InputError(f"{record.name}: a dead time is found in uniform samples: resample it")
    if not record.n_inputs:
        raise InputError(f"{record.name} has no input: give the input that the output follows, u=")
    if not 0 <= input < record.n_inputs:
        raise InputError(
            f"input is {input}: give one of the {record.n_inputs} inputs of {record.name}, from 0",
            argument="input",
        )
    j = output_number(output, record.n_outputs)
    u, y = record.u[:SAMPLES, input], record.y[:SAMPLES, j]
    seen = y[np.isfinite(y)]
    if len(seen) < FEWEST:
        raise InputError(
            f"{record.name}: {len(seen)} samples of the output are measured: give {FEWEST} or more"
        )
    for name, values in (("input", u), ("output", seen)):
        if np.ptp(values) == 0.0:
            raise InputError(f"{record.name}: the {name} does not move, which tells no dead time")
    return Record(
        u=u, y=y, dt=record.interval, start=float(record.t[0]), name=record.name,
        hold=record.hold, t_unit=record.t_unit, y_unit=record.unit_of(j),
    )  # fmt: skip


@dataclass(frozen=True)
class _SumsOfSquares:
    """Least sums of squares S (K,) over dead times (K,), with the poles' coordinates (K, order).

    Where they are not searched for, poles are those of a grid.
    """

    delays: Array
    poles: Array
    sums: Array
    searched: NDArray[np.bool_]


class _Family:
    """Models of an order, with a zero or none; time counts in sampling intervals.

    Coordinates of its poles are log rate, and of second order log damping.
    """

    def __init__(self, record: Record, order: int, zero: bool) -> None:
        self.record, self.order, self.zero = record, order, zero
        # Before the record the input is what it is at its beginning, and the model at rest: the
        # offset and the free decay make up for it.
        self._u, self._y = record.u[:, 0] - record.u[0, 0], record.y[:, 0]
        self._count = int(np.isfinite(self._y).sum())
        self._spread = float(np.nanvar(self._y)) * len(record)
        self._seen, self._t = np.isfinite(self._y), np.arange(len(record), dtype=float)
        rates = np.log([SLOWEST / len(record), FASTEST])
        self._bounds = np.array([rates, np.log(DAMPED)])[:order]

    def level(self, sums: Any, worth: float = 1.0) -> Array:
        """Return half of Akaike's criterion at sums of squares; see `worth`."""
        return worth * self._count / 2 * np.log(sums) + 2 * self.order + self.zero

    def profile(self, longest: float) -> _SumsOfSquares:
        """Look at all dead times, and closer at those that fit."""
        delays = np.linspace(0.0, longest, max(CELLS, int(np.ceil(min(longest, MOST)))) + 1)
        rates = np.linspace(self._bounds[0, 0], self._bounds[0, 1], RATES)
        grid = rates[:, None]
        if self.order == 2:
            grid = np.stack(np.meshgrid(rates, np.log(DAMPINGS)), axis=-1).reshape(-1, 2)
        every = np.array([self._sums(delays, poles) for poles in grid])
        searched = np.zeros(len(delays), dtype=bool)
        found = _SumsOfSquares(delays, grid[every.argmin(axis=0)], every.min(axis=0), searched)
        found = self._with(found, delays[np.argsort(found.sums)[:BEST]])
        for _ in range(len(delays) + ZOOMS):
            near = np.flatnonzero(found.searched & (self._cost(found.sums) < ENOUGH))
            ends = np.array([max(near[0] - 1, 0), min(near[-1] + 1, len(found.delays) - 1)])
            if not found.searched[ends].all():
                found = self._with(found, found.delays[ends[~found.searched[ends]]])
            elif len(near) < FINE:
                begin, end = found.delays[ends]
                found = self._with(found, np.linspace(begin, end, ZOOMED))
            else:
                break
        return found

    def _with(self, found: _SumsOfSquares, delays: Array) -> _SumsOfSquares:
        """Search for the poles at dead times, from the better of the next ones known."""
        poles, sums = list[Array](), list[float]()
        (low, high), least = self._bounds.T, 1e-3 / len(self._y)
        scale = np.sqrt(self._spread)
        for one in delays:
            away = np.abs(found.delays - one)
            near = away.argmin(), np.where(found.searched, away, np.inf).argmin()
            at = np.array([one])
            start = min((found.poles[k] for k in near), key=lambda x: self._sums(at, x)[0])
            end = optimize.least_squares(
                lambda x, at=at: self._errors(at, x)[0] / scale, np.clip(start, low, high),
                bounds=(low - INSIDE, high + INSIDE), xtol=1e-4, ftol=least, gtol=1e-15,
            )  # fmt: skip
            poles.append(end.x)
            sums.append(float(self._sums(at, end.x)[0]))
        kept = ~np.isin(found.delays, delays)
        every = np.concatenate([found.delays[kept], delays])
        order = np.argsort(every)
        return _SumsOfSquares(
            every[order],
            np.concatenate([found.poles[kept], poles])[order],
            np.concatenate([found.sums[kept], sums])[order],
            np.concatenate([found.searched[kept], np.ones(len(delays), dtype=bool)])[order],
        )

    def _cost(self, sums: Array) -> Array:
        return self._count / 2 * np.log(sums / sums.min())

    def _rates(self, poles: Array) -> Complex:
        """Return minus the poles, which are never equal."""
        rate = np.exp(poles[0])
        if self.order == 1:
            return np.array([rate + 0j])
        damping = np.exp(poles[1])
        damping += 1e-4 * (abs(damping - 1.0) < 1e-4)
        root = np.sqrt(damping**2 - 1.0 + 0j)
        return rate * np.array([damping - root, damping + root])

    def _joined(self, modes: Complex, p: Complex) -> list[Array]:
        """Return the real signals that modes 1 / (s + p), (order, ...), span."""
        if self.order == 1:
            return [modes[0].real]
        apart = p[1] - p[0]
        first, second = (modes[0] - modes[1]) / apart, (p[1] * modes[1] - p[0] * modes[0]) / apart
        return [first.real, second.real]

    def _responses(self, delays: Array, p: Complex) -> list[Array]:
        """Return the exact responses (K, T) to the input, delayed by each dead time."""
        whole = np.ceil(delays).astype(int)
        part = whole - delays
        before = int(whole.max())
        u = np.concatenate([np.zeros(before), self._u, self._u[-1:]])
        ramps = self.record.hold != "zoh"
        places = np.arange(len(self._t)) + (before - whole)[:, None]
        here, rise = u[places], ramps * (u[places + 1] - u[places])
        modes = np.empty((self.order, *places.shape), dtype=complex)
        for mode, rate in zip(modes, p, strict=True):
            held, ramp = _integrals(rate, np.ones(1))
            ramp = ramps * ramp
            state = signal.lfilter([ramp[0], held[0] - ramp[0]], [1.0, -np.exp(-rate)], u[:-1])
            held, ramp = _integrals(rate, part)
            mode[:] = np.exp(-rate * part)[:, None] * state[places]
            mode += held[:, None] * here + ramp[:, None] * rise
        found = self._joined(modes, p)
        return found if self.zero else found[:1]

    def _free(self, p: Complex) -> Array:
        """Return the offset and the free decays, (T, 1 + order)."""
        decays = self._joined(np.exp(-p[:, None] * self._t), p)
        return np.column_stack([np.ones_like(self._t), *decays])

    def _sums(self, delays: Array, poles: Array) -> Array:
        """Return the least sums of squares at dead times, (K,)."""
        squares = np.square(self._errors(delays, poles)).sum(axis=1)
        return np.maximum(squares, ROUNDING * self._spread)

    def _errors(self, delays: Array, poles: Array) -> Array:
        """Return the errors at dead times, (K, n), all that is linear being fitted."""
        p = self._rates(poles)
        basis, _ = np.linalg.qr(self._free(p)[self._seen])
        y = self._y[self._seen] - self._y[self._seen].mean()
        y = y - basis @ (basis.T @ y)
        taken = list[Array]()
        for response in self._responses(delays, p):
            h = response[:, self._seen]
            h = h - (h @ basis) @ basis.T
            for other in taken:
                h = h - np.sum(h * other, axis=1)[:, None] * other
            size = np.linalg.norm(h, axis=1)[:, None]
            h = np.divide(h, size, out=np.zeros_like(h), where=size > 0.0)
            taken.append(h)
        return y - sum((h @ y)[:, None] * h for h in taken)

    def worth(self, found: _SumsOfSquares) -> float:
        """Return which share of the errors counts, those that repeat the ones before left out."""
        _, simulated, _ = self._fitted(found)
        return _worth(self._y - simulated)

    def result(self, found: _SumsOfSquares, joint: tuple[Array, Array]) -> DelayEstimate:
        """Return the estimate, its interval by the profile ``joint`` of all models."""
        poles, simulated, gain = self._fitted(found)
        dt, (delays, drop) = self.record.interval, joint
        best = int(drop.argmin())
        low, high = (
            crossing(delays[side], drop[side]) * dt
            for side in (slice(best, None, -1), slice(best, None))
        )
        along = Profile(
            "dead time", delays * dt, drop, delays[:, None] * dt, low, high, (PRIOR, PRIOR), 0.0
        )
        errors = self._y - simulated
        return DelayEstimate(
            record=self.record, delay=float(found.delays[found.sums.argmin()]) * dt,
            low=0.0 if np.isnan(low) else low, high=np.inf if np.isnan(high) else high,
            order=self.order, gain=gain, poles=poles / dt, zero=self.zero,
            fit=float(100 * (1 - np.nanstd(errors) / np.nanstd(self._y))),
            simulated=simulated, profile=along,
        )  # fmt: skip

    def _fitted(self, found: _SumsOfSquares) -> tuple[Complex, Array, float]:
        """Return the poles, the output (T,) and the static gain of the best model."""
        best = int(found.sums.argmin())
        p = self._rates(found.poles[best])
        responses = [one[0] for one in self._responses(found.delays[[best]], p)]
        columns = np.column_stack([*responses, self._free(p)])
        weights = np.linalg.lstsq(columns[self._seen], self._y[self._seen], rcond=None)[0]
        # A zero adds a multiple of the derivative of the response, which does not stay.
        return -p, columns @ weights, float(weights[0] / np.prod(p).real)


def _worth(errors: Array) -> float:
    """Return which share of errors (T,) that are correlated with those before counts."""
    centred = errors - np.nanmean(errors)
    pairs = centred[1:] * centred[:-1]
    correlation = float(np.nanmean(pairs) / np.nanmean(np.square(centred)))
    return (1.0 - correlation) / (1.0 + correlation) if 0.0 < correlation < 1.0 else 1.0


def _integrals(rate: complex, span: Array) -> tuple[Complex, Complex]:
    """Return the responses of 1 / (s + rate) at ends of spans to a unit step, and a unit ramp."""
    x: Complex = (rate * span).astype(np.complex128)
    fallen: Complex = np.expm1(-x)
    return -fallen / rate, (x + fallen) / rate**2
