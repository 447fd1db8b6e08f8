"""Integrate a model over a record by fine classical steps, for many parameter vectors at once.

With process noise a path takes the steps of the likelihoods (`smcpn.likelihood.transition`), by
Runge-Kutta's method.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.emit import LEAST_LANES
from smcpn.codegen.kernel import LaneKernel
from smcpn.codegen.lower import LaneProgram
from smcpn.errors import InputError
from smcpn.likelihood.algebraic import explicit_model
from smcpn.likelihood.classical import outputs_at, runge_kutta_program, signal_of, step_inputs
from smcpn.likelihood.delayed import DeadTimes, consecutive
from smcpn.likelihood.inputs import KernelInputs, KernelRows
from smcpn.likelihood.lanes import OUTPUT_CHUNK, Grid, SampleSymbols, output_chunks
from smcpn.likelihood.rosenbrock import Trajectory
from smcpn.likelihood.state_events import MOST_EVENTS
from smcpn.likelihood.transition import Transition
from smcpn.model.parts import STIFF_PARTS, check_parts
from smcpn.model.problem import Model, Problem
from smcpn.model.record import Record
from smcpn.model.signal import RecordSamples, Signal
from smcpn.model.solver import MAX_STEPS, RK4, Rosenbrock
from smcpn.results.simulation.filtered import (
    WindowFilter,
    started_anywhere,
    window_begins,
    with_states,
)

Array = NDArray[np.float64]

TOLERANCE = 1e-4
"""Change of the outputs, relative to their rms, when ``steps="auto"`` stops doubling."""
LEAST_STEPS = 2
PIECE = 100_000
"""Solver steps of a record whose inputs are held at a time."""
WORTH_COMPILING = 200_000
"""Steps from which a kernel of its own is worth it for one parameter vector."""


class OwnSteps(int):
    """Number of steps that says that every particle chooses its own, by a stiff solver."""


SIMULATED = frozenset({"delay", "doses", "accumulators", "algebraic", "events"})
"""Parts of a model that simulations take."""
OWN_STEPS = OwnSteps(0)


def steps_within(interval: float, step_length: float) -> int:
    """Number of steps of about a length in an interval; half of the most, to be doubled once."""
    return min(max(1, round(interval / step_length)), MAX_STEPS // 2)


class Simulator:
    """Outputs of a model over one record, in chunks of time.

    steps: Runge-Kutta steps per sample, at irregular times in the longest interval between samples;
        ``"auto"`` doubles until the outputs settle. Where they do not, for `OwnSteps`, and where
        there are events or algebraic equations, every particle chooses the steps of a `Rosenbrock`
        solver.
    step_length: Seconds; ``steps="auto"`` starts near it.
    initial: (N, n_states), state of every particle at the first sample, in place of the model's.
    steps: A number once the simulator has run.
    """

    def __init__(
        self,
        model: Model,
        record: Record,
        steps: int | str = "auto",
        step_length: float | None = None,
        initial: Array | None = None,
    ) -> None:
        if model.process_noise is not None:
            model = explicit_model(model)
        if initial is not None:
            model = started_anywhere(model)
        self._initial = np.empty((1, 0)) if initial is None else initial
        self._model, self._record = model, record
        check_parts(model.parts, "a simulation", SIMULATED)
        self.steps = steps if isinstance(steps, OwnSteps) else RK4(steps).steps
        if model.parts & STIFF_PARTS and not (steps == "auto" or isinstance(steps, OwnSteps)):
            raise InputError(
                f"steps is {steps!r}, and a model with events or algebraic equations takes steps "
                "of its own: leave steps out",
                argument="steps",
            )
        if model.algebraic:
            self.steps = OWN_STEPS
        self._least_steps, self._settled = LEAST_STEPS, None
        # Chosen steps are of equal length: as many as are needed in the longest interval.
        uneven = steps == "auto" and not record.uniform
        self._interval = float(np.diff(record.t).max()) if uneven else None
        if step_length is not None:
            self._least_steps = steps_within(self._interval or record.interval, step_length)
        self._signal, self._dead_times = signal_of(model, record)

    def __call__(self, theta: Array) -> Iterator[tuple[int, int, Array]]:
        """Yield (a, b, outputs (b - a, q, N)) over the record, for parameters (p, N)."""
        theta = with_states(theta, self._initial)
        if self.steps == "auto":
            self.steps = self._sufficient_steps(theta.mean(axis=1, keepdims=True))
        yield from self._paths(theta, cast(int, self.steps))

    def halving_change(self, theta: Array) -> Array:
        """Change of the outputs of one parameter vector, (p, 1), when the step is halved, (T, q).

        Of a fourth-order method this is 15/16 of the error that the coarser of the two runs makes.
        Where ``steps="auto"`` has just compared these two runs, its own comparison is returned: it
        was made at the plain mean of the parameters, which is as good for a size.
        """
        settled, self._settled = self._settled, None
        if settled is None:
            theta = with_states(theta, self._initial.mean(axis=0)[None, :])
            coarse, fine = self._compared(theta, cast(int, self.steps))
            settled = np.subtract(fine, coarse, out=fine)
        return settled

    def process_variance(self, problem: Problem, theta: Array, weights: Array) -> Array:
        """Variance of the outputs by process noise, weighted over parameters (p, N), (T, q)."""
        q = self._model.outputs.numel()
        if self._model.process_noise is None:
            return np.broadcast_to(0.0, (len(self._record), q))
        unseen, never = self._record.unmeasured(q), window_begins(self._record, None)
        free = WindowFilter(problem, self._model, unseen, never, int(self.steps))
        return free.process_variance(problem, with_states(theta, self._initial), weights)

    @cached_property
    def _program(self) -> LaneProgram:
        dead_times, signal = self._dead_times, self._signal
        model, sample = dead_times.model, SampleSymbols.of(self._model, dead_times.at_sample)
        outputs = outputs_at(model, model.x, sample)
        return dead_times.join(runge_kutta_program(model, signal, sample, outputs), signal)

    @cached_property
    def _kernel(self) -> LaneKernel:
        return LaneKernel(self._program)

    @cached_property
    def _narrow_kernel(self) -> LaneKernel:
        """For a single parameter vector: a block that is not full costs as much as a full one."""
        return LaneKernel(self._program, most_lanes=LEAST_LANES)

    @cached_property
    def _trajectory(self) -> Trajectory:
        return Trajectory(self._model, Grid.of([self._record], self._model.delay))

    @cached_property
    def _stiff_kernel(self) -> LaneKernel:
        return LaneKernel(self._trajectory.program(self._trajectory.outputs, Rosenbrock().begun()))

    def _paths(self, theta: Array, steps: int) -> Iterator[tuple[int, int, Array]]:
        """Yield what a call yields, at the steps that were chosen."""
        return self._run(theta, steps)

    def _run(self, theta: Array, steps: int) -> Iterator[tuple[int, int, Array]]:
        if isinstance(steps, OwnSteps):
            return self._run_stiff(theta, Rosenbrock().begun())
        narrow = theta.shape[1] <= LEAST_LANES and steps * len(self._record) > WORTH_COMPILING
        kernel = self._narrow_kernel if narrow else self._kernel
        inputs = step_inputs(
            self._signal, self._dead_times, self._record, steps, interval=self._interval
        )
        return output_chunks(kernel, theta, self._pieces(inputs), self._model.outputs.numel())

    def _run_stiff(self, theta: Array, solver: Rosenbrock) -> Iterator[tuple[int, int, Array]]:
        kernel = self._stiff_kernel.with_constants(self._trajectory.constant_values(solver))
        rows = self._pieces(self._trajectory.inputs(self._record))
        return output_chunks(kernel, theta, rows, self._model.outputs.numel())

    def _pieces(self, inputs: KernelInputs) -> KernelRows:
        """Rows of the record, so many steps at a time; a function, or whole periods, at once."""
        record = self._record
        whole = record.periodic or record.u_function is not None
        samples = RecordSamples(record, inputs.signal.n_outputs)
        return KernelRows(inputs, samples, len(record) if whole else max(2, PIECE // inputs.steps))

    def _sufficient_steps(self, theta: Array) -> int:
        """Double the steps until a further doubling changes little, for one parameter vector."""
        if self._model.events is not None:
            return self._own_steps(theta)
        steps = self._least_steps
        before = self._whole(theta, steps)
        while 2 * steps <= MAX_STEPS:
            after = self._whole(theta, 2 * steps)
            if self._settles(before, after):
                return steps
            steps, before = 2 * steps, after
        plain = self._model.process_noise is None
        if plain and self._settles(*self._compared(theta, OWN_STEPS)):
            return OWN_STEPS
        raise InputError(
            f"{self._record.name}: the simulation at the mean parameters does not settle with "
            f"{MAX_STEPS} steps per sample{', nor with a stiff solver' * plain}: it diverges"
            f"{', or the model is stiff and needs more times in between' * (not plain)}"
        )

    def _own_steps(self, theta: Array) -> OwnSteps:
        """Own steps, if the path of one parameter vector comes to its end by them."""
        coarse, fine = self._compared(theta, OWN_STEPS)
        lost = np.flatnonzero(~np.isfinite(fine).all(axis=1))
        if lost.size:
            raise InputError(
                f"{self._record.name}: the simulation at the mean parameters is lost at "
                f"t = {self._record.t[lost[0]]:g}: it diverges, what an event crosses jumps or "
                f"is no number, or there are more than {MOST_EVENTS} events between two samples, "
                "as of a ball that bounces ever faster: let an event put such a state to rest, or "
                "end the record before"
            )
        self._settled = fine - coarse
        return OWN_STEPS

    def _settles(self, before: Array, after: Array) -> bool:
        """True if finer steps change the outputs little; the change is kept."""
        with np.errstate(over="ignore", invalid="ignore"):
            difference = np.subtract(after, before, out=before)
            change, rms = (
                np.sqrt(np.einsum("tq,tq->q", one, one) / len(one)) for one in (difference, after)
            )
        self._settled = difference if (change <= TOLERANCE * rms).all() else None
        return self._settled is not None

    def _compared(self, theta: Array, steps: int) -> tuple[Array, Array]:
        """Outputs (T, q) of one parameter vector, and with steps half as long."""
        if not isinstance(steps, OwnSteps):
            return self._whole(theta, steps), self._whole(theta, 2 * steps)
        solver = Rosenbrock().begun()
        both = (solver, solver.refined() or solver)
        coarse, fine = (self._joined(self._run_stiff(theta, one)) for one in both)
        return coarse, fine

    def _whole(self, theta: Array, steps: int) -> Array:
        return self._joined(self._run(theta, steps))

    def _joined(self, parts: Iterator[tuple[int, int, Array]]) -> Array:
        """Outputs (T, q) of one parameter vector."""
        outputs = np.empty((len(self._record), self._model.outputs.numel()))
        for a, b, part in parts:
            outputs[a:b] = part[:, :, 0]
        return outputs


STEPS = 16
"""Solver steps of a call of the kernel, which has the normals of all of them, or of an interval."""


class DisturbedSimulator(Simulator):
    """Outputs of a model with process noise over one record, in chunks of time.

    model: With process noise.
    steps: As of `Simulator`, which looks at the path without noise.
    seed: The same seed, steps and number of particles give the same paths, each time it is called.
    """

    def __init__(self, model: Model, record: Record, steps: int | str, seed: int | None) -> None:
        super().__init__(model, record, steps)
        self._entropy: Any = np.random.SeedSequence(seed).entropy

    def _paths(self, theta: Array, steps: int) -> Iterator[tuple[int, int, Array]]:
        """Yield (a, b, outputs (b - a, q, N)), every solver step with normals of its own."""
        inputs = step_inputs(self._signal, self._dead_times, self._record, steps)
        block = max(1, STEPS // inputs.steps)
        kernel = disturbed_kernel(self._dead_times, self._signal, block * inputs.steps)
        n, rows = theta.shape[1], inputs.whole(self._record)
        rng = np.random.default_rng(self._entropy)
        own = kernel.program.theta.numel() - len(theta)
        given = np.vstack([theta, np.zeros((own, n))])
        state = kernel.start(given, rows)
        chunk = block * max(1, OUTPUT_CHUNK // (n * self._model.outputs.numel() * block))
        for begin in range(1 - block, len(rows), chunk):
            parts, end = list[Array](), min(begin + chunk, len(rows))
            for first in range(begin, end, block):
                rng.standard_normal(out=given[len(theta) :])
                state, emitted, _ = kernel.advance(
                    given, state, rows, max(first, 0), min(first + block, end), store=True
                )
                parts.append(emitted)
            yield max(begin, 0), end, np.concatenate(parts)


def disturbed_kernel(dead_times: DeadTimes, signal: Signal, steps: int) -> LaneKernel:
    """Kernel of Runge-Kutta steps with noise that emit the outputs.

    Theta ends with the normals of so many ``steps``, which those of an interval divide.
    """
    model = dead_times.model
    sample, transition = SampleSymbols.of(model, dead_times.at_sample), Transition.of(model, RK4())
    outputs, factor = outputs_at(model, model.x, sample), transition.factor
    plain = runge_kutta_program(model, signal, sample, outputs, transition.step)
    plain = dead_times.join(plain, signal)
    normals, number = ca.SX.sym("normals", factor.shape[1], steps), ca.SX.sym("number")
    own = [consecutive(ca.horzsplit(row), number, 1, steps - 1)[0] for row in ca.vertsplit(normals)]
    taken = (signal.number * signal.parts + signal.part) * signal.count + signal.step
    shared = plain.shared
    assert shared is not None
    n = model.x.numel()
    program = replace(
        plain,
        theta=ca.vertcat(model.theta, ca.vec(normals)),
        step_row=ca.vertcat(plain.step_row, number),
        shared=replace(
            shared, step=ca.vertcat(shared.step, taken - steps * ca.floor(taken / steps))
        ),
        step=ca.vertcat(transition.following + factor @ ca.vertcat(*own), plain.step[n:, :]),
    )
    return LaneKernel(program)
