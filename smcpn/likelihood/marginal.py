"""The data-free marginal likelihood of PN-SMC: EKF0 integrates, the data only weight.

Longbottom et al. (2024), arXiv:2404.12923, eqs. 16-21. Every state x of the model has a nu-times
integrated Wiener process as its prior. Given theta, a filter meets the ODE at each step, and no
data:

    predict      m = A mu,  P = A Sigma A' + Q                                    (eq. 16)
    update       z = h f(m_0) - m_1,  s = P_11,  K = P_1 / s,
                 mu = m + K z,  Sigma = P - K s K'                                (eq. 17)
    calibrate    Gamma_ii = mean of z_i^2 / s over the steps so far               (eq. 19)
    measure      v = y - g(mu),  S = J Gamma Sigma J' + R,  J = dg/dx at mu
                 log p(y_n | y_<n, theta) = log N(v; 0, S)               (minus eq. 20)

and log p(y | theta) is the sum of these over the samples (eq. 21). The mean over all steps is the
quasi-maximum-likelihood estimate of a diagonal diffusion; taken over those so far it is causal, so
that increments do not change as samples come. P, s and K do not depend on theta: all particles
share them (`smcpn.pn.iwp`).

Where the input jumps or bends at the samples (hold zoh, foh), and where these are not equally
spaced, the derivatives of the state restart at every sample from their exact values: the smooth
process prior would otherwise carry them across the jump, with an error that it does not know of.

Coloured noise has a filter of its own (`coloured`), which takes the solver's error in an output as
independent from sample to sample and, where several outputs are measured, from that in the others.
This is an approximation; where the solver claims nothing it is exact.

An observed derivative is g = f at the state. The filter's own entry for it is conditioned on
exactly and would claim an acceleration without solver error.
"""

from __future__ import annotations

from dataclasses import replace
from math import factorial
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.codegen.lower import LaneProgram
from smcpn.codegen.row_code import RowGraph
from smcpn.errors import InputError
from smcpn.likelihood.coloured import NoiseFilter
from smcpn.likelihood.delayed import DelayLine
from smcpn.likelihood.lanes import CHUNK, Grid, SampleSymbols, StartSymbols
from smcpn.likelihood.measurement import densest, gaussian_log_density, possible
from smcpn.likelihood.registry import ExpectedOutputs, Recursion
from smcpn.likelihood.rows import (
    NO_INTERVALS,
    Between,
    RowWriter,
    Window,
    WindowRows,
    numbers_of_steps,
    rows_by_number,
    sample_rows,
    start_row,
)
from smcpn.model.problem import Model, Problem
from smcpn.model.record import Record
from smcpn.pn.iwp import pascal, shared_gains
from smcpn.pn.taylor import taylor_derivatives
from smcpn.solver import EKF0, Solver

Array = NDArray[np.float64]

MAX_ORDER = 6
SHORTEST = 1e-2
"""Part of a sampling interval below which residuals say as much as if it were so long."""
COMPARED_ORDER = 4
"""Highest order of the solver of a comparison with another likelihood."""


