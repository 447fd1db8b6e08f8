"""ODE filters as one dense extended Kalman filter over a Gauss-Markov process.

The state X holds the derivatives 0 to q of every process, process by process, in the units of the
problem. A process is a state of the ODE, or a chain x, v = x', ... of them. The ODE says that
Z = X^(l) - f(X) = 0, with l the length of the chain and f the derivative of its last state (Wu and
Lysy 2024, eq. 2). Covariances are square roots by QR decomposition; nothing is shared between
processes, scaled or cut short.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from smcpn.errors import InputError
from smcpn.model.solver import ProbabilisticSolver
from tests.reference.wiener import process_noise_root, transition

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


def _upper(stacked: Array) -> Array:
    """Upper triangular R of a QR decomposition."""
    return np.asarray(np.linalg.qr(stacked, mode="r"))


@dataclass(frozen=True)
class Affine:
    """x' = matrix x + offset + noise, with the covariance ``factor factor'`` of the noise."""

    matrix: Array
    offset: Array
    factor: Array


@dataclass(frozen=True)
class Innovation:
    """An innovation v ~ N(0, S): S^(-1/2) v and log det S."""

    whitened: Array
    log_det: float

    @property
    def log_density(self) -> float:
        """log N(v; 0, S)."""
        constant = len(self.whitened) * np.log(2.0 * np.pi)
        return float(-0.5 * (self.whitened @ self.whitened + self.log_det + constant))


@dataclass(frozen=True)
class Normal:
    """N(mean, factor factor').

    Attributes
    ----------
    mean : ndarray, (d,)
    factor : ndarray, (d, d)
        Not necessarily triangular; a known state has a factor of zeros.
    """

    mean: Array
    factor: Array

    @property
    def covariance(self) -> Array:
        """Covariance, (d, d)."""
        return self.factor @ self.factor.T

    def through(self, kernel: Affine) -> Normal:
        """Distribution of x' (the prediction of a Kalman filter)."""
        stacked = np.vstack([(kernel.matrix @ self.factor).T, kernel.factor.T])
        return Normal(kernel.matrix @ self.mean + kernel.offset, _upper(stacked).T)

    def given(self, matrix: Array, innovation: Array, noise: Array) -> tuple[Normal, Innovation]:
        """Condition on ``matrix (x - mean) + e = innovation``, e ~ N(0, noise noise').

        One QR decomposition gives the factor of the innovation's covariance, the gain and the
        factor of what is left, without a difference of covariances.
        """
        q, d = matrix.shape
        stacked = np.vstack(
            [
                np.hstack([noise.T, np.zeros((q, d))]),
                np.hstack([(matrix @ self.factor).T, self.factor.T]),
            ]
        )
        upper = _upper(stacked)
        root, cross = upper[:q, :q].T, upper[:q, q:].T
        whitened = np.asarray(solve_triangular(root, innovation, lower=True))
        log_det = float(2.0 * np.log(np.abs(np.diag(root))).sum())
        left = Normal(self.mean + cross @ whitened, upper[q:, q:].T)
        return left, Innovation(whitened, log_det)

    def reversed(self, kernel: Affine, kept: Indices | None = None) -> Affine:
        """Kernel from x' back to x, for x of this distribution (Tronarp et al. 2022, eq. 12).

        kept: Entries of x' that determine the others: all of them, unless x' has been computed from
            a part of x.
        """
        kept = np.arange(len(kernel.offset)) if kept is None else kept
        matrix, d = kernel.matrix[kept], len(self.mean)
        noise = kernel.factor[kept]
        stacked = np.vstack(
            [
                np.hstack([(matrix @ self.factor).T, self.factor.T]),
                np.hstack([noise.T, np.zeros((noise.shape[1], d))]),
            ]
        )
        k, upper = len(kept), _upper(stacked)
        gain = np.zeros((d, len(kernel.matrix)))
        gain[:, kept] = solve_triangular(upper[:k, :k], upper[:k, k:]).T
        predicted = kernel.matrix @ self.mean + kernel.offset
        return Affine(gain, self.mean - gain @ predicted, upper[k:, k:].T)


def chains(x: ca.SX, rhs: ca.SX, form: str) -> list[list[int]]:
    """States that share a process, by their place: x, its derivative v, and so on.

    ``"first"`` gives one list per state. ``"chain"`` joins a state and the one that is its
    derivative; a state joins one chain only, and a circle stays open.
    """
    n, following = x.numel(), dict[int, int]()

    def chain(head: int) -> list[int]:
        return [head, *(chain(following[head]) if head in following else [])]

    for i in range(n if form == "chain" else 0):
        for j in range(n):
            derivative = ca.is_equal(rhs[i], x[j], 1)
            if derivative and j not in following.values() and chain(j)[-1] != i:
                following[i] = j
    return [chain(i) for i in range(n) if i not in following.values()]


def lie_derivatives(
    x: ca.SX, u: ca.SX, t: ca.SX, rhs: ca.SX, order: int
) -> tuple[list[ca.SX], ca.SX]:
    """Derivatives x, x', ..., x^(order) along x' = rhs, and the symbols u', ..., u^(order - 1)."""
    inputs = [u, *(ca.SX.sym(f"u_{k}", *u.shape) for k in range(1, order))]
    derivatives, rates = [x, rhs], ca.vertcat(*inputs[1:])
    for k in range(1, order):
        variables = ca.vertcat(x, t, *inputs[:k])
        derivatives.append(
            ca.jtimes(derivatives[-1], variables, ca.vertcat(rhs, 1.0, *inputs[1 : k + 1]))
        )
    return derivatives, rates


@lru_cache(4096)
def _independent(order: int, h: float, processes: int) -> tuple[Array, Array]:
    """Transition and noise factor of so many processes, kept for steps of equal length."""
    own = np.eye(processes)
    return np.kron(own, transition(order, h)), np.kron(own, process_noise_root(order, h))


class Dynamics:
    """An ODE at one parameter vector under integrated Wiener processes.

    Raises `InputError` if the order is too low for a chain.

    symbols: x, u, t and the parameters.
    theta: (p,)
    solver: Order, form, and Jacobian.

    chains: States of each process.
    values: (n,), places of the states in a mean.
    tops: (d,), places of the derivatives that the ODE gives.
    process: (n,), process of each state.
    """

    def __init__(
        self, symbols: Sequence[ca.SX], rhs: ca.SX, theta: Array, solver: ProbabilisticSolver
    ) -> None:
        self.solver, self.theta, self.size = (
            solver,
            np.asarray(theta, dtype=float),
            solver.order + 1,
        )
        x, u, t, parameters = symbols
        self.chains = chains(x, rhs, solver.form)
        if max(map(len, self.chains)) > solver.order:
            raise InputError(f"order is {solver.order}: a chain of that many states needs one more")
        places = {i: (p, k) for p, c in enumerate(self.chains) for k, i in enumerate(c)}
        self.process = np.array([places[i][0] for i in sorted(places)])
        self.values = np.array([self.size * places[i][0] + places[i][1] for i in sorted(places)])
        self.tops = np.array([self.size * p + len(c) for p, c in enumerate(self.chains)])
        rates = rhs[[chain[-1] for chain in self.chains]]
        self._rate = ca.Function("rate", [*symbols], [rates, ca.jacobian(rates, x)])
        derivatives, input_rates = lie_derivatives(x, u, t, rhs, solver.order)
        stacked = ca.vertcat(*[derivative[c[0]] for c in self.chains for derivative in derivatives])
        self._taylor = ca.Function(
            "taylor", [x, u, t, parameters, input_rates], [stacked, ca.jacobian(stacked, x)]
        )

    def prior(self, h: float) -> tuple[Array, Array]:
        """Transition A and noise factor Q^1/2 of a step at unit diffusion."""
        return _independent(self.solver.order, h, len(self.chains))

    def residual(self, mean: Array, t: float, u: Array) -> tuple[Array, Array]:
        """Linearise Z = X^(l) - f at a mean: its matrix, and what is to be explained, -Z."""
        rate, slope = (np.array(value) for value in self._rate(mean[self.values], u, t, self.theta))
        matrix = np.zeros((len(self.chains), len(mean)))
        matrix[np.arange(len(self.chains)), self.tops] = 1.0
        matrix[:, self.values] -= self._kept(slope, np.arange(len(self.chains)))
        return matrix, rate.ravel() - mean[self.tops]

    def exact(self, x: Array, u: Array, t: float, rates: Array) -> Affine:
        """All derivatives as a function of the states, linearised at ``x``, without noise.

        A derivative beyond the first that does not exist counts as zero. What the solver takes to
        know of the Jacobian limits the matrix.
        """
        value, slope = (np.array(v) for v in self._taylor(x, u, t, self.theta, np.ravel(rates)))
        exists = np.isfinite(value.ravel())
        exists[self.tops] = True
        value, slope = np.where(exists, value.ravel(), 0.0), np.where(exists[:, None], slope, 0.0)
        matrix = np.zeros((len(value), len(value)))
        matrix[:, self.values] = self._kept(slope, np.arange(len(value)) // self.size)
        matrix[np.ix_(self.values, self.values)] = np.eye(len(x))
        return Affine(matrix, value - matrix[:, self.values] @ x, np.zeros((len(value), 0)))

    def _kept(self, slope: Array, process: Indices) -> Array:
        """Entries of a Jacobian that the solver uses; its rows belong to processes."""
        if self.solver.jacobian == "full":
            return slope
        own = process[:, None] == self.process
        return np.where(own, slope, 0.0) if self.solver.jacobian == "diagonal" else 0.0 * own


class Filter:
    """Extended Kalman filter on Z = 0, which remembers what a smoother needs.

    at: Means to linearise at, as another filter left them in ``points``; by default the predicted
        ones.
    """

    def __init__(
        self, dynamics: Dynamics, start: Normal, at: Iterator[Array] | None = None
    ) -> None:
        self.dynamics, self.state, self._at = dynamics, start, at
        self.points: list[Array] = []
        self.predictions: list[tuple[Normal, Affine, Indices | None]] = []

    def step(self, kernel: Affine, t: float, u: Array) -> Innovation:
        """Predict, and condition on the ODE at the end of the step."""
        self._predict(kernel)
        point = self._point()
        matrix, unexplained = self.dynamics.residual(point, t, u)
        innovation = unexplained - matrix @ (self.state.mean - point)
        silent = np.zeros((len(innovation), len(innovation)))
        self.state, found = self.state.given(matrix, innovation, silent)
        return found

    def restart(self, t: float, u: Array, rates: Array) -> None:
        """Let the states determine all derivatives anew."""
        values = self.dynamics.values
        self._predict(self.dynamics.exact(self._point()[values], u, t, rates), values)

    def backward(self) -> list[Affine]:
        """Kernels from the state after each prediction to that before, in the order of time."""
        return [state.reversed(kernel, kept) for state, kernel, kept in self.predictions]

    def _predict(self, kernel: Affine, kept: Indices | None = None) -> None:
        self.predictions.append((self.state, kernel, kept))
        self.state = self.state.through(kernel)

    def _point(self) -> Array:
        self.points.append(self.state.mean if self._at is None else next(self._at))
        return self.points[-1]
