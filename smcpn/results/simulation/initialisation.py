"""The state at the start of a test record, by least squares over its first samples.

A benchmark that begins in motion gives a window of samples to find the state with. For each
parameter vector the initial state is the least-squares fit of the simulation to that window.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.kernel import LaneKernel
from smcpn.codegen.lower import LaneProgram
from smcpn.errors import InputError
from smcpn.likelihood.algebraic import explicit_model
from smcpn.likelihood.classical import (
    outputs_at,
    runge_kutta_program,
    runge_kutta_rows,
    signal_of,
)
from smcpn.likelihood.gauss_newton import least_squares
from smcpn.likelihood.lanes import SampleSymbols
from smcpn.model.problem import Model, Problem, check_record
from smcpn.model.record import Record
from smcpn.results.simulation.simulation import Simulation, simulate_particles
from smcpn.results.simulation.simulator import Simulator

Array = NDArray[np.float64]

WINDOW_STEPS = 8
"""Runge-Kutta steps per sample of the window where no step length is given."""


def fitted_initial_states(
    model: Model, window: Record, values: Array, steps: int, outputs: Array | None = None
) -> Array:
    """Least-squares initial state of a window for each parameter vector.

    Several outputs count by their noise, see `_scales`.

    window: The samples to fit; NaN outputs do not count.
    outputs: (N, T, q), what the state of each parameter vector is fitted to, in place of the
        window's outputs.

    Returns (N, n_states): where a parameter vector diverges, the state that the search starts from.

    By `least_squares`; CasADi differentiates the Runge-Kutta steps. It starts from
    the problem's initial state, with the states that are outputs at their first measured value.
    """
    n = len(model.differential)
    measured = np.isfinite(window.y).ravel()
    if measured.sum() < n:
        raise InputError(
            f"{window.name}: initialise has {measured.sum()} measured outputs for {n} states: "
            "take more samples"
        )
    sensitivity = _Sensitivity(model, window, values, steps, outputs)
    return least_squares(sensitivity, _first_guess(model, window, values))


class _Sensitivity:
    """Errors over a window and the outputs' derivatives by the initial state, by lane kernel.

    Besides the state x a lane carries S = dx/dx(0): a Runge-Kutta step F moves it to (dF/dx) S.
    """

    def __init__(
        self, model: Model, window: Record, values: Array, steps: int, outputs: Array | None
    ) -> None:
        self._values, self._n = values, model.x.numel()
        self._measured = np.isfinite(window.y).ravel()
        target = np.broadcast_to(window.y, (len(values), *window.y.shape))
        target = target if outputs is None else outputs
        self._target = np.nan_to_num(target).reshape(len(target), -1)
        scales = np.tile(_scales(model, window, values), len(window))[:, self._measured]
        self._inverse = 1.0 / scales
        self._rows = runge_kutta_rows(window, model, steps)
        self._kernel = LaneKernel(_sensitivity_program(model, window))

    def __call__(self, which: NDArray[np.intp], initial: Array) -> tuple[Array, Array]:
        """Errors (K, M) of the M measured outputs and Jacobians (K, M, n), from states (K, n).

        Of the parameter vectors of these numbers, (K,). Both are in units of the noise where there
        are several outputs.
        """
        theta = np.ascontiguousarray(np.hstack([self._values[which], initial]).T)
        state = self._kernel.start(theta, self._rows)
        rows = self._rows
        _, emitted, _ = self._kernel.advance(theta, state, rows, 0, len(rows), store=True)
        # (T, q (1 + n), K) -> (K, T q, 1 + n)
        parts = emitted.reshape(len(self._measured), 1 + self._n, -1).transpose(2, 0, 1)
        seen = parts[:, self._measured]
        error = self._target[which][:, self._measured] - seen[..., 0]
        inverse = self._inverse[which]
        return error * inverse, seen[..., 1:] * inverse[..., None]


def _scales(model: Model, window: Record, values: Array) -> Array:
    """Size of an error of each output, (N, q): what is compared may be amperes and counts.

    It is the standard deviation of the noise, where that is known, else that of the window's
    samples, and one of a single output.
    """
    alone = np.ones((len(values), window.n_outputs))
    if window.n_outputs == 1:
        return alone
    if model.density is None:
        noise = np.sqrt(model.noise_variances(values).T)
        if (np.isfinite(noise) & (noise > 0.0)).all():
            return noise
    spread = np.array(
        [np.std(y[np.isfinite(y)]) if np.isfinite(y).any() else 1.0 for y in window.y.T]
    )
    return alone * np.where(spread > 0.0, spread, 1.0)


def _sensitivity_program(model: Model, window: Record) -> LaneProgram:
    # What algebraic equations determine begins anywhere.
    n, moving = model.x.numel(), ca.vec(ca.densify(ca.diag(model.mass)))
    model = explicit_model(model)
    signal, dead_times = signal_of(model, window)
    model, sample = dead_times.model, SampleSymbols.of(model, dead_times.at_sample)
    outputs = outputs_at(model, model.x, sample)
    plain = dead_times.join(runge_kutta_program(model, signal, sample, outputs), signal)
    start, moved = ca.SX.sym("start", n, 1), ca.SX.sym("moved", n, n)
    rates = ca.jacobian(outputs, model.x) @ moved
    emitted = [ca.vertcat(outputs[j], rates[j, :].T) for j in range(outputs.numel())]
    step = ca.vec(ca.jacobian(plain.step[:n], model.x) @ moved)
    started = replace(
        plain,
        theta=ca.vertcat(model.theta, start),
        # Of one row a slice without columns is a row, and not empty.
        start=ca.vertcat(model.smooth_part(start), plain.start[n:, :]),
        emitted=ca.densify(ca.vertcat(*emitted)),
    )
    return started.with_state(ca.vec(moved), moving, step=ca.densify(step))


def simulate_started(
    problem: Problem,
    record: Record,
    values: Array,
    weights: Array,
    samples: int,
    observe: Any = None,
    steps: int | str = "auto",
    step_length: float | None = None,
) -> Simulation:
    """Simulate a record from states fitted to its first ``samples``; these do not count.

    Parameters as for `simulate_particles`.
    """
    model = problem.model if observe is None else problem.model_observing(observe)
    check_record(record, problem.ode, model.outputs.numel(), problem.records)
    record = problem.model.prepared(record)
    natural = model.natural_means() if observe is None else None
    # Counts are fitted by their mean, not by its logarithm.
    means = model.outputs if natural is None else natural(model.outputs)[0]
    initial = started_states(replace(model, outputs=means), record, values, samples, step_length)
    simulator = Simulator(model, record, steps, step_length, initial)
    return simulate_particles(
        problem, record.hide(0, samples), values, weights, observe, simulator=simulator
    )


def started_states(
    model: Model, record: Record, values: Array, samples: int, step_length: float | None
) -> Array:
    """Least-squares initial states (N, n_states) of a record by its first ``samples``.

    step_length: Seconds of a Runge-Kutta step, about.
    """
    if not 2 <= samples < len(record):
        raise InputError(
            f"initialise is {samples}: choose 2 to {len(record) - 1} samples of {record.name}"
        )
    interval = float(np.diff(record.t[:samples]).mean())
    per_sample = WINDOW_STEPS if step_length is None else max(1, round(interval / step_length))
    return fitted_initial_states(model, record[:samples], values, per_sample)


def _first_guess(model: Model, window: Record, values: Array) -> Array:
    guess = model.initial_states(values)
    jacobian = ca.jacobian(model.outputs, model.x)
    for j in range(model.outputs.numel()):
        for i in range(model.x.numel()):
            if ca.is_equal(ca.densify(jacobian[j, i]), ca.SX(1.0)) and np.isfinite(window.y[0, j]):
                guess[:, i] = window.y[0, j]
    return guess
