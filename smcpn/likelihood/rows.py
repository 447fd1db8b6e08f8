"""The shared rows of `marginal` and `classical`, written a few samples at a time.

They equal those that `marginal_rows` and `runge_kutta_rows` make of a whole record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.kernel import LaneKernel, Rows
from smcpn.errors import InputError
from smcpn.likelihood.classical import classical_kernel, outputs_at, runge_kutta_program
from smcpn.likelihood.growing import Chunk, GrowingLikelihood, History, Inputs, RowWriter
from smcpn.likelihood.lanes import SampleSymbols, start_row
from smcpn.likelihood.marginal import MarginalSymbols, marginal_kernel, must_restart
from smcpn.likelihood.registry import Solver, check_solver
from smcpn.model.hold import interval_derivatives, sinc_taps
from smcpn.model.problem import Model, Problem
from smcpn.model.record import CONTEXT, Record
from smcpn.pn.gains import shared_gains
from smcpn.solver import EKF0, RK4

Array = NDArray[np.float64]


def check_following(solver: Solver) -> None:
    """Refuse a solver that cannot follow a stream."""
    check_solver(solver)
    if not isinstance(solver, (EKF0, RK4)):
        raise InputError(f"solver {solver!r} cannot follow a stream: use smcpn.EKF0 or smcpn.RK4")


def growing_likelihood(
    problem: Problem,
    solver: Solver,
    history: History,
    threads: int | None = None,
    lookahead: int | None = None,
) -> GrowingLikelihood:
    """Build the likelihood of samples to come, which are sampled as the problem's first record is.

    Parameters
    ----------
    history : History
        Empty.
    lookahead : int, optional
        Samples known beyond one before it counts; by default what the hold needs.

    Raises
    ------
    InputError
        If no growing likelihood goes with the solver.
    """
    check_following(solver)
    record = problem.records[0]
    if lookahead is None:
        lookahead = CONTEXT if _interpolated(record) else 0
    make = _marginal if isinstance(solver, EKF0) else _classical
    kernel, predictive, writer = make(problem, solver, threads)
    size = solver.order + 1 if isinstance(solver, EKF0) else 1
    places = slice(0, problem.model.x.numel() * size, size)
    return GrowingLikelihood(kernel, predictive, writer, history, lookahead, places)


def _marginal(
    problem: Problem, solver: Solver, threads: int | None
) -> tuple[LaneKernel, Callable[[], LaneKernel], RowWriter]:
    assert isinstance(solver, EKF0)
    model, record = problem.model, problem.records[0]
    restarts = must_restart([record])
    kernel = marginal_kernel(problem, solver, restarts, threads)
    symbols = MarginalSymbols(model, solver.order, restarts)
    mean, covariance = symbols.prediction()
    variance = ca.diag(covariance) + model.noise_variance
    program = symbols.program(ca.vertcat(mean, variance))
    return (
        kernel,
        lambda: LaneKernel(program, threads),
        MarginalRowWriter(record, model, solver, restarts),
    )


def _classical(
    problem: Problem, solver: Solver, threads: int | None
) -> tuple[LaneKernel, Callable[[], LaneKernel], RowWriter]:
    assert isinstance(solver, RK4)
    model, sample = problem.model, SampleSymbols.of(problem.model)
    kernel = classical_kernel(problem, solver, threads)
    moments = ca.vertcat(outputs_at(model, model.x, sample), model.noise_variance)
    program = runge_kutta_program(model, sample, moments)
    return (
        kernel,
        lambda: LaneKernel(program, threads),
        ClassicalRowWriter(problem.records[0], model, solver),
    )


def _interpolated(record: Record) -> bool:
    return record.n_inputs > 0 and record.u_function is None and record.hold == "bandlimited"


class InputBetween:
    """The input between samples, as `smcpn.model.hold.substep_inputs` has it for a record.

    Parameters
    ----------
    record : Record
        Tells hold, number of inputs, and the function where the input is one.
    parts : int
        Parts of an interval.
    """

    def __init__(self, record: Record, parts: int) -> None:
        self._record, self.parts = record, parts
        self.fractions = np.arange(parts + 1) / parts
        self._rising = self.fractions[None, :, None]
        self._falling = 1 - self._rising
        self._interpolated = _interpolated(record)
        if self._interpolated:
            self._taps = np.array([sinc_taps(j / parts) for j in range(parts)])

    def times(self, t: Array) -> Array:
        """Times of the parts' ends, (n - 1, parts + 1), for sampling times (n,)."""
        return t[:-1, None] + (t[1:] - t[:-1])[:, None] * self.fractions

    def inputs(self, history: Inputs, chunk: Chunk, i: int, j: int) -> Array:
        """Input at `times` in the chunk's intervals [i, j), (j - i, parts + 1, n_inputs)."""
        record, n = self._record, self._record.n_inputs
        if n == 0:
            return np.empty((j - i, self.parts + 1, 0))
        if record.u_function is not None:
            times = self.times(chunk.samples[i : j + 1, 0])
            values = np.asarray(record.u_function(times.ravel()), dtype=float)
            return values.reshape(*times.shape, n)
        if self._interpolated:
            return self._band_limited(history, chunk.begin + i, chunk.begin + j)
        u = chunk.samples[i : j + 1, None, 1 : 1 + n]
        if record.hold == "zoh":
            return np.repeat(u[:-1], self.parts + 1, axis=1)
        return u[:-1] * self._falling + u[1:] * self._rising

    def _band_limited(self, history: Inputs, first: int, last: int) -> Array:
        """Windowed sinc over the intervals [first, last) of the stream."""
        a, b = first - CONTEXT + 1, last + CONTEXT + 1
        known = history.samples(max(a, 0), min(b, len(history)))[1]
        pad = ((max(-a, 0), max(b - len(history), 0)), (0, 0))
        windows = np.lib.stride_tricks.sliding_window_view(
            np.pad(known, pad, mode="edge"), 2 * CONTEXT, axis=0
        )
        # The window of the last sample gives the value at the end of the last interval.
        fine = np.einsum("pw,tnw->tpn", self._taps, windows)
        return np.concatenate([fine[:-1], fine[1:, :1]], axis=1)


