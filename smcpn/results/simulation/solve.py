"""Solve an ODE with known parameters, with an account of the numerical error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from typing import Any, overload

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from smcpn.errors import InputError, listed, real_number, shown, whole_number
from smcpn.model.dose import Dose
from smcpn.model.dosing import Dosing, on_anchors
from smcpn.model.entries import by_scalar
from smcpn.model.initial import is_formula, named_values, scalar_initial
from smcpn.model.ode import ODE
from smcpn.model.parts import STIFF_PARTS, check_parts
from smcpn.model.problem import check_ode, check_record
from smcpn.model.record import Record
from smcpn.model.signal import substep_times
from smcpn.model.solver import CALIBRATED, EKF1, LEAST_TOLERANCE, ProbabilisticSolver, Rosenbrock
from smcpn.model.trace import argument_names
from smcpn.pn.integration import Integration, Settings
from smcpn.pn.solution import Solution
from smcpn.results.simulation.numerical_solution import NumericalSolution, stiff_solution
from smcpn.results.simulation.simulate import known_model

Array = NDArray[np.float64]

STIFF = "give solver=smcpn.Rosenbrock()"
INSTEAD = {
    "process_noise": "give its equation without noise, its .drift, or use smcpn.simulate",
    "algebraic": STIFF,
    "events": STIFF,
}
"""Remedies for parts that solutions have not."""
CALIBRATIONS = ("fixed", "fixed-diagonal", "dynamic", "dynamic-diagonal")
"""Diffusions that a solution can be calibrated with."""
CONTROLS = {"P": (1.0, 0.0), "PI": (0.7, 0.4)}
"""Exponents a and b of `smcpn.pn.step_control`."""


@overload
def solve(
    ode: ODE,
    over: Record | ArrayLike,
    parameters: Mapping[str, Any] | None = None,
    *,
    initial: Any = "rest",
    solver: ProbabilisticSolver | None = None,
    rtol: float = 1e-6,
    atol: float = 1e-9,
    at: ArrayLike | None = None,
    first_step: float | None = None,
    max_steps: int = 1_000_000,
    control: str = "P",
) -> Solution: ...


@overload
def solve(
    ode: ODE,
    over: Record | ArrayLike,
    parameters: Mapping[str, Any] | None = None,
    *,
    solver: Rosenbrock,
    initial: Any = "rest",
    rtol: float = 1e-6,
    at: ArrayLike | None = None,
) -> NumericalSolution: ...


def solve(
    ode: ODE,
    over: Record | ArrayLike,
    parameters: Mapping[str, Any] | None = None,
    *,
    initial: Any = "rest",
    solver: ProbabilisticSolver | Rosenbrock | None = None,
    rtol: float = 1e-6,
    atol: float = 1e-9,
    at: ArrayLike | None = None,
    first_step: float | None = None,
    max_steps: int = 1_000_000,
    control: str = "P",
) -> Solution | NumericalSolution:
    """Return the solution of an ODE with known parameters, and how far it is known to be right.

    Probabilistic solvers give its mean and covariance, given the equation at their steps.

    Parameters
    ----------
    ode : ODE
    over : Record or array_like
        A record, whose input drives the model and whose doses enter it, or times: the two ends, or
        a grid.
    parameters : mapping of str to float
        Values of the parameters (and of the diffusion, where the solver names a parameter), of a
        vector or an unknown function as for `smcpn.simulate`.
    initial : object
        State at the first time, as for `Problem`: ``"rest"``, one value per state, or a mapping
        from state to value; numbers or names of parameters.
    solver : EKF0, EKF1 or Rosenbrock
        By default ``EKF1(order=5, diffusion="dynamic", smooth=True)``. With a number of ``steps``
        that many equal steps are taken between samples (or grid points), with ``"auto"`` the
        tolerances decide. `Rosenbrock` claims no error; it takes algebraic equations and events,
        and steps by its ``tolerance`` alone, which ``"auto"`` leaves to ``rtol``.
    rtol, atol : float
        The local error of each state stays below ``atol + rtol |x|`` in the root mean square. One
        dynamic diffusion for all states of `EKF1` counts in these tolerances. `Rosenbrock`
        takes ``rtol`` alone, relative to the largest value that a state has had.
    at : array_like, optional
        Further times that a step must end at, and the times of `Solution.t`. The solution can be
        called at any other time too. Of `Rosenbrock` two ends without ``at`` are the times of
        `NumericalSolution.t`.
    first_step : float, optional
        First step to try; by default a hundredth of |x| / |x'|.
    max_steps : int
        Accepted and rejected steps after which the solver gives up.
    control : {"P", "PI"}
        Proportional or proportional-integral step size control.

    Returns
    -------
    Solution or NumericalSolution
        The latter by `Rosenbrock`. Also where the solver fails: see ``success`` and ``message``.

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
    takes = frozenset({"accumulators"})
    takes |= STIFF_PARTS if isinstance(solver, Rosenbrock) else frozenset()
    check_parts(ode.parts, "smcpn.solve", takes, INSTEAD, argument="ode")
    record, times = _times(over, ode)
    if ode.accumulators and record is not None:
        raise InputError(
            f"over is a record, at whose samples {listed(ode.accumulators)} begin anew: use "
            "smcpn.simulate, or give times, from the first of which they count",
            argument="over",
        )
    if isinstance(solver, Rosenbrock):
        _refuse_changed(atol=atol, first_step=first_step, max_steps=max_steps, control=control)
        return _without_claim(ode, record, times, parameters, initial, solver, rtol, at)
    solver = EKF1(order=5, smooth=True) if solver is None else solver
    if not getattr(solver, "probabilistic", False) or solver.adaptive:
        raise InputError(
            f"solver is {shown(solver)}: give smcpn.EKF0(...), smcpn.EKF1(...) or "
            "smcpn.Rosenbrock(...)",
            argument="solver",
        )
    if solver.diffusion == "auto":
        solver = replace(solver, diffusion="dynamic")
    if solver.diffusion in CALIBRATED and solver.diffusion not in CALIBRATIONS:
        raise InputError(
            f"diffusion {solver.diffusion!r} is one of the filtering likelihood: give smcpn.solve "
            f"a number, the name of a parameter, or one of {', '.join(map(repr, CALIBRATIONS))}"
        )
    values = _values(ode, parameters, solver)
    x0, used = _initial(ode, initial, values)
    doses = () if record is None else record.doses
    used |= {v for dose in doses for v in (dose.lag, dose.fraction) if isinstance(v, str)}
    unknown = set(values) - {*ode.parameters, *used, solver.diffusion}
    if unknown:
        raise InputError(
            f"'{min(unknown)}' belongs to no parameter of model '{ode.name}' "
            f"({listed(ode.parameters)})"
        )
    settings = Settings(
        rtol=_positive("rtol", rtol),
        atol=_positive("atol", atol),
        first_step=None if first_step is None else _positive("first_step", first_step),
        max_steps=whole_number("max_steps", max_steps, 1),
        exponents=_control(control),
    )
    outputs, arrived = _reported(times, at), None
    theta = np.array([values[name] for name in ode.parameters])
    smooth = ode
    if record is not None and doses:
        smooth, record, arrived = _without_doses(ode, record, values)
        times = record.t
    grid = _grid(times, outputs, solver)
    integration = Integration(smooth, solver, settings, record, times, grid, theta, x0)
    found = integration.solution(outputs, values.get(str(solver.diffusion)))
    return replace(found, ode=ode, arrived=arrived)


