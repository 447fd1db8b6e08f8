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
    record: As `Model.prepared` makes it, where it has doses: the controller acts at the samples
        that are given, and its command stays where others are put in.
    initial: (N, n_states), state of every particle at the first sample.
    controller: Its commands are held, and arrive after the dead times of the inputs; those before
        the first sample are the one there.
    signals: (T, r), inputs of the controller besides the outputs, at the samples given.
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
        record = model.prepared(record)
        given, number = record.given, int(record.given.sum())
        if len(signals) != number:
            raise InputError(
                f"{record.name}: signals has {len(signals)} samples for {number} of the record"
            )
        remedy = dict.fromkeys(PARTS, "use simulate")
        takes = frozenset({"delay", "doses", "accumulators", "algebraic"})
        check_parts(model.parts, "a controller", takes, remedy)
        model = explicit_model(model)
        n, dosing = model.u.numel() - model.held, model.dosing
        if dosing is not None and dosing.lagged:
            raise InputError(
                "the lag of a dose is learned, and a controller is simulated with one that is "
                "known: give it as a number",
                argument="doses",
            )
        if ca.depends_on(model.outputs, model.u[:n]):
            raise InputError(
                "an output depends on the input, which a controller computes of the outputs: "
                "observe states whose derivatives have it",
                argument="observe",
            )
        acts = np.column_stack([signals[np.cumsum(given) - 1], given])
        self._controller, self._signals = controller, np.ascontiguousarray(acts, dtype=float)
        times: Any = {"dt": record.dt, "start": record.start} if record.uniform else {"t": record.t}
        none = np.zeros((len(record), model.u.numel()))
        none[:, n:] = record.u[:, record.n_inputs - record.held :]
        held = Record(u=none, y=record.y, hold="zoh", name=record.name, held=record.held, **times)
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
        outputs, measured = outputs_at(model, model.x, sample), self._model.outputs
        known = ca.vertcat(self._model.u, self._model.t)
        plain = runge_kutta_program(model, signal, sample, outputs, step)
        signals, acts = ca.SX.sym("signal", self._signals.shape[1] - 1, 1), ca.SX.sym("acts")
        told = ca.vertcat(signals, acts)
        memory = ca.SX.sym("memory", controller.n_memory, 1)
        commands = ca.SX.sym("command", model.u.numel() - self._model.held, depth)
        command, remembered = controller.command(memory, measured, signals)
        command, remembered = (
            ca.if_else(acts, *pair) for pair in ((command, commands[:, 0]), (remembered, memory))
        )
        new = ca.horzcat(command, commands[:, : depth - 1])
        new, remembered = (
            dead_times.at_first(*pair) for pair in ((new, commands), (remembered, memory))
        )
        output = ca.substitute(measured, model.x, plain.start)
        begun = controller.start(output)
        first, _ = controller.command(begun, output, signals)
        inputs = ca.horzcat(*step.inputs)
        inputs[: commands.size1(), :] = commands[:, [0, 0, 0]]
        controlled = replace(
            plain,
            start_row=ca.vertcat(plain.start_row, told),
            step=ca.substitute(plain.step, ca.vertcat(*step.inputs), ca.vec(inputs)),
        ).reading(
            ca.vertcat(told, known),
            ca.vertcat(told, signal.u(1), signal.t(1)),
            interval_values=told,
        )
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
