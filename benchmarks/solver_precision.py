"""The cost of an accuracy: errors, and times or evaluations, over a ladder of tolerances.

The error is the Euclidean norm of the difference to the reference at the end of the span, as in the
paper. The cost at an error is interpolated in log-log between the two tolerances that bracket it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import smcpn
from benchmarks.solver_peers import Probdiffeq, Run, scipy_evaluations, scipy_run
from benchmarks.solver_problems import (
    LOTKA_VOLTERRA,
    PLEIADES,
    Array,
    InitialValueProblem,
    final_state,
)

Solver = smcpn.EKF0 | smcpn.EKF1
LEVEL = 1e-6
"""Error at which costs are compared."""
LADDER = tuple(10.0 ** -(k / 2) for k in range(6, 27))
"""Tolerances, 1e-3 to 1e-13."""


@dataclass(frozen=True)
class Curve:
    """Errors and costs from loose to tight."""

    errors: Array
    costs: Array

    def at(self, level: float = LEVEL) -> float:
        """Cost where the error first falls below ``level``; NaN if it never does."""
        reached = np.flatnonzero(self.errors <= level)
        if not len(reached):
            return float("nan")
        last = int(reached[0])
        if last == 0:
            return float(self.costs[0])
        part = slice(last - 1, last + 1)
        errors, costs = np.log(self.errors[part]), np.log(self.costs[part])
        share = (np.log(level) - errors[0]) / (errors[1] - errors[0])
        return float(np.exp(costs[0] + share * (costs[1] - costs[0])))


@dataclass(frozen=True)
class Line:
    """A solver's curve on one problem, or the reason why there is none.

    name: Method and order.
    peer: "smcpn", "scipy" or "probdiffeq".
    missing: Why there is no curve.
    """

    name: str
    peer: str
    curve: Curve | None
    missing: str = ""


def solve(
    problem: InitialValueProblem, solver: Solver, rtol: float, atol: float, **options: Any
) -> smcpn.Solution:
    """`smcpn.solve` on a problem with adaptive steps."""
    return smcpn.solve(
        problem.model,
        problem.span,
        problem.theta,
        initial=problem.initial,
        solver=solver,
        rtol=rtol,
        atol=atol,
        **options,
    )


def solve_on_grid(problem: InitialValueProblem, solver: Solver, n: int) -> smcpn.Solution:
    """`smcpn.solve` on ``n`` equal steps; the solver has one step between the points."""
    grid = np.linspace(*problem.span, n + 1)
    return smcpn.solve(problem.model, grid, problem.theta, initial=problem.initial, solver=solver)


def distance(problem: InitialValueProblem, state: Array) -> float:
    """Euclidean distance to the reference at the end."""
    return float(np.linalg.norm(state - final_state(problem)))


def measured(
    problem: InitialValueProblem,
    run: Run,
    cost: Callable[[float], float],
    ladder: Sequence[float] = LADDER,
) -> Curve:
    """Climb the ladder until the error is a thousandth of the level."""
    errors, costs = [], []
    for tolerance in ladder:
        error = distance(problem, run(tolerance))
        if not np.isfinite(error):
            continue
        errors.append(max(error, 1e-16))
        costs.append(cost(tolerance))
        if error < 1e-3 * LEVEL:
            break
    return Curve(np.array(errors), np.array(costs))


def best_time(run: Run, seconds: float = 0.1) -> Callable[[float], float]:
    """Least processor time of three runs or as many as fit in ``seconds``; of one if it is long."""

    def once(tolerance: float) -> float:
        begin = time.process_time()
        run(tolerance)
        return time.process_time() - begin

    def cost(tolerance: float) -> float:
        times = [once(tolerance)]
        while sum(times) < seconds or (len(times) < 3 and times[-1] < 10 * seconds):
            times.append(once(tolerance))
        return min(times)

    return cost


def own_solvers(problem: InitialValueProblem) -> tuple[Solver, ...]:
    """The solvers a user would choose for a problem: filters with dynamic diffusion."""
    if problem.stiff:
        chain = smcpn.EKF1(order=5, form="chain")
        return smcpn.EKF1(order=3), smcpn.EKF1(order=5), chain
    explicit = smcpn.EKF0(order=5, diffusion="dynamic")
    if problem is PLEIADES:
        return explicit, smcpn.EKF0(order=5, form="chain", diffusion="dynamic")
    return explicit, smcpn.EKF1(order=4), smcpn.EKF1(order=5)


def work_precision(problem: InitialValueProblem, quick: bool = False) -> Iterator[Line]:
    """Time against error of smcpn and its peers on one problem."""
    ladder = LADDER[::2] if quick else LADDER
    for solver in own_solvers(problem):
        yield Line(label(solver), "smcpn", _timed(problem, _own_run(problem, solver), ladder))
    for method in ("Radau" if problem.stiff else "DOP853", "LSODA"):
        yield Line(method, "scipy", _timed(problem, scipy_run(problem, method), ladder))
    for solver in own_solvers(problem):
        name = f"probdiffeq {label(solver)}"
        if solver.form == "chain":
            continue
        try:
            peer = Probdiffeq(problem, solver.order, isinstance(solver, smcpn.EKF1))
        except ImportError:
            yield Line(name, "probdiffeq", None, "not installed")
            continue
        yield Line(name, "probdiffeq", _timed(problem, peer.adaptive(), ladder))


def label(solver: Solver) -> str:
    """Method, order and form."""
    chain = ", chain" if solver.form == "chain" else ""
    method = type(solver).__name__.replace("F", "S") if solver.smooth else type(solver).__name__
    return f"{method}({solver.order}{chain})"


def _own_run(problem: InitialValueProblem, solver: Solver) -> Run:
    return lambda tolerance: solve(problem, solver, tolerance, tolerance).mean[-1]


def _timed(problem: InitialValueProblem, run: Run, ladder: Sequence[float]) -> Curve:
    run(ladder[0])
    return measured(problem, run, best_time(run), ladder)


def evaluations() -> Iterator[Line]:
    """Evaluations of f and its Jacobian against error on Lotka-Volterra (Figure 5).

    All use order 5 and dynamic scalar diffusion, and Dormand-Prince 4/5 is run for comparison.
    """
    problem = LOTKA_VOLTERRA
    for smooth in (False, True):
        for kind in (smcpn.EKF0, smcpn.EKF1):
            solver = kind(order=5, diffusion="dynamic", smooth=smooth)

            def cost(tolerance: float, solver: Solver = solver) -> float:
                stats = solve(problem, solver, tolerance, tolerance).stats
                return stats.f_evaluations + stats.jacobian_evaluations

            yield Line(label(solver), "smcpn", measured(problem, _own_run(problem, solver), cost))
    yield Line(
        "Dormand-Prince 4/5",
        "scipy",
        measured(
            problem,
            scipy_run(problem, "RK45"),
            lambda tolerance: scipy_evaluations(problem, "RK45", tolerance),
        ),
    )