def _without_doses(
    ode: ODE, record: Record, values: Mapping[str, float]
) -> tuple[ODE, Record, Callable[[Array], Array]]:
    """Return the equation of z in x = z + D(t), the record that it runs over, and D.

    D is what doses have brought, a known function of time, see `smcpn.model.dosing`.

    record: With doses.
    values: Parameters, of which lags and fractions may be some.
    """
    for name in [v for d in record.doses for v in (d.lag, d.fraction) if isinstance(v, str)]:
        if name not in values:
            raise InputError(
                f"a dose names '{name}', and parameters has no such name: add it, or give a number",
                argument="parameters",
            )
    Dosing.of([record], ode, {}, values)
    doses = [_with_numbers(dose, values) for dose in record.doses]
    record = record.with_doses(doses)
    own = {name: values[name] for name in ode.parameters}
    model, _ = known_model(ode, own, list(ode.states), "rest", None, None, record)
    symbols = [model.x, model.u, model.t, model.theta]
    smooth = replace(ode, rhs=ca.Function(ode.name, symbols, [model.rhs]), accumulators=())
    # Arrivals within rounding of a sample are at it, as in the model.
    places = tuple(ode.states.index(dose.state) for dose in doses)
    brought = Brought(tuple(on_anchors(record)[0]), places, len(ode.states))
    return smooth, model.prepared(record), brought


@dataclass(frozen=True)
class Brought:
    """D(t), what doses have brought by the times (T,): (T, n).

    doses: Whose lags and fractions are numbers.
    places: Number of the state that each enters.
    """

    doses: tuple[Dose, ...]
    places: tuple[int, ...]
    n_states: int

    def __call__(self, times: Array) -> Array:
        """Return D at times."""
        found = np.zeros((len(times), self.n_states))
        for place, dose in zip(self.places, self.doses, strict=True):
            part = (times > dose.begin).astype(float)
            if dose.duration:
                part = np.clip((times - dose.begin) / dose.duration, 0.0, 1.0)
            found[:, place] += float(dose.fraction) * dose.amount * part
        return found


