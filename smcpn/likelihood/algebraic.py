"""Consistent values of algebraic variables, and the model of the other states alone.

Of 0 = g(x, z, u, t) a step of Newton's iteration is z <- z - s (dg/dz)^-1 g. The whole one, s = 1,
is taken where it leaves a third of the distance by the same matrix (the natural level of Deuflhard
2004, Newton Methods for Nonlinear Problems, section 3.3), so that neither units of equations nor of
variables matter; else that share s, of some, which leaves the least. The iteration is a loop, one
operation of graphs (`smcpn.model.implicit_function`): z is a function of x, u, t and parameters,
with the derivatives of the implicit function.

By it a model is one of the states that have a derivative, for every recursion that solves no
equations. No rate of an input is needed, as z' = -(dg/dz)^-1 (dg/dx x' + dg/du u' + dg/dt) would
need it, nothing drifts, and process noise moves the states alone: along with them z would have
noise that depends on the state, and a drift by its curvature. Equations that are linear in z are
solved without a loop. `Recursion.made` (`registry`) hands that model to every recursion but those
with `solves_algebraic`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.arrays import ArrayFunction
from smcpn.codegen.tangent import jacobian
from smcpn.errors import InputError, listed
from smcpn.likelihood.sparse_lu import SparseLU
from smcpn.model.expression import ExpressionTable
from smcpn.model.graphs import Model
from smcpn.model.implicit_function import ImplicitFunction
from smcpn.model.initial import FirstSample
from smcpn.model.problem import Problem

Array = NDArray[np.float64]

SHARES = (2.0**-12, 2.0**-8, 2.0**-5, 2.0**-3, 0.5, 1.0)
"""Of a step that may lead far: the voltage of a diode follows a jump of a hundred volts by the
smallest, where it conducts."""
LONGER = (8.0, 64.0)
"""Shares beyond the whole step, for a current that follows an exponential: each of Newton's steps
takes it by one thermal voltage only."""
SLOW = 0.35
"""Part of the distance that a whole step leaves, from which longer ones are tried: an exponential
leaves 1 / e, a power p of two or more (1 - 1 / p)^p. Of a power a longer step might end at
another root."""


FROM_START, AFTER_JUMP = 24, 16
"""Steps that are written out, from values that are given and from those before the input jumped."""
SETTLED = 1e-10
"""Relative distance to the solution from which one step leaves rounding only."""
ROUNDED = 1e-15
LARGE = float(np.finfo(float).max)
SOLVED = 1e-9
"""An equation g = 0 counts as solved where |g| is this part of the sum of |dg/da| |a| over its
arguments and numbers a, and as solved to rounding by that of `ROUNDED`."""


class AlgebraicEquations:
    """Graphs of the algebraic equations of a model."""

    def __init__(self, model: Model) -> None:
        self._places, self._model = list(model.algebraic), model
        self._symbols = ca.vertcat(model.x, model.u, model.t)
        self._residual = model.rhs[self._places]
        self._slopes = jacobian(self._residual, model.x[self._places])
        self._parts = _sizes(self._residual)

    def _at(self, graph: ca.SX, x: ca.SX, driven: ca.SX) -> ca.SX:
        return ca.substitute(graph, self._symbols, ca.vertcat(x, driven))

    def solved(self, x: ca.SX, driven: ca.SX) -> ca.SX:
        """State with consistent values of the algebraic variables; NaN where there are none.

        x: (n, 1), state, from whose algebraic variables the iteration begins.
        driven: Inputs and time.
        """
        return self._at(self.state, x, driven)

    def unrolled(self, x: ca.SX, driven: ca.SX, steps: int) -> ca.SX:
        """State as of `solved`, by so many steps and a whole one, in a graph without a loop."""
        x = ca.SX(ca.densify(x))
        for _ in range(steps):
            x[self._places] = self._moved(x, driven, SHARES)
        x[self._places] = self._moved(x, driven, (1.0,))
        left, parts = (self._at(one, x, driven) for one in (self._residual, self._parts))
        fails = ca.sum1(ca.logic_not(ca.fabs(left) <= SOLVED * parts))
        x[self._places] = ca.if_else(fails, np.nan, x[self._places])
        return x

    @cached_property
    def state(self) -> ca.SX:
        """State of the model whose algebraic variables solve their equations."""
        x, places, z = ca.SX(self._model.x), self._places, self._model.x[self._places]
        if not ca.depends_on(self._slopes, z):
            at_zero = ca.substitute(self._residual, z, ca.SX.zeros(*z.shape))
            x[places] = -SparseLU(self._slopes).solve(at_zero)
            return x
        known = {one.element_hash() for one in ca.vertsplit(z)}
        free = [one for one in ca.symvar(self._residual) if one.element_hash() not in known]
        point = ca.vertcat(*free)
        x[places] = self._implicit(z, point).solution(ca.vertcat(z, point))
        return x

    def _implicit(self, z: ca.SX, point: ca.SX) -> ImplicitFunction:
        """The algebraic variables as a function of all symbols that their equations read."""
        search = self._moved(self._model.x, self._symbols[self._model.x.numel() :], SHARES)
        along = ca.SX.sym("along", point.numel(), 1)
        forced = jacobian(self._residual, point) @ along
        moved = -SparseLU(self._slopes).solve(ca.densify(forced))
        return ImplicitFunction(
            ca.Function("iteration", [z, point], [ca.densify(self._iteration)]),
            ca.Function("search", [z, point], [ca.densify(search)]),
            ca.Function("moved", [z, point, along], [ca.densify(moved)]),
        )

    @property
    def _iteration(self) -> ca.SX:
        """A whole step and one more by its matrix, and what `ImplicitFunction` says of it.

        What is left of the distance after the first tells whether it was a good one.
        """
        x, driven = ca.SX(self._model.x), self._symbols[self._model.x.numel() :]
        z, factors = x[self._places], SparseLU(self._slopes)
        step = -factors.solve(self._residual)
        size = ca.fmax(ca.fmax(ca.fabs(z), ca.fabs(step)), np.finfo(float).tiny)
        x[self._places] = z + step
        left, parts = (self._at(one, x, driven) for one in (self._residual, self._parts))
        further = -factors.solve(left)
        level, whole = ca.sumsqr(further / size), ca.sumsqr(step / size)
        exact, solved = (
            ca.logic_not(ca.sum1(ca.logic_not(ca.fabs(left) <= ca.fmin(share * parts, LARGE))))
            for share in (ROUNDED, SOLVED)
        )
        settled = ca.logic_or(exact, ca.logic_and(solved, level <= SETTLED**2))
        good = ca.logic_or(settled, level <= SLOW**2 * whole)
        return ca.vertcat(z + step + further, good, settled, solved)

    def begun(self, x: ca.SX, driven: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Residuals at a state, and the determinant of dg/dz there."""
        slopes = self._at(self._slopes, x, driven)
        return self._at(self._residual, x, driven), ca.det(slopes)

    def slopes(self, rates: ca.SX) -> ca.SX:
        """Derivatives of all states in time, z' = -(dg/dz)^-1 (dg/dx x' + dg/d(u, t) (u, t)').

        rates: Derivatives of inputs and time.
        """
        slopes = ca.densify(self._model.mass * self._model.rhs)
        forced = jacobian(self._residual, self._symbols) @ ca.vertcat(slopes, rates)
        slopes[self._places] = -SparseLU(self._slopes).solve(ca.densify(forced))
        return slopes

    def _moved(self, x: ca.SX, driven: ca.SX, shares: tuple[float, ...]) -> ca.SX:
        """Algebraic variables after a step of Newton's iteration."""
        z = x[self._places]
        factors = SparseLU(self._at(self._slopes, x, driven))
        step = -factors.solve(self._at(self._residual, x, driven))
        if len(shares) == 1:
            return z + shares[0] * step
        size = ca.fmax(ca.fmax(ca.fabs(z), ca.fabs(step)), np.finfo(float).tiny)
        best, least, slow = z + shares[0] * step, ca.SX(np.inf), ca.SX(0.0)
        for share in (*shares, *LONGER):
            trial = ca.SX(x)
            trial[self._places] = z + share * step
            level = ca.sumsqr(factors.solve(self._at(self._residual, trial, driven)) / size)
            shorter = level < least
            if share == 1.0:
                slow = level > SLOW**2 * ca.sumsqr(step / size)
            elif share > 1.0:
                shorter = ca.logic_and(slow, shorter)
            best = ca.if_else(shorter, trial[self._places], best)
            least = ca.if_else(shorter, level, least)
        return best


