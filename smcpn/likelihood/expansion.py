"""The log density of Gaussian samples with its derivative and expected information, as a program.

For samples N(g, S), given those before, the expected information about parameters i and j is

    sum_t J_i' S^-1 J_j + tr(S^-1 dS_i S^-1 dS_j) / 2,    J_i = dg / dtheta_i, dS_i = dS / dtheta_i

(Gauss-Newton's matrix, and Fisher's). A lane knows one direction only, so it emits the factor of
its own: with S = L D L' and W = D^-1/2 L^-1, the rows W J_i and the lower triangle of W dS_i W',
its diagonal over the root of 2. The information is the sum of their products over samples and rows.
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.lower import LaneProgram
from smcpn.codegen.tangent import tangent
from smcpn.likelihood.measurement import masked_covariance, whitening
from smcpn.likelihood.registry import Recursion, weighing_program

Array = NDArray[np.float64]

BLOCK = 128
"""Samples whose products are summed at once: so few that BLAS runs them on one thread, and sums
come in the same order for any number of threads."""


def tangent_program(recursion: Recursion) -> LaneProgram:
    """Program of (theta, direction) that emits the log density and its derivative."""
    return tangent(weighing_program(recursion))


def expansion_program(recursion: Recursion) -> LaneProgram:
    """Program of (theta, direction) that emits log density, its derivative, `information_rows`."""
    expected = recursion.expected()
    mean = expected.outputs + expected.noise_mean
    covariance = expected.covariance + ca.diag(expected.noise_variance)
    q = mean.numel()
    values = [recursion.log_density(), mean, ca.vec(ca.densify(covariance))]
    program = tangent(recursion.program(ca.vertcat(*values)))
    parts = ca.vertsplit(
        program.emitted, [0, 1, 1 + q, n := 1 + q + q * q, n + 1, n + 1 + q, 2 * n]
    )
    log_density, _, covariance, derivative, slopes, change = parts
    rows = information_rows(
        ca.reshape(covariance, q, q), slopes, ca.reshape(change, q, q), recursion.sample.present
    )
    return replace(program, emitted=ca.vertcat(log_density, derivative, *rows))


def information_rows(
    covariance: ca.SX, slopes: ca.SX, change: ca.SX, present: ca.SX
) -> list[ca.SX]:
    """Rows whose products with those of another direction sum to the expected information.

    Parameters
    ----------
    covariance : casadi.SX, (q, q)
        S.
    slopes, change : casadi.SX, (q, 1) and (q, q)
        Derivatives of g and S along the direction; rows that are zero throughout are left out.
    present : casadi.SX, (q, 1)
        1 where an output was measured.
    """
    q = slopes.numel()
    whiten = whitening(masked_covariance(covariance, present))
    mean = whiten @ (slopes * present)
    spread = whiten @ (change * (present @ present.T)) @ whiten.T
    rows = [*ca.vertsplit(mean), *(spread[i, i] / sqrt(2.0) for i in range(q))]
    rows += [spread[i, j] for i in range(q) for j in range(i)]
    return [row for row in map(ca.simplify, rows) if not row.is_zero()]


def products(rows: Array) -> Array:
    """Sum of the outer products of rows (m, n, d) over the m samples, (n, d, d)."""
    whole = len(rows) // BLOCK * BLOCK
    blocks = rows[:whole].reshape(-1, BLOCK, *rows.shape[1:])
    return _squares(blocks).sum(axis=0) + _squares(rows[None, whole:])[0]


def _squares(blocks: Array) -> Array:
    """Products of the blocks (b, m, n, d) with themselves, (b, n, d, d)."""
    return np.matmul(blocks.transpose(0, 2, 3, 1), blocks.transpose(0, 2, 1, 3))
