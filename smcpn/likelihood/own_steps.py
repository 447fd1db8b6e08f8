"""Steps that every particle chooses for itself, by the local error of the one before.

A particle has a `Clock`: the time that is left until the next sample, and the step to try. A step
that is tried is judged by its error; it is taken, or tried again shorter (`pn.step_control`), or
the particle is lost where no step is short enough. Particles of one vector of lanes wait for each
other at every sample.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.tangent import jacobian
from smcpn.likelihood.delayed import DeadTimes
from smcpn.likelihood.inputs import KernelInputs
from smcpn.likelihood.lanes import Grid, LaneLikelihood
from smcpn.likelihood.sparse_lu import SparseLU
from smcpn.model.problem import Model, Problem
from smcpn.model.record import Record
from smcpn.model.signal import Signal
from smcpn.pn import step_control

Array = NDArray[np.float64]

DEGREE = 8
"""Of the polynomial that the input is within a sampling interval."""
AT_REST = 1e-100
"""Size of a state that has been zero all the time."""


@dataclass(frozen=True)
class Clock:
    """Symbols of what chooses the steps of a particle.

    left: Time until the sample that is next.
    h: Step that the coordinates of the state belong to.
    wanted: Step to try next.
    sizes: (n, 1), largest absolute value of each state so far.
    accepted, rejected: Numbers of steps.
    """

    left: ca.SX
    h: ca.SX
    wanted: ca.SX
    sizes: ca.SX
    accepted: ca.SX
    rejected: ca.SX

    @classmethod
    def of(cls, model: Model) -> Clock:
        """Make the symbols."""
        names = ("left", "h", "wanted", "accepted", "rejected")
        sizes = ca.SX.sym("size", model.x.numel(), 1)
        return cls(sizes=sizes, **{name: ca.SX.sym(name) for name in names})

    @property
    def symbols(self) -> ca.SX:
        """All of them, the time that is left first."""
        return self.values(self.left, self.h, self.wanted, self.sizes, self.accepted, self.rejected)

    @staticmethod
    def values(
        left: ca.SX,
        h: ca.SX,
        wanted: ca.SX,
        sizes: ca.SX,
        accepted: ca.SX | float,
        rejected: ca.SX | float,
    ) -> ca.SX:
        """Values in the order of `symbols`."""
        return ca.vertcat(left, h, wanted, sizes, accepted, rejected)

    def begun(self, length: ca.SX) -> ca.SX:
        """Values at the beginning of an interval of this length."""
        return self.values(length, self.h, self.wanted, self.sizes, self.accepted, self.rejected)

    @property
    def step(self) -> ca.SX:
        """The step to try."""
        return step_control.length(self.wanted, self.left)

    @property
    def sized(self) -> slice:
        """Places of the sizes among the symbols."""
        return slice(3, 3 + self.sizes.numel())

    def judged(
        self, h: ca.SX, error: ca.SX, sizes: ca.SX, order: int, cut: ca.SX | None = None
    ) -> Judgement:
        """Judge a step that was tried.

        h: As of `step`.
        error: Local error in units of the tolerance.
        sizes: (n, 1), with the states after the step.
        order: Power of the step with which the error falls.
        cut: Whether it is shorter than its error asks for, though not to end at the sample.
        """
        active, accepted, last = self.left > 0.0, error < 1.0, h == self.left
        pole = ca.logic_not(step_control.moves(self.left, h))
        done = ca.logic_and(active, ca.logic_and(accepted, ca.logic_not(pole)))
        refused = ca.logic_and(active, ca.logic_not(accepted))
        lost = ca.logic_and(active, pole)
        left = ca.if_else(last, 0.0, self.left - h)
        proposed = h * step_control.factor(error, order)
        short = last if cut is None else ca.logic_or(last, cut)
        grown = step_control.wanted_next(proposed, self.wanted, short)
        following = ca.if_else(accepted, grown, proposed)
        values = self.values(
            ca.if_else(lost, 0.0, ca.if_else(done, left, self.left)),
            ca.if_else(done, h, self.h),
            ca.if_else(active, following, self.wanted),
            ca.if_else(done, sizes, self.sizes),
            self.accepted + done,
            self.rejected + refused,
        )
        return Judgement(done, lost, values)


@dataclass(frozen=True)
class Judgement:
    """Verdict on a step that was tried, and the clock after it.

    done, lost: Whether it is taken, and whether the solution has a pole there. Neither, where a
        shorter one is to be tried, or the sample is reached.
    clock: Values of the clock after it.
    """

    done: ca.SX
    lost: ca.SX
    clock: ca.SX

    def state(self, after: ca.SX, before: ca.SX) -> ca.SX:
        """State of a particle after the step, of those by it and before it."""
        return ca.if_else(self.lost, ca.SX(np.nan), ca.if_else(self.done, after, before))


@dataclass(frozen=True)
class IntervalSymbols:
    """Shared values of a sampling interval: its length and end, and the input as a polynomial.

    input: (n_u, DEGREE + 1), coefficients in s, which is -1 at the beginning of the interval and 1
        at its end.
    halves: (n_u + 1, 2), input and time in the middle of the interval and at its end, see
        `Signal.halves`.
    """

    length: ca.SX
    end: ca.SX
    input: ca.SX
    halves: ca.SX

    @classmethod
    def of(cls, model: Model) -> IntervalSymbols:
        """Make the symbols."""
        n = model.u.numel()
        inputs, halves = ca.SX.sym("input", n, DEGREE + 1), ca.SX.sym("halves", n + 1, 2)
        return cls(ca.SX.sym("length"), ca.SX.sym("end"), inputs, halves)

    @property
    def row(self) -> ca.SX:
        """The symbols, of which `graph` has the values."""
        return ca.vertcat(self.length, self.end, ca.vec(self.input))

    @staticmethod
    def graph(signal: Signal) -> ca.SX:
        """Values of `row` by the samples."""
        return ca.vertcat(signal.spacing, signal.end_time, signal.polynomial)

    @property
    def begin_row(self) -> ca.SX:
        """Symbols that the begin of an interval reads, of which `begin_graph` has the values."""
        return ca.vertcat(self.length, ca.vec(self.halves))

    @staticmethod
    def begin_graph(signal: Signal) -> ca.SX:
        """Values of `begin_row` by the samples."""
        return ca.vertcat(signal.spacing, ca.vec(signal.halves))

    def at(self, left: ca.SX) -> ca.SX:
        """Input and time, in the order of the model's symbols, where so much time is left."""
        s, u = self._place(left), self.input[:, DEGREE]
        for power in range(DEGREE - 1, -1, -1):
            u = u * s + self.input[:, power]
        return ca.vertcat(u, self.end - left)

    def rates(self, left: ca.SX) -> ca.SX:
        """Time derivatives of `at`."""
        s, u = self._place(left), DEGREE * self.input[:, DEGREE]
        for power in range(DEGREE - 1, 0, -1):
            u = u * s + power * self.input[:, power]
        return ca.vertcat(u * (2.0 / self.length), 1.0)

    def sizes(
        self, model: Model, initial: ca.SX, begin: ca.SX, known: ca.SX
    ) -> tuple[ca.SX, ca.SX]:
        """Sizes of the states at the first sample, and at the begin of every interval, (n, 1) each.

        A state at rest that grows with a high power of time has no size of its own to be exact to.
        It gets that which it is foreseen to have, whenever something may move it.

        initial, begin: (n, 1), states at the first sample and at the begin of an interval.
        known: (n, 1), largest values that they have had so far.
        """
        at_first = ca.fabs(initial)
        driven = ca.depends_on(model.rhs, ca.vertcat(model.u, model.t))
        if driven or model.events is not None:
            return at_first, self._foreseen(model, begin, known)
        return self._foreseen(model, initial, at_first), known

    def _foreseen(self, model: Model, x: ca.SX, known: ca.SX) -> ca.SX:
        """Sizes, of states that have been zero by two linearly implicit Euler steps.

        Each is as long as the interval, one under the input in its middle and one at its end.
        """
        after, slopes = x, jacobian(model.rhs, model.x)
        symbols = ca.vertcat(model.x, model.u, model.t)
        for driven in ca.horzsplit(self.halves):
            values = ca.vertcat(after, driven)
            rate, slope = ca.substitute([model.rhs, slopes], [symbols], [values])
            after = after + SparseLU(ca.diag(model.mass) / self.length - slope).solve(rate)
        size = ca.fabs(after)
        return ca.if_else(known > 0.0, known, ca.if_else(size < np.inf, size, 0.0))

    def _place(self, left: ca.SX) -> ca.SX:
        return 1.0 - 2.0 * left / self.length


