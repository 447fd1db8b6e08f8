"""Simulations with a controller or a Kalman filter that acts at every sample.

Between two samples the plant is integrated by Runge-Kutta steps, written out in one graph, so
that a lane kernel runs one such step per sample for all particles at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.codegen.kernel import LaneKernel, Rows
from smcpn.codegen.lower import LaneProgram
from smcpn.errors import InputError, counted
from smcpn.likelihood.classical import explicit_rows, outputs_at, runge_kutta_program, signal_of
from smcpn.likelihood.lanes import SampleSymbols, output_chunks
from smcpn.model.parts import PARTS, check_parts
from smcpn.model.problem import Model, Problem, check_record
from smcpn.model.record import Record
from smcpn.simulation.filtered import WindowFilter, window_begins
from smcpn.simulation.simulation import Simulation, simulate_particles, starting_like
from smcpn.values.arguments import NotNegative, checked

Array = NDArray[np.float64]


class SampledController(Protocol):
    """A controller that acts once per sample and holds its command in between."""

    @property
    def n_memory(self) -> int:
        """Size of its memory."""
        ...

    def start(self, output: ca.SX) -> ca.SX:
        """Memory (m, 1) before the first sample, given the outputs (q, 1) at it."""
        ...

    def command(self, memory: ca.SX, output: ca.SX, signals: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Input of the plant and next memory, from outputs and signals (references) at a sample."""
        ...


class SampledSimulator(ABC):
    """Outputs of a model over one record, in chunks of time, one kernel step per sample.

    Attributes
    ----------
    steps : int
        Runge-Kutta steps per sample.
    """

    def __init__(self, model: Model, record: Record, initial: Array, steps: int) -> None:
        if not record.uniform:
            raise InputError(f"{record.name}: this simulation needs uniform sampling")
        self.model, self.record = model.with_numbers(), record
        self.initial, self.steps = initial, steps
        self.start_state = ca.SX.sym("start", model.x.numel(), 1)
        self._kernel = LaneKernel(self.program())
        self._rows = self.rows()

    @abstractmethod
    def program(self) -> LaneProgram:
        """One sample of every particle; theta ends with `start_state`."""

    @abstractmethod
    def rows(self) -> Rows:
        """Shared rows of the program, one step per sample."""

    @abstractmethod
    def finer(self) -> SampledSimulator:
        """Simulation from the same mean initial state with twice the steps."""

    def __call__(self, theta: Array) -> Iterator[tuple[int, int, Array]]:
        """Yield (a, b, outputs (b - a, q, N)) for parameters (p, N) of the model."""
        started = np.ascontiguousarray(np.vstack([theta, self.initial.T]))
        return output_chunks(self._kernel, started, self._rows, self.model.outputs.numel())

    def process_variance(self, problem: Problem, theta: Array, weights: Array) -> Array:
        """Nothing, (T, q): the plant is simulated without process noise."""
        return np.zeros((len(self.record), self.model.outputs.numel()))

    def halving_change(self, theta: Array) -> Array:
        """Change of the outputs for parameters (p, 1) when the step is halved, (T, q)."""
        fine = self.finer()
        initial, self.initial = self.initial, fine.initial
        coarse = np.concatenate([part[:, :, 0] for _, _, part in self(theta)])
        self.initial = initial
        return np.concatenate([part[:, :, 0] for _, _, part in fine(theta)]) - coarse


