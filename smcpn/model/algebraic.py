"""Algebraic equations beside differential ones: which equation of a model determines what.

A model x' = f(x, z, u, t), 0 = g(x, z, u, t) is of index 1 where dg/dz is regular: the equations
then determine the algebraic variables z at every time.
"""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np
from scipy.optimize import linear_sum_assignment

from smcpn.errors import InputError, listed, one_of


def arranged_equations(
    model: str, states: Sequence[str], algebraic: Sequence[str], x: ca.SX, returned: ca.SX
) -> ca.SX:
    """Return the equations with those in the places of algebraic variables in another order.

    Each then contains the variable in whose place it stands, so that elimination finds a pivot on
    the diagonal of dg/dz.

    x, returned: (n, 1), symbols of the states, and derivatives or residuals in their places.
    """
    for name in algebraic:
        one_of("algebraic", name, states)
    if len(algebraic) == len(states):
        raise InputError(
            f"every state of model '{model}' is algebraic: give one that has a derivative",
            argument="algebraic",
        )
    places = [states.index(name) for name in algebraic]
    among = ca.jacobian(returned[places], x[places])
    contains = np.array(ca.DM(among.sparsity(), 1.0), dtype=bool)
    for name, contained in zip(algebraic, contains, strict=True):
        if not contained.any():
            raise InputError(
                f"model '{model}': the equation in the place of '{name}' contains no algebraic "
                f"variable ({listed(algebraic)}), which makes its index higher than 1: replace it "
                "by its derivative with respect to time, solved for one of them",
                argument="algebraic",
            )
    # An equation stays where its own variable is in it, as far as the others let it.
    absent = 2.0 * len(places)
    cost = np.where(contains, 1.0 - np.eye(len(places)), absent)
    equations, variables = linear_sum_assignment(cost)
    missing = cost[equations, variables] == absent
    open_ones = [algebraic[int(k)] for k in variables[missing]]
    if open_ones:
        raise InputError(
            f"model '{model}': its algebraic equations do not determine {listed(open_ones)}, "
            "whatever the values, since too many of them contain only the other variables: give "
            f"an equation that contains '{open_ones[0]}'",
            argument="algebraic",
        )
    rows = list(range(len(states)))
    for equation, variable in zip(equations, variables, strict=True):
        rows[places[variable]] = places[equation]
    return returned[rows]
