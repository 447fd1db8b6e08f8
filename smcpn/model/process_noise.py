"""Process noise dx = f dt + G dW of a model, and its Gaussian over a solver step.

With A the part of the Jacobian df/dx that is free of the state, the noise that a step of length h
adds to the state has the covariance (Van Loan 1978, eq. 1.2, for A and G that stay)

    Q(h) = int_0^h e^{A s} G G' e^{A' s} ds.

On the orthonormal Legendre polynomials p_j of the step it is the sum of c_j c_j' over j, with

    c_j = int_0^h e^{A s} G p_j(s) ds = sqrt(h) sum_{i >= j} b_ji (A h)^i G,
    b_ji = sqrt(2 j + 1) i! / ((i - j)! (i + j + 1)!).

Finitely many are all where A^p G = 0, as in a chain x' = v with noise on v; otherwise two or three
columns per Wiener process are kept, to a covariance with an error of order h^5 (that of RK4).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial, sqrt

import casadi as ca

from smcpn.model.graphs import Model

HIGHEST_POWER = 3
"""Of A h in a column, where no power of A ends the series: the error of Q is of order h^5."""
MOST_COLUMNS = 3
"""Per Wiener process, where no power of A ends the series."""
ROUNDING = 1e-13
"""Share of a row below which what the rows before it leave is rounding."""


def step_factor(
    model: Model,
    h: ca.SX,
    *,
    x: ca.SX | None = None,
    u: ca.SX | None = None,
    t: ca.SX | None = None,
) -> ca.SX:
    """Factor L (n, k) of the noise over a step: the state after it is Phi_h(x) + L z, z ~ N(0, I).

    k is at most the number of states that noise reaches. L depends on the state only where the
    noise does (`ProcessNoise.additive`); the scheme is then that of Euler and Maruyama, of weak
    order 1 and strong order 1/2. For linear systems the error of the covariance over a given time
    is of order h^4, and none for chains of integrators.

    Parameters
    ----------
    model : Model
        With process noise.
    h : casadi.SX
        Length of the step, in seconds.
    x, u, t : casadi.SX, optional
        Where G and A are taken, by default at the symbols of the model: state at the beginning of
        the step, input and time in its middle.
    """
    columns = _at(model, _legendre_columns(model, h), x, u, t)
    reached = sorted(set(_rows(columns)))
    if columns.shape[1] <= len(reached):
        return columns
    factor = ca.SX(columns.shape[0], len(reached))
    factor[reached, :] = _lower_factor(columns[reached, :])
    return factor


def state_free_jacobian(model: Model) -> ca.SX:
    """A (n, n): the entries of df/dx that do not depend on the state, zero in place of others."""
    jacobian = ca.jacobian(model.rhs, model.x)
    kept = ca.SX(*jacobian.shape)
    for i, j in zip(*jacobian.sparsity().get_triplet(), strict=True):
        if not ca.depends_on(jacobian[i, j], model.x):
            kept[i, j] = jacobian[i, j]
    return ca.sparsify(kept)


def _at(model: Model, graph: ca.SX, x: ca.SX | None, u: ca.SX | None, t: ca.SX | None) -> ca.SX:
    """Put state, input and time, where they are given, in place of the model's symbols."""
    places = [(model.x, x), (model.u, u), (model.t, t)]
    given = [(symbols, values) for symbols, values in places if values is not None]
    if not given:
        return graph
    symbols, values = (ca.vertcat(*part) for part in zip(*given, strict=True))
    return ca.substitute(graph, symbols, values)


def _krylov(model: Model) -> tuple[list[ca.SX], int]:
    """G, A G, A^2 G, ... as far as they count, and the number of columns per Wiener process."""
    noise = model.process_noise
    assert noise is not None
    n, jacobian, powers = model.x.numel(), state_free_jacobian(model), [noise.columns]
    while powers[-1].nnz() and len(powers) <= max(n, HIGHEST_POWER):
        powers.append(ca.sparsify(jacobian @ powers[-1]))
    if not powers[-1].nnz():
        return powers[:-1], len(powers) - 1
    # As many as it takes until no further state is reached, so that Q has its rank.
    reached = [{i for power in powers[: j + 1] for i in _rows(power)} for j in range(len(powers))]
    enough = 1 + reached.index(reached[-1])
    return powers[: HIGHEST_POWER + 1], min(max(2, enough), MOST_COLUMNS)


def _legendre_columns(model: Model, h: ca.SX) -> ca.SX:
    """All c_j, (n, k)."""
    powers, number = _krylov(model)
    columns = [
        ca.sqrt(h)
        * sum(
            (_coefficient(j, i) * h**i * powers[i] for i in range(j, len(powers))),
            ca.SX(*powers[0].shape),
        )
        for j in range(number)
    ]
    # A Wiener process whose chain has ended leaves columns without entries.
    kept = [c for block in columns for c in ca.horzsplit(ca.sparsify(block)) if c.nnz()]
    return ca.horzcat(*kept)


def _coefficient(j: int, i: int) -> float:
    """b_ji."""
    return sqrt(2 * j + 1) * factorial(i) / (factorial(i - j) * factorial(i + j + 1))


def _lower_factor(rows: ca.SX) -> ca.SX:
    """Lower triangle L (r, r) with L L' = C C' of rows C (r, k): Gram-Schmidt on the rows.

    A row of zeros, or one that the rows before it span, has a zero on the diagonal: what rounding
    leaves of it has no direction.
    """
    left = [ca.densify(row) for row in ca.vertsplit(rows)]
    whole = [ca.norm_2(row.T) for row in left]
    lower = ca.SX(len(left), len(left))
    for i, row in enumerate(left):
        norm = ca.norm_2(row.T)
        # The first row is never zero by rounding.
        least = ROUNDING * whole[i] if i else 0.0
        direction = row * ca.if_else(norm > least, 1.0 / norm, 0.0)
        lower[i, i] = ca.if_else(norm > least, norm, 0.0) if i else norm
        for j in range(i + 1, len(left)):
            lower[j, i] = ca.dot(left[j], direction)
            left[j] -= lower[j, i] * direction
    return ca.sparsify(lower)


def _rows(matrix: ca.SX) -> Sequence[int]:
    """Rows with an entry that is not zero by structure."""
    return matrix.sparsity().get_triplet()[0]
