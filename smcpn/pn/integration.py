"""One run of the compiled loop: its arguments, the segments between restarts, its result.

A model's vector field and Jacobian are compiled functions that the loop calls by address. It is
compiled once for all models; only these few statements are generated and compiled for each.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import casadi as ca
import numpy as np
from llvmlite import ir
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from smcpn.codegen.loops import FAST, Function, number
from smcpn.codegen.lower import Level, Value, Vector, lower
from smcpn.codegen.machine_code import Block, Writer
from smcpn.codegen.native import Code, code
from smcpn.codegen.routine import PassedArgument, routine
from smcpn.codegen.terms import DOUBLE
from smcpn.model.ode import ODE
from smcpn.model.record import InputFunction, Record
from smcpn.model.signal import substep_inputs
from smcpn.model.solver import ProbabilisticSolver
from smcpn.pn import forward
from smcpn.pn.backward import Run
from smcpn.pn.forward import Control, Field, Inputs, State, Store
from smcpn.pn.layout import CompiledLayout, Layout
from smcpn.pn.series import SeriesProgram, series_program
from smcpn.pn.solution import Calibration, Solution, Stats

Array = NDArray[np.float64]

_ARGUMENTS = {
    "x": DOUBLE.as_pointer(), "u": DOUBLE.as_pointer(), "t": DOUBLE, "p": DOUBLE.as_pointer(),
    "out": DOUBLE.as_pointer(),
}  # fmt: skip


@dataclass(frozen=True)
class CompiledField:
    """A compiled graph of (x, u, t, parameters).

    address: What `smcpn.codegen.routine.call_address` calls with (x, u, t, parameters, result).
    """

    address: int
    _code: Code

    @classmethod
    def of(cls, symbols: Sequence[ca.SX], outputs: ca.SX) -> CompiledField:
        """Compile ``outputs``, a graph over the symbols (x, u, t, parameters); row by row."""
        block = _block(symbols, outputs)
        made = code(f"vector field\n{block}", lambda module: _write(module, block))
        return cls(made.address("evaluate"), made)


def _write(module: ir.Module, block: Block) -> None:
    made = Function(module, "evaluate", _ARGUMENTS)
    writer = Writer(made.builder, DOUBLE)
    for value in block.arguments:
        writer.values[value] = (
            made["t"]
            if value.vector == "t"
            else made.builder.load(made.at(made[value.vector], number(value.index)), align=8)
        )
    writer.run(block.statements)
    for k, operand in block.stores:
        made.builder.store(writer.value(operand), made.at(made["out"], number(k)), align=8)
    made.finish(FAST)


def _block(symbols: Sequence[ca.SX], outputs: ca.SX) -> Block:
    """The rows of a graph one after the other, of the elements that it reads."""
    names = dict(zip("xutp", symbols, strict=True))
    inputs = [Vector(vector, name, Level.LANE) for name, vector in names.items()]
    graph = lower(ca.vec(ca.densify(outputs).T), inputs, "a")
    elements = [
        Value(name, k, Level.LANE) for name, vector in names.items() for k in range(vector.numel())
    ]
    read = graph.read(Level.LANE)
    return Block(
        arguments=tuple(value for value in elements if value in read),
        statements=tuple(graph.by_level[Level.LANE]),
        stores=tuple(enumerate(graph.outputs)),
    )


KEPT = 64
"""Models, and pairs of model and solver, whose compiled form stays in memory."""


class Equations:
    """Graphs of an ODE over one set of symbols, and the programs for its Taylor series."""

    def __init__(self, ode: ODE) -> None:
        sizes = [ode.rhs.size1_in(k) for k in range(4)]
        self.symbols = [ca.SX.sym(name, n, 1) for name, n in zip("xutp", sizes, strict=True)]
        self.rhs = ode.rhs(*self.symbols)

    @functools.cached_property
    def series(self) -> SeriesProgram:
        """Taylor series of the solution."""
        return series_program(self.symbols, self.rhs)

    @functools.cached_property
    def tangent_series(self) -> SeriesProgram:
        """Taylor series of the solution and of its derivative in a direction, of 2 n states."""
        x, *others = self.symbols
        direction = ca.SX.sym("direction", x.numel(), 1)
        rates = ca.vertcat(self.rhs, ca.jtimes(self.rhs, x, direction))
        return series_program([ca.vertcat(x, direction), *others], rates)


class Discretisation:
    """An ODE arranged for a solver: layout, and the compiled rates of its processes.

    rate: Rate of the top of every process, (d,).
    jacobian: Derivative of these in the states, (d, n), for EKF1.
    """

    def __init__(self, ode: ODE, solver: ProbabilisticSolver) -> None:
        self.equations = equations(ode)
        symbols, rhs = self.equations.symbols, self.equations.rhs
        layout = Layout.uniform(symbols[0], rhs, solver)
        self.layout = CompiledLayout.of(layout, solver.diffusion)
        rates = rhs[[process.states[-1] for process in layout.processes]]
        self.rate = CompiledField.of(symbols, rates)
        self.jacobian = None
        if solver.jacobian != "none":
            jacobian = ca.jacobian(rates, symbols[0])
            if solver.jacobian == "diagonal":
                own = self.layout.process == np.arange(len(layout.processes))[:, None]
                jacobian = ca.sparsify(jacobian * ca.DM(own.astype(float)))
            self.jacobian = CompiledField.of(symbols, jacobian)


@functools.lru_cache(KEPT)
def equations(ode: ODE) -> Equations:
    """Graphs of an ODE, made at the first call."""
    return Equations(ode)


@functools.lru_cache(KEPT)
def discretisation(ode: ODE, solver: ProbabilisticSolver) -> Discretisation:
    """Compile an ODE for a solver, at the first call."""
    return Discretisation(ode, solver)


DEGREE = 16
"""Enough for a band-limited input to 1e-12 of its size, up to 0.9 of the Nyquist frequency."""
ACCURACY = 1e-13
"""Relative change at the points between those of the interpolation that lets a piece stand."""
HALVINGS = 12


def no_input(begin: float, end: float) -> Inputs:
    """The input of a model that has none."""
    return Inputs(np.array([begin, end]), np.empty((1, 1, 0)))


def input_polynomials(record: Record) -> Inputs:
    """Polynomials of every sampling interval; a known function takes as many as it needs."""
    if record.n_inputs == 0:
        return no_input(record.t[0], record.t[-1])
    if record.u_function is not None:
        return _of_function(record.u_function, record)
    if record.hold == "bandlimited":
        points = substep_inputs(record, DEGREE)
        nodes = np.vander(np.linspace(-1.0, 1.0, DEGREE + 1), increasing=True)
        return Inputs(record.t, np.array(np.linalg.solve(nodes, points), dtype=float))
    ends = substep_inputs(record, 1)
    coefficients = np.stack([ends.mean(axis=1), (ends[:, 1] - ends[:, 0]) / 2], axis=1)
    return Inputs(record.t, coefficients)


def series_after(inputs: Inputs, time: float, order: int) -> Array:
    """Taylor coefficients 0..order of the input just after a time, (order + 1, n_inputs)."""
    edges, n_inputs = inputs.edges, inputs.coefficients.shape[2]
    if n_inputs == 0:
        return np.empty((order + 1, 0))
    piece = min(int(np.searchsorted(edges, time, side="right")) - 1, len(edges) - 2)
    begin, end = edges[piece], edges[piece + 1]
    polynomial = inputs.coefficients[piece]
    s, slope = (2.0 * time - begin - end) / (end - begin), 2.0 / (end - begin)
    result = np.zeros((order + 1, n_inputs))
    for k in range(min(order + 1, len(polynomial))):
        binomials = np.array([comb(m, k) for m in range(k, len(polynomial))], dtype=float)
        result[k] = slope**k * (binomials * s ** np.arange(len(binomials))) @ polynomial[k:]
    return result


def _of_function(function: InputFunction, record: Record) -> Inputs:
    """Chebyshev interpolation, halving a piece until it is accurate."""
    nodes = chebyshev.chebpts1(DEGREE + 1)
    between = np.cos(np.pi * np.arange(1, DEGREE + 1) / (DEGREE + 1))
    to_powers = np.linalg.inv(np.vander(nodes, increasing=True))

    def at(begin: float, end: float, s: Array) -> Array:
        values = function(0.5 * (begin + end) + 0.5 * (end - begin) * s)
        return np.asarray(values, dtype=float).reshape(len(s), record.n_inputs - record.held)

    def pieces(begin: float, end: float, halvings: int) -> list[tuple[float, Array]]:
        coefficients = to_powers @ at(begin, end, nodes)
        exact = at(begin, end, between)
        error = np.abs(np.vander(between, DEGREE + 1, increasing=True) @ coefficients - exact)
        if halvings == 0 or (error <= 1e2 * ACCURACY * np.abs(exact).max()).all():
            return [(begin, coefficients)]
        middle = 0.5 * (begin + end)
        return pieces(begin, middle, halvings - 1) + pieces(middle, end, halvings - 1)

    found = [
        piece
        for begin, end in zip(record.t[:-1], record.t[1:], strict=True)
        for piece in pieces(float(begin), float(end), HALVINGS)
    ]
    edges = np.array([*(begin for begin, _ in found), record.t[-1]])
    # What is held is told by the sample that ends an interval.
    last = np.searchsorted(record.t, edges[:-1], side="right")
    held = np.zeros((len(found), DEGREE + 1, record.held))
    held[:, 0] = record.u[last, record.n_inputs - record.held :]
    coefficients = np.array([coefficients for _, coefficients in found])
    return Inputs(edges, np.concatenate([coefficients, held], axis=2))


class ExactDerivatives:
    """Nordsieck coordinates of the exact solution through a state, and their slope in it."""

    def __init__(
        self, equations: Equations, layout: CompiledLayout, inputs: Inputs, parameters: Array
    ) -> None:
        self._equations, self._layout = equations, layout
        self._inputs, self._parameters = inputs, parameters
        self._heads = np.flatnonzero(layout.derivative == 0)

    def series(self, x: Array, time: float) -> Array:
        """Taylor coefficients of the states just after ``time``, (n, order + 1)."""
        order = self._layout.order
        u = series_after(self._inputs, time, order)
        return self._equations.series(x, u, time, self._parameters, order)

    def mean(self, series: Array, h: float) -> Array:
        """Coordinates of all processes for steps of length ``h``, (order + 1, d)."""
        layout = self._layout
        mean = np.empty((layout.order + 1, len(layout.top)))
        powers = h ** np.arange(layout.order + 1)
        mean[:, layout.process[self._heads]] = series[self._heads].T * powers[:, None]
        return mean

    def factor(self, x: Array, time: float, h: float, before: Array, h_before: float) -> Array:
        """Covariance factor after a restart, from the one before it, (B, entries, entries).

        The state keeps its covariance. Under EKF0, which does not know how the vector field
        depends on the state, the derivatives are taken for known; under EKF1 they follow it.
        """
        layout, width = self._layout, self._layout.width
        factor = np.zeros_like(before)
        powers = h ** np.arange(layout.order + 1)
        scale = layout.scale / h_before**layout.derivative
        for i, (p, k) in enumerate(zip(layout.process, layout.derivative, strict=True)):
            block, s = layout.block[p], layout.place[p]
            state = before[block, k * width + s]
            if not layout.coupled:
                factor[block, k * width + s] = state * (h / h_before) ** k
                continue
            slopes = self._slopes(x, time, i)
            for head in self._heads:
                other = layout.process[head]
                if layout.block[other] == block:
                    rows = factor[block, layout.place[other] :: width]
                    rows += np.outer(slopes[head] * powers, state * scale[i])
        return factor

    def _slopes(self, x: Array, time: float, i: int) -> Array:
        """Taylor coefficients of the derivative of the solution in state ``i``, (n, order + 1)."""
        n, order = len(x), self._layout.order
        u = series_after(self._inputs, time, order)
        both = np.concatenate([x, np.eye(n)[i]])
        return self._equations.tangent_series(both, u, time, self._parameters, order)[n:]


FIRST_STEP = 0.01
"""First step in units of |x| / |x'|, in the norm of the tolerances."""
BLIND_STEP = 1e-6
"""First step in units of the whole span, where that ratio says nothing."""
STORED_FIRST = 256
MESSAGES = {
    forward.DONE: "the end was reached",
    forward.UNDERFLOW: "the step fell below the resolution of time: the solution has a pole, or "
    "the problem is too stiff for this solver (EKF1 takes stiff ones)",
    forward.DIVERGED: "the solution is no longer finite: take more steps, or a solver that takes "
    "stiff problems (EKF1)",
    forward.EXHAUSTED: "max_steps is used up",
}