class Marginal(Recursion):
    """The EKF0 recursion of one particle.

    The state of a lane holds the Nordsieck coordinates m_ij = h^j x_i^(j) / j! of every state and
    the running sum of z_i^2 / s. The shared rows hold inputs and gains.

    Raises
    ------
    InputError
        For a form, diffusion or order that it cannot use.
    """

    name = "marginal"
    divides = True
    varying_noise = True
    coloured_noise = True
    gaussian = True
    takes_delay = True

    def __init__(self, problem: Problem, solver: EKF0, grid: Grid) -> None:
        _check(solver)
        self.model, self.order = problem.model, solver.order
        self.local_order = self.order + 1
        self.restarts = grid.restarts or grid.rescales
        n = self.model.x.numel()
        self.m = [[ca.SX.sym(f"m_{i}_{j}") for j in range(self.order + 1)] for i in range(n)]
        self.residual_sum = ca.SX.sym("residual_sum", n, 1)
        self.sample = SampleSymbols.of(self.model)
        self.variance = ca.SX.sym("variance")
        self.per_step = ca.SX.sym("per_step")
        self.h = ca.SX.sym("h")
        self.first = ca.SX.sym("first")
        self.noise = NoiseFilter.of(self.model)
        self.line = DelayLine.of(self.model, grid.delays, places=1)
        self.scales = ca.SX.sym("scales", 0 if self.line is None else self.line.parts)

    @classmethod
    def goes_with(cls, solver: type[Solver] | Solver) -> bool:
        """`EKF0`: the covariance of a linearised vector field is another for each particle."""
        return solver.probabilistic and solver.jacobian == "none"

    @classmethod
    def counterpart(cls, problem: Problem, solver: Solver) -> Solver:
        """Solver to compare with, of the other's order where it has one."""
        order = min(getattr(solver, "order", EKF0.order), COMPARED_ORDER)
        return EKF0(order=order, steps=solver.steps)

    def _predicted(self) -> tuple[list[list[ca.SX]], ca.SX]:
        """Coordinates m = A mu after a step of the prior (eq. 16), and h f(m_0) there."""
        m = [pascal(row) for row in self.m]
        predicted = ca.vertcat(*[row[0] for row in m])
        return m, self.h * ca.substitute(self.model.rhs, self.model.x, predicted)

    def _step(self) -> tuple[ca.SX, ca.SX, ca.SX]:
        """Rows of input and gains, and the state after a step (eqs. 16, 17, 19)."""
        gain = [ca.SX.sym(f"gain_{j}") for j in range(self.order + 1)]
        precision, scale = ca.SX.sym("precision"), ca.SX.sym("scale")
        m, rates = self._predicted()
        residual_sum = []
        for i, row in enumerate(m):
            z = rates[i] - row[1]
            row[:] = [value + g * z for value, g in zip(row, gain, strict=True)]
            # Without noise on the residual its gain is one: the rate is conditioned on exactly.
            row[1] = rates[i]
            residual_sum.append(self.residual_sum[i] + z * z * (precision * scale))
        step_row = ca.vertcat(self.model.u, self.model.t, self.h, scale)
        state = ca.vertcat(*[v for row in m for v in row], *residual_sum)
        return step_row, ca.vertcat(*gain, precision), state

    def expected(self) -> ExpectedOutputs:
        """Mean g(mu), solver covariance J Gamma Sigma J', and states at a sample (eq. 20)."""
        model, states = self.model, ca.vertcat(*[row[0] for row in self.m])
        jacobian = ca.jacobian(model.outputs, model.x)
        scaled = self.residual_sum * (self.per_step * self.variance)
        numerical = jacobian @ ca.diag(scaled) @ jacobian.T
        u = self.sample.u if self.line is None else self.line.at_sample(self.sample.u)
        outputs, numerical = ca.substitute(
            [model.outputs, numerical], [model.x, model.u, model.t], [states, u, self.sample.t]
        )
        variance = self.noise.variance
        if model.density is not None:
            variance = self.sample.noise_variance(outputs, u)
        return ExpectedOutputs(outputs, numerical, states, self.noise.mean, variance)

    def log_density(self) -> ca.SX:
        """Log N(y; g(mu), J Gamma Sigma J' + R), (1, 1) (eqs. 20-21); not finite if impossible."""
        expected = self.expected()
        innovation = self.sample.y - expected.outputs - expected.noise_mean
        covariance = expected.covariance + ca.diag(expected.noise_variance)
        present, noise = self.sample.present, expected.noise_variance
        log_density = gaussian_log_density(innovation, covariance, present)
        return possible(log_density, log_density - densest(noise, present))

    def local_error(self) -> ca.SX:
        """Local error of a step: h times the residual."""
        m, rates = self._predicted()
        error = rates - ca.vertcat(*[row[1] for row in m])
        return error if self.line is None else self._delayed(error, ca.SX(0, 1))

    @override
    def program(self, emitted: ca.SX) -> LaneProgram:
        model = self.model
        step_row, gain_row, step = self._step()
        derivatives, rates = taylor_derivatives(model.x, model.u, model.t, model.rhs, self.order)
        coordinates = self._coordinates(derivatives)
        start = StartSymbols.of(model, rates)
        initial = ca.substitute(coordinates, model.x, start.initial(model))
        restart = ca.substitute(coordinates, model.x, ca.vertcat(*[row[0] for row in self.m]))
        program = LaneProgram(
            theta=model.theta,
            constants=model.constants,
            constant_values=model.constant_values,
            state=ca.vertcat(*[v for row in self.m for v in row], self.residual_sum),
            start_row=ca.vertcat(start.row, self.h),
            interval_row=ca.vertcat(model.u, model.t, *rates, self.h),
            step_row=step_row,
            gain_row=gain_row,
            sample_row=ca.vertcat(self.sample.row, self.variance, self.per_step),
            start=ca.vertcat(initial, ca.SX.zeros(len(self.m), 1)),
            interval=ca.vertcat(restart, self.residual_sum) if self.restarts else None,
            step=step,
            emitted=emitted,
        )
        if self.line is not None:
            program = self._along(self.line, program)
        return self.noise.join(program, self._following_noise())

    def _along(self, line: DelayLine, program: LaneProgram) -> LaneProgram:
        """The program along a line of delayed inputs; the derivatives restart in every part.

        Steps differ in length from particle to particle, and so does the variance of a state at
        unit diffusion, which is carried in its state.
        """
        scale = program.step_row[-1]
        growth = [powered(length, 2 * self.order + 1) for length in line.lengths]
        # A part may be so short that the residual is rounding.
        scales = [1.0 / ca.fmax(one, SHORTEST ** (2 * self.order + 1)) for one in growth]
        picked = ca.vertcat(sum(growth, ca.SX(0.0)), *scales)
        following = ca.substitute(picked, line.state, line.picked())
        of_part, variance = ca.SX.sym("of_part"), self.variance
        joined = line.join(
            replace(
                program,
                interval=None,
                interval_row=ca.SX(0, 1),
                step_row=line.step_row,
                step=self._delayed(program.step, scale),
                sample_row=ca.vertcat(self.sample.row, self.per_step),
            )
        )
        assert joined.interval is not None
        return replace(
            joined,
            state=ca.vertcat(joined.state, variance, self.scales),
            start=ca.vertcat(joined.start, 0.0, ca.SX.ones(line.parts, 1)),
            interval_row=ca.vertcat(joined.interval_row, of_part),
            interval=ca.vertcat(joined.interval, variance + of_part * following[0], following[1:]),
            step_row=ca.vertcat(line.step_row, self.first, line.share),
            step=ca.vertcat(joined.step, variance, self.scales),
        )

    def _delayed(self, graph: ca.SX, scale: ca.SX) -> ca.SX:
        """A graph of a step, by the inputs and the step length of `line`.

        At the first step of a part the Nordsieck coordinates are those of the Taylor series anew.
        """
        line, model = self.line, self.model
        assert line is not None
        derivatives, rates = taylor_derivatives(model.x, model.u, model.t, model.rhs, self.order)
        coordinates = self._coordinates(derivatives)
        known, places = ca.vertcat(model.u, model.t, self.h), ca.vertcat(*[r[0] for r in self.m])
        slopes = [
            line.rate() if k == 0 else ca.SX.zeros(*rate.shape) for k, rate in enumerate(rates)
        ]
        begun = ca.substitute(
            coordinates,
            ca.vertcat(model.x, known, *rates),
            ca.vertcat(places, line.input(None), line.time(None), line.h, *slopes),
        )
        m = ca.vertcat(*[v for row in self.m for v in row])
        restarted = ca.if_else(self.first, begun, m)
        scales = ca.SX(0, 1) if scale.is_empty() else line.of_part(ca.vertsplit(self.scales))
        return ca.substitute(
            graph,
            ca.vertcat(m, known, scale),
            ca.vertcat(restarted, line.input(0), line.time(0), line.h, scales),
        )

    def _following_noise(self) -> ca.SX:
        """State of the noise's filter at the next sample."""
        expected, sample = self.expected(), self.sample
        error = ca.diag(expected.covariance)
        return self.noise.following(sample.y - expected.outputs, error, sample.present)

    def _coordinates(self, derivatives: list[ca.SX]) -> ca.SX:
        """Nordsieck coordinates h^j x^(j) / j!, state by state."""
        factors = [self.h**j / factorial(j) for j in range(self.order + 1)]
        return ca.vertcat(
            *[
                factors[j] * derivatives[j][i]
                for i in range(len(self.m))
                for j in range(self.order + 1)
            ]
        )

    @override
    def writer(
        self, record: Record, steps: int, number: int = 0, interval: float | None = None
    ) -> RowWriter:
        if self.line is None:
            own = MarginalRowWriter(
                self.model, record, self.order, steps, self.restarts, number, interval
            )
        else:
            own = DelayedRowWriter(
                self.line, self.model, record, self.order, steps, number, interval
            )
        return self.noise.writer(own, record)


