"""Outputs of a model with process noise, as a Kalman filter predicts them some samples ahead.

Every parameter vector carries two copies of the filter of `likelihood.kalman`. One sees all
outputs. The other takes its state where a window begins, sees the output there and none of those
that follow in the window, so that its mean is a prediction from the samples up to the window's
begin, and its covariance what the process noise has added since. A window of the length of the
record is a free simulation; windows of one sample are the filter's own one-step predictions.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import replace

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.kernel import LaneKernel, Rows
from smcpn.codegen.lower import LaneProgram
from smcpn.likelihood.kalman import Kalman
from smcpn.likelihood.lanes import Grid, output_chunks
from smcpn.model.problem import Model, Problem
from smcpn.model.record import Record
from smcpn.solver import RK4

Array = NDArray[np.float64]


class WindowFilter:
    """Predictions over windows that begin at a filtered state: means, and variances of the outputs.

    Parameters
    ----------
    problem : Problem
    model : Model
        Of the problem, with one initial state and the outputs of the record.
    record : Record
        Measured as the model observes; NaN where it is not to be seen.
    begins : ndarray of bool, (T,)
        Samples at which a window begins.
    steps : int
        Runge-Kutta steps per sample.

    Attributes
    ----------
    steps : int
    """

    def __init__(
        self, problem: Problem, model: Model, record: Record, begins: NDArray[np.bool_], steps: int
    ) -> None:
        self._problem, self._model, self._record = problem, model, record
        self._begins, self.steps = begins, steps
        of_model = copy(problem)
        of_model.model = model
        recursion = Kalman(of_model, RK4(steps=steps), Grid.of([record], model.delay))
        self._kernel = LaneKernel(window_program(recursion))
        rows = recursion.inputs(record, steps).whole(record)
        self._rows: Rows = replace(rows, intervals=begins[:-1, None].astype(float))

    def __call__(self, theta: Array) -> Iterator[tuple[int, int, Array]]:
        """Yield (a, b, outputs (b - a, q, N)) for parameters (p, N)."""
        q = self._model.outputs.numel()
        for a, b, emitted in self._chunks(theta):
            yield a, b, np.ascontiguousarray(emitted[:, :q])

    def process_variance(self, problem: Problem, theta: Array, weights: Array) -> Array:
        """Variance of the outputs by process noise, weighted over parameters (p, N), (T, q)."""
        q, alive = self._model.outputs.numel(), weights > 0.0
        parts = [emitted[:, q:, alive] for _, _, emitted in self._chunks(theta)]
        return np.concatenate([part @ weights[alive] for part in parts])

    def halving_change(self, theta: Array) -> Array:
        """Change of the outputs for parameters (p, 1) when the step is halved, (T, q)."""
        fine = WindowFilter(self._problem, self._model, self._record, self._begins, 2 * self.steps)
        one, other = (
            np.concatenate([part[:, :, 0] for _, _, part in run(theta)]) for run in (self, fine)
        )
        return other - one

    def _chunks(self, theta: Array) -> Iterator[tuple[int, int, Array]]:
        return output_chunks(self._kernel, theta, self._rows, 2 * self._model.outputs.numel())


def window_program(recursion: Kalman) -> LaneProgram:
    """A filter that sees all samples and, behind it, one that sees those at which windows begin.

    The last column of an interval's row is 1 where a window begins at the sample before. A sample
    emits the outputs that the second filter expects, and their variances.
    """
    expected, sample = recursion.expected(), recursion.sample
    plain = recursion.program(
        ca.vertcat(expected.outputs, ca.diag(ca.densify(expected.covariance)))
    )
    assert plain.interval is not None
    begins, ahead = ca.SX.sym("begins"), ca.SX.sym("ahead", plain.state.numel(), 1)
    own = [plain.state, sample.present]
    started = ca.if_else(begins, plain.state, ahead)
    interval = ca.substitute([plain.interval], own, [started, begins * sample.present])[0]
    step, emitted = ca.substitute([plain.step, plain.emitted], [plain.state], [ahead])
    shared = plain.shared
    assert shared is not None
    return replace(
        plain,
        shared=replace(
            shared, interval=ca.vertcat(shared.interval, begins), interval_values=begins
        ),
        state=ca.vertcat(plain.state, ahead),
        start=ca.vertcat(plain.start, plain.start),
        interval_row=ca.vertcat(plain.interval_row, begins),
        interval=ca.vertcat(plain.interval, interval),
        step=ca.vertcat(plain.step, step),
        emitted=emitted,
    )


def window_begins(record: Record, horizon: int | None) -> NDArray[np.bool_]:
    """True where a window of ``horizon`` samples begins, (T,); None begins none."""
    if horizon is None:
        return np.zeros(len(record), dtype=bool)
    return np.arange(len(record)) % horizon == 0
