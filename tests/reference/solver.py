"""EKF0 and EKF1 on a given grid: the reference for the compiled loop.

Equation numbers are those of Bosch, Hennig, Tronarp (2021), 'Calibrated adaptive probabilistic ODE
solvers'.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.model.ode import ODE
from smcpn.model.record import Record
from smcpn.model.signal import RecordSamples
from smcpn.model.solver import ProbabilisticSolver
from tests.reference.gauss_markov import Affine, Dynamics, Filter, Innovation, Normal

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ReferenceSolution:
    """Moments of the states on the grid.

    mean, smoothed_mean: (N, n)
    covariance, smoothed_covariance: (N, n, n)
    """

    mean: Array
    covariance: Array
    smoothed_mean: Array
    smoothed_covariance: Array
    log_likelihood: float


class Reference(Dynamics):
    """A model discretised by a solver, with everything dense.

    theta: (p,)
    record: Held or linear input, or a known function of time.
    """

    def __init__(
        self, ode: ODE, theta: Array, solver: ProbabilisticSolver, record: Record | None = None
    ) -> None:
        sizes = [ode.rhs.size1_in(k) for k in range(4)]
        symbols = [ca.SX.sym(name, n, 1) for name, n in zip("xutp", sizes, strict=True)]
        super().__init__(symbols, ode.rhs(*symbols), theta, solver)
        self._record = record

    def solve(self, x0: Array, grid: Array) -> ReferenceSolution:
        """Filter and smooth over the grid (10)-(13), and calibrate (16)-(23)."""
        mean = self.start(x0, grid[0])
        run = Filter(self, Normal(mean, np.zeros((len(mean), len(mean)))))
        filtered, innovations = [run.state], list[Innovation]()
        # Predictions that start at a grid point, so that smoothing ends there.
        first = list[int]()
        for begin, end in pairwise(grid):
            first.append(len(run.predictions))
            if self._restarts(begin, grid[0]):
                run.restart(begin, *self._input_after(begin))
            kernel = self._kernel(run.state.mean, begin, end)
            innovations.append(run.step(kernel, end, self.input(end)))
            filtered.append(run.state)
        smoothed, state = [run.state], run.state
        for number, kernel in reversed(list(enumerate(run.backward()))):
            state = state.through(kernel)
            if number in first:
                smoothed.append(state)
        squares = np.array([innovation.whitened**2 for innovation in innovations])
        variance = self._calibrated(squares)
        normalised = (squares / variance).sum() + np.log(variance).sum() * len(squares)
        log_dets = sum(innovation.log_det for innovation in innovations)
        constant = np.log(2 * np.pi) * squares.size
        return ReferenceSolution(
            *self._moments(filtered, variance),
            *self._moments(smoothed[::-1], variance),
            log_likelihood=-0.5 * (normalised + log_dets + constant),
        )

    def start(self, x0: Array, time: float) -> Array:
        """All derivatives of the solution through ``x0``, (d,)."""
        u, rates = self._input_after(time)
        exact = self.exact(x0, u, time, rates)
        return exact.matrix[:, self.values] @ x0 + exact.offset

    def input(self, time: float, after: bool = False) -> Array:
        """Input at a time, before it jumps there or after."""
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

    def _kernel(self, mean: Array, begin: float, end: float) -> Affine:
        """Transition of a step, with the diffusion that its residual tells."""
        A, Q = self.prior(end - begin)
        H, residual = self.residual(A @ mean, end, self.input(end))
        noise = Q * np.repeat(np.sqrt(self._diffusion(residual, H, Q)), self.size)
        return Affine(A, np.zeros(len(A)), noise)

    def _diffusion(self, z: Array, H: Array, Q: Array) -> Array:
        """Variance of the diffusion of this step, per process, (21) and (23)."""
        kind, d = self.solver.diffusion, len(self.chains)
        if not isinstance(kind, str):
            return np.full(d, kind**2)
        if kind.startswith("fixed"):
            return np.ones(d)
        if kind == "dynamic":
            S = H @ Q @ Q.T @ H.T
            return np.full(d, z @ np.linalg.solve(S, z) / d)
        if self.solver.jacobian == "full":
            H = np.eye(len(Q))[self.tops]
        return z**2 / np.diag(H @ Q @ Q.T @ H.T)

    def _calibrated(self, squares: Array) -> Array:
        """Variance of a fixed diffusion per process, (16) and (17)."""
        d = len(self.chains)
        if self.solver.diffusion == "fixed":
            return np.full(d, squares.mean())
        if self.solver.diffusion == "fixed-diagonal":
            return squares.mean(axis=0)
        return np.ones(d)

    def _restarts(self, time: float, start: float) -> bool:
        record = self._record
        return record is not None and not record.smooth and time > start and time in record.t

    def _input_after(self, time: float) -> tuple[Array, Array]:
        """Input just after a time, and its derivatives."""
        u, order = self.input(time, after=True), self.solver.order
        if not len(u) or order == 1:
            return u, np.zeros((order - 1) * len(u))
        assert self._record is not None
        following = RecordSamples(self._record).rates(0, len(self._record), order - 1)
        return u, following[self._interval(time, after=True)]

    def _interval(self, time: float, after: bool) -> int:
        assert self._record is not None
        k = int(np.searchsorted(self._record.t, time, side="right" if after else "left")) - 1
        return min(max(k, 0), len(self._record) - 2)

    def _moments(self, states: list[Normal], variance: Array) -> tuple[Array, Array]:
        roots = np.sqrt(variance)[self.process]
        means = np.array([state.mean[self.values] for state in states])
        factors = np.array([roots[:, None] * state.factor[self.values] for state in states])
        return means, factors @ np.swapaxes(factors, 1, 2)
