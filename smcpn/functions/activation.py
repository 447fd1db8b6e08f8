"""Smooth functions of one number that the parts of an unknown function are made of."""

from __future__ import annotations

import casadi as ca


def softplus(x: ca.SX) -> ca.SX:
    """Return log(1 + e^x), without overflow and with all digits for x far below zero."""
    return ca.fmax(x, 0.0) + ca.log1p(ca.exp(-ca.fabs(x)))
