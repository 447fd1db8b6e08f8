"""Other solvers on the problems of `benchmarks.solver_problems`: SciPy, probdiffeq if installed.

A run takes a tolerance and returns the final state. Relative and absolute tolerance are the same
number everywhere, and what compiles is compiled before it is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from benchmarks.solver_problems import Array, InitialValueProblem, numpy_jacobian

Run = Callable[[float], Array]
"""From a tolerance to the final state."""


def scipy_run(problem: InitialValueProblem, method: str) -> Run:
    """`scipy.integrate.solve_ivp`, with the exact Jacobian where the method takes one.

    The vector field is plain Python on floats, the fastest that SciPy can be given without a
    compiler.
    """
    function, theta = problem.function, dict(problem.theta)
    implicit = method in ("Radau", "LSODA", "BDF") and problem.stiff
    options: dict[str, Any] = {"jac": numpy_jacobian(problem)} if implicit else {}

    def rate(t: float, x: Array) -> Any:
        return function(*x.tolist(), **theta)

    def run(tolerance: float) -> Array:
        solved = solve_ivp(
            rate, problem.span, problem.initial, method, rtol=tolerance, atol=tolerance, **options
        )
        return solved.y[:, -1]

    return run


def scipy_evaluations(problem: InitialValueProblem, method: str, tolerance: float) -> int:
    """Evaluations of the vector field that a SciPy method needs."""
    solved = solve_ivp(
        problem.rate, problem.span, problem.initial, method, rtol=tolerance, atol=tolerance
    )
    return int(solved.nfev)


class Probdiffeq:
    """The JAX package probdiffeq, in double precision.

    EKF0 takes its isotropic covariances, EKF1 its dense ones with the exact Jacobian.

    Raises `ImportError` if the package is not installed.

    problem: What to solve.
    order: Integrations of the Wiener process.
    linearised: EKF1 instead of EKF0.
    """

    def __init__(self, problem: InitialValueProblem, order: int, linearised: bool) -> None:
        self._jax = import_module("jax")
        self._jax.config.update("jax_enable_x64", True)
        self._numpy = import_module("jax.numpy")
        self._package = import_module("probdiffeq.probdiffeq")
        self._loops = import_module("probdiffeq.ivpsolve")
        self.problem, self.order, self.linearised = problem, order, linearised
        self._ode = self._package.ode(
            self._field, jacobian=self._package.jacobian_materialize(jacfun=self._jax.jacfwd)
        )
        factorised = "state_space_model_dense" if linearised else "state_space_model_isotropic"
        self._space = getattr(self._package, factorised)()
        constraint = "constraint_ode_ts1" if linearised else "constraint_ode_ts0"
        self._constraint = getattr(self._space, constraint)(self._ode)

    def _field(self, x: Any, /, *, t: Any) -> Any:
        return self._numpy.stack(self.problem.function(*x, **self.problem.theta))

    def _prior(self) -> Any:
        expand = self._package.jetexpand_ode_padded_scan(num=self.order)
        start = self._numpy.asarray(self.problem.initial, dtype=float)
        coefficients, _ = expand(self._ode, [start], t=self.problem.span[0])
        return self._space.prior_wiener_integrated(coefficients)

    def adaptive(self) -> Run:
        """Filter with dynamic diffusion and adaptive steps to the end of the span, compiled."""
        solver = self._package.solver_dynamic(
            strategy=self._package.strategy_filter(), constraint=self._constraint
        )
        error = self._package.error_residual_std(constraint=self._constraint)
        solve = self._loops.solve_adaptive_terminal_values(solver=solver, error=error)
        t0, t1 = self.problem.span
        start = self._numpy.asarray(self.problem.initial, dtype=float)

        @self._jax.jit
        def compiled(tolerance: Any) -> Any:
            first = self._loops.dt0(self._ode, [start], t=t0)
            solution = solve(
                self._prior(), t0=t0, t1=t1, atol=tolerance, rtol=tolerance, dt0=first, eps=1e-12
            )
            return solution.u.mean[0]

        return lambda tolerance: np.asarray(compiled(tolerance))

    def fixed(self, grid: Array, smooth: bool) -> tuple[Array, Array]:
        """Means and standard deviations on a fixed grid under unit diffusion, (T, d) each."""
        strategy = "strategy_smoother_fixedinterval" if smooth else "strategy_filter"
        solver = self._package.solver(
            strategy=getattr(self._package, strategy)(), constraint=self._constraint
        )
        solve = self._loops.solve_fixed_grid(solver=solver)
        solution = self._jax.jit(lambda grid: solve(self._prior(), grid=grid))(
            self._numpy.asarray(grid)
        )
        shape = (len(grid), len(self.problem.initial))
        mean, spread = np.asarray(solution.u.mean[0]), np.asarray(solution.u.std[0])
        return mean, np.broadcast_to(spread.reshape(len(grid), -1), shape)
