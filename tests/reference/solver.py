"""EKF0 and EKF1 on a given grid, as the textbook writes them: the reference for the compiled loop.

One dense covariance over all processes, plain derivatives, every matrix spelled out, and a square
root wherever a covariance is needed. The state is X = (x_1, x_1', ..., x_2, x_2', ...), process by
process; E_s picks the states of the ODE from it and E_t the derivatives that the ODE gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import factorial

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from smcpn.model.hold import interval_derivatives
from smcpn.model.ode import ODE
from smcpn.model.record import Record
from smcpn.pn.iwp import lower_factor, process_noise_factor, transition
from smcpn.pn.layout import make_layout
from smcpn.pn.taylor import taylor_derivatives
from smcpn.solver import EKF0, EKF1

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ReferenceSolution:
    """Moments of the states on the grid.

    Attributes
    ----------
    mean, smoothed_mean : ndarray, (N, n)
    covariance, smoothed_covariance : ndarray, (N, n, n)
    log_likelihood : float
    """

    mean: Array
    covariance: Array
    smoothed_mean: Array
    smoothed_covariance: Array
    log_likelihood: float


@dataclass
class _Step:
    """What the smoother needs of a step: the moments before it, A and Q^1/2.

    ``before`` are the moments before the derivatives restarted, where they did.
    """

    mean: Array
    factor: Array
    transition: Array
    noise: Array
    before: tuple[Array, Array] | None


class Reference:
    """A model discretised by a solver, with everything dense.

    Parameters
    ----------
    ode : ODE
    theta : ndarray, (p,)
    solver : EKF0 or EKF1
    record : Record, optional
        Held or linear input, or a known function of time.
    """

    def __init__(
        self, ode: ODE, theta: Array, solver: EKF0 | EKF1, record: Record | None = None
    ) -> None:
        self._solver, self._record, self._theta = solver, record, theta
        layout = make_layout(ode, solver)
        self._d, self._size = len(layout.top), solver.order + 1
        self._states = layout.process * self._size + layout.derivative
        self._tops = np.arange(self._d) * self._size + layout.top
        self._heads = np.flatnonzero(layout.derivative == 0)
        sizes = [ode.rhs.size1_in(k) for k in range(4)]
        symbols = [ca.SX.sym(name, n, 1) for name, n in zip("xutp", sizes, strict=True)]
        rhs = ode.rhs(*symbols)
        last = [
            int(np.flatnonzero((layout.process == p) & (layout.derivative == top - 1))[0])
            for p, top in enumerate(layout.top)
        ]
        slope = ca.jacobian(rhs[last], symbols[0])
        if getattr(solver, "jacobian", "full") == "diagonal":
            slope = slope * ca.DM((layout.process == np.arange(self._d)[:, None]).astype(float))
        self._rate = ca.Function("rate", symbols, [rhs[last], slope])
        x, u, t, p = symbols
        derivatives, rates = taylor_derivatives(x, u, t, rhs, solver.order)
        stacked = ca.vertcat(*[value[int(i)] for i in self._heads for value in derivatives])
        at = [x, ca.vertcat(u, *rates), t, p]
        self._taylor = ca.Function("taylor", at, [stacked, ca.jacobian(stacked, x)])

    def solve(self, x0: Array, grid: Array) -> ReferenceSolution:
        """Filter and smooth over the grid (10)-(13), and calibrate (16)-(23)."""
        D = self._d * self._size
        mean, factor = self._exact(x0, grid[0])[0], np.zeros((D, D))
        filtered, steps, squares, log_dets = [(mean, factor)], [], [], []
        for begin, end in pairwise(grid):
            before = None
            if self._restarts(begin, grid[0]):
                before = mean, factor
                mean, factor = self._restarted(mean, factor, begin)
            A, Q = self._prior(end - begin)
            predicted = A @ mean
            z, H = self._residual(predicted, end)
            noise = Q * np.repeat(np.sqrt(self._diffusion(z, H, Q)), self._size)
            steps.append(_Step(mean, factor, A, noise, before))
            P = lower_factor(A @ factor, noise)
            S = lower_factor(H @ P)
            w = linalg.solve_triangular(S, z, lower=True)
            K = linalg.solve_triangular(S, H @ P @ P.T, lower=True).T
            K = linalg.solve_triangular(S, K.T, lower=True, trans=True).T
            mean = predicted - K @ z
            factor = lower_factor((np.eye(D) - K @ H) @ P)
            filtered.append((mean, factor))
            squares.append(w**2)
            log_dets.append(2 * np.log(np.diag(S)).sum())
        variance = self._calibrated(np.array(squares))
        normalised = (np.array(squares) / variance).sum() + np.log(variance).sum() * len(squares)
        constant = np.log(2 * np.pi) * len(squares) * self._d
        return ReferenceSolution(
            *self._moments(filtered, variance),
            *self._moments(_smoothed(filtered[-1], steps, self._states), variance),
            log_likelihood=-0.5 * (normalised + sum(log_dets) + constant),
        )

    def _prior(self, h: float) -> tuple[Array, Array]:
        """A and Q^1/2 at unit diffusion, in plain derivatives: x^(j) = j! m_j / h^j."""
        plain = np.array([factorial(j) / h**j for j in range(self._size)])
        A = plain[:, None] * transition(self._solver.order) / plain
        root = h ** (self._solver.order + 0.5)
        Q = root * plain[:, None] * process_noise_factor(self._solver.order)
        both = [linalg.block_diag(*[part] * self._d) for part in (A, Q)]
        return np.asarray(both[0]), np.asarray(both[1])

    def _residual(self, mean: Array, time: float) -> tuple[Array, Array]:
        """Z = E_t mu - f(E_s mu) and H, E_t for EKF0 or E_t - J E_s."""
        u = self._input(time)
        rate, slope = self._rate(mean[self._states], u, time, self._theta)
        H = np.eye(len(mean))[self._tops]
        if isinstance(self._solver, EKF1):
            H = H - np.array(slope) @ np.eye(len(mean))[self._states]
        return mean[self._tops] - np.array(rate).ravel(), H

    def _diffusion(self, z: Array, H: Array, Q: Array) -> Array:
        """Variance of the diffusion of this step, per process."""
        kind = self._solver.diffusion
        if not isinstance(kind, str):
            return np.full(self._d, kind**2)
        if kind.startswith("fixed"):
            return np.ones(self._d)
        if kind == "dynamic":
            S = H @ Q @ Q.T @ H.T
            return np.full(self._d, z @ np.linalg.solve(S, z) / self._d)
        if getattr(self._solver, "jacobian", None) != "diagonal":
            H = np.eye(len(Q))[self._tops]
        return z**2 / np.diag(H @ Q @ Q.T @ H.T)

    def _calibrated(self, squares: Array) -> Array:
        if self._solver.diffusion == "fixed":
            return np.full(self._d, squares.mean())
        if self._solver.diffusion == "fixed-diagonal":
            return squares.mean(axis=0)
        return np.ones(self._d)

    def _exact(self, x: Array, time: float) -> tuple[Array, Array]:
        """All derivatives of the solution through ``x``, and their Jacobian in it."""
        rates = self._input(time, after=True)
        if len(rates) and self._solver.order > 1:
            assert self._record is not None
            following = interval_derivatives(self._record, self._solver.order - 1)
            rates = np.append(rates, following[self._interval(time, after=True)])
        mean, slope = self._taylor(x, rates, time, self._theta)
        return np.array(mean).ravel(), np.array(slope)

    def _restarts(self, time: float, start: float) -> bool:
        record = self._record
        return record is not None and not record.smooth and time > start and time in record.t

    def _restarted(self, mean: Array, factor: Array, time: float) -> tuple[Array, Array]:
        """Exact derivatives; EKF1 lets them follow the state, EKF0 takes them for known."""
        exact, slope = self._exact(mean[self._states], time)
        if not isinstance(self._solver, EKF1):
            slope = np.eye(len(mean))[:, self._states]
        elif self._solver.jacobian == "diagonal":
            own = np.arange(len(mean))[:, None] // self._size == self._states // self._size
            slope = slope * own
        return exact, lower_factor(slope @ factor[self._states])

    def _interval(self, time: float, after: bool) -> int:
        assert self._record is not None
        k = int(np.searchsorted(self._record.t, time, side="right" if after else "left")) - 1
        return min(max(k, 0), len(self._record) - 2)

    def _input(self, time: float, after: bool = False) -> Array:
        record = self._record
        if record is None or not record.n_inputs:
            return np.empty(0)
        if record.u_function is not None:
            return np.asarray(record.u_function(np.array([time])), dtype=float).ravel()
        k = self._interval(time, after)
        if record.hold == "zoh":
            return record.u[k]
        part = (time - record.t[k]) / (record.t[k + 1] - record.t[k])
        return (1 - part) * record.u[k] + part * record.u[k + 1]

    def _moments(self, states: list[tuple[Array, Array]], variance: Array) -> tuple[Array, Array]:
        roots = np.sqrt(variance)[self._states // self._size]
        means = np.array([mean[self._states] for mean, _ in states])
        factors = np.array([roots[:, None] * factor[self._states] for _, factor in states])
        return means, factors @ np.swapaxes(factors, 1, 2)


def _smoothed(
    last: tuple[Array, Array], steps: list[_Step], states: NDArray[np.int64]
) -> list[tuple[Array, Array]]:
    """Rauch-Tung-Striebel (13); Sigma^S = G Sigma^S_+ G' + (I - G A) Sigma (I - G A)' + G Q G'.

    The state after a restart tells of the one before through the states of the ODE only.
    """
    mean, factor = last
    smoothed = [last]
    for step in reversed(steps):
        A = step.transition
        G = _regression(step.factor, A @ step.factor, step.noise)
        mean = step.mean + G @ (mean - A @ step.mean)
        factor = lower_factor(G @ factor, (np.eye(len(mean)) - G @ A) @ step.factor, G @ step.noise)
        if step.before is not None:
            before, own = step.before
            G = _regression(own, own[states])
            mean = before + G @ (mean - before)[states]
            rest = own - G @ own[states]
            factor = lower_factor(G @ factor[states], rest)
        smoothed.append((mean, factor))
    return smoothed[::-1]


def _regression(factor: Array, seen: Array, *noise: Array) -> Array:
    """Gain of X = mean + factor e on what is seen of it, ``seen`` e plus noise."""
    P = lower_factor(seen, *noise)
    W = linalg.solve_triangular(P, seen @ factor.T, lower=True)
    return np.array(linalg.solve_triangular(P, W, lower=True, trans=True)).T
