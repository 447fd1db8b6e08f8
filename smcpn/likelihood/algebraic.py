"""Consistent values of algebraic variables: Newton's iteration on their equations, as graphs.

Of 0 = g(x, z, u, t) a step is z <- z - s (dg/dz)^-1 g, of which the share s is the one, of some,
that leaves the shortest step to go by the same matrix (the natural level of Deuflhard 2004, Newton
Methods for Nonlinear Problems, section 3.3), so that neither units of equations nor of variables
matter. The last step is a whole one: its derivatives are those of the implicit function z(x, u, t).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.tangent import jacobian
from smcpn.errors import InputError, listed
from smcpn.likelihood.sparse_lu import SparseLU
from smcpn.model.expression import ExpressionTable
from smcpn.model.graphs import Model
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


class Newton(NamedTuple):
    """Number of steps beside the last one, and shares of each that are tried, the least first."""

    steps: int
    shares: tuple[float, ...]


FROM_START, AFTER_JUMP, NEARBY = Newton(24, SHARES), Newton(16, SHARES), Newton(3, (1.0,))
"""From values that are given, from those before the input jumped, and along a solution."""
SOLVED = 1e-9
"""An equation g = 0 counts as solved where |g| is this part of the sum of |dg/da| |a| over its
arguments and numbers a."""


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

    def solved(self, x: ca.SX, driven: ca.SX, newton: Newton, detached: bool = False) -> ca.SX:
        """State with consistent values of the algebraic variables; NaN where there are none.

        x: (n, 1), state, from whose algebraic variables the iteration begins.
        driven: Inputs and time.
        detached: Take derivatives of the last step alone, which are those of the solution.
        """
        x = ca.SX(ca.densify(x))
        for _ in range(newton.steps):
            x[self._places] = self._moved(x, driven, newton.shares)
        if detached:
            x[self._places] = _rounded(x[self._places])
        x[self._places] = self._moved(x, driven, (1.0,))
        left, parts = (self._at(one, x, driven) for one in (self._residual, self._parts))
        fails = ca.sum1(ca.logic_not(ca.fabs(left) <= SOLVED * parts))
        x[self._places] = ca.if_else(fails, np.nan, x[self._places])
        return x

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


def _rounded(values: ca.SX) -> ca.SX:
    """Values to thirty bits, which have no derivative."""
    unit = 2.0 ** (ca.floor(ca.log(ca.fabs(values) + np.finfo(float).tiny) / np.log(2.0)) - 30.0)
    return ca.floor(values / unit) * unit


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


def explicit_model(model: Model, first: FirstSample) -> Model:
    """Return the model as differential equations alone, for explicit steps.

    The algebraic variables follow z' = -(dg/dz)^-1 (dg/dx x' + dg/dt), under inputs that are held;
    right-hand side and outputs begin Newton's iteration there.

    first: Inputs and time at which the initial states are consistent.
    """
    if not model.algebraic:
        return model
    equations = AlgebraicEquations(model)
    state = equations.solved(model.x, ca.vertcat(model.u, model.t), AFTER_JUMP, True)
    held = ca.vertcat(ca.SX(model.u.numel(), 1), 1.0)
    graphs = [equations.slopes(held), model.outputs]
    graphs += [] if model.events is None else [model.events.column]
    rates, outputs, *column = ca.substitute(graphs, [model.x], [state])
    events = model.events and replace(model.events, column=column[0])
    begun = [
        equations.solved(initial, ca.SX([*first.u, first.t]), FROM_START)
        for initial in model.initial
    ]
    return replace(
        model, rhs=rates, outputs=outputs, initial=tuple(begun), algebraic=(), events=events
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
        found = equations.solved(initial, driven, FROM_START)[places]
        graphs = [found, *equations.begun(initial, driven)]
        solved, residual, determinant = (
            np.array(one)
            for one in ca.Function("start", [model.theta], graphs).call([ca.DM(values.T)])
        )
        if np.isfinite(solved).all(axis=0).any():
            continue
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