def _check(solver: EKF0) -> None:
    if solver.form != "first":
        raise InputError(
            "form 'chain' cannot be used with the marginal likelihood: without data its variance "
            "of the displacement grows without bound, EKF0 knows no restoring force; "
            "use form='first'"
        )
    if solver.diffusion != "fixed-diagonal":
        raise InputError(
            f"diffusion {solver.diffusion!r} cannot be used with the marginal likelihood, which "
            "calibrates by the running quasi-MLE: use diffusion='fixed-diagonal'"
        )
    if solver.order > MAX_ORDER:
        raise InputError(
            f"order is {solver.order}: the marginal likelihood takes orders up to {MAX_ORDER}, "
            "beyond which its explicit steps would have to be tiny"
        )


def powered(x: Any, n: int) -> Any:
    """``x ** n`` as a product, which numbers, arrays and graphs round alike; n >= 1."""
    product = x
    for _ in range(n - 1):
        product = product * x
    return product


class MarginalRowWriter(RowWriter):
    """Rows of `Marginal.program`: inputs, gains, and the variance of a state at unit diffusion.

    Diffusion has the unit that it takes with the mean step as unit of time; a step of another
    length h scales variances by (h / mean)^(2 order + 1). Its memory is the variance.

    Parameters
    ----------
    model : Model
    record : Record
        Its sampling interval is the unit of time and, where nothing restarts, the interval.
    order, steps : int
    restarts : bool
        Whether the derivatives restart at every sample.
    number : int
        Which of the model's initial states it starts from.
    interval : float, optional
        As of `numbers_of_steps`, where the derivatives restart.
    """

    memory = np.zeros(1)

    def __init__(
        self,
        model: Model,
        record: Record,
        order: int,
        steps: int,
        restarts: bool,
        number: int = 0,
        interval: float | None = None,
    ) -> None:
        self._interval = interval if restarts else None
        counts = numbers_of_steps(np.diff(record.t), steps, self._interval)
        self._wanted, steps = steps, int(counts.max(initial=1))
        self.steps, self.n_outputs = steps, model.measured
        self._order, self._restarts, self._number = order, restarts, number
        self._n_initial, self._length = len(model.initial), record.interval / steps
        self.recur = restarts
        self._record = record
        # Without restarts, gains are stationary long before as many steps.
        self._shared = shared_gains(order, steps if restarts else steps * CHUNK)
        self.gains = self._gains = np.column_stack(
            [self._shared.gain, 1.0 / self._shared.innovation]
        )

    @override
    def start(self, head: Record) -> Array:
        return np.append(start_row(head, self._number, self._n_initial, self._order), self._length)

    @override
    def rows(self, window: Window, memory: Array) -> tuple[WindowRows, Array]:
        intervals = len(window.t) - 1
        counts = np.full(intervals, self.steps, dtype=np.int64)
        if self._interval is not None:
            counts = numbers_of_steps(window.spacing, self._wanted, self._interval)
        lengths = window.spacing / counts if self._restarts else np.full(intervals, self._length)
        growth = powered(lengths / self._length, 2 * self._order + 1)
        count = self.steps * window.begin + np.append(0, np.cumsum(counts))
        samples = sample_rows(window, more=2)
        samples[:, -2] = variance = self._variance(count, growth, memory)
        samples[:, -1] = 1.0 / np.maximum(count, 1)
        inputs, varying = rows_by_number(
            counts, lambda number: self._inputs(window, number, lengths, growth)
        )
        between = self._intervals(window, lengths, samples) if self._restarts else NO_INTERVALS
        written = WindowRows(inputs, self._gains, samples, between, varying)
        return written, variance[-1:]

    def graph(self) -> RowGraph | None:
        """Rows as a graph, where derivatives restart and a step has a fixed share."""
        if not (self._restarts and self._interval is None and Between.is_linear(self._record)):
            return None
        between, count = Between(self._record, self.n_outputs), ca.SX.sym("count")
        memory, constants = ca.SX.sym("memory"), ca.SX.sym("constants", 3)
        part, (steps, unit, variance) = ca.SX.sym("part"), ca.vertsplit(constants)
        length = between.spacing / steps
        growth = powered(length / unit, 2 * self._order + 1)
        following = memory + growth * variance
        rates = between.derivatives(self._order - 1)
        return RowGraph(
            number=count,
            before=between.before,
            after=between.after,
            memory=memory,
            constants=constants,
            constant_values=np.array(
                [self.steps, self._length, self._shared.variance_after(self.steps)], dtype=float
            ),
            entries=part,
            table=np.arange(1, self.steps + 1)[:, None] / self.steps,
            inputs=ca.vertcat(between.inputs(part), between.time(part), length, 1.0 / growth),
            gains=ca.SX(0, 1),
            interval=ca.vertcat(between.inputs(ca.SX(0.0)), between.before[0], *rates, length),
            sample=ca.vertcat(between.sample_row, following, 1.0 / (steps * count)),
            following=following,
        )

    def _inputs(self, window: Window, steps: int, lengths: Array, growth: Array) -> Array:
        """Input, time, length and scale of diffusion of the steps of all intervals."""
        n = window.u.shape[1]
        inputs = np.empty((len(lengths), steps, n + 3))
        inputs[:, :, :n] = window.inputs(steps)[:, 1:]
        inputs[:, :, n] = window.times(steps)[:, 1:]
        inputs[:, :, n + 1] = lengths[:, None]
        inputs[:, :, n + 2] = (1.0 / growth)[:, None]
        return inputs

    def _variance(self, count: NDArray[np.int64], growth: Array, memory: Array) -> Array:
        """Variance of a state at the samples, after ``count`` steps, at unit diffusion."""
        if self._restarts:
            added = np.empty(len(count))
            added[0] = memory[0]
            np.multiply(growth, self._shared.variance_after(np.diff(count)), out=added[1:])
            return np.add.accumulate(added)
        return self._shared.variance_after(count)

    def _intervals(self, window: Window, lengths: Array, samples: Array) -> Array:
        """Input, time, derivatives of the input and step length after each sample."""
        n, rates = window.u.shape[1], window.derivatives(self._order - 1)
        rows = np.empty((len(lengths), self._order * n + 2))
        rows[:, : n + 1] = samples[:-1, : n + 1]
        rows[:, n + 1 : -1] = rates.reshape(len(lengths), (self._order - 1) * n)
        rows[:, -1] = lengths
        return rows


