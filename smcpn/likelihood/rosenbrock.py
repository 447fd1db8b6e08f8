"""The likelihood without numerical uncertainty of stiff problems: Rosenbrock steps, each adaptive.

A Rosenbrock method solves one linear system a stage, all with the matrix of the step,

    (I / (h gamma) - J) k_i = f(x_i, t + alpha_i h) + sum_{j<i} c_ij k_j / h + d_i h df/dt,
    x_i = x + sum_{j<i} a_ij k_j,

with J = df/dx and df/dt at its beginning, the latter by the input too (Hairer and Wanner 1996,
section IV.7, in the variables that save products with J). Of algebraic variables the rows of I and
of the second sum are zero, and f is the residual of their equations (section VI.4); their values
are made consistent at every sample, for which the input may jump. The error of a step is that of
the differential states, of which they are functions. The method is stiffly accurate: the last
stage is the error of an embedded solution, x_s, of which x_s + k_s is the solution. The density of
a sample is that of `classical`.

A matrix that cannot be factorised, or a stage that is not finite, makes an error that is not a
number, and so a shorter step.

A model with events is integrated alike by explicit steps from one event to the next
(`ClassicalWithEvents`): those that a particle would take without events, h = L / n of n in an
interval of length L. An event ends a step, and what is left of the interval is divided evenly
again, into steps that are not longer.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, cast

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.codegen.lower import LaneProgram
from smcpn.codegen.memory import STRAIGHT, Memory, Place, Row, StraightLine
from smcpn.codegen.tangent import jacobian
from smcpn.likelihood.accumulating import SetBack
from smcpn.likelihood.algebraic import AlgebraicEquations
from smcpn.likelihood.classical import PLACES, Classical, Step, outputs_at
from smcpn.likelihood.coloured import NoiseFilter
from smcpn.likelihood.delayed import DeadTimes
from smcpn.likelihood.inputs import KernelInputs
from smcpn.likelihood.lanes import Grid, SampleSymbols, StartSymbols
from smcpn.likelihood.own_steps import (
    AT_REST,
    Clock,
    IntervalSymbols,
    interval_signal,
    own_step_inputs,
)
from smcpn.likelihood.registry import ExpectedOutputs
from smcpn.likelihood.sparse_lu import SparseLU
from smcpn.likelihood.state_events import Watch
from smcpn.model.problem import Model, Problem
from smcpn.model.record import Record
from smcpn.model.solver import Rosenbrock, Solver

Array = NDArray[np.float64]

SMALL = 1e-4
"""Share of the largest value of a state below which its error is measured by this share.