def _with_numbers(dose: Dose, values: Mapping[str, float]) -> Dose:
    """A dose whose lag and fraction are numbers."""
    given = {name: getattr(dose, name) for name in ("lag", "fraction")}
    return replace(dose, **{n: values[v] if isinstance(v, str) else v for n, v in given.items()})


def _refuse_changed(**given: Any) -> None:
    """Refuse settings of the steps that Rosenbrock does not have."""
    for name, value in given.items():
        default = signature(solve).parameters[name].default
        if not isinstance(value, int | float | str | None) or value != default:
            raise InputError(
                f"{name} is {shown(value)}, and smcpn.Rosenbrock chooses its steps by its "
                f"tolerance alone: leave {name} out",
                argument=name,
            )


def _without_claim(
    ode: ODE,
    record: Record | None,
    times: Array,
    parameters: Any,
    initial: Any,
    solver: Rosenbrock,
    rtol: Any,
    at: Any,
) -> NumericalSolution:
    """Solve by Rosenbrock steps; arguments as of `solve`."""
    tolerance = _positive("rtol", rtol)
    if not solver.automatic:
        _refuse_changed(rtol=rtol)
    else:
        if not LEAST_TOLERANCE <= tolerance < 1.0:
            raise InputError(
                f"rtol is {tolerance}: give a number from {LEAST_TOLERANCE:g} to 1", argument="rtol"
            )
        solver = replace(solver, tolerance=tolerance)
    outputs = _reported(times, at)
    record = Record(t=times) if record is None else record
    return stiff_solution(
        ode, record, times if outputs is None else outputs, _mapping(parameters), initial, solver
    )


def _times(over: Any, ode: ODE) -> tuple[Record | None, Array]:
    if isinstance(over, Record):
        record = over.unmeasured(0)
        check_record(record, ode, 0)
        return record, record.t
    if ode.inputs:
        raise InputError(
            f"over is {shown(over)}: model '{ode.name}' has inputs ({listed(ode.inputs)}), "
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
    if times.ndim != 1 or not np.isfinite(times).all() or (times[1:] <= times[:-1]).any():
        raise InputError(f"{name} is {shown(given)}: give finite, strictly increasing times")
    return times


def _reported(times: Array, at: Any) -> Array | None:
    """Times the solution is reported at; None where there are two ends and no others."""
    if at is None:
        return None if len(times) == 2 else times
    outputs = _increasing("at", at)
    if len(outputs) == 0 or outputs[0] < times[0] or outputs[-1] > times[-1]:
        raise InputError(
            f"at is {shown(at)}: give times from {times[0]:g} to {times[-1]:g}, where the "
            "solution is sought"
        )
    return outputs


def _grid(times: Array, outputs: Array | None, solver: ProbabilisticSolver) -> Array:
    """Times where a step must end, first the start."""
    points = times if outputs is None else np.union1d(times, outputs)
    if solver.steps == "auto":
        return points
    inner = substep_times(Record(t=points), int(solver.steps))
    return np.append(inner[:, :-1].ravel(), points[-1])


def _mapping(parameters: Any) -> Mapping[str, Any]:
    """Parameters by name."""
    given = {} if parameters is None else parameters
    if not isinstance(given, Mapping):
        raise InputError(f"parameters is {shown(given)}: give a dict of name to number")
    return given


def _values(ode: ODE, parameters: Any, solver: ProbabilisticSolver) -> dict[str, float]:
    """Every parameter of the model, and the diffusion where it is named, by name."""
    given = by_scalar(_mapping(parameters), ode, "parameters")
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
    """State at the first time, and the parameters that it names."""
    x0, used = np.empty(len(ode.states)), set[str]()
    for k, (state, value) in enumerate(named_values(ode, scalar_initial(initial, ode))):
        if is_formula(value):
            names = list(argument_names(value)[1])
            used.update(names)
            value = value(**{name: values[name] for name in names if name in values})
        if isinstance(value, str):
            if value not in values:
                raise InputError(
                    f"initial names '{value}', which has no value: give "
                    f"parameters={{'{value}': ...}} a number"
                )
            used.add(value)
        x0[k] = real_number(
            f"initial {state}(0)",
            values[value] if isinstance(value, str) else value,
            "give a finite number or a parameter's name",
        )
    return x0, used


_positive = partial(real_number, remedy="give a positive number", above=0.0)


def _control(control: Any) -> tuple[float, float]:
    if not isinstance(control, str) or control not in CONTROLS:
        raise InputError(f"control is {shown(control)}: choose {' or '.join(map(repr, CONTROLS))}")
    return CONTROLS[control]