def solver_steps(
    likelihood: LaneLikelihood, problem: Problem, values: Array
) -> tuple[Array, Array]:
    """Steps over all records, and log-likelihood, at values (N, d): (N,) each.

    Where the solution diverges there are inf steps, and the log-likelihood is -inf.
    """
    place = 3 + problem.model.x.numel()
    total, counts, begin = np.zeros(len(values)), np.zeros(len(values)), 0
    for record in problem.records:
        end = begin + len(record)
        with np.errstate(all="ignore"):
            state, increment = likelihood.accumulate(values, None, begin, end)
        total, counts, begin = total + increment, counts + state[place], end
    finite = np.isfinite(total)
    return np.where(finite, counts, np.inf), np.where(finite, total, -np.inf)


def interval_signal(dead_times: DeadTimes, grid: Grid, rates: int = 0) -> Signal:
    """Input over an interval as a polynomial, with so many derivatives at its beginning."""
    return dead_times.signal(grid.smooth, not grid.rescales, degree=DEGREE, rates=rates)


def own_step_inputs(
    signal: Signal,
    dead_times: DeadTimes,
    rates: int,
    record: Record,
    number: int,
    kept: tuple[float, ...] = (),
) -> KernelInputs:
    """Inputs for a record of a program with a `Clock`.

    The start has so many derivatives of the input, the length of the interval, which is the first
    step that is tried, and what is kept; it is that of the ``number``-th initial state.
    """
    return KernelInputs(
        signal,
        record,
        steps=signal.parts,
        start_order=rates,
        start_more=dead_times.start(np.array([record.interval, *kept])),
        number=number,
        n_initial=len(dead_times.model.initial),
    )
