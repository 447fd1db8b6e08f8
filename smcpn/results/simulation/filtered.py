"""Outputs of a model, as a Kalman filter predicts them some samples ahead.

The filter is that of the model's process noise, or one of noise that a user names (`StateFilter`).

Every parameter vector carries two copies of the filter of `likelihood.kalman`. One sees all
outputs. The other takes its state where a window begins, sees the output there and none of those
that follow in the window, so that its mean is a prediction from the samples up to the window's
begin, and its covariance what the process noise has added since. A window of the length of the
record is a free simulation; windows of one sample are the filter's own one-step predictions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.base.arguments import NotNegative, checked
from smcpn.codegen.kernel import LaneKernel, Rows
from smcpn.codegen.lower import LaneProgram
from smcpn.errors import InputError
from smcpn.likelihood.kalman import Kalman
from smcpn.likelihood.lanes import Grid, output_chunks
from smcpn.model.disturbance import ProcessNoise
from smcpn.model.problem import Model, Problem
from smcpn.model.record import Record
from smcpn.model.solver import RK4

Array = NDArray[np.float64]


@checked
@dataclass(frozen=True)
class StateFilter:
    """Noise that an extended Kalman filter assumes beyond the model, for `Posterior.predict`.

    Attributes
    ----------
    sensor : float or tuple of float
        Standard deviation of the measurement noise: of every output, or of each in its unit.
    disturbance : tuple of float
        For each state, the standard deviation that unmodelled effects add to it in one unit of the
        model's time (a random walk).
    initial : tuple of float
        Standard deviation of each state at the first sample.
    """

    sensor: NotNegative | tuple[NotNegative, ...]
    disturbance: tuple[NotNegative, ...]
    initial: tuple[NotNegative, ...]

    def assumed(self, model: Model) -> tuple[Model, ca.SX]:
        """A model with these noises in place of its own, and the variances of the first state.

        Raises
        ------
        InputError
            If there is not a number for every state, or sensor has not one for every output.
        """
        n, q = model.x.numel(), model.outputs.numel()
        if len(self.disturbance) != n or len(self.initial) != n:
            raise InputError(
                f"filter has {len(self.disturbance)} disturbances and {len(self.initial)} "
                f"initial values for {n} states: one per state",
                argument="filter",
            )
        sensor = self.sensor if isinstance(self.sensor, tuple) else (self.sensor,)
        if len(sensor) not in (1, q):
            raise InputError(
                f"filter has {len(sensor)} sensors for {q} outputs: one for all, or one per output",
                argument="filter",
            )
        numbers = (*self.disturbance, *self.initial, *sensor)
        symbols = ca.SX.sym("filter", len(numbers))
        assumed = replace(
            model,
            constants=ca.vertcat(model.constants, symbols),
            constant_values=(*model.constant_values, *numbers),
            process_noise=ProcessNoise(ca.diag(symbols[:n]), model.x),
            noise_variance=ca.repmat(symbols[2 * n :] ** 2, q // len(sensor), 1),
            noise_correlation=ca.SX.zeros(q, 1),
            density=None,
        )
        return assumed, symbols[n : 2 * n] ** 2


class WindowFilter:
    """Predictions over windows that begin at a filtered state: means, and variances of the outputs.

    model: Of the problem, with one initial state and the outputs of the record.
    record: Measured as the model observes; NaN where it is not to be seen.
    begins: (T,), samples at which a window begins.
    filter: Noise of the filter, where the model has no process noise.
    initial: (N, n_states), state of every particle at the first sample, in place of the model's.
    """

    def __init__(
        self,
        problem: Problem,
        model: Model,
        record: Record,
        begins: NDArray[np.bool_],
        steps: int,
        filter: StateFilter | None = None,
        initial: Array | None = None,
    ) -> None:
        given = problem, model, record, begins
        self._at = partial(WindowFilter, *given, filter=filter, initial=initial)
        self._length, self._filter, self.steps = len(record), filter, steps
        self._initial = np.empty((1, 0)) if initial is None else initial
        self._outputs, spread = model.outputs.numel(), None
        if initial is not None:
            model = started_anywhere(model)
        if filter is not None:
            model, spread = filter.assumed(model)
        recursion = Kalman(
            problem.with_model(model), RK4(steps=steps), Grid.of([record], model.delay), spread
        )
        self._kernel = LaneKernel(window_program(recursion))
        rows = recursion.inputs(record, steps).whole(record)
        self._rows: Rows = replace(rows, intervals=begins[:-1, None].astype(float))

    def __call__(self, theta: Array) -> Iterator[tuple[int, int, Array]]:
        """Yield (a, b, outputs (b - a, q, N)) for parameters (p, N)."""
        for a, b, emitted in self._chunks(with_states(theta, self._initial)):
            yield a, b, np.ascontiguousarray(emitted[:, : self._outputs])

    def process_variance(self, problem: Problem, theta: Array, weights: Array) -> Array:
        """Variance of the outputs by process noise, weighted over parameters (p, N), (T, q).

        What the user's filter assumes beyond the model adds none.
        """
        q, alive = self._outputs, weights > 0.0
        if self._filter is not None:
            return np.zeros((self._length, q))
        parts = [emitted[:, q:, alive] for _, _, emitted in self._chunks(theta)]
        return np.concatenate([part @ weights[alive] for part in parts])

    def halving_change(self, theta: Array) -> Array:
        """Change of the outputs for parameters (p, 1) when the step is halved, (T, q)."""
        theta = with_states(theta, self._initial.mean(axis=0, keepdims=True))
        one, other = (
            np.concatenate([part[:, : self._outputs, 0] for _, _, part in run._chunks(theta)])
            for run in (self, self._at(2 * self.steps))
        )
        return other - one

    def _chunks(self, theta: Array) -> Iterator[tuple[int, int, Array]]:
        return output_chunks(self._kernel, theta, self._rows, 2 * self._outputs)


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
    reading = plain.reading(begins, begins, interval_values=begins)
    return reading.with_state(ahead, plain.start, interval, step, emitted=emitted)


def window_begins(record: Record, horizon: int | None) -> NDArray[np.bool_]:
    """True where a window of ``horizon`` samples begins, (T,); None begins none.

    Samples that were inserted where doses arrive do not count.
    """
    begins = np.zeros(len(record), dtype=bool)
    if horizon is not None:
        begins[np.flatnonzero(record.given)[::horizon]] = True
    return begins


def started_anywhere(model: Model) -> Model:
    """Copy whose parameters end with its state at the first sample."""
    start = ca.SX.sym("start", model.x.numel(), 1)
    return replace(model, theta=ca.vertcat(model.theta, start), initial=(start,))


def with_states(theta: Array, initial: Array) -> Array:
    """Parameters (p, N), and behind them initial states (N, n), if any."""
    return np.ascontiguousarray(np.vstack([theta, initial.T])) if initial.size else theta
