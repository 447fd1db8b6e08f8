"""One run of the compiled loop: its arguments, the segments between restarts, its result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.library import entry_point
from smcpn.ode import ODE
from smcpn.pn import forward
from smcpn.pn.backward import Run
from smcpn.pn.equations import discretisation
from smcpn.pn.forward import Control, Field, State, Store
from smcpn.pn.initialise import ExactDerivatives
from smcpn.pn.inputs import input_polynomials, no_input
from smcpn.pn.layout import entry_scale
from smcpn.pn.solution import Calibration, Solution, Stats
from smcpn.record import Record
from smcpn.solver import EKF0, EKF1

Array = NDArray[np.float64]

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
    """What a user sets beside the solver; the exponents are those of `forward.Control`."""

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
        solver: EKF0 | EKF1,
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
        self._layout = compiled.layout
        self._field = Field(
            compiled.rate.address,
            compiled.jacobian.address if compiled.jacobian else 0,
            theta,
            entry_scale(self._layout),
        )
        self._inputs = no_input(grid[0], grid[-1]) if record is None else input_polynomials(record)
        restarts = record is not None and not record.smooth
        self._restarts = times[1:-1] if restarts else times[:0]
        self._exact = ExactDerivatives(compiled.equations, self._layout, self._inputs, theta)

    def solution(self, outputs: Array | None, variance: float | None) -> Solution:
        """Run to the end, calibrate, and smooth where the solver asks for it."""
        series = self._exact.series(self._x0, float(self._grid[0]))
        control, h = self._control_at_start(variance, series)
        state, store = self._start(series, h)
        advance = entry_point(forward.advance)
        restart: list[int] = []
        ends = np.append(np.searchsorted(self._grid, self._restarts), len(self._grid) - 1)
        begin, status = 0, forward.DONE
        for end in ends:
            stops = control.stops[begin:end]
            if begin:
                restart.append(int(state.counts[2]))
                store = self._restart(state, store, float(control.stops[begin]) - state.clock[0])
            state.counts[3] = 0
            segment = control._replace(stops=stops)
            status = advance(self._field, self._layout, self._inputs, segment, state, store)
            while status == forward.FULL:
                store = _enlarged(store)
                status = advance(self._field, self._layout, self._inputs, segment, state, store)
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
            stops=self._grid[1:],
            fixed=solver.steps != "auto",
            rtol=settings.rtol,
            atol=settings.atol,
            order=solver.order + 1,
            exponent=settings.exponents[0],
            exponent_before=settings.exponents[1],
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
        size, rate = (float(np.linalg.norm(series[:, k] / tolerance)) for k in (0, 1))
        least = 1e-5 * np.sqrt(len(self._x0))
        return FIRST_STEP * size / rate if min(size, rate) > least else BLIND_STEP * span

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
        powers = h_before ** -layout.derivative.astype(float) * self._field.scale
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
