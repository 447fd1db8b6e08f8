"""The solution of an ODE with known parameters by a solver that claims no error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.base.arguments import Numbers, checked
from smcpn.codegen.emit import LEAST_LANES
from smcpn.codegen.kernel import LaneKernel
from smcpn.codegen.loops import MOST_ATTEMPTS
from smcpn.errors import InputError, shown
from smcpn.likelihood.lanes import Grid, output_chunks
from smcpn.likelihood.rosenbrock import Trajectory
from smcpn.model.graphs import Model
from smcpn.model.ode import ODE
from smcpn.model.record import Record, inputs_at
from smcpn.model.solver import Rosenbrock
from smcpn.pn.solution import Stats
from smcpn.results.simulation.simulate import known_model

Array = NDArray[np.float64]

STAGES = 8
"""Evaluations of the equation in a step."""


class StiffRun:
    """The kernel of a model with known parameters, which runs over a record through any times.

    model: Its outputs are the states.
    record: Input, and the first and the last time.
    """

    def __init__(self, model: Model, record: Record, theta: Array) -> None:
        self._model, self._record, self._theta = model, record, theta
        grid = Grid.of([model.prepared(record)])
        self._trajectory = trajectory = Trajectory(model, replace(grid, rescales=True))
        counts = trajectory.clock.accepted, trajectory.clock.rejected
        emitted = ca.vertcat(trajectory.outputs, *counts)
        program = trajectory.program(emitted, Rosenbrock().begun())
        self._kernel = LaneKernel(program, most_lanes=LEAST_LANES)

    @property
    def record(self) -> Record:
        """The record without outputs."""
        return self._record

    def through(self, times: Array, solver: Rosenbrock) -> tuple[Array, Array]:
        """States at increasing times, (T, n), and numbers of steps until then, (T, 2)."""
        record = self._model.prepared(_with_times(self._record, times))
        constants = self._trajectory.constant_values(solver)
        rows = self._trajectory.inputs(record).written(record)
        kernel, theta = self._kernel.with_constants(constants), self._theta[:, None]
        chunks = output_chunks(kernel, theta, rows, self._model.outputs.numel() + 2)
        found = np.concatenate([part[:, :, 0] for _, _, part in chunks])
        found = found[np.searchsorted(record.t, times)]
        return found[:, :-2], found[:, -2:]


def _with_times(record: Record, times: Array) -> Record:
    """The record with samples at these times, too."""
    t = np.union1d(record.t, times)
    if len(t) == len(record):
        return record
    if record.n_inputs and (record.periodic or record.hold == "bandlimited"):
        between = np.setdiff1d(times, record.t)[0]
        raise InputError(
            f"t = {between:g} is between samples, where the input of {record.name} is band-limited "
            "or periodic: give times of its samples, or a record with hold 'foh'",
            argument="at",
        )
    y = np.full((len(t), record.n_outputs), np.nan)
    return replace(record, t=t, dt=None, u=inputs_at(record, t), y=y, cut=None)


@checked
@dataclass(frozen=True, eq=False, repr=False)
class NumericalSolution:
    """Solution of an ODE with known parameters by `smcpn.Rosenbrock`, which claims no error.

    Attributes
    ----------
    ode : ODE
    solver : Rosenbrock
    t : ndarray, (T,)
        The requested times, as far as reached.
    mean : ndarray, (T, n)
        States there.
    success : bool
    message : str
        Why the solver ended where it did.
    stats : Stats
    run : StiffRun
        What solves it again, through any times.
    """

    ode: ODE
    solver: Rosenbrock
    t: Array
    mean: Array
    success: bool
    message: str
    stats: Stats
    run: StiffRun

    def __repr__(self) -> str:
        end = "" if self.success else f", failed: {self.message}"
        return (
            f"<NumericalSolution of '{self.ode.name}' by {self.solver!r}: "
            f"{self.stats.accepted} steps{end}>"
        )

    @cached_property
    def error(self) -> Array:
        """Change of `mean` where the tolerance is that of half the steps' length, (T, n).

        It is about the error that there is: zero at the least tolerance, where none is finer, and
        NaN where rounding lets the finer one not come to its end.
        """
        finer = self.solver.refined() or self.solver
        return self.run.through(self.t, finer)[0] - self.mean

    def __call__(self, t: Numbers) -> Array:
        """States at any times, (T, n); (n,) at a single one.

        The equation is solved again, by steps that end there.

        Raises
        ------
        InputError
            Outside the times that were solved for, and between the samples of an input that is
            band-limited.
        """
        times = np.array(t, dtype=float, ndmin=1)
        begin, end = self.run.record.t[0], self.t[-1] if len(self.t) else -np.inf
        if times.ndim != 1 or not ((times >= begin) & (times <= end)).all():
            raise InputError(f"t is {shown(t)}: give times from {begin:g} to {end:g}", argument="t")
        different, place = np.unique(times, return_inverse=True)
        states = self.run.through(different, self.solver)[0][place]
        return states[0] if np.ndim(t) == 0 else states


def stiff_solution(
    ode: ODE,
    record: Record,
    times: Array,
    parameters: Mapping[str, Any],
    initial: Any,
    solver: Rosenbrock,
) -> NumericalSolution:
    """Solve an ODE by Rosenbrock steps; arguments as of `smcpn.solve`, and the times asked for."""
    states, record = list(ode.states), record.unmeasured(len(ode.states))
    # What accumulates does so from the first time on, as with every other solver.
    whole = replace(ode, accumulators=())
    model, theta = known_model(whole, parameters, states, initial, None, None, record)
    run = StiffRun(model, record, theta)
    found, counts = run.through(times, solver)
    reached = int(np.isfinite(found).all(axis=1).cumprod().sum())
    success, message = reached == len(times), "the end was reached"
    if not success:
        where = (
            f"between t = {times[reached - 1]:g} and {times[reached]:g}"
            if reached
            else "at the first time"
        )
        reasons = ["it has a pole", f"takes more than {MOST_ATTEMPTS} steps between two times"]
        reasons += ["its algebraic equations have none there"] * bool(model.algebraic)
        message = f"the solution is lost {where}: {', or '.join(reasons)}"
    accepted, rejected = (int(n) for n in (counts[reached - 1] if reached else (0, 0)))
    stats = Stats(accepted, rejected, STAGES * (accepted + rejected), accepted + rejected)
    return NumericalSolution(
        ode, solver, times[:reached], found[:reached], success, message, stats, run
    )