Small states steer others: one of the Oregonator falls to a hundred thousandth before it jumps."""
BEGINNING = 1e-3
"""Share of a sampling interval that the first step of a state may take which has been at rest."""
MOST_STATES = 24
"""Up to which the stages of a step are one graph."""
ROUNDED = 1e-14
"""Share of an entry of the diagonal below which what elimination leaves of it is rounding."""
EVEN = 1e-6
"""Part of a step by which rounding may lengthen one of several even ones."""


@dataclass(frozen=True)
class Tableau:
    """Coefficients of a stiffly accurate Rosenbrock method of s stages.

    a, c: Rows of the stages from the second on.
    alpha, d: (s,), times of the stages, and factors of the time derivative.
    """

    gamma: float
    a: tuple[tuple[float, ...], ...]
    c: tuple[tuple[float, ...], ...]
    alpha: tuple[float, ...]
    d: tuple[float, ...]

    def stages(self, step: Any) -> tuple[Any, Any]:
        """Return the solution at the end of a step, and its difference to the embedded one.

        step: object, with ``x`` at the beginning, and ``stage(state, alpha, d, sum)``, the solution
            of the linear system of a stage, with sum_{j<i} c_ij k_j.
        """
        x, k = step.x, [step.stage(step.x, self.alpha[0], self.d[0], 0.0 * step.x)]
        for i, (a, c) in enumerate(zip(self.a, self.c, strict=True), start=1):
            following = i > 1 and a == (*self.a[i - 2], 1.0)
            x = x + k[-1] if following else step.x + _combined(a, k)
            k.append(step.stage(x, self.alpha[i], self.d[i], _combined(c, k)))
        return x + k[-1], k[-1]


def _combined(factors: tuple[float, ...], stages: list[Any]) -> Any:
    parts = [factor * stage for factor, stage in zip(factors, stages, strict=True) if factor]
    return sum(parts[1:], parts[0])


RODAS5P = Tableau(
    gamma=0.21193756319429014,
    a=(
        (3.0,),
        (2.849394379747939, 0.45842242204463923),
        (-6.954028509809101, 2.489845061869568, -10.358996098473584),
        (2.8029986275628964, 0.5072464736228206, -0.3988312541770524, -0.04721187230404641),
        (-7.502846399306121, 2.561846144803919, -11.627539656261098, -0.18268767659942256,
         0.030198172008377946),
        (-7.502846399306121, 2.561846144803919, -11.627539656261098, -0.18268767659942256,
         0.030198172008377946, 1.0),
        (-7.502846399306121, 2.561846144803919, -11.627539656261098, -0.18268767659942256,
         0.030198172008377946, 1.0, 1.0),
    ),
    c=(
        (-14.155112264123755,),
        (-17.97296035885952, -2.859693295451294),
        (147.12150275711716, -1.41221402718213, 71.68940251302358),
        (165.43517024871676, -0.4592823456491126, 42.90938336958603, -5.961986721573306),
        (24.854864614690072, -3.0009227002832186, 47.4931110020768, 5.5814197821558125,
         -0.6610691825249471),
        (30.91273214028599, -3.1208243349937974, 77.79954646070892, 34.28646028294783,
         -19.097331116725623, -28.087943162872662),
        (37.80277123390563, -3.2571969029072276, 112.26918849496327, 66.9347231244047,
         -40.06618937091002, -54.66780262877968, -9.48861652309627),
    ),
    alpha=(0.0, 0.6358126895828704, 0.4095798393397535, 0.9769306725060716, 0.4288403609558664,
           1.0, 1.0, 1.0),
    d=(0.21193756319429014, -0.42387512638858027, -0.3384627126235924, 1.8046452872882734,
       2.325825639765069, 0.0, 0.0, 0.0),
)  # fmt: skip
"""Rodas5P of Steinebach (2023), of order 5 with an embedded solution of order 4."""


class RosenbrockStep:
    """Graphs of the linear systems of a step from ``model.x``, see `Tableau.stages`.

    h, left: Length of the step, and of the time that is left until the sample at its beginning.
    algebra: Or `Memory`, in which what all stages read is kept.
    """

    def __init__(
        self,
        model: Model,
        tableau: Tableau,
        between: IntervalSymbols,
        h: ca.SX,
        left: ca.SX,
        algebra: StraightLine = STRAIGHT,
    ) -> None:
        self.x, self._model, self._between, self._left = model.x, model, between, left
        self._h, n = h, model.x.numel()
        driven = ca.vertcat(model.u, model.t)
        forced = jacobian(model.rhs, driven)
        self._moved = None
        if forced.nnz():
            along = ca.densify(ca.mtimes(forced, between.rates(left)))
            moved = ca.vertsplit(ca.densify(h * self._at(along, model.x, left)))
            self._moved = ca.vertcat(*algebra.bound(moved))
        slopes = self._at(jacobian(model.rhs, model.x), model.x, left)
        diagonal = 1.0 / (h * tableau.gamma)
        matrix = diagonal * ca.diag(model.mass) - slopes
        factors = SparseLU(matrix)
        self._factors = factors.bound(algebra)
        sizes = {k: diagonal * model.mass[k] + ca.fabs(slopes[k, k]) for k in range(n)}
        regular = [ca.fabs(pivot) > ROUNDED * sizes[k] for k, pivot in factors.pivots.items()]
        self.regular = regular[0]
        for one in regular[1:]:
            self.regular = ca.logic_and(self.regular, one)
        (self.regular,) = algebra.bound([self.regular])

    def stage(self, x: ca.SX, alpha: Any, d: Any, combined: ca.SX) -> ca.SX:
        """Solution of the system of a stage."""
        right = self._at(self._model.rhs, x, self._left - alpha * self._h)
        right += self._model.mass * combined / self._h
        if self._moved is not None:
            right += d * self._moved
        return self._factors.solve(right)

    def _at(self, graph: ca.SX, x: ca.SX, left: ca.SX) -> ca.SX:
        model = self._model
        symbols = ca.vertcat(model.x, model.u, model.t)
        return ca.substitute(graph, symbols, ca.vertcat(x, self._between.at(left)))


@dataclass(frozen=True)
class Combination:
    """Linear combination of rows in memory."""

    factors: dict[Place, float]

    def __add__(self, other: Combination) -> Combination:
        joined = {**self.factors, **other.factors}
        for place in self.factors.keys() & other.factors.keys():
            joined[place] = self.factors[place] + other.factors[place]
        return Combination(joined)

    def __radd__(self, other: int) -> Combination:
        return self

    def __rmul__(self, factor: float) -> Combination:
        return Combination({place: factor * own for place, own in self.factors.items()})


class LoopedStages:
    """The stages of a step as one function that runs over memory, see `Tableau.stages`.

    The code of all stages of many states would take LLVM longer than anything else.
    """

    def __init__(self, step: RosenbrockStep, tableau: Tableau, algebra: Memory) -> None:
        self._algebra = algebra
        symbols = [
            ca.SX.sym("x", step.x.numel()),
            ca.SX.sym("c", step.x.numel()),
            ca.SX.sym("s", 2),
        ]
        x, combined, place = symbols
        made = step.stage(x, place[0], place[1], combined)
        bound, kept = algebra.between(ca.symvar(made))
        own = {one.element_hash() for s in symbols for one in ca.vertsplit(s)}
        own |= {one.element_hash() for one in kept}
        given = [one for one in ca.symvar(made) if one.element_hash() not in own]
        function = ca.Function("stage", [*symbols, ca.vertcat(*kept), ca.vertcat(*given)], [made])
        self._stage = lambda *rows: ca.vertsplit(function(*(ca.vertcat(*row) for row in rows)))
        self._given = bound, algebra.keep([given])[0]
        self.x = Combination({algebra.keep([ca.vertsplit(step.x)])[0]: 1.0})
        places = list(zip(tableau.alpha, tableau.d, strict=True))
        kept = algebra.keep([list(place) for place in places])
        self._places = dict(zip(places, kept, strict=True))

    def stage(self, x: Combination, alpha: float, d: float, combined: Combination) -> Combination:
        """Solution of the system of a stage."""
        place = self._places[alpha, d]
        made = self._algebra.made(self._stage, *self._rows(x, combined), place, *self._given)
        return Combination({made: 1.0})

    def values(self, combination: Combination) -> ca.SX:
        """Column of a combination."""
        return ca.vertcat(*self._algebra.values(self._rows(combination)[0]))

    def _rows(self, *combinations: Combination) -> list[Place]:
        """Rows of combinations, in memory."""
        places = list(dict.fromkeys(place for one in combinations for place in one.factors))

        def combined(*numbers: Row) -> Row:
            pairs = list(zip(places, numbers, strict=True))
            return [
                sum((one.factors.get(place, 0.0) * own[0] for place, own in pairs), ca.SX(0.0))
                for one in combinations
            ]

        return self._algebra.each(combined, *places)


class Trajectory:
    """Graphs of a solution by adaptive Rosenbrock steps.

    model: As it is integrated.
    state: (n, 1), at a sample, its algebraic variables consistent with the input there.
    outputs: (q, 1), noise-free, at a sample; not a number where the steps were too many.
    """

    def __init__(self, model: Model, grid: Grid) -> None:
        self._dead_times, self._given = DeadTimes(model, grid), model
        self.model = model = self._dead_times.model
        self.sample, self.clock = (
            SampleSymbols.of(model, self._dead_times.at_sample),
            Clock.of(model),
        )
        self.signal = interval_signal(self._dead_times, grid)
        self._between, self.tolerance = IntervalSymbols.of(model), ca.SX.sym("tolerance")
        at_sample = ca.vertcat(self.sample.input, self.sample.t)
        self.state = self._consistent(self._given, model.x, at_sample)
        self._watch = model.events and Watch(model, self.clock, self._between, self._dead_times)
        # Where steps are still left to take, they were too many.
        known = ca.if_else(self.clock.left > 0.0, ca.SX(np.nan), 0.0)
        self.outputs = outputs_at(model, self.state, self.sample) + known

    def _consistent(self, model: Model, x: ca.SX, driven: ca.SX) -> ca.SX:
        """State whose algebraic variables solve the equations of a model under inputs and time."""
        return AlgebraicEquations(model).solved(x, driven) if model.algebraic else x

    def constant_values(self, solver: Solver) -> tuple[float, ...]:
        """Values of the constants of a program."""
        return (*self.model.constant_values, float(cast(Rosenbrock, solver).tolerance))

    def program(self, emitted: ca.SX, solver: Solver) -> LaneProgram:
        """Steps from the initial state that emit ``emitted`` at each sample."""
        model, clock, length, signal = self.model, self.clock, self._between.length, self.signal
        start, (algebra, step) = StartSymbols.of(model, []), self.step()
        driven = ca.vertcat(model.u, model.t)
        first_driven = ca.vertcat(self._dead_times.at_sample(model.u), model.t)
        initial = self._consistent(self._given, start.initial(model), first_driven)
        # One that took more steps than it may would try as many in every interval.
        begin = self._consistent(model, model.x, driven)
        held = ca.if_else(clock.left > 0.0, ca.SX(np.nan), begin)
        sizes, begun_sizes = self._between.sizes(model, initial, begin, clock.sizes)
        first = Clock.values(ca.SX(0.0), length, length, sizes, 0.0, 0.0)
        watched = begun = watching = kept = ca.SX(0, 1)
        if (watch := self._watch) is not None:
            watched, begun = watch.symbols, watch.begun
            watching = watch.started(self._given, initial, first_driven)
            kept = watch.kept
        control = clock.symbols.numel() + watched.numel()
        program = LaneProgram(
            theta=model.theta,
            constants=ca.vertcat(model.constants, self.tolerance),
            constant_values=self.constant_values(solver),
            state=ca.vertcat(clock.symbols, watched, model.x),
            start_row=ca.vertcat(start.row, length, kept),
            interval_row=ca.vertcat(self._between.begin_row, driven),
            step_row=self._between.row,
            sample_row=self.sample.row,
            start=ca.vertcat(first, watching, initial),
            interval=ca.vertcat(replace(clock, sizes=begun_sizes).begun(length), begun, held),
            step=step,
            emitted=emitted,
            shared=signal.graphs(
                step=self._between.graph(signal),
                interval=ca.vertcat(
                    self._between.begin_graph(signal), signal.begin, signal.begin_time
                ),
                sample=signal.sample(),
            ),
            left=0,
            control=tuple(range(control)),
            memory=algebra.memory,
            sections=algebra.sections(),
        )
        set_back = SetBack.of(model)
        program = set_back.join(program, signal, model.x, set_back.share)
        return self._dead_times.join(program, signal)

    def inputs(self, record: Record, number: int = 0, kept: tuple[float, ...] = ()) -> KernelInputs:
        """Inputs for a record, which starts from the ``number``-th initial state.

        ``kept`` are numbers by which steps are chosen, see `Watch.kept`.
        """
        return own_step_inputs(self.signal, self._dead_times, 0, record, number, kept)

    def step(self) -> tuple[StraightLine, ca.SX]:
        """State after a step that is accepted, rejected, or not taken any more."""
        model, clock = self.model, self.clock
        h = clock.step if self._watch is None else self._watch.step(clock.step)
        algebra = Memory() if model.x.numel() > MOST_STATES else STRAIGHT
        step = RosenbrockStep(model, RODAS5P, self._between, h, clock.left, algebra)
        if isinstance(algebra, Memory):
            looped = LoopedStages(step, RODAS5P, algebra)
            following, difference = map(looped.values, RODAS5P.stages(looped))
        else:
            following, difference = RODAS5P.stages(step)
        sizes = ca.fmax(clock.sizes, ca.fabs(following))
        around = ca.fmax(ca.fabs(model.x), ca.fabs(following))
        relative = difference / ca.fmax(ca.fmax(around, SMALL * sizes), AT_REST)
        # One that moves against foresight has no size yet: what it begins with is to be small.
        unsized = ca.logic_and(clock.sizes == 0.0, h < BEGINNING * self._between.length)
        relative = ca.if_else(unsized, 0.0, relative)
        own, finite = model.differential, step.regular
        error = ca.sqrt(ca.sumsqr(relative[own]) / len(own)) / self.tolerance
        for place in model.algebraic:
            finite = ca.logic_and(finite, ca.fabs(following[place]) < np.inf)
        error, order = ca.if_else(finite, error, np.inf), Rosenbrock().error_order
        if self._watch is not None:
            return algebra, self._watch.after(h, error, following, sizes, order)
        judged = clock.judged(h, error, sizes, order)
        return algebra, ca.vertcat(judged.clock, judged.state(following, model.x))


class OwnSteps(Classical):
    """Steps of every particle's own from the initial state; the density of the noise at samples."""

    trajectory: Trajectory

    def __init__(self, problem: Problem, solver: Solver, grid: Grid) -> None:
        self._solver = solver
        self.trajectory = trajectory = self.along(problem.model, solver, grid)
        self.model = trajectory.model
        self.signal, self.sample = trajectory.signal, trajectory.sample
        self.outputs = trajectory.outputs
        self.noise = NoiseFilter.of(self.model)

    @abstractmethod
    def along(self, model: Model, solver: Solver, grid: Grid) -> Trajectory:
        """Graphs of the solution."""

    @override
    def constant_values(self, solver: Solver) -> tuple[float, ...]:
        return self.trajectory.constant_values(solver)

    @override
    def program(self, emitted: ca.SX) -> LaneProgram:
        return self.with_noise(self.trajectory.program(emitted, self._solver))

    @override
    def expected(self) -> ExpectedOutputs:
        """Outputs and states of the solver, without a covariance."""
        return replace(super().expected(), states=self.trajectory.state)


