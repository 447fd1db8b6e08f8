"""Solve an ODE with known parameters, with an account of the numerical error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from smcpn.arguments import real_number, shown, whole_number
from smcpn.codegen.library import entry_point
from smcpn.errors import InputError
from smcpn.hold import substep_times
from smcpn.initial import initial_states
from smcpn.ode import ODE
from smcpn.pn import forward
from smcpn.pn.backward import Run
from smcpn.pn.equations import discretisation
from smcpn.pn.forward import Control, Field, State, Store
from smcpn.pn.initialise import ExactDerivatives
from smcpn.pn.inputs import input_polynomials, no_input
from smcpn.pn.layout import entry_scale
from smcpn.pn.solution import Solution, Stats, calibrated
from smcpn.problem import check_ode, check_record
from smcpn.record import Record
from smcpn.solver import CALIBRATED, EKF0, EKF1

Array = NDArray[np.float64]

CONTROLS = {"P": (1.0, 0.0), "PI": (0.7, 0.4)}
"""Exponents of the error of this step and the one before, times the order of the local error."""
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


def solve(
    ode: ODE,
    over: Record | ArrayLike,
    parameters: Mapping[str, float] | None = None,
    *,
    initial: Any = "rest",
    solver: EKF0 | EKF1 | None = None,
    rtol: float = 1e-6,
    atol: float = 1e-9,
    at: ArrayLike | None = None,
    first_step: float | None = None,
    max_steps: int = 1_000_000,
    control: str = "PI",
) -> Solution:
    """Solve an ODE probabilistically: mean and covariance of the solution given the equation.

    Parameters
    ----------
    ode : ODE
    over : Record or array_like
        A record, whose input drives the model, or times: the two ends, or a grid.
    parameters : mapping of str to float
        Values of the parameters (and of the diffusion, where the solver names a parameter).
    initial : object
        State at the first time, as for `Problem`: ``"rest"``, one value per state, or a mapping
        from state to value; numbers or names of parameters.
    solver : EKF0 or EKF1
        By default ``EKF1(order=5, diffusion="dynamic", smooth=True)``. With a number of ``steps``
        that many equal steps are taken between samples (or grid points), with ``"auto"`` the
        tolerances decide.
    rtol, atol : float
        The local error of each state stays below ``atol + rtol |x|`` in the root mean square.
    at : array_like, optional
        Further times that a step must end at, and the times of `Solution.t`. The solution can be
        called at any other time too.
    first_step : float, optional
        First step to try; by default a hundredth of |x| / |x'|.
    max_steps : int
        Accepted and rejected steps after which the solver gives up.
    control : {"PI", "P"}
        Proportional-integral or proportional step size control.

    Returns
    -------
    Solution
        Also where the solver fails: ``success`` and ``message`` tell.

    Raises
    ------
    InputError
        If an argument is out of range or does not fit the model.

    Notes
    -----
    Steps are chosen from the local diffusion (21), (23), whatever diffusion the moments are
    calibrated with: it is known before any covariance work. Where a held or linear input jumps or
    bends, the derivatives of the state restart from their exact values.

    References
    ----------
    Bosch, Hennig, Tronarp (2021). Calibrated adaptive probabilistic ODE solvers. AISTATS.

    Examples
    --------
    >>> import smcpn
    >>> @smcpn.ode
    ... def decay(x, *, rate):
    ...     return -rate * x
    >>> solution = smcpn.solve(decay, (0.0, 1.0), {"rate": 1.0}, initial=[1.0])
    >>> round(float(solution.mean[-1, 0]), 6)
    0.367879
    """
    check_ode(ode)
    solver = EKF1(order=5, smooth=True) if solver is None else solver
    if not isinstance(solver, (EKF0, EKF1)):
        raise InputError(f"solver is {shown(solver)}: give smcpn.EKF0(...) or smcpn.EKF1(...)")
    record, times = _times(over, ode)
    values = _values(ode, parameters, solver)
    x0, used = _initial(ode, initial, values)
    unknown = set(values) - {*ode.parameters, *used, solver.diffusion}
    if unknown:
        raise InputError(
            f"'{min(unknown)}' belongs to no parameter of model '{ode.name}' "
            f"({', '.join(ode.parameters)})"
        )
    settings = _Settings(
        rtol=_positive("rtol", rtol),
        atol=_positive("atol", atol),
        first_step=None if first_step is None else _positive("first_step", first_step),
        max_steps=whole_number("max_steps", max_steps, 1),
        exponents=_control(control, solver.order),
    )
    grid, outputs = _grid(times, at, solver)
    theta = np.array([values[name] for name in ode.parameters])
    run = _Solve(ode, solver, settings, record, times, grid, theta, x0)
    return run.solution(outputs, values.get(str(solver.diffusion)))


@dataclass(frozen=True)
class _Settings:
    rtol: float
    atol: float
    first_step: float | None
    max_steps: int
    exponents: tuple[float, float]


class _Solve:
    """One run: what compiled code needs, and the segments between restarts."""

    def __init__(
        self,
        ode: ODE,
        solver: EKF0 | EKF1,
        settings: _Settings,
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
        control, h = self._control_at_start(variance)
        state, store = self._start(h)
        advance = entry_point(forward.__name__, "advance", forward.__file__)
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
        calibration = calibrated(self._solver, self._layout, kept, restarted, control.unit)
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

    def _control_at_start(self, variance: float | None) -> tuple[Control, float]:
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
        return control, min(self._first_step(span), span)

    def _first_step(self, span: float) -> float:
        if self._settings.first_step is not None:
            return self._settings.first_step
        time = float(self._grid[0])
        derivatives = self._exact.rate(self._x0, time)
        tolerance = self._settings.atol + self._settings.rtol * np.abs(self._x0)
        size, rate = (
            np.sqrt(np.square(values / tolerance).mean()) for values in (self._x0, derivatives)
        )
        return FIRST_STEP * size / rate if min(size, rate) > 1e-5 else BLIND_STEP * span

    def _start(self, h: float) -> tuple[State, Store]:
        layout, time = self._layout, float(self._grid[0])
        mean = self._exact.mean(self._x0, time, h)
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
        state.mean[:] = self._exact.mean(x, time, h)
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


def _times(over: Any, ode: ODE) -> tuple[Record | None, Array]:
    if isinstance(over, Record):
        record = over.unmeasured(0)
        check_record(record, ode, 0)
        return record, record.t
    if ode.inputs:
        raise InputError(
            f"over is {shown(over)}: model '{ode.name}' has inputs ({', '.join(ode.inputs)}), "
            "give a smcpn.Record that holds them"
        )
    times = _increasing("over", over)
    if len(times) < 2:
        raise InputError(
            f"over is {shown(over)}: give a smcpn.Record, or two or more increasing times"
        )
    return None, times


def _increasing(name: str, given: Any) -> Array:
    try:
        times = np.array(given, dtype=float, ndmin=1)
    except (TypeError, ValueError):
        times = np.empty((0, 0))
    if times.ndim != 1 or not np.isfinite(times).all() or (np.diff(times) <= 0).any():
        raise InputError(f"{name} is {shown(given)}: give finite, strictly increasing times")
    return times


def _grid(times: Array, at: Any, solver: EKF0 | EKF1) -> tuple[Array, Array | None]:
    """Times where a step must end (first the start), and those the solution is reported at."""
    points, outputs = times, None if len(times) == 2 else times
    if at is not None:
        outputs = _increasing("at", at)
        if len(outputs) == 0 or outputs[0] < times[0] or outputs[-1] > times[-1]:
            raise InputError(
                f"at is {shown(at)}: give times from {times[0]:g} to {times[-1]:g}, where the "
                "solution is sought"
            )
        points = np.union1d(times, outputs)
    if solver.steps == "auto":
        return points, outputs
    inner = substep_times(Record(t=points), int(solver.steps))
    return np.append(inner[:, :-1].ravel(), points[-1]), outputs


def _values(ode: ODE, parameters: Any, solver: EKF0 | EKF1) -> dict[str, float]:
    """Every parameter of the model, and the diffusion where it is named, by name."""
    given = {} if parameters is None else parameters
    if not isinstance(given, Mapping):
        raise InputError(f"parameters is {shown(given)}: give a dict of name to number")
    values = {
        name: real_number(f"parameter '{name}'", value)
        for name, value in {**ode.defaults, **given}.items()
    }
    known = list(ode.parameters)
    named = solver.diffusion
    if isinstance(named, str) and named not in CALIBRATED:
        known.append(named)
        if not values.get(named, 0.0) > 0.0:
            raise InputError(
                f"diffusion is the parameter '{named}', which is {values.get(named, 'missing')}: "
                f"give parameters={{'{named}': ...}} a positive number"
            )
    for name in known:
        if name not in values:
            raise InputError(
                f"parameter '{name}' has no value: give parameters={{'{name}': ...}} a number"
            )
    return values


def _initial(ode: ODE, initial: Any, values: dict[str, float]) -> tuple[Array, set[str]]:
    used: set[str] = set()

    def parameter(name: str, default: float | None = None) -> ca.SX:
        del default
        if name not in values:
            raise InputError(
                f"initial names '{name}', which has no value: give parameters={{'{name}': ...}} "
                "a number"
            )
        used.add(name)
        return ca.SX(values[name])

    states, added = initial_states(ode, initial, 1, parameter, lambda value, _: ca.SX(value))
    if added.symbols:
        raise InputError(
            f"initial {next(iter(added.distributions))} is a distribution: give a number or a "
            "parameter's name"
        )
    return np.array(ca.DM(states[0])).ravel(), used


def _positive(name: str, value: Any) -> float:
    number = real_number(name, value, "give a positive number")
    if not number > 0.0:
        raise InputError(f"{name} is {shown(value)}: give a positive number")
    return number


def _control(control: Any, order: int) -> tuple[float, float]:
    if not isinstance(control, str) or control not in CONTROLS:
        raise InputError(f"control is {shown(control)}: choose {' or '.join(map(repr, CONTROLS))}")
    own, before = CONTROLS[control]
    return own / (order + 1), before / (order + 1)