@dataclass(frozen=True)
class Settings:
    """Arguments of `solve` besides the solver; the exponents are those of `step_control`."""

    rtol: float
    atol: float
    first_step: float | None
    max_steps: int
    exponents: tuple[float, float]


class Integration:
    """One run: what compiled code needs, and the segments between restarts."""

    def __init__(
        self,
        ode: ODE,
        solver: ProbabilisticSolver,
        settings: Settings,
        record: Record | None,
        times: Array,
        grid: Array,
        theta: Array,
        x0: Array,
    ) -> None:
        self._ode, self._solver, self._settings = ode, solver, settings
        self._grid, self._x0 = grid, x0
        compiled = discretisation(ode, solver)
        # Compiled code reads as many numbers as the model has, whatever the arrays hold.
        sizes = (len(ode.parameters),), (len(ode.states),)
        assert (theta.shape, x0.shape) == sizes
        assert theta.dtype == x0.dtype == np.float64
        self._layout = compiled.layout
        self._field = Field(
            compiled.rate.address,
            compiled.jacobian.address if compiled.jacobian else 0,
            theta,
        )
        self._inputs = no_input(grid[0], grid[-1]) if record is None else input_polynomials(record)
        restarts = record is not None and (bool(record.held) or not record.smooth)
        self._restarts = times[1:-1] if restarts else times[:0]
        self._exact = ExactDerivatives(compiled.equations, self._layout, self._inputs, theta)

    def solution(self, outputs: Array | None, variance: float | None) -> Solution:
        """Run to the end, calibrate, and smooth under ``solver.smooth``."""
        series = self._exact.series(self._x0, float(self._grid[0]))
        control, h = self._control_at_start(variance, series)
        state, store = self._start(series, h)
        work = forward.workspace(self._layout, self._inputs.coefficients.shape[2])
        same = (self._field, self._layout, self._inputs, state, work, control)
        advance = functools.partial(routine(forward.advance), *map(PassedArgument.of, same))
        restart: list[int] = []
        stops = self._grid[1:]
        ends = np.append(np.searchsorted(self._grid, self._restarts), len(self._grid) - 1)
        begin, status = 0, forward.DONE
        for end in ends:
            if begin:
                restart.append(int(state.counts[2]))
                store = self._restart(state, store, float(stops[begin]) - state.clock[0])
            state.counts[3] = 0
            status = advance(stops[begin:end], store)
            while status == forward.FULL:
                store = _enlarged(store)
                status = advance(stops[begin:end], store)
            begin = end
            if status != forward.DONE:
                break
        return self._finished(control, state, store, restart, status, outputs)

    def _finished(
        self,
        control: Control,
        state: State,
        store: Store,
        restart: list[int],
        status: int,
        outputs: Array | None,
    ) -> Solution:
        n = int(state.counts[2])
        restarted = np.zeros(n, dtype=bool)
        restarted[[k for k in restart if k < n]] = True
        kept = Store(*(array[:n] for array in store))
        run = Run(kept.time, kept.step, kept.mean, kept.factor, kept.noise, restarted)
        accepted, rejected = int(state.counts[0]), int(state.counts[1])
        tried = accepted + rejected
        calibration = Calibration(self._solver.diffusion, kept, restarted)
        return Solution(
            ode=self._ode,
            solver=self._solver,
            success=status == forward.DONE,
            message=MESSAGES[status]
            + ("" if status == forward.DONE else f" at t = {run.time[-1]:g}"),
            stats=Stats(
                accepted=accepted,
                rejected=rejected,
                f_evaluations=tried + 1,
                jacobian_evaluations=tried if self._layout.coupled else 0,
            ),
            layout=self._layout,
            run=run,
            calibration=calibration,
            outputs=outputs,
        )

    def _control_at_start(self, variance: float | None, series: Array) -> tuple[Control, float]:
        settings, solver, span = self._settings, self._solver, self._grid[-1] - self._grid[0]
        if not isinstance(solver.diffusion, str):
            variance = solver.diffusion
        known, unit = 0.0, 1.0
        if variance is not None:
            known = variance**2
        elif solver.diffusion in ("fixed", "fixed-diagonal"):
            known, unit = 1.0, float(span)
        control = Control(
            fixed=solver.steps != "auto",
            rtol=settings.rtol,
            atol=settings.atol,
            order=solver.order + 1,
            own=settings.exponents[0],
            memory=settings.exponents[1],
            max_steps=settings.max_steps,
            variance=known,
            unit=unit,
        )
        first = float(self._grid[1] - self._grid[0])
        if control.fixed:
            return control, first
        return control, min(self._first_step(span, series), span)

    def _first_step(self, span: float, series: Array) -> float:
        if self._settings.first_step is not None:
            return self._settings.first_step
        tolerance = self._settings.atol + self._settings.rtol * np.abs(self._x0)
        size, rate = np.sqrt(np.square(series[:, :2] / tolerance[:, None]).sum(axis=0)).tolist()
        least = 1e-5 * np.sqrt(len(self._x0))
        return FIRST_STEP * size / rate if min(size, rate * span) > least else BLIND_STEP * span

    def _start(self, series: Array, h: float) -> tuple[State, Store]:
        layout, time = self._layout, float(self._grid[0])
        mean = self._exact.mean(series, h)
        entries = (layout.order + 1) * layout.width
        factor = np.zeros((layout.n_blocks, entries, entries))
        state = State(np.array([time, h, h, 0.0]), np.zeros(4, dtype=np.int64), mean, factor)
        d = len(layout.top)
        capacity = max(STORED_FIRST, len(self._grid) + len(self._restarts) + 1)
        store = Store(
            np.empty(capacity),
            np.empty(capacity),
            np.empty((capacity, *mean.shape)),
            np.empty((capacity, *factor.shape)),
            np.empty((capacity, d)),
            np.empty((capacity, d)),
            np.empty(capacity),
        )
        _put(store, state)
        return state, store

    def _restart(self, state: State, store: Store, interval: float) -> Store:
        """Exact derivatives from the state just reached; the step tried next is kept."""
        layout, (time, h_before, wanted, _) = self._layout, state.clock
        h = interval if self._solver.steps != "auto" else min(wanted, interval)
        powers = h_before ** -layout.derivative.astype(float) * layout.scale
        x = state.mean[layout.derivative, layout.process] * powers
        state.factor[:] = self._exact.factor(x, time, h, state.factor, h_before)
        state.mean[:] = self._exact.mean(self._exact.series(x, time), h)
        state.clock[1], state.clock[3] = h, 0.0
        if state.counts[2] == len(store.time):
            store = _enlarged(store)
        _put(store, state)
        return store


def _put(store: Store, state: State) -> None:
    n = int(state.counts[2])
    store.time[n], store.step[n] = state.clock[0], state.clock[1]
    store.mean[n], store.factor[n] = state.mean, state.factor
    store.noise[n], store.residual[n], store.log_det[n] = 0.0, 0.0, 0.0
    state.counts[2] += 1


def _enlarged(store: Store) -> Store:
    return Store(*(np.concatenate([array, np.empty_like(array)]) for array in store))
