"""The classical likelihood of a model with events: Runge-Kutta steps from one event to the next.

Between samples a particle takes the steps that it would take without events, h = L / n of n in an
interval of length L. An event ends a step (`state_events`, with the same search and jump as of
`rosenbrock`), and what is left of the interval is divided evenly again, into steps that are not
longer.
"""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
from typing_extensions import override

from smcpn.codegen.memory import STRAIGHT, StraightLine
from smcpn.likelihood.classical import PLACES, Step
from smcpn.likelihood.inputs import KernelInputs
from smcpn.likelihood.lanes import Grid
from smcpn.likelihood.rosenbrock import OwnSteps, Trajectory
from smcpn.likelihood.state_events import Watch
from smcpn.model.problem import Model
from smcpn.model.record import Record
from smcpn.solver import Solver

EVEN = 1e-6
"""Part of a step by which rounding may lengthen one of several even ones."""


class ExplicitTrajectory(Trajectory):
    """Graphs of a solution by the steps of an explicit method, as many in every interval.

    Attributes
    ----------
    explicit : Step
        The step that is tried; once a sample is reached, one that would follow.
    """

    def __init__(self, model: Model, grid: Grid, kind: type[Step]) -> None:
        super().__init__(model, grid)
        model = self.model
        self.tolerance = ca.SX(0, 1)
        clock, between, steps, interval = self.clock, self._between, *map(ca.SX.sym, ("n", "of"))
        kept = ca.vertcat(steps, interval)
        self._watch = Watch(model, clock, between, self._dead_times, kept)
        longest = ca.if_else(interval > 0.0, interval, between.length) / steps
        number = ca.fmax(ca.ceil(clock.left / longest - EVEN), 1.0)
        self._h = self._watch.step(ca.fmin(clock.wanted, clock.left / number))
        h = ca.if_else(clock.left > 0.0, self._h, longest)
        n, without_events = model.u.numel(), replace(model, events=None)
        driven = (between.at(clock.left - part * h) for part in PLACES)
        begin, middle, end = (ca.vertsplit(one, [0, n, n + 1])[0] for one in driven)
        self.explicit = kind(without_events, h, between.end - clock.left, (begin, middle, end))

    @override
    def constant_values(self, solver: Solver) -> tuple[float, ...]:
        return self.model.constant_values

    @override
    def step(self) -> tuple[StraightLine, ca.SX]:
        assert self._watch is not None
        following, order = self.explicit.following, self.explicit.error_order
        sizes = ca.fmax(self.clock.sizes, ca.fabs(following))
        return STRAIGHT, self._watch.after(self._h, ca.SX(0.0), following, sizes, order)


class ClassicalWithEvents(OwnSteps, with_events=True):
    """Explicit steps between events from the initial state; the density of the noise at samples."""

    @override
    def along(self, model: Model, solver: Solver, grid: Grid) -> Trajectory:
        found = ExplicitTrajectory(model, grid, solver.step)
        self._step, self.local_order = found.explicit, found.explicit.error_order
        return found

    @override
    def local_error(self) -> ca.SX:
        return self._step.local_error()

    @override
    def inputs(
        self, record: Record, steps: int, number: int = 0, interval: float | None = None
    ) -> KernelInputs:
        # Every part of an interval takes as many steps.
        numbers = steps, (interval or 0.0) / self.signal.parts
        return self.trajectory.inputs(record, number, numbers)
