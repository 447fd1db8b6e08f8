"""The Gaussian density of one sample, as an expression graph."""

from __future__ import annotations

from math import log, pi

import casadi as ca


def gaussian_log_density(innovation: ca.SX, covariance: ca.SX, present: ca.SX) -> ca.SX:
    """Log N(innovation; 0, covariance) over the outputs that are present.

    Parameters
    ----------
    innovation : casadi.SX, (q, 1)
        Any finite value where an output is missing.
    covariance : casadi.SX, (q, q)
    present : casadi.SX, (q, 1)
        1 where the output was measured, 0 where it is missing: a missing output becomes a unit
        variance, independent of the rest, without a constant, so that it adds nothing.

    Notes
    -----
    By the factorisation S = L D L', in straight-line code with a single logarithm.
    """
    q = innovation.numel()
    masked = ca.SX.zeros(q, q)
    for i in range(q):
        for j in range(q):
            masked[i, j] = covariance[i, j] * present[i] * present[j]
        masked[i, i] += 1.0 - present[i]
    lower, pivots = _ldl(masked)
    quadratic, determinant = ca.SX(0), ca.SX(1)
    whitened: list[ca.SX] = []
    for i in range(q):
        w = innovation[i] * present[i]
        for j in range(i):
            w -= lower[i][j] * whitened[j]
        whitened.append(w)
        quadratic += w * w / pivots[i]
        determinant *= pivots[i]
    return -0.5 * (ca.log(determinant) + quadratic + log(2 * pi) * ca.sum1(present))


def _ldl(matrix: ca.SX) -> tuple[list[list[ca.SX]], list[ca.SX]]:
    q = matrix.shape[0]
    lower = [[ca.SX(0)] * q for _ in range(q)]
    pivots: list[ca.SX] = []
    for i in range(q):
        for j in range(i):
            value = matrix[i, j]
            for k in range(j):
                value -= lower[i][k] * lower[j][k] * pivots[k]
            lower[i][j] = value / pivots[j]
        pivot = matrix[i, i]
        for k in range(i):
            pivot -= lower[i][k] ** 2 * pivots[k]
        pivots.append(pivot)
    return lower, pivots
