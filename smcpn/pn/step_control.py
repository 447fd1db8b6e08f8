"""Step control of an adaptive solver: how long to step next, from the local error of this step.

E is the local error in units of its tolerance (29), of order k in the step h. A step with E < 1 is
accepted, and a step that ends at a stop or a sample is cut short or halved so that no tiny one is
left (`length`). Whether accepted or not, the next one is, by proportional control (30),

    h' = h min(GROW, max(SHRINK, SAFETY E^(-1/k))),

and after an accepted step by proportional-integral control, with E' of the step before it,

    h' = h min(GROW, max(SHRINK, (A / E)^(a/k) (E' / A)^(b/k))),   A = SAFETY^k,

which is the former at a = 1, b = 0. Where h no longer moves the clock (`moves`) the solution has a
pole. One set of formulas serves numbers, CasADi expressions for lanes, and loops that
`smcpn.codegen.routine` compiles.

Bosch, Hennig, Tronarp (2021). Calibrated adaptive probabilistic ODE solvers. AISTATS. Section 4.3,
whose numbers these are.
Gustafsson, Lundh, Söderlind (1988). A PI stepsize control for the numerical solution of ordinary
differential equations. BIT 28.
"""

from __future__ import annotations

from math import inf, log
from typing import Any

import casadi as ca

Scalar = Truth = Any
"""Numbers and truth values, or CasADi expressions of them."""

SAFETY, SHRINK, GROW = 0.9, 0.2, 10.0
TOUCHING = 1e-10
"""Relative length of a step that is not worth taking before a stop."""
NO_ERROR = 1e-300
"""What is added to an error, so that one of zero has a logarithm."""


def length(wanted: Scalar, remaining: Scalar) -> Scalar:
    """Step to take where ``remaining`` is left to a stop: all of it, or half, or the one wanted."""
    last = wanted >= remaining * (1.0 - TOUCHING)
    # Two even steps rather than a long and a tiny one.
    return ca.if_else(last, remaining, ca.fmin(wanted, 0.5 * remaining))


def moves(clock: Scalar, h: Scalar) -> Truth:
    """True if a step is long enough to move a clock."""
    return clock + h > clock


def factor(error: Scalar, order: int) -> Scalar:
    """Proportional factor between the next step and this one (30); SHRINK at an error of NaN."""
    growth = log(SAFETY) - ca.log(error + NO_ERROR) / order
    return ca.if_else(error < inf, _limited(growth), SHRINK)


def factor_with_memory(
    error: Scalar, before: Scalar, order: int, own: float, memory: float
) -> Scalar:
    """Proportional-integral factor; ``before`` is the error of the step before, 0 if unknown.

    ``own`` and ``memory`` are a and b.
    """
    growth = own * (log(SAFETY) - ca.log(error + NO_ERROR) / order)
    remembered = memory * (log(SAFETY) - ca.log(before + NO_ERROR) / order)
    return _limited(growth - ca.if_else(before > 0.0, remembered, 0.0))


def _limited(growth: Scalar) -> Scalar:
    """Factor of a growth, its logarithm."""
    return ca.fmin(GROW, ca.fmax(SHRINK, ca.exp(growth)))


def wanted_next(proposed: Scalar, wanted: Scalar, last: Truth) -> Scalar:
    """Step to try after an accepted one, of what its error proposes and of what was wanted."""
    # A step cut short by a stop says little about the longest one allowed.
    return ca.if_else(last, ca.fmax(proposed, wanted), proposed)
