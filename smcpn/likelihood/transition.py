"""A solver step of a model with process noise as a Gaussian transition, in expression graphs.

Over a step of length h from the time t

    x+ = Phi(x) + L z,    z ~ N(0, I),

Phi being the step of the solver and L the factor of `step_factor`, the same for all likelihoods of
such a model. A filter needs the exact Jacobian F = dPhi/dx besides, and adds the variance that the
solver claims for its own error, where it claims one.

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
from dataclasses import dataclass, replace
from math import factorial, sqrt
from typing import cast

import casadi as ca

from smcpn.codegen.tangent import jacobian
from smcpn.likelihood.classical import Step
from smcpn.model.graphs import Model
from smcpn.model.solver import EKF0, Solver
from smcpn.pn.iwp import process_noise_factor, taylor_derivatives

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

    model: With process noise.
    h: Length of the step, in seconds.
    x, u, t: Where G and A are taken, by default at the symbols of the model: state at the beginning
        of the step, input and time in its middle.
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


@dataclass(frozen=True)
class PredictorStep(Step):
    """Graphs of a step of EKF0 from a state that is known.

    Where process noise acts the path is not smooth, and no derivative is carried over from the step
    before: the filter begins every step at the state, with the derivatives that the ODE gives it
    there and no covariance. In Nordsieck coordinates of order nu (`pn.iwp`), with unit noise Q of
    the prior,

        m = A m(x),  z = h f(m_0) - m_1,  x+ = m_0 + Q_01 / Q_11 z,

    and the diffusion z^2 / Q_11 that makes the residual most likely (Bosch, Hennig and Tronarp
    2021, eq. 20) leaves the variance z^2 (Q_00 - Q_01^2 / Q_11) / Q_11, of order h^(2 nu + 2).
    Order 1 is Heun's method (Schober, Duvenaud and Hennig 2014).

    The derivatives of the input are those of the parabola through its values at the begin, middle
    and end of a step: exact where the input is held or linear, and else off by O(h^4) in the state.

    order: Number of integrations of the prior, nu.
    """

    order: int = 1

    @property
    def following(self) -> ca.SX:
        """State at the end."""
        predicted, z = self._predicted
        value, rate = process_noise_factor(self.order)[:2]
        return predicted + float(value @ rate / (rate @ rate)) * z

    @property
    def error_variance(self) -> ca.SX:
        """Variance of each state that the step claims, (n, 1)."""
        return self.local_error() ** 2

    def local_error(self) -> ca.SX:
        """Standard deviation of each state that the step claims, with the residual's sign."""
        value, rate = process_noise_factor(self.order)[:2]
        ratio = value @ value / (rate @ rate) - (value @ rate / (rate @ rate)) ** 2
        return sqrt(float(ratio)) * self._predicted[1]

    @property
    def _predicted(self) -> tuple[ca.SX, ca.SX]:
        """Taylor's polynomial at the end of the step, and h times the residual of the ODE there."""
        model, h, (begin, middle, end) = self.model, self.h, self.inputs
        derivatives, rates = taylor_derivatives(model.x, model.u, model.t, model.rhs, self.order)
        slope = (4.0 * middle - 3.0 * begin - end) / h
        bend = 4.0 * (begin - 2.0 * middle + end) / h**2
        of_input = [slope, bend, *([ca.SX.zeros(*begin.shape)] * len(rates))][: len(rates)]
        symbols = ca.vertcat(model.u, model.t, *rates)
        terms = [
            h**j / factorial(j) * ca.substitute(d, symbols, ca.vertcat(begin, self.t, *of_input))
            for j, d in enumerate(derivatives)
        ]
        value = sum(terms, ca.SX.zeros(model.x.numel(), 1))
        slope_there = sum((j * term for j, term in enumerate(terms)), ca.SX.zeros(*value.shape))
        return value, h * self.rate(value, end, self.t + h) - slope_there


@dataclass(frozen=True)
class Transition:
    """Graphs of one step over ``model.x``, ``model.theta`` and the rows of ``step``.

    step: Whose ``h``, ``t`` and ``inputs`` are the symbols of the shared rows.
    following: (n, 1), Phi(x).
    jacobian: (n, n), F = dPhi/dx, sparse.
    factor: (n, k), L; k = 0 without process noise.
    error_variance: (n, 1), variance of each state that the solver claims for its error, 0 where it
        claims none.
    error_order: Power of h with which the step's `local_error` falls.
    """

    step: Step
    following: ca.SX
    jacobian: ca.SX
    factor: ca.SX
    error_variance: ca.SX
    error_order: int

    @classmethod
    def of(cls, model: Model, solver: Solver) -> Transition:
        """The graphs of a solver's step, made once for a model."""
        order = cast(EKF0, solver).order if solver.probabilistic else None
        known, key = model.kernels, ("transition", solver.step if order is None else order)
        if key not in known:
            known[key] = cls._made(model, solver, order)
        return known[key]

    @classmethod
    def _made(cls, model: Model, solver: Solver, order: int | None) -> Transition:
        n = model.x.numel()
        error, factor = ca.SX(n, 1), ca.SX(n, 0)
        if order is not None:
            step = replace(PredictorStep.of(model), order=order)
            error, error_order = step.error_variance, order + 1
        else:
            step = solver.step.of(model)
            error_order = step.error_order
        if model.process_noise is not None:
            middle = step.t + step.h / 2
            factor = step_factor(model, step.h, u=step.inputs[1], t=middle)
        following = step.following
        slopes = jacobian(following, model.x)
        return cls(step, following, slopes, factor, error, error_order)
