"""Simulations with a controller that acts at every sample, and predictions some samples ahead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.codegen.lower import LaneProgram
from smcpn.errors import InputError, counted
from smcpn.likelihood.algebraic import explicit_model
from smcpn.likelihood.classical import (
    RungeKuttaStep,
    outputs_at,
    runge_kutta_program,
    step_inputs,
)
from smcpn.likelihood.kalman import Kalman
from smcpn.likelihood.lanes import SampleSymbols, output_chunks
from smcpn.model.parts import PARTS, check_parts
from smcpn.model.problem import Model, Problem, check_record
from smcpn.model.record import Record
from smcpn.results.simulation.filtered import StateFilter, WindowFilter, window_begins
from smcpn.results.simulation.simulation import (
    Simulation,
    part_of,
    simulate_particles,
    starting_like,
)
from smcpn.results.simulation.simulator import Simulator, steps_within

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


class ClosedLoop(Simulator):
    """A model under a sampled controller; the record's input is not used.

    model: Its outputs are what the controller measures, without noise; they must not depend on the
        input.
    initial: (N, n_states), state of every particle at the first sample.
    controller: Its commands are held, and arrive after the dead times of the inputs; those before
        the first sample are the one there.
    signals: (T, r), inputs of the controller besides the outputs.
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
        remedy = dict.fromkeys(PARTS, "use simulate")
        takes = frozenset({"delay", "accumulators", "algebraic"})
        check_parts(model.parts, "a controller", takes, remedy)
        model = explicit_model(model)
        if ca.depends_on(model.outputs, model.u):
            raise InputError(
                "an output depends on the input, which a controller computes of the outputs: "
                "observe states whose derivatives have it",
                argument="observe",
            )
        self._controller, self._signals = controller, np.ascontiguousarray(signals, dtype=float)
        times: Any = {"dt": record.dt, "start": record.start} if record.uniform else {"t": record.t}
        none = np.zeros((len(record), model.u.numel()))
        held = Record(u=none, y=record.y, hold="zoh", name=record.name, **times)
        super().__init__(model, held, steps, initial=initial)

    @override
    def process_variance(self, problem: Problem, theta: Array, weights: Array) -> Array:
        """Nothing, (T, q): the plant is simulated without process noise."""
        return np.zeros((len(self._record), self._model.outputs.numel()))

    @cached_property
    @override
    def _program(self) -> LaneProgram:
        dead_times, signal, controller = self._dead_times, self._signal, self._controller
        model, step = dead_times.model, RungeKuttaStep.of(dead_times.model)
        sample, depth = SampleSymbols.of(model, dead_times.at_sample), dead_times.memory
        outputs = outputs_at(model, model.x, sample)
        plain = runge_kutta_program(model, signal, sample, outputs, step)
        signals = ca.SX.sym("signal", self._signals.shape[1], 1)
        memory = ca.SX.sym("memory", controller.n_memory, 1)
        commands = ca.SX.sym("command", model.u.numel(), depth)
        command, remembered = controller.command(memory, outputs, signals)
        new = ca.horzcat(command, commands[:, : depth - 1])
        new, remembered = (
            dead_times.at_first(*pair) for pair in ((new, commands), (remembered, memory))
        )
        output = ca.substitute(outputs, model.x, plain.start)
        begun = controller.start(output)
        first, _ = controller.command(begun, output, signals)
        held = ca.vertcat(*[commands[:, 0]] * len(step.inputs))
        controlled = replace(
            plain,
            start_row=ca.vertcat(plain.start_row, signals),
            step=ca.substitute(plain.step, ca.vertcat(*step.inputs), held),
        ).reading(signals, signals, interval_values=signals)
        program = controlled.with_state(
            ca.vertcat(memory, ca.vec(commands)),
            ca.vertcat(begun, ca.repmat(first, depth, 1)),
            ca.vertcat(remembered, ca.vec(new)),
        )
        joined = dead_times.join(program, signal)
        assert joined.interval is not None
        return replace(joined, interval=dead_times.of_inputs(joined.interval, new))

    @override
    def _run(self, theta: Array, steps: int) -> Iterator[tuple[int, int, Array]]:
        plain = step_inputs(self._signal, self._dead_times, self._record, steps)
        inputs = replace(plain, start_more=self._dead_times.start(self._signals[0]))
        rows = replace(inputs.whole(self._record), intervals=self._signals[:-1])
        return output_chunks(self._kernel, theta, rows, self._model.outputs.numel())


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

    horizon: Samples; see `WindowFilter`.
    filter: None: the Kalman filter of the problem's process noise.
    step_length: Seconds of a Runge-Kutta step, about.
    like: The record of the problem whose initial state this one shares, where these differ.
    """
    model = starting_like(problem, problem.model, record if like is None else like)
    if filter is None and model.process_noise is None:
        raise InputError(
            "predict needs filter=smcpn.StateFilter(...): the problem has no process noise, "
            "from which a filter would know how far to trust the model",
            argument="filter",
        )
    if filter is not None and model.process_noise is not None:
        raise InputError(
            "filter is given, but the problem has process noise, which is what its own filter "
            "takes: leave filter out",
            argument="filter",
        )
    if horizon < 1:
        raise InputError(f"horizon is {horizon}: choose 1 or more samples", argument="horizon")
    who = "a prediction over a horizon"
    check_parts(model.parts, who, Kalman.takes_parts, dict.fromkeys(PARTS, "use simulate"))
    check_record(record, problem.ode, model.outputs.numel(), problem.records)
    whole = problem.model.prepared(record)
    model = explicit_model(model)
    # Intervals have as many steps each: the longest one is to have enough.
    steps = steps_within(float(np.diff(record.t).max()), step_length)
    windows = WindowFilter(problem, model, whole, window_begins(whole, horizon), steps, filter)
    found = simulate_particles(problem, whole, values, weights, simulator=windows)
    if whole is not record:
        found = part_of(found, problem, record, whole.given)
    return replace(found, kind=f"{counted(horizon, 'sample')} ahead")