def _sizes(residual: ca.SX) -> ca.SX:
    """Sum of |dg/da| |a| over the arguments and numbers a of each residual g.

    Numbers count: what log(1 + z) is rounded to does not vanish with z.
    """
    arguments = ca.vertcat(*ca.symvar(residual))
    function = ca.Function("residual", [arguments], [ca.densify(residual)])
    table, numbers = ExpressionTable.of(function).with_numbers_free()
    symbols, (graph,) = table.graphs()
    entries = ca.vertcat(*symbols)
    sizes = ca.fabs(jacobian(graph, entries)) @ ca.fabs(entries)
    return ca.densify(ca.substitute(sizes, entries, ca.vertcat(arguments, numbers)))


def explicit_model(model: Model) -> Model:
    """Return the model as differential equations alone, for steps that solve no equations.

    What depends on algebraic variables has the solution of their equations in their place. Their
    own entries among the states stay as they are: the iteration begins there.
    """
    if not model.algebraic:
        return model
    return _at_solution(model, AlgebraicEquations(model).state, model.mass * model.rhs)


def straight_line_model(model: Model, first: FirstSample) -> Model:
    """Return the model as differential equations alone, in graphs without a loop.

    The algebraic variables follow z' = -(dg/dz)^-1 (dg/dx x' + dg/dt), under inputs that are held;
    right-hand side and outputs begin Newton's iteration there.

    first: Inputs and time at which the initial states are consistent.
    """
    if not model.algebraic:
        return model
    equations = AlgebraicEquations(model)
    state = equations.unrolled(model.x, ca.vertcat(model.u, model.t), AFTER_JUMP)
    held = ca.vertcat(ca.SX(model.u.numel(), 1), 1.0)
    begun = [
        equations.unrolled(initial, ca.SX([*first.u, first.t]), FROM_START)
        for initial in model.initial
    ]
    return replace(_at_solution(model, state, equations.slopes(held)), initial=tuple(begun))