class DelayedRowWriter(MarginalRowWriter):
    """Rows of `DelayLine`, where inputs are delayed; every part takes as many steps.

    The variance is in the state of a particle, for which an interval brings that of a whole one.
    """

    def __init__(
        self,
        line: DelayLine,
        model: Model,
        record: Record,
        order: int,
        steps: int,
        number: int = 0,
        interval: float | None = None,
    ) -> None:
        super().__init__(model, record, order, steps, True, number, interval)
        self._line, self._each = line.rows(record), self.steps
        self.memory, self.steps = self._line.memory, self.steps * line.parts
        self.gains = self._gains = np.tile(self._gains, (line.parts, 1))

    @override
    def start(self, head: Record) -> Array:
        return np.concatenate([super().start(head), self._line.start(head)])

    @override
    def rows(self, window: Window, memory: Array) -> tuple[WindowRows, Array]:
        number = self._each
        inputs = self._line.steps(window, number, np.arange(1, number + 1)[:, None] / number)
        first = np.tile(np.arange(number) == 0, self._line.parts)
        own = np.column_stack([first, np.full(self.steps, 1.0 / number)])
        inputs = np.concatenate([inputs, np.broadcast_to(own, (len(inputs), *own.shape))], axis=2)
        inputs = np.ascontiguousarray(inputs.reshape(-1, inputs.shape[-1]))
        samples = sample_rows(window, more=1)
        # Residuals of short steps are small: together they are those of the whole interval.
        samples[:, -1] = 1.0 / np.maximum(number * (window.begin + np.arange(len(samples))), 1)
        intervals, memory = self._line.intervals(window, memory)
        variance = np.full(len(intervals), self._shared.variance_after(number))
        between = np.ascontiguousarray(np.column_stack([intervals, variance]))
        return WindowRows(inputs, self._gains, samples, between), memory

    def graph(self) -> RowGraph | None:
        """None: delayed inputs have no graph of their rows."""
        return None