@dataclass(frozen=True)
class WrittenOutSteps:
    """All Runge-Kutta steps of a sampling interval as one graph.

    Attributes
    ----------
    interval : casadi.Function
        ``interval(x, row, h, theta)``, the state at the end of the interval.
    row : casadi.SX
        Inputs and times of the steps, a row of `values`.
    sample : SampleSymbols
    outputs : casadi.SX
        Noise-free outputs at a sample, of ``model.x``.
    """

    interval: ca.Function
    row: ca.SX
    sample: SampleSymbols
    outputs: ca.SX

    @classmethod
    def of(cls, model: Model, record: Record, steps: int) -> WrittenOutSteps:
        """Write out ``steps`` Runge-Kutta steps."""
        who = "a controller or a prediction over a horizon"
        check_parts(model.parts, who, set(), dict.fromkeys(PARTS, "use simulate"))
        sample = SampleSymbols.of(model)
        outputs = outputs_at(model, model.x, sample)
        one = runge_kutta_program(model, signal_of(model, record)[0], sample, outputs)
        h = ca.SX.sym("h")
        own, length = one.step_row[:-1], one.step_row[-1]
        step = ca.Function("step", [model.x, own, length, model.theta], [one.step])
        size = own.numel()
        row = ca.SX.sym("row", steps * size, 1)
        x = model.x
        for k in range(steps):
            x = step(x, row[k * size : (k + 1) * size], h, model.theta)
        interval = ca.Function("interval", [model.x, row, h, model.theta], [x])
        return cls(interval, row, sample, outputs)

    @staticmethod
    def values(record: Record, model: Model, steps: int) -> tuple[Array, Rows]:
        """`row` of every interval, (T - 1, row), and rows of one step for each.

        These have the length of a step as gains.
        """
        rows = explicit_rows(record, model, steps)
        assert rows.inputs is not None
        inputs = rows.inputs.reshape(len(record) - 1, steps, -1)
        lengths = np.ascontiguousarray(inputs[0, :1, -1:])
        one = replace(rows, start=np.zeros(1), steps=1, gains=lengths)
        return inputs[:, :, :-1].reshape(len(record) - 1, -1), one


class ClosedLoop(SampledSimulator):
    """A model under a sampled controller; the record's input is not used.

    Parameters
    ----------
    model : Model
        Its outputs are what the controller measures, without noise; they must not depend on the
        input.
    record : Record
        Time axis and measured outputs.
    initial : ndarray, (N, n_states)
        State of every particle at the first sample.
    controller : SampledController
    signals : ndarray, (T, r)
        Inputs of the controller besides the outputs.
    steps : int
        Runge-Kutta steps per sample, during which the command is held.
    """

    def __init__(
        self,
        model: Model,
        record: Record,
        initial: Array,
        controller: SampledController,
        signals: Array,
        steps: int,
    ) -> None:
        if len(signals) != len(record):
            raise InputError(
                f"{record.name}: signals has {len(signals)} samples for {len(record)} of the record"
            )
        self._controller, self._signals = controller, signals
        super().__init__(model, record, initial, steps)

    def program(self) -> LaneProgram:
        """Command at the last sample, hold it, integrate."""
        model = self.model
        written = WrittenOutSteps.of(model, self.record, self.steps)
        h, signals = ca.SX.sym("h"), ca.SX.sym("signal", self._signals.shape[1], 1)
        memory = ca.SX.sym("memory", self._controller.n_memory, 1)
        command, remembered = self._controller.command(memory, written.outputs, signals)
        # The plant's rows hold three inputs and the time of each step; a held command is all three.
        time = ca.SX.sym("time", self.steps, 1)
        row = ca.vertcat(*[ca.vertcat(command, command, command, t) for t in ca.vertsplit(time)])
        at_start = ca.substitute(written.outputs, model.x, self.start_state)
        return LaneProgram(
            theta=ca.vertcat(model.theta, self.start_state),
            state=ca.vertcat(model.x, memory),
            start_row=ca.SX.sym("nothing", 1),
            step_row=ca.vertcat(signals, time),
            gain_row=h,
            sample_row=written.sample.row,
            start=ca.vertcat(self.start_state, self._controller.start(at_start)),
            step=ca.vertcat(written.interval(model.x, row, h, model.theta), remembered),
            emitted=written.outputs,
        )

    def rows(self) -> Rows:
        """Signals and times."""
        inputs, one = WrittenOutSteps.values(self.record, self.model, self.steps)
        size = inputs.shape[1] // self.steps
        rows = np.hstack([self._signals[:-1], inputs[:, size - 1 :: size]])
        return replace(one, inputs=np.ascontiguousarray(rows))

    @override
    def finer(self) -> ClosedLoop:
        mean = self.initial.mean(axis=0)[None, :]
        return ClosedLoop(
            self.model, self.record, mean, self._controller, self._signals, 2 * self.steps
        )


