"""Least squares on pairs of samples, as the paper's likelihood has them, and what biases it.

A pair is (y(s), y(s + lag)). The paper integrates from the first sample, over an interval that is
one sample too short, and compares with the second. Noise in the first sample biases the estimate
too; `estimate` with ``latent`` starts removes that bias: the state at the beginning of each pair is
unknown, and both samples are measurements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from benchmarks.papers.differential_programming_problems import Data
from smcpn import ODE

Array = NDArray[np.float64]
INNER = 2
"""Gauss-Newton steps of the latent states for each of the parameters."""


@dataclass(frozen=True)
class Flow:
    """Runge-Kutta of order 4 over one interval for many initial states, with derivatives."""

    step: ca.Function
    steps: int
    span: float

    @classmethod
    def of(cls, ode: ODE, pairs: int, steps: int, span: float) -> Flow:
        """Compile for a number of pairs."""
        x, p = ca.SX.sym("x", len(ode.states)), ca.SX.sym("p", len(ode.parameters))
        h = span / steps

        def rate(state: ca.SX) -> ca.SX:
            return ca.SX(ode.rhs(state, ca.SX(0, 1), 0.0, p))

        one = rate(x)
        two = rate(x + h / 2 * one)
        three = rate(x + h / 2 * two)
        four = rate(x + h * three)
        end = x + h / 6 * (one + 2 * two + 2 * three + four)
        derivatives = [ca.densify(ca.jacobian(end, by)) for by in (x, p)]
        return cls(ca.Function("step", [x, p], [end, *derivatives]).map(pairs), steps, span)

    def __call__(self, x: Array, p: Array) -> tuple[Array, Array, Array]:
        """Ends (S, n), and their derivatives by the states (S, n, n) and parameters (S, n, d)."""
        (size, n), d = x.shape, len(p)
        by_x, by_p = np.tile(np.eye(n), (size, 1, 1)), np.zeros((size, n, d))
        parameters = ca.repmat(ca.DM(p), 1, size)
        for _ in range(self.steps):
            end, a, b = self.step(x.T, parameters)
            x = np.array(end).T
            # CasADi lays matrices side by side.
            a = np.array(a).reshape(n, size, n).transpose(1, 0, 2)
            b = np.array(b).reshape(n, size, d).transpose(1, 0, 2)
            by_x, by_p = a @ by_x, a @ by_p + b
        return x, by_x, by_p


def estimate(
    data: Data, ode: ODE, begin: Array, *, published: bool = False, latent: bool = False
) -> Array:
    """Return the least-squares estimate (d,) that a search from ``begin`` finds.

    ode: What is fitted: the true system, or one with all terms of the library.
    begin: (d,)
    published: The interval of the authors' code, one sample shorter than the data's.
    latent: The state at the beginning of each pair is unknown.
    """
    experiment = data.experiment
    interval = experiment.end / (experiment.samples - 1)
    span = (experiment.lag - published) * interval
    # Twice the steps of the authors, whose error is a bias of its own.
    steps = experiment.steps * (2 if latent else 1)
    flow = Flow.of(ode, len(data.starts), steps, span)
    scale = experiment.deviation if experiment.noise else experiment.scale
    first, second = data.first, data.second
    logarithmic = not experiment.library
    states = first.copy()

    def residuals(p: Array) -> tuple[Array, Array]:
        values = np.exp(p) if logarithmic else p
        end, a, b = flow(states, values)
        b = b * values if logarithmic else b
        a, b = a * scale / scale[:, None], b / scale[:, None]
        miss, off = (second - end) / scale, (first - states) / scale
        if latent:
            return _without_states(states, scale, miss, off, a, b)
        return miss, -b

    def fitted(p: Array) -> tuple[Array, Array]:
        for _ in range(INNER if latent else 0):
            residuals(p)
        miss, slope = residuals(p)
        return miss.ravel(), slope.reshape(-1, len(p))

    last: dict[bytes, tuple[Array, Array]] = {}

    def at(p: Array) -> tuple[Array, Array]:
        if p.tobytes() not in last:
            last.clear()
            last[p.tobytes()] = fitted(p)
        return last[p.tobytes()]

    def slope_of(p: Array) -> Array:
        return at(p)[1]

    begin = np.log(begin) if logarithmic else begin
    jacobian: Any = slope_of
    found = least_squares(lambda p: at(p)[0], begin, jacobian, method="lm", x_scale="jac")
    return np.exp(found.x) if logarithmic else found.x


def _without_states(
    states: Array, scale: Array, miss: Array, off: Array, a: Array, b: Array
) -> tuple[Array, Array]:
    """Eliminate the latent states, which take their own Gauss-Newton step in place.

    With both samples measurements of unit variance, the residual miss - A off has the covariance
    I + A A'; whitened, it is that of the least squares over the state.
    """
    factor = np.linalg.cholesky(np.eye(a.shape[1]) + a @ a.transpose(0, 2, 1))
    left = (miss - np.squeeze(a @ off[..., None], -1))[..., None]
    white, slope = np.linalg.solve(factor, left), np.linalg.solve(factor, -b)
    weighted = np.linalg.solve(factor.transpose(0, 2, 1), white)
    states += scale * (off + np.squeeze(a.transpose(0, 2, 1) @ weighted, -1))
    return np.squeeze(white, -1).astype(float), slope.astype(float)
