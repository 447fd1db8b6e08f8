"""The equilibrium of a model under constant inputs, as the state at the first sample.

It is where an integration with steps that grow without bound ends, each of which is one Newton step
of the implicit Euler method (pseudo-transient continuation; Kelley and Keyes 1998, SIAM J. Numer.
Anal. 35, 508-523): x <- x + (I / h - J)^-1 f(x), from h = 1 / |J|, 8 times as long in every step.
What a model conserves, such as a total amount, it keeps, and the last steps are Newton's, whose
derivatives are those of the equilibrium.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from smcpn.errors import InputError, nearest, real_number, shown
from smcpn.model.events import refuse_events
from smcpn.model.ode import ODE

STEADY = "steady state"
GROWTH, GROWING, LAST = 8.0, 16, 4
"""Factor from a step to the next, number of steps that grow, and of the last ones."""
MOST_STATES = 10
"""States beyond which straight-line code of so many steps gets too long to compile."""
SETTLED = 1e-8
"""Relative change in the last step, beyond which there is no equilibrium."""


@dataclass(frozen=True)
class SteadyState:
    """Equilibrium of the model under constant inputs, for ``initial`` of `Problem`.

    Parameters
    ----------
    u : mapping of str to float, optional
        Inputs at which it is at rest; those at the first sample of each record by default.
    begin : object
        State from which an integration leads there, as ``initial`` of `Problem`: of several
        equilibria it decides which, and how much there is of what the model conserves.

    Examples
    --------
    >>> initial = SteadyState(u={"heat": 0.0}, begin={"A": "total"})
    """

    u: Mapping[str, float] | None = None
    begin: Any = "rest"

    def __post_init__(self) -> None:
        if self.u is not None and not isinstance(self.u, Mapping):
            raise InputError(
                f"u of SteadyState is {shown(self.u)}: give a dict of input to number, or leave it "
                "out",
                argument="u",
            )

    @classmethod
    def of(cls, given: Any) -> SteadyState | None:
        """Return what ``initial`` of one record asks for; None for anything else."""
        if isinstance(given, cls):
            return given
        return cls() if isinstance(given, str) and given == STEADY else None

    def inputs(self, ode: ODE, first: np.ndarray[Any, np.dtype[np.float64]]) -> list[float]:
        """Inputs at which the model is at rest; ``first`` are those at the first sample.

        Raises
        ------
        InputError
            If ``u`` names no input, or has no number for one.
        """
        if self.u is None:
            return first.tolist()
        for name in self.u:
            if name not in ode.inputs:
                raise InputError(
                    f"u of SteadyState names '{name}', which is no input of model '{ode.name}': "
                    f"{nearest(name, ode.inputs)}",
                    argument="initial",
                )
        given = dict(zip(ode.inputs, first.tolist(), strict=True)) | dict(self.u)
        return [real_number(f"u of SteadyState: '{n}'", given[n]) for n in ode.inputs]


def equilibrium(ode: ODE, begin: ca.SX, u: ca.SX, t: ca.SX, parameters: ca.SX) -> ca.SX:
    """Graph of the equilibrium that a state leads to, (n, 1); NaN where there is none.

    Parameters
    ----------
    begin, u, t, parameters : casadi.SX
        State, inputs, time, and parameters of the ODE.

    Raises
    ------
    InputError
        If there are too many states.
    """
    refuse_events(ode.events, "a steady state", "give the initial states as formulas")
    n = begin.numel()
    if n > MOST_STATES:
        raise InputError(
            f"initial is a steady state of {n} states, more than the {MOST_STATES} that are "
            "compiled: give the states as formulas of the parameters",
            argument="initial",
        )
    x = ca.SX.sym("x", n, 1)
    rate = ode.rhs(x, u, t, parameters)
    known = ca.symvar(ca.vertcat(u, t, parameters))
    step = ca.Function("step", [x, ca.vertcat(*known)], [rate, ca.jacobian(rate, x)])
    mass = ca.SX([float(name not in ode.algebraic) for name in ode.states])
    state, shortest, moved = begin, ca.SX(0.0), ca.SX.zeros(n, 1)
    for number in range(GROWING + LAST):
        slope, jacobian = step.call([state, ca.vertcat(*known)], True, False)
        if number == 0:
            shortest = ca.sqrt(ca.sumsqr(jacobian)) + np.finfo(float).tiny
        scale = shortest * GROWTH ** -min(number, GROWING)
        moved = ca.solve(scale * ca.diag(mass) - jacobian, slope)
        state = state + moved
    settled = ca.sumsqr(moved) <= SETTLED**2 * ca.sumsqr(state) + np.finfo(float).tiny
    return state / ca.if_else(settled, 1.0, 0.0)