@checked
@dataclass(frozen=True)
class StateFilter:
    """Noise that an extended Kalman filter assumes beyond the model, for `Posterior.predict`.

    Attributes
    ----------
    sensor : float
        Standard deviation of the measurement noise, in the unit of the output.
    disturbance : tuple of float
        For each state, the standard deviation that unmodelled effects add to it in one second
        (a random walk).
    initial : tuple of float
        Standard deviation of each state at the first sample.
    """

    sensor: NotNegative
    disturbance: tuple[NotNegative, ...]
    initial: tuple[NotNegative, ...]


def predict_particles(
    problem: Problem,
    record: Record,
    values: Array,
    weights: Array,
    horizon: int,
    filter: StateFilter | None,
    step_length: float,
    like: Record | None = None,
) -> Simulation:
    """Predict a record up to ``horizon`` samples ahead with weighted values, (N, d) and (N,).

    Parameters
    ----------
    horizon : int
        Samples; see `WindowPrediction`.
    filter : StateFilter or None
        None: the Kalman filter of the problem's process noise.
    step_length : float
        Seconds of a Runge-Kutta step, about.
    like : Record, optional
        The record of the problem whose initial state this one shares, where these differ.

    Raises
    ------
    InputError
        If the record does not fit, or the horizon is not positive; if the problem has process
        noise and a filter is given, or neither.
    """
    model = starting_like(problem, problem.model, record if like is None else like)
    steps = max(1, round(float(np.diff(record.t).mean()) / step_length))
    if filter is None:
        if model.process_noise is None:
            raise InputError(
                "predict needs filter=smcpn.StateFilter(...): the problem has no process noise, "
                "from which a filter would know how far to trust the model",
                argument="filter",
            )
        check_record(record, problem.ode, model.outputs.numel(), problem.records)
        record = problem.model.prepared(record)
        windows = WindowFilter(problem, model, record, window_begins(record, horizon), steps)
        found = simulate_particles(problem, record, values, weights, simulator=windows)
        return replace(found, kind=_ahead(horizon))
    if model.process_noise is not None:
        raise InputError(
            "filter is given, but the problem has process noise, which is what its own filter "
            "takes: leave filter out",
            argument="filter",
        )
    initial = model.initial_states(values)
    simulator = WindowPrediction(model, record, initial, horizon, filter, steps)
    found = simulate_particles(problem, record, values, weights, simulator=simulator)
    return replace(found, kind=_ahead(horizon))


def _ahead(horizon: int) -> str:
    return f"{counted(horizon, 'sample')} ahead"


