"""Exact time derivatives of the solution at the first sample, by repeated Lie derivatives."""

from __future__ import annotations

import casadi as ca

LARGE = 1e300


def taylor_derivatives(
    x: ca.SX, u: ca.SX, t: ca.SX, rhs: ca.SX, order: int
) -> tuple[list[ca.SX], list[ca.SX]]:
    """Derivatives 0..order of the state along x' = rhs, as graphs.

    Returns
    -------
    derivatives : list of casadi.SX, (n, 1)
        x, x', ..., x^(order). Beyond the first, a derivative that does not exist at the point
        (of sqrt or abs to a power, at zero) counts as zero: the filter finds it from data.
    input_derivatives : list of casadi.SX
        Symbols u', ..., u^(order - 1) that the derivatives depend on.
    """
    inputs = [u, *(ca.SX.sym(f"u_{k}", *u.shape) for k in range(1, order))]
    derivatives = [x, rhs]
    moving = ca.vertcat(x, t, *inputs[:-1])
    rates = ca.vertcat(rhs, 1.0, *inputs[1:])
    while len(derivatives) <= order:
        derivatives.append(ca.jtimes(derivatives[-1], moving, rates))
    finite = [d if k < 2 else _finite_or_zero(d) for k, d in enumerate(derivatives)]
    return finite[: order + 1], inputs[1:]


def _finite_or_zero(values: ca.SX) -> ca.SX:
    return ca.vertcat(
        *[ca.if_else(ca.fabs(v) < LARGE, v, 0.0) for v in ca.vertsplit(ca.densify(values))]
    )
