"""The records of a problem with a path of their own: its start, its cost, its linearisation."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from smcpn.estimate.lifted.linearisation import Field, Intervals
from smcpn.estimate.lifted.measurements import Gaussian, OfDensity, state_outputs
from smcpn.estimate.lifted.smoothing import Linear
from smcpn.model.problem import Problem

Array = NDArray[np.float64]


MOST_STEPS = 64
"""Of Runge-Kutta, in a sampling interval."""
MOST_GROWTH = 25.0
"""Logarithm of what a change of the last digit may become; a trajectory is lost beyond."""
INVERSIONS = 8
"""Newton steps from an initial state to the measured outputs."""
_SMALL = 1e-9


class PathProblem:
    """Measured outputs, and a model that a path may leave from one sample to the next.

    Arrays have a first axis of searches, S; the samples of all records follow each other, T.

    Parameters
    ----------
    problem : Problem
    theta : ndarray, (d,)
        Parameters of a noise density, where there is one.
    """

    def __init__(self, problem: Problem, theta: Array) -> None:
        model, records = problem.model.with_numbers(), problem.records
        self._prior, self._n = problem.prior, model.x.numel()
        self._intervals = Intervals(Field(model, model.rhs), records)
        self._initial = [Field(model, state) for state in model.initial]
        self._output = Field(model, model.outputs)
        self._u = np.concatenate([record.u for record in records])
        self._t = np.concatenate([record.t for record in records])
        self._y = np.concatenate([record.y for record in records])
        self._begins = np.cumsum([0, *(len(record) for record in records)])
        self._told = state_outputs(model)
        self._measurements = (
            Gaussian(self._y)
            if model.density is None
            else OfDensity(model, records, self._values(theta[None, :])[0])
        )

    @property
    def steps(self) -> int:
        """Runge-Kutta steps of an interval."""
        return self._intervals.steps

    def start(self, theta: Array) -> Array:
        """Path that begins a search, (S, T, n): initial states that the outputs have moved.

        Each sample moves by the shortest steps, in the units of the states, to where the outputs
        that are functions of the state are as measured, with straight lines across gaps.
        """
        path = np.empty((len(theta), len(self._t), self._n))
        for number, (state, _) in enumerate(self._initial_states(theta)):
            path[:, slice(*self._begins[number : number + 2])] = state[:, None]
        if not self._told:
            return path
        values, measured = self._values(theta), self._without_gaps()
        misfit = np.full(path.shape[:2], np.inf)
        best = path
        for _ in range(INVERSIONS):
            expected, by = self._output.with_derivatives(path, self._u, self._t, values)
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
        filled = np.full((len(self._t), len(self._told)), np.nan)
        for begin, end in pairwise(self._begins):
            t = self._t[begin:end]
            for place, j in enumerate(self._told):
                y = self._y[begin:end, j]
                known = np.isfinite(y)
                if known.any():
                    filled[begin:end, place] = np.interp(t, t[known], y[known])
        return filled

    def refine(self, path: Array, theta: Array, error: Array) -> None:
        """Double the steps until that changes the flow by less than an error, (S, n), rms.

        For most of the searches; or until an interval takes `MOST_STEPS`.
        """
        intervals, x, values = self._intervals, path[:, self._intervals.begin], self._values(theta)
        ends = intervals.ends(x, values)
        while intervals.steps < MOST_STEPS:
            intervals.steps *= 2
            coarse, ends = ends, intervals.ends(x, values)
            change = np.sqrt(np.mean((ends - coarse) ** 2, axis=1))
            if np.mean((change < error).all(axis=1)) > 0.5:
                intervals.steps //= 2
                break

    def growth(self, path: Array, theta: Array) -> Array:
        """Factor, (S,), by which a small change at the beginning of a record grows at most."""
        flow = self._intervals.flow(path[:, self._intervals.begin], self._values(theta))
        steps = flow.slopes[..., : self._n]
        begins = np.isin(self._intervals.begin, self._begins)
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

    def cost(self, path: Array, theta: Array, variances: Array, error: Array) -> Array:
        """Minus the log density of measurements and path, (S,), but for constants.

        Parameters
        ----------
        variances : ndarray, (S, q)
            Of Gaussian noise.
        error : ndarray, (S, n)
            Variances of the model error.
        """
        gaps = self.gaps(path, theta)
        expected = self._output.value(path, self._u, self._t, self._values(theta))
        cost = self._measurements.cost(expected, variances)
        cost = cost + 0.5 * np.sum(gaps**2 / error[:, None, :], axis=(1, 2))
        return np.where(np.isfinite(cost), cost, np.inf)

    def gaps(self, path: Array, theta: Array) -> Array:
        """Flow that leads to each sample, or initial state, minus the path there, (S, T, n)."""
        ends = self._intervals.ends(path[:, self._intervals.begin], self._values(theta))
        return self._gaps(path, ends, theta)

    def mean_squares(self, path: Array, theta: Array) -> Array:
        """Mean square of the residuals of each output, (S, q)."""
        expected = self._output.value(path, self._u, self._t, self._values(theta))
        return np.nanmean((self._y - expected) ** 2, axis=1)

    def linear(self, path: Array, theta: Array, variances: Array) -> list[Linear]:
        """The records linearised about a path and parameters, one for each search."""
        values, n = self._values(theta), self._n
        flow = self._intervals.flow(path[:, self._intervals.begin], values)
        expected, observed = self._output.with_derivatives(path, self._u, self._t, values)
        residual, weight = self._measurements.expansion(expected, variances)
        slopes = np.zeros((*path.shape, n + theta.shape[1]))
        slopes[:, self._intervals.begin + 1] = flow.slopes
        for begin, (_, by) in zip(self._begins, self._initial_states(theta), strict=False):
            slopes[:, begin] = by
        for by in (slopes, observed):
            by[..., n:] *= self._prior.slopes(theta)[0][:, None, None, :]
        gaps = self._gaps(path, flow.end, theta)
        return [
            Linear(
                a=slopes[k, ..., :n], b=slopes[k, ..., n:], gap=gaps[k],
                h=observed[k, ..., :n], slopes=observed[k, ..., n:],
                residual=residual[k], weight=weight[k],
            )
            for k in range(len(path))
        ]  # fmt: skip

    def _values(self, theta: Array) -> Array:
        return self._prior.natural(theta)

    def _initial_states(self, theta: Array) -> list[tuple[Array, Array]]:
        """Initial state (S, n) of each record, and its derivatives by state and values."""
        nowhere = np.zeros((len(theta), 1, self._n))
        found = [
            field.with_derivatives(nowhere, self._u[:1], self._t[:1], self._values(theta))
            for field in self._initial
        ]
        return [(state[:, 0], by[:, 0]) for state, by in found]

    def _gaps(self, path: Array, ends: Array, theta: Array) -> Array:
        reached = np.empty_like(path)
        reached[:, self._intervals.begin + 1] = ends
        for begin, (state, _) in zip(self._begins, self._initial_states(theta), strict=False):
            reached[:, begin] = state
        return reached - path


def _shortest(h: Array, residual: Array) -> Array:
    """Shortest dx (..., n) with h dx = residual (..., q), where h has rank; less elsewhere."""
    square = h @ h.swapaxes(-1, -2)
    size = np.trace(square, axis1=-2, axis2=-1)[..., None, None]
    square += (_SMALL * size + np.finfo(float).tiny) * np.eye(h.shape[-2])
    finite = np.isfinite(square).all(axis=(-1, -2), keepdims=True)
    square = np.where(finite, square, np.eye(h.shape[-2]))
    return (h.swapaxes(-1, -2) @ np.linalg.solve(square, residual[..., None]))[..., 0]