class StiffTrajectory(OwnSteps):
    """Rosenbrock steps from the initial state; the density of the noise at each sample."""

    name = "rosenbrock"
    divides = False
    gaussian = True
    takes_parts = Classical.takes_parts
    solves_algebraic = True
    local_order = Rosenbrock().error_order

    @override
    def along(self, model: Model, solver: Solver, grid: Grid) -> Trajectory:
        return Trajectory(model, grid)

    @classmethod
    def goes_with(cls, solver: type[Solver] | Solver) -> bool:
        """Solvers that choose their steps by themselves and claim no error."""
        return solver.adaptive and not solver.probabilistic

    @classmethod
    @override
    def counterpart(cls, problem: Problem, solver: Solver) -> Solver:
        """Solver to compare with, whose steps are its own."""
        return Rosenbrock().begun()

    @override
    def local_error(self) -> ca.SX:
        """Local error that the step control allows every step."""
        return self.trajectory.tolerance * self.trajectory.clock.sizes

    @override
    def inputs(
        self, record: Record, steps: int, number: int = 0, interval: float | None = None
    ) -> KernelInputs:
        return self.trajectory.inputs(record, number)


class ExplicitTrajectory(Trajectory):
    """Graphs of a solution by the steps of an explicit method, as many in every interval.

    explicit: The step that is tried; once a sample is reached, one that would follow.
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
