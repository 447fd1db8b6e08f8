"""Records with paths of their own: their cost, and their linearisation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.errors import InputError
from smcpn.estimate.path_search.late import LateIntervals
from smcpn.estimate.path_search.linearisation import (
    DensityMeasurements,
    Field,
    GaussianMeasurements,
    Intervals,
    Measurements,
    Rate,
    state_outputs,
)
from smcpn.estimate.path_search.smoothing import Linear
from smcpn.model.graphs import Model
from smcpn.model.problem import Problem
from smcpn.model.record import Record

Array = NDArray[np.float64]


MOST_STEPS = 64
"""Of Runge-Kutta, in a sampling interval."""
MOST_GROWTH = 25.0
"""Logarithm of what a change of the last digit may become; a trajectory is lost beyond."""
INVERSIONS = 8
"""Newton steps from an initial state to the measured outputs."""
_SMALL = 1e-9


class Paths(ABC):
    """Measured outputs, and equations that a path may leave from one sample to the next.

    Arrays have a first axis of searches, S; the samples of all records follow each other, T.

    ``begins``, (R,), is the first sample of each record, and ``times`` are (T,).
    """

    def __init__(
        self,
        records: Sequence[Record],
        intervals: Intervals,
        outputs: Rate,
        measurements: Measurements,
    ) -> None:
        self._intervals, self._outputs = intervals, outputs
        self._measurements = measurements
        self._u = np.concatenate([record.u for record in records])
        self.times = np.concatenate([record.t for record in records])
        self.begins = np.cumsum([0, *(len(record) for record in records[:-1])])

    @abstractmethod
    def initial_states(self, theta: Array) -> list[tuple[Array, Array]]:
        """Initial state (S, n) of each record, and its derivatives by state and values."""

    def values(self, theta: Array) -> Array:
        """Values of parameters, (S, d), from coordinates."""
        return theta

    def by_coordinates(self, slopes: Array, theta: Array) -> Array:
        """Derivatives (S, ..., n + d) by state and coordinates, of those by state and values."""
        return slopes

    @property
    def steps(self) -> int:
        """Runge-Kutta steps of an interval."""
        return self._intervals.steps

    @steps.setter
    def steps(self, steps: int) -> None:
        self._intervals.steps = steps

    def refine(self, path: Array, theta: Array, error: Array) -> None:
        """Double the steps until that changes the flow by less than an error, (S, n), rms.

        For most of the searches; or until an interval takes `MOST_STEPS`. A flow that has an end
        with long steps only is left with these: they pass over where it grows without bounds.
        """
        intervals, x, values = self._intervals, path[:, self._intervals.begin], self.values(theta)
        with np.errstate(all="ignore"):
            ends = intervals.ends(x, values)
            while intervals.steps < MOST_STEPS:
                intervals.steps *= 2
                coarse, ends = ends, intervals.ends(x, values)
                change = np.sqrt(np.mean((ends - coarse) ** 2, axis=1))
                lost = np.isfinite(coarse).all(axis=(1, 2)) & ~np.isfinite(change).all(axis=1)
                if np.mean((change < error).all(axis=1) | lost) > 0.5:
                    intervals.steps //= 2
                    break

    def cost(self, path: Array, theta: Array, variances: Array, error: Array) -> Array:
        """Minus the log density of measurements and path, (S,), but for constants.

        ``variances``, (S, q), are those of Gaussian noise, and ``error``, (S, T, n) or what is
        broadcast to it, those of the model error.
        """
        with np.errstate(all="ignore"):
            gaps = self.gaps(path, theta)
            cost = self._measurements.cost(self.expected(path, theta), variances)
            cost = cost + 0.5 * np.sum(gaps**2 / error, axis=(1, 2))
        return np.where(np.isfinite(cost), cost, np.inf)

    def expected(self, path: Array, theta: Array) -> Array:
        """Noise-free outputs of paths, (S, T, q)."""
        return self._outputs.value(path, self._u, self.times, self.values(theta))

    def gaps(self, path: Array, theta: Array) -> Array:
        """Flow that leads to each sample, or initial state, minus the path there, (S, T, n)."""
        ends = self._intervals.ends(path[:, self._intervals.begin], self.values(theta))
        return self._gaps(path, ends, theta)

    def linear(self, path: Array, theta: Array, variances: Array) -> list[Linear]:
        """The records linearised about a path and parameters, one for each search."""
        values, n = self.values(theta), path.shape[2]
        flow = self._intervals.flow(path[:, self._intervals.begin], values)
        expected, observed = self._outputs.with_derivatives(path, self._u, self.times, values)
        residual, weight = self._measurements.expansion(expected, variances)
        slopes = np.zeros((*path.shape, n + theta.shape[1]))
        slopes[:, self._intervals.begin + 1] = flow.slopes
        for begin, (_, by) in zip(self.begins, self.initial_states(theta), strict=True):
            slopes[:, begin] = by
        slopes, observed = (self.by_coordinates(by, theta) for by in (slopes, observed))
        gaps = self._gaps(path, flow.end, theta)
        return [
            Linear(
                a=slopes[k, ..., :n], b=slopes[k, ..., n:], gap=gaps[k],
                h=observed[k, ..., :n], slopes=observed[k, ..., n:],
                residual=residual[k], weight=weight[k],
            )
            for k in range(len(path))
        ]  # fmt: skip

    def _gaps(self, path: Array, ends: Array, theta: Array) -> Array:
        reached = np.empty_like(path)
        reached[:, self._intervals.begin + 1] = ends
        for begin, (state, _) in zip(self.begins, self.initial_states(theta), strict=True):
            reached[:, begin] = state
        return reached - path


class ProblemPaths(Paths):
    """Paths of a problem, whose coordinates are those of its prior.

    ``theta``, (d,), are the parameters of a noise density, where there is one.
    """

    def __init__(self, problem: Problem, theta: Array) -> None:
        model, records = problem.model.with_numbers(), problem.records
        self._prior, self._n = problem.prior, model.x.numel()
        self._y = np.concatenate([record.y for record in records])
        measurements = (
            GaussianMeasurements(self._y)
            if model.density is None
            else DensityMeasurements(model, records, self.values(theta[None, :])[0])
        )
        super().__init__(records, _intervals(model, records), _outputs(model), measurements)
        self._initial = [Field(model, state) for state in model.initial]
        self._parts = [
            slice(begin, begin + len(record))
            for begin, record in zip(self.begins, records, strict=True)
        ]
        self._told = state_outputs(model)

    @override
    def values(self, theta: Array) -> Array:
        return self._prior.natural(theta)

    @override
    def by_coordinates(self, slopes: Array, theta: Array) -> Array:
        slopes[..., self._n :] *= self._prior.slopes(theta)[0][:, None, None, :]
        return slopes

    @override
    def initial_states(self, theta: Array) -> list[tuple[Array, Array]]:
        nowhere, values = np.zeros((len(theta), 1, self._n)), self.values(theta)
        found = [
            field.with_derivatives(nowhere, self._u[[begin]], self.times[[begin]], values)
            for field, begin in zip(self._initial, self.begins, strict=True)
        ]
        return [(state[:, 0], by[:, 0]) for state, by in found]

    def start(self, theta: Array) -> Array:
        """Path that begins a search, (S, T, n): initial states that the outputs have moved.

        Each sample moves by the shortest steps, in the units of the states, to where the outputs
        that are functions of the state are as measured, with straight lines across gaps.
        """
        path = np.empty((len(theta), len(self.times), self._n))
        for part, (state, _) in zip(self._parts, self.initial_states(theta), strict=True):
            path[:, part] = state[:, None]
        if not self._told:
            return path
        values, measured = self.values(theta), self._without_gaps()
        misfit = np.full(path.shape[:2], np.inf)
        best = path
        for _ in range(INVERSIONS):
            expected, by = self._outputs.with_derivatives(path, self._u, self.times, values)
            residual, h = measured - expected[..., self._told], by[..., self._told, : self._n]
            residual = np.where(np.isfinite(measured), residual, 0.0)
            now = np.sum(residual**2, axis=2)
            better = now < misfit
            misfit, best = np.where(better, now, misfit), np.where(better[..., None], path, best)
            path = best + np.where(better[..., None], _shortest(h, residual), 0.0)
        return best

    def _without_gaps(self) -> Array:
        """Outputs that are functions of the state, on straight lines where one is missing.

        NaN in a record that has none of an output.
        """
        filled = np.full((len(self.times), len(self._told)), np.nan)
        for part in self._parts:
            t = self.times[part]
            for place, j in enumerate(self._told):
                y = self._y[part, j]
                known = np.isfinite(y)
                if known.any():
                    filled[part, place] = np.interp(t, t[known], y[known])
        return filled

    def growth(self, path: Array, theta: Array) -> Array:
        """Factor, (S,), by which a small change at the beginning of a record grows at most."""
        flow = self._intervals.flow(path[:, self._intervals.begin], self.values(theta))
        steps = flow.slopes[..., : self._n]
        begins = np.isin(self._intervals.begin, self.begins)
        change, log_size, most = np.zeros(()), np.zeros(len(path)), np.zeros(len(path))
        for k, begin in enumerate(begins):
            if begin:
                change, log_size = np.ones((len(path), self._n, 1)), np.zeros(len(path))
            change = steps[:, k] @ change
            size = np.linalg.norm(change, axis=(1, 2))
            log_size += np.log(size)
            change = change / size[:, None, None]
            most = np.fmax(most, log_size)
        return np.exp(np.minimum(most, MOST_GROWTH))

    def mean_squares(self, path: Array, theta: Array) -> Array:
        """Mean square of the residuals of each output, (S, q)."""
        return np.nanmean((self._y - self.expected(path, theta)) ** 2, axis=1)


def _intervals(model: Model, records: Sequence[Record]) -> Intervals:
    """Sampling intervals of a model, with dead times of its inputs or without."""
    if model.delay is None:
        return Intervals(Field(model, model.rhs), records)
    return LateIntervals(model, records)


def _outputs(model: Model) -> Field:
    """Outputs of a model; those that depend on an input that comes late are refused."""
    late = [] if model.delay is None else list(model.delay.inputs)
    if late and ca.depends_on(ca.vertcat(model.outputs, *model.initial), model.u[late]):
        raise InputError(
            "search is 'lifted', which knows no outputs and first states that depend on a delayed "
            "input: choose 'shooting'",
            argument="search",
        )
    return Field(model, model.outputs)


def _shortest(h: Array, residual: Array) -> Array:
    """Shortest dx (..., n) with h dx = residual (..., q), where h has rank; less elsewhere."""
    square = h @ h.swapaxes(-1, -2)
    size = np.trace(square, axis1=-2, axis2=-1)[..., None, None]
    square += (_SMALL * size + np.finfo(float).tiny) * np.eye(h.shape[-2])
    finite = np.isfinite(square).all(axis=(-1, -2), keepdims=True)
    square = np.where(finite, square, np.eye(h.shape[-2]))
    return (h.swapaxes(-1, -2) @ np.linalg.solve(square, residual[..., None]))[..., 0]