class MarginalRowWriter:
    """Rows of `MarginalSymbols.program`; see `marginal_rows`.

    Parameters
    ----------
    record : Record
        Its sampling interval is the unit of time of the diffusion and, where it is uniform and
        nothing restarts, the interval.
    """

    def __init__(self, record: Record, model: Model, solver: EKF0, restarts: bool) -> None:
        self._record, self._order, self._steps = record, solver.order, int(solver.steps)
        self._restarts, self._n, self._q = restarts, record.n_inputs, model.outputs.numel()
        self._between = InputBetween(record, self._steps)
        self._reference = record.interval / self._steps
        self._n_initial = len(model.initial)
        self._power = 2 * solver.order + 1
        # Gains are stationary long before the end of a chunk.
        grid = self._steps if restarts else self._steps * 4096
        self._shared = shared_gains(solver.order, grid)
        self._gains = np.column_stack([self._shared.gain, 1.0 / self._shared.innovation])

    def empty(self, chunk: Chunk) -> Rows:
        """See `RowWriter.empty`."""
        steps, n, size = self._steps, self._n, chunk.intervals
        settled = chunk.number > 0 and not self._restarts
        width = n + 2 + n * (self._order - 1) if self._restarts else 0
        return Rows(
            start=np.zeros(n + 2 + n * (self._order - 1) + _indicators(self._n_initial)),
            inputs=np.empty((size * steps, n + 3)),
            gains=self._gains[-1:] if settled else self._gains,
            samples=np.zeros((size + 1, n + 3 + 2 * self._q)),
            steps=steps,
            cycle=steps if self._restarts else 2**62,
            intervals=np.empty((size, width)) if self._restarts else np.empty((0, 0)),
        )

    def write(self, history: Inputs, chunk: Chunk, rows: Rows, a: int, b: int) -> None:
        """See `RowWriter.write`."""
        n, steps = self._n, self._steps
        _write_samples(chunk, rows, a, b, n, self._q)
        count = steps * np.arange(chunk.begin + a, chunk.begin + b)
        rows.samples[a:b, -1] = 1.0 / np.maximum(count, 1)
        if a == 0:
            rows.samples[0, -2] = chunk.total = chunk.carried
            head = _head(self._record, history)
            rows.start[:-1] = start_row(head, 0, self._n_initial, self._order)
            rows.start[-1] = self._reference
        first = max(a, 1) - 1
        if first + 1 >= b:
            return
        t = chunk.samples[first:b, 0]
        spacing = t[1:] - t[:-1]
        lengths = spacing / steps
        if not self._restarts:
            lengths[:] = self._reference
        growth = (lengths / self._reference) ** self._power
        rows.samples[first + 1 : b, -2] = self._variance(chunk, count[first + 1 - a :], growth)
        inputs = rows.inputs.reshape(chunk.intervals, steps, n + 3)[first : b - 1]
        inputs[..., :n] = self._between.inputs(history, chunk, first, b - 1)[:, 1:]
        inputs[..., n] = t[:-1, None] + spacing[:, None] * self._between.fractions[1:]
        inputs[..., n + 1] = lengths[:, None]
        inputs[..., n + 2] = (1.0 / growth)[:, None]
        if self._restarts:
            part = rows.intervals[first : b - 1]
            part[:, : n + 1] = rows.samples[first : b - 1, : n + 1]
            part[:, n + 1 : -1] = self._rates(chunk, first, b)
            part[:, -1] = lengths

    def _variance(self, chunk: Chunk, steps: NDArray[Any], growth: Array) -> Array:
        """Variance after numbers of ``steps``, those after consecutive intervals."""
        shared = self._shared.variance
        if self._restarts:
            added = growth * shared[-1]
            added[0] += chunk.total
            variance = np.add.accumulate(added)
            chunk.total = float(variance[-1])
            return variance
        known = len(self._shared.gain)
        growing = shared[known - 1] + (shared[known - 1] - shared[known - 2]) * (steps - known)
        return np.where(steps <= known, shared[np.minimum(steps, known) - 1], growing)

    def _rates(self, chunk: Chunk, first: int, b: int) -> Array:
        """Derivatives of the input after the samples [first, b - 1), (b - 1 - first, ...)."""
        record, n, count = self._record, self._n, b - 1 - first
        if record.smooth and n:
            piece = Record(u=record.u_function, t=chunk.samples[first:b, 0])
            return interval_derivatives(piece, self._order - 1).reshape(count, -1)
        rates = np.zeros((count, n * (self._order - 1)))
        if n and self._order > 1 and record.hold == "foh":
            samples = chunk.samples[first:b]
            change = samples[1:] - samples[:-1]
            rates[:, :n] = change[:, 1 : 1 + n] / change[:, :1]
        return rates


