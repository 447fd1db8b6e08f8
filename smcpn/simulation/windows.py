"""Prediction over k samples from a filtered state."""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.kernel import Rows
from smcpn.codegen.program import LaneProgram
from smcpn.errors import InputError
from smcpn.likelihood.rows import RecordWindow, sample_rows
from smcpn.model.problem import Model
from smcpn.model.record import Record
from smcpn.simulation.sampled import SampledSimulator, WrittenOutSteps

Array = NDArray[np.float64]


@dataclass(frozen=True)
class StateFilter:
    """What an extended Kalman filter assumes beyond the model, for `Posterior.predict`.

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

    sensor: float
    disturbance: tuple[float, ...]
    initial: tuple[float, ...]


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
        written = WrittenOutSteps.of(model, self.steps)
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
        inputs, lengths = WrittenOutSteps.values(self.record, self.model, self.steps)
        y = self.record.y[:-1, 0]
        restart = np.arange(len(y)) % self._horizon == 0
        rows = np.column_stack([inputs, np.nan_to_num(y), np.isfinite(y), restart])
        samples = sample_rows(RecordWindow(self.record, self.model.outputs.numel()))
        return Rows(np.zeros(1), rows, lengths, samples, 1)

    def finer(self) -> WindowPrediction:
        """See `SampledSimulator`."""
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