def _at_solution(model: Model, state: ca.SX, rates: ca.SX) -> Model:
    """Return the model of rates and all else where its states are those of another graph."""

    def moved(graph: ca.SX) -> ca.SX:
        return ca.substitute(ca.densify(graph), model.x, state)

    events = model.events
    return replace(
        model,
        rhs=moved(rates),
        outputs=moved(model.outputs),
        events=events and replace(events, column=moved(events.column)),
        consistent=state,
        algebraic=(),
    )


def check_consistent(problem: Problem, values: Array) -> None:
    """Refuse a problem whose algebraic variables have no consistent values at any parameters.

    values: (N, d), parameters, drawn from the prior.
    """
    if not problem.model.algebraic:
        return
    model = problem.model.with_numbers()
    equations, places = AlgebraicEquations(model), list(model.algebraic)
    for record, initial in zip(problem.records, model.initial, strict=True):
        first = FirstSample.of(record)
        driven = ca.SX([*first.u, first.t])
        initial = ca.substitute(model.smooth_part(initial), ca.vertcat(model.u, model.t), driven)
        found = ArrayFunction(model.theta, equations.solved(initial, driven)[places])
        if np.logical_and.reduce([*map(np.isfinite, found([*values.T]))]).any():
            continue
        residual, determinant = (
            np.array(one)
            for one in ca.Function(
                "start", [model.theta], [*equations.begun(initial, driven)]
            ).call([ca.DM(values.T)])
        )
        reason = "Newton's iteration does not converge from there"
        if not np.isfinite(residual).all(axis=0).any():
            reason = "they are not finite there"
        elif not (np.isfinite(determinant) & (determinant != 0.0)).any():
            reason = "dg/dz is singular there, or their index is higher than 1"
        names = [problem.ode.states[k] for k in places]
        raise InputError(
            f"{record.name}: the algebraic equations of model '{problem.ode.name}' find no "
            f"{listed(names)} from the initial values at any of {len(values)} draws of the prior: "
            f"{reason}; give initial={{'{names[0]}': ...}} a number near its value",
            argument="initial",
        )