class ClassicalRowWriter:
    """Rows of `runge_kutta_program`; see `runge_kutta_rows`."""

    def __init__(self, record: Record, model: Model, solver: RK4) -> None:
        self._record, self._steps = record, int(solver.steps)
        self._n, self._q = record.n_inputs, model.outputs.numel()
        self._between = InputBetween(record, 2 * self._steps)
        self._grid = InputBetween(record, self._steps)
        self._n_initial = len(model.initial)
        self._length = record.interval / self._steps

    def empty(self, chunk: Chunk) -> Rows:
        """See `RowWriter.empty`."""
        steps, n, size = self._steps, self._n, chunk.intervals
        lengths = 1 if self._record.uniform else size * steps
        return Rows(
            start=np.zeros(n + 1 + _indicators(self._n_initial)),
            inputs=np.empty((size * steps, 3 * n + 1)),
            gains=np.full((lengths, 1), self._length),
            samples=np.zeros((size + 1, n + 1 + 2 * self._q)),
            steps=steps,
        )

    def write(self, history: Inputs, chunk: Chunk, rows: Rows, a: int, b: int) -> None:
        """See `RowWriter.write`."""
        n, steps = self._n, self._steps
        _write_samples(chunk, rows, a, b, n, self._q)
        if a == 0:
            rows.start[:] = start_row(_head(self._record, history), 0, self._n_initial, 1)
        first = max(a, 1) - 1
        if first + 1 >= b:
            return
        t = chunk.samples[first:b, 0]
        points = self._between.inputs(history, chunk, first, b - 1)
        inputs = rows.inputs.reshape(chunk.intervals, steps, 3 * n + 1)[first : b - 1]
        inputs[..., :n] = points[:, :-1:2]
        inputs[..., n : 2 * n] = points[:, 1::2]
        inputs[..., 2 * n : 3 * n] = points[:, 2::2]
        inputs[..., 3 * n] = self._grid.times(t)[:, :-1]
        if not self._record.uniform:
            lengths = rows.gains.reshape(chunk.intervals, steps)
            lengths[first : b - 1] = ((t[1:] - t[:-1]) / steps)[:, None]


def _indicators(n_initial: int) -> int:
    return n_initial if n_initial > 1 else 0


def _head(record: Record, history: Inputs) -> Record:
    """The first samples of the stream, as far as the state at the first one depends on them.

    A linear input has a slope there that is not known yet. Nothing depends on it: where the input
    bends at the samples the derivatives restart at the first one.
    """
    t, u, _ = history.samples(0, min(len(history), CONTEXT + 3))
    if len(t) == 0:
        t, u = record.t[:1], record.u[:1]
    times = [t[0], t[0] + record.interval]
    if record.n_inputs == 0:
        return Record(t=times)
    if record.u_function is not None:
        return Record(u=record.u_function, t=times)
    if record.hold != "bandlimited":
        return Record(u=u[[0, 0]], t=times, hold=record.hold)
    known = np.pad(u, ((0, max(0, 3 - len(u))), (0, 0)), mode="edge")
    return Record(
        u=known[:3], dt=record.interval, start=float(t[0]), hold="bandlimited", u_after=known[3:]
    )


def _write_samples(chunk: Chunk, rows: Rows, a: int, b: int, n: int, q: int) -> None:
    """Rows of `SampleSymbols.row`; see `sample_rows`."""
    part = rows.samples[a:b]
    samples = chunk.samples[a:b]
    y = samples[:, 1 + n :]
    present = np.isfinite(y)
    part[:, :n] = samples[:, 1 : 1 + n]
    part[:, n] = samples[:, 0]
    part[:, n + 1 : n + 1 + q] = np.where(present, y, 0.0)
    part[:, n + 1 + q : n + 1 + 2 * q] = present
