"""Flow and measured outputs of a model at many points at once, with their derivatives.

The flow over a sampling interval is that of Runge-Kutta steps, differentiated with the equation:

    dx/dt = f(x, u, t, theta),    dG/dt = f_x G + (0, f_theta),    G = (dx/dx_k, dx/dtheta),

which a Runge-Kutta method integrates to the exact derivatives of its own steps.

Of measured outputs a path sees their cost, and its Gauss-Newton approximation (`Measurements`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, NamedTuple, Protocol

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from smcpn.codegen.adjoint import transposed
from smcpn.codegen.arrays import ArrayFunction
from smcpn.codegen.tangent import jacobian
from smcpn.model.graphs import Model
from smcpn.model.record import Record
from smcpn.model.signal import substep_inputs, substep_times

Array = NDArray[np.float64]

FORWARD = 60
"""Most states and parameters of which each has a forward tangent; of more, rows are reversed."""
LOG_ROOT = 0.5 * np.log(2.0 * np.pi)
BLOCK = 4096
"""Points that are evaluated together: arrays of so many numbers fit the cache."""


class Rate(Protocol):
    """A column of functions of (x, u, t) and d values, with its derivatives, for arrays."""

    def value(self, x: Array, u: Array, t: Array, values: Array) -> Array:
        """Value (S, K, q) at states (S, K, n), inputs (K, m), times (K,) and values (S, d)."""
        ...

    def with_derivatives(self, x: Array, u: Array, t: Array, values: Array) -> tuple[Array, Array]:
        """Value (S, K, q), and its derivatives by x and the values, (S, K, q, n + d)."""
        ...


class Field:
    """A column of graphs over (x, u, t, theta), with its derivatives by x and theta, for arrays.

    With ``by_inputs`` those by u follow.
    """

    def __init__(self, model: Model, graph: ca.SX, by_inputs: bool = False) -> None:
        graph = ca.densify(graph)
        directions = ca.vertcat(model.x, model.theta, *([model.u] * by_inputs))
        few = directions.numel() <= FORWARD
        slopes = (_slopes_forward if few else _slopes_reverse)(graph, directions)
        symbols = ca.vertcat(model.x, model.u, model.t, model.theta)
        self._shape = graph.numel(), directions.numel()
        self._value = ArrayFunction(symbols, graph)
        self._all = ArrayFunction(symbols, ca.vertcat(graph, ca.vec(slopes)))

    def value(self, x: Array, u: Array, t: Array, values: Array) -> Array:
        """Value (S, K, q) at states (S, K, n), inputs (K, m), times (K,) and values (S, d)."""
        return stacked(self._value(_columns(x, u, t, values)), x.shape[:2])

    def with_derivatives(self, x: Array, u: Array, t: Array, values: Array) -> tuple[Array, Array]:
        """Value (S, K, q), and its derivatives by (x, theta), (S, K, q, n + d)."""
        rows, columns = self._shape
        found = self._all(_columns(x, u, t, values))
        slopes = stacked(found[rows:], x.shape[:2]).reshape(*x.shape[:2], columns, rows)
        return stacked(found[:rows], x.shape[:2]), slopes.swapaxes(2, 3)


def _slopes_forward(graph: ca.SX, directions: ca.SX) -> ca.SX:
    return ca.densify(jacobian(graph, directions))


def _slopes_reverse(graph: ca.SX, directions: ca.SX) -> ca.SX:
    """Slopes in reverse mode, at a few times the cost of the graph for each of its rows."""
    rows = range(graph.numel())
    return ca.horzcat(*(transposed(graph, [directions], _one(graph, row))[0] for row in rows)).T


def _one(graph: ca.SX, row: int) -> ca.SX:
    weights = ca.SX.zeros(graph.numel(), 1)
    weights[row] = 1.0
    return weights


def _columns(x: Array, u: Array, t: Array, values: Array) -> list[Array]:
    states = [x[:, :, i] for i in range(x.shape[2])]
    inputs = [u[..., i] for i in range(u.shape[-1])]
    return [*states, *inputs, t, *(values[:, j, None] for j in range(values.shape[1]))]


def stacked(columns: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """Columns, broadcast to a shape, along a last axis."""
    result = np.empty((*shape, len(columns)))
    for k, column in enumerate(columns):
        result[..., k] = column
    return result


class Flow(NamedTuple):
    """Ends of the sampling intervals, with their derivatives.

    end: (S, K, n)
    slopes: (S, K, n, n + d), by the state at the beginning, and by the parameter values.
    """

    end: Array
    slopes: Array


class Entering(NamedTuple):
    """Amounts that enter the states of a model from outside, as doses.

    jumps: (K, n), as an interval begins.
    rates: (K, n), in a unit of time of the interval.
    """

    jumps: Array
    rates: Array

    def scaled(self, scale: Array) -> Entering:
        """Return amounts of states in units (n,)."""
        return Entering(self.jumps / scale, self.rates / scale)


class Intervals:
    """Sampling intervals of several records, one after the other.

    ``steps`` are the Runge-Kutta steps of an interval, or of each of its ``parts``, one at first;
    ``begin``, (K,), is the sample at which each interval begins, counted over all records.
    """

    parts = 1

    def __init__(
        self, rate: Rate, records: Sequence[Record], entering: Entering | None = None
    ) -> None:
        self._rate, self._records, self._entering = rate, records, entering
        ends = np.cumsum([len(record) for record in records])
        self.begin = np.setdiff1d(np.arange(ends[-1]), ends - 1)
        self.steps = 1

    @property
    def steps(self) -> int:
        """Runge-Kutta steps of an interval."""
        return self._steps

    @steps.setter
    def steps(self, steps: int) -> None:
        records, self._steps = self._records, steps
        self._u = np.concatenate([substep_inputs(record, 2 * steps) for record in records])
        self._t = np.concatenate([substep_times(record, 2 * steps) for record in records])
        lengths = np.concatenate([np.diff(record.t) for record in records])
        self._h = lengths / (steps * self.parts)

    def with_rate(self, rate: Rate) -> Intervals:
        """Return the same intervals of another equation."""
        result = copy(self)
        result._rate = rate
        return result

    def detached(self) -> Intervals:
        """Return the same intervals without the records, with steps that stay as they are."""
        result = copy(self)
        result._records = ()
        return result

    def ends(self, x: Array, values: Array) -> Array:
        """States at the ends of the intervals, (S, K, n), from those at their beginnings."""
        ends = np.empty_like(x)
        for part in self._blocks(len(x)):
            ends[:, part] = self._integrated(x[:, part], values, part)
        return ends

    def flow(self, x: Array, values: Array) -> Flow:
        """Ends of the intervals with their derivatives, from states (S, K, n), values (S, d)."""
        n, d = x.shape[2], values.shape[1]
        flow = Flow(np.empty_like(x), np.empty((*x.shape, n + d)))
        for part in self._blocks(len(x)):
            flow.end[:, part], flow.slopes[:, part] = self._differentiated(x[:, part], values, part)
        return flow

    def _blocks(self, starts: int) -> list[slice]:
        size = max(BLOCK // starts, 1)
        return [slice(k, min(k + size, len(self.begin))) for k in range(0, len(self.begin), size)]

    def _integrated(self, x: Array, values: Array, part: slice) -> Array:
        h, (x, inflow) = self._h[part, None], self._entered(x, part)
        for inputs in self._inputs(values, part):
            rates: list[Array] = []
            for point, share in _STAGES:
                at = x + share * h * rates[-1] if rates else x
                rates.append(self._rate.value(at, *inputs[point], values) + inflow)
            x = x + h / 6 * _weighted(rates)
        return x

    def _differentiated(self, x: Array, values: Array, part: slice) -> tuple[Array, Array]:
        n, d = x.shape[2], values.shape[1]
        h, (x, inflow) = self._h[part, None], self._entered(x, part)
        long = h[..., None]
        slopes = np.zeros((*x.shape, n + d))
        slopes[..., range(n), range(n)] = 1.0
        for inputs in self._inputs(values, part):
            rates: list[tuple[Array, Array]] = []
            for point, share in _STAGES:
                at, slopes_at = x, slopes
                if rates:
                    at = x + share * h * rates[-1][0]
                    slopes_at = slopes + share * long * rates[-1][1]
                rate, by = self._rate.with_derivatives(at, *inputs[point], values)
                by_x = by[..., :n] @ slopes_at
                by_x[..., n:] += by[..., n:]
                rates.append((rate + inflow, by_x))
            x = x + h / 6 * _weighted([rate for rate, _ in rates])
            slopes = slopes + long / 6 * _weighted([slope for _, slope in rates])
        return x, slopes

    def _entered(self, x: Array, part: slice) -> tuple[Array, Array | float]:
        """States after what enters as intervals begin, and the rate of what does in them."""
        if self._entering is None:
            return x, 0.0
        return x + self._entering.jumps[part], self._entering.rates[part]

    def _inputs(self, values: Array, part: slice) -> Iterator[Sequence[tuple[Any, Array]]]:
        """Inputs and times at the begin, in the middle and at the end of every step."""
        for first in range(0, 2 * self._steps, 2):
            yield [(self._u[part, k], self._t[part, k]) for k in range(first, first + 3)]


_STAGES = ((0, 0.0), (1, 0.5), (1, 0.5), (2, 1.0))
"""Half steps to each stage of the Runge-Kutta method, and its share of the stage before."""


def _weighted(rates: list[Array]) -> Array:
    return rates[0] + 2 * rates[1] + 2 * rates[2] + rates[3]


class Measurements(Protocol):
    """Measured outputs of T samples, some missing, given those expected by S searches."""

    def cost(self, expected: Array, variances: Array) -> Array:
        """Minus the log density, (S,), but for what no path changes.

        ``expected``, (S, T, q), are the noise-free outputs, ``variances``, (S, q), those of
        Gaussian noise.
        """
        ...

    def expansion(self, expected: Array, variances: Array) -> tuple[Array, Array]:
        """Residual and weight, (S, T, q) both: the cost is about weight residual^2 / 2."""
        ...


class GaussianMeasurements:
    """Measurements with Gaussian noise, weighted as if it were white.

    Where ``sd``, (T, q), is given, the standard deviation of a value is in its unit.
    """

    def __init__(self, y: Array, sd: Array | None = None) -> None:
        self._present = np.isfinite(y)
        self._y = np.where(self._present, y, 0.0)
        self._precision = 1.0 if sd is None else np.where(np.isfinite(sd), sd, 1.0) ** -2.0

    def cost(self, expected: Array, variances: Array) -> Array:
        """Minus the log density, (S,), but for what no path changes."""
        residual, weight = self.expansion(expected, variances)
        return 0.5 * np.sum(weight * residual**2, axis=(1, 2))

    def expansion(self, expected: Array, variances: Array) -> tuple[Array, Array]:
        """Residual and weight, (S, T, q) both."""
        weight = self._present / variances[:, None, :] * self._precision
        return self.residuals(expected), weight

    def residuals(self, expected: Array) -> Array:
        """Measured values less those expected, (S, T, q); zero where one is missing."""
        return np.where(self._present, self._y - expected, 0.0)

    def squares(self, expected: Array) -> Array:
        """Sums (S, q) of the squares of `residuals`, in units of ``sd``."""
        return np.sum(self.residuals(expected) ** 2 * self._precision, axis=1)

    def counts(self, expected: Array, variances: Array) -> Array:
        """Numbers, (S,), by which a common factor of all variances is as well known."""
        return np.full(len(expected), float(self._present.sum()))


class LimitExpansion(NamedTuple):
    """Log probability of values between limits, (S, L), of which noise has a deviation of one.

    residual, information: (S, L), of a Gaussian pseudo-observation with its first two derivatives.
    by_log_sd: (S, L), derivative by the logarithm of the deviation.
    """

    log_probability: Array
    residual: Array
    information: Array
    by_log_sd: Array


class LimitedMeasurements(GaussianMeasurements):
    """Gaussian measurements of which some values are known by limits, (T, q), alone.

    Other arguments are those of `GaussianMeasurements`.
    """

    def __init__(self, y: Array, lower: Array, upper: Array, sd: Array | None = None) -> None:
        super().__init__(y, sd)
        self._limited = np.isfinite(lower) | np.isfinite(upper)
        self._lower = np.where(np.isfinite(lower), lower, -np.inf)
        self._upper = np.where(np.isfinite(upper), upper, np.inf)

    def cost(self, expected: Array, variances: Array) -> Array:
        """Minus the log density, (S,), but for what no path changes."""
        residual, weight = super().expansion(expected, variances)
        between = self._between(expected, variances).log_probability.sum(axis=1)
        return 0.5 * np.sum(weight * residual**2, axis=(1, 2)) - between

    def expansion(self, expected: Array, variances: Array) -> tuple[Array, Array]:
        """Residual and weight, (S, T, q) both, of a Gaussian pseudo-observation of limits."""
        residual, weight = super().expansion(expected, variances)
        sd, found = self._sd(expected, variances), self._between(expected, variances)
        residual[:, self._limited] = sd * found.residual
        weight[:, self._limited] = found.information / sd**2
        return residual, weight

    def counts(self, expected: Array, variances: Array) -> Array:
        """Numbers, (S,), by which a common factor of all variances is as well known."""
        found = self._between(expected, variances)
        squares = found.information * found.residual**2
        return super().counts(expected, variances) + (squares - found.by_log_sd).sum(axis=1)

    def _sd(self, expected: Array, variances: Array) -> Array:
        """Standard deviations of the values that have limits, (S, L)."""
        sd = np.sqrt(variances[:, None, :] / self._precision)
        return np.broadcast_to(sd, expected.shape)[:, self._limited]

    def _between(self, expected: Array, variances: Array) -> LimitExpansion:
        """Log probability of all limits, expanded."""
        middle, sd = expected[:, self._limited], self._sd(expected, variances)
        a, b = ((one[self._limited] - middle) / sd for one in (self._lower, self._upper))
        # In the upper tail numbers are those of the lower one, which has no cancellation.
        low, high = np.where(a > 0.0, -b, a), np.where(a > 0.0, -a, b)
        most = log_ndtr(high)
        log_probability = most + np.log(-np.expm1(log_ndtr(low) - most))
        at_a, at_b = (np.exp(-0.5 * z**2 - LOG_ROOT - log_probability) for z in (a, b))
        by_log_sd = (
            np.where(np.isfinite(a), a, 0.0) * at_a - np.where(np.isfinite(b), b, 0.0) * at_b
        )
        gradient = at_a - at_b
        information = np.maximum(gradient**2 - by_log_sd, 0.0)
        told = information > 0.0
        residual = np.where(told, gradient / np.where(told, information, 1.0), 0.0)
        return LimitExpansion(log_probability, residual, information, by_log_sd)


class DensityMeasurements:
    """Measurements of any density, whose parameters stay as they were at the start."""

    def __init__(self, model: Model, records: Sequence[Record], values: Array) -> None:
        density, y = model.density, np.concatenate([record.y for record in records])
        assert density is not None
        limited = np.concatenate([record.limited for record in records])
        self._present = np.isfinite(y) | limited
        # In place of a missing value one that every density has.
        self._y = np.where(np.isfinite(y), y, 1.0)
        samples = [np.column_stack(model.sample_numbers(record)) for record in records]
        self._samples = np.concatenate(samples)
        graphs = ca.vertcat(density.log_density, density.expansion()[0], density.information())
        graphs = ca.substitute(graphs, model.theta, ca.DM(values))
        known = ca.vertcat(density.beside, model.u, model.t)
        self._function = ArrayFunction(ca.vertcat(density.y, density.output, known), graphs)

    def cost(self, expected: Array, variances: Array) -> Array:
        """Minus the log density, (S,), but for what no path changes."""
        return -np.sum(np.where(self._present, self._at(expected)[0], 0.0), axis=(1, 2))

    def expansion(self, expected: Array, variances: Array) -> tuple[Array, Array]:
        """Residual and weight, (S, T, q) both, of a Gaussian pseudo-observation."""
        _, gradient, information = self._at(expected)
        weight = np.where(self._present, information, 0.0)
        told = weight > 0.0
        return np.where(told, gradient / np.where(told, weight, 1.0), 0.0), weight

    def _at(self, expected: Array) -> Array:
        """Log density, gradient and information, (3, S, T, q)."""
        q = expected.shape[2]
        columns = [self._y[:, j] for j in range(q)] + [expected[..., j] for j in range(q)]
        found = self._function([*columns, *self._samples.T])
        result = np.empty((3, *expected.shape))
        for k, column in enumerate(found):
            result[k // q, ..., k % q] = column
        return result


def state_outputs(model: Model) -> list[int]:
    """Outputs that are a function of the state and not of parameters, and measured as they are.

    A density that is not highest at the measured value, as of counts, measures something else.
    """
    gradient = ca.SX.zeros(model.outputs.numel(), 1)
    if model.density is not None:
        density = model.density
        gradient = ca.substitute(density.expansion()[0], density.output, density.y)
        gradient = ca.substitute(gradient, density.beside, ca.SX.zeros(density.beside.numel(), 1))
    return [
        j
        for j, output in enumerate(ca.vertsplit(model.outputs))
        if not ca.depends_on(output, model.theta) and gradient[j].is_zero()
    ]