class WindowPrediction(SampledSimulator):
    """Free runs over windows of k samples, each from the filtered state at the window's start.

    Every particle carries an extended Kalman filter over the whole record. At samples 0, k,
    2 k, ... the state of the free run becomes the filtered one, which has seen the outputs up to
    and including that sample and none after it; between, it runs on the input alone. All samples
    of the windows count, so the errors are those of horizons 1 to k, each as often.

    Parameters
    ----------
    model : Model
        With one output.
    record : Record
    initial : ndarray, (N, n_states)
        Filter mean of every particle before the first sample.
    horizon : int
        k, samples.
    filter : StateFilter
    steps : int
        Runge-Kutta steps per sample.

    Raises
    ------
    InputError
        If the horizon is not positive, or the model has more than one output.
    """

    def __init__(
        self,
        model: Model,
        record: Record,
        initial: Array,
        horizon: int,
        filter: StateFilter,
        steps: int,
    ) -> None:
        if len(filter.disturbance) != model.x.numel() or len(filter.initial) != model.x.numel():
            raise InputError(
                f"filter has {len(filter.disturbance)} disturbances and {len(filter.initial)} "
                f"initial values for {model.x.numel()} states: one per state"
            )
        if horizon < 1:
            raise InputError(f"horizon is {horizon}: choose 1 or more samples")
        if model.outputs.numel() != 1:
            raise InputError(
                f"{record.name}: prediction needs one output, not {model.outputs.numel()}"
            )
        self._horizon, self._filter = horizon, filter
        super().__init__(model, record, initial, steps)

    def program(self) -> LaneProgram:
        """Condition on the last sample, restart where a window begins, integrate both states."""
        model, n = self.model, self.model.x.numel()
        written = WrittenOutSteps.of(model, self.record, self.steps)
        h, y, present, restart = (ca.SX.sym(s) for s in ("h", "y", "present", "restart"))
        mean, free = ca.SX.sym("mean", n, 1), ca.SX.sym("free", n, 1)
        covariance = ca.SX.sym("covariance", ca.Sparsity.lower(n))
        conditioned, reduced = self._conditioned(written.outputs, mean, covariance, y, present)
        free_start = ca.if_else(restart > 0.5, conditioned, free)
        row = written.row
        moved = written.interval(model.x, row, h, model.theta)
        jacobian = ca.substitute(ca.jacobian(moved, model.x), model.x, conditioned)
        noise = ca.diag(ca.SX([s**2 for s in self._filter.disturbance])) * (h * self.steps)
        spread = jacobian @ reduced @ jacobian.T + noise
        initial = [s**2 for s in self._filter.initial]
        step = ca.vertcat(
            written.interval(conditioned, row, h, model.theta),
            _lower(spread),
            written.interval(free_start, row, h, model.theta),
        )
        return LaneProgram(
            theta=ca.vertcat(model.theta, self.start_state),
            state=ca.vertcat(mean, _lower(covariance), free),
            start_row=ca.SX.sym("nothing", 1),
            step_row=ca.vertcat(row, y, present, restart),
            gain_row=h,
            sample_row=written.sample.row,
            start=ca.vertcat(self.start_state, _lower(ca.diag(ca.SX(initial))), self.start_state),
            step=step,
            emitted=ca.substitute(written.outputs, model.x, free),
        )

    def rows(self) -> Rows:
        """Inputs, the last sample's output, and where windows begin."""
        inputs, one = WrittenOutSteps.values(self.record, self.model, self.steps)
        y = self.record.y[:-1, 0]
        restart = np.arange(len(y)) % self._horizon == 0
        rows = np.column_stack([inputs, np.nan_to_num(y), np.isfinite(y), restart])
        return replace(one, inputs=rows)

    @override
    def finer(self) -> WindowPrediction:
        mean = self.initial.mean(axis=0)[None, :]
        return WindowPrediction(
            self.model, self.record, mean, self._horizon, self._filter, 2 * self.steps
        )

    def _conditioned(
        self, output: ca.SX, mean: ca.SX, lower: ca.SX, y: ca.SX, present: ca.SX
    ) -> tuple[ca.SX, ca.SX]:
        """Kalman update; a missing output changes nothing."""
        covariance = ca.tril2symm(lower)
        predicted, sensitivity = ca.substitute(
            [output, ca.jacobian(output, self.model.x)], [self.model.x], [mean]
        )
        variance = sensitivity @ covariance @ sensitivity.T + self._filter.sensor**2
        gain = covariance @ sensitivity.T * (present / variance)
        reduced = covariance - gain @ (sensitivity @ covariance)
        return mean + gain * (y - predicted), reduced


def _lower(matrix: ca.SX) -> ca.SX:
    """Entries on and below the diagonal, column by column."""
    n = matrix.shape[0]
    return ca.vertcat(*[matrix[i, j] for j in range(n) for i in range(j, n)])
