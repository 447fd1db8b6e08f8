"""The covariance of a Gaussian filter as L D L' in straight-line arithmetic.

A filter that subtracts s K K' from its covariance loses its digits where the noise is small against
what is not yet known: at high orders, and at a large diffusion. The factors keep them without a
square root: a prediction is a weighted Gram-Schmidt orthogonalisation (Thornton), an update by an
output the rank-one downdate of Bierman. A residual without noise costs nothing: with its row first,
the first column of L is its gain, and what remains of L D L' is conditioned on it.

The arithmetic is that of whatever the rows hold: expression graphs, or numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from smcpn.pn.iwp import lower_factor, process_noise_factor

Row = list[Any]


@dataclass
class Factor:
    """Covariance as rows (D) rows': ``rows`` of any number, as long as the ``pivots`` D.

    The first rows are unit lower triangular; rows beyond them are combinations of the first.
    """

    rows: list[Row]
    pivots: Row


def orthogonalised(rows: Sequence[Row], weights: Row) -> Factor:
    """Factor of W diag(weights) W' with a unit lower triangle, by modified Gram-Schmidt.

    Parameters
    ----------
    rows : rows of W, (m, c)
    weights : (c,)
    """
    remaining = [list(row) for row in rows]
    size = len(remaining)
    lower = [[ca.SX(float(i == j)) for j in range(size)] for i in range(size)]
    pivots: Row = []
    for j, row in enumerate(remaining):
        weighted = [w * v for w, v in zip(weights, row, strict=True)]
        pivot = _dot(weighted, row)
        pivots.append(pivot)
        for i in range(j + 1, size):
            ratio = _dot(weighted, remaining[i]) / pivot
            lower[i][j] = ratio
            remaining[i] = [v - ratio * p for v, p in zip(remaining[i], row, strict=True)]
    return Factor(lower, pivots)


@dataclass
class Update:
    """What a scalar output with noise does to a Gaussian.

    Attributes
    ----------
    factor : Factor
    gain : Row
        One entry per row of the factor.
    variance : scalar
        Of the innovation: output and noise.
    spread : scalar
        Of the output without its noise.
    """

    factor: Factor
    gain: Row
    variance: Any
    spread: Any


def updated(factor: Factor, sensitivity: Row, noise: Any) -> Update:
    """Condition on a scalar output.

    Parameters
    ----------
    factor : Factor
    sensitivity : Row
        Derivative of the output by the first rows; the others do not enter.
    noise : scalar
        Variance of the output's noise.
    """
    seen = len(sensitivity)
    rows, pivots = [list(row) for row in factor.rows], list(factor.pivots)
    gain: Row = [ca.SX(0.0)] * len(rows)
    variance, spread = noise, ca.SX(0.0)
    for j in reversed(range(seen)):
        f = _dot([row[j] for row in rows[:seen]], sensitivity)
        carried = factor.pivots[j] * f
        total = variance + carried * f
        spread += carried * f
        pivots[j] = factor.pivots[j] * (variance / total)
        shift = f / variance
        for i, row in enumerate(rows):
            old = row[j]
            row[j] = old - shift * gain[i]
            gain[i] = gain[i] + carried * old
        variance = total
    return Update(Factor(rows, pivots), [g / variance for g in gain], variance, spread)


def noise_factor(order: int, first: int) -> tuple[np.ndarray, np.ndarray]:
    """Process noise of a unit step with derivative ``first`` put first, as rows and weights.

    Returns
    -------
    rows : ndarray, (order + 1, order + 1)
        Row i belongs to derivative i; in the order first, 0, 1, ... they are unit lower triangular.
    weights : ndarray, (order + 1,)
    """
    sequence = [first, *(i for i in range(order + 1) if i != first)]
    lower = lower_factor(process_noise_factor(order)[sequence])
    lower = np.tril(lower)
    rows = np.empty_like(lower)
    rows[sequence] = lower / np.diag(lower)
    return rows, np.diag(lower) ** 2


def _dot(a: Sequence[Any], b: Sequence[Any]) -> Any:
    return sum((x * y for x, y in zip(a, b, strict=True)), ca.SX(0.0))
