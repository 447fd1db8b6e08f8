"""Errors of single runs: how fast they fall on fixed grids, and what a stiff run ends with."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import smcpn
from benchmarks.solver_precision import best_time, distance, label, solve_on_grid
from benchmarks.solver_problems import VAN_DER_POL_1E6, InitialValueProblem, extended_solution


def convergence_row(problem: InitialValueProblem, kind: type, order: int) -> dict[str, Any]:
    """Least-squares slope of the root mean square error over grids that halve.

    The error is taken at twenty times, since that at a single one may change its sign; of the
    grids, the finest three whose errors stand clear of two hundred roundings of the largest state,
    ten times what is left of the error on the finest grids. Coarser ones are not yet in the
    asymptotic range: with EKF1(5) they raise the slope to 6.3.
    """
    steps, errors = 20 * 2 ** np.arange(10), list[tuple[int, float]]()
    exact = _exact(problem)
    for n in steps.tolist():
        solution = solve_on_grid(problem, kind(order=order, steps=1), n)
        if solution.success:
            error = float(np.sqrt(np.mean(np.square(solution.mean[:: n // 20] - exact))))
            errors.append((n, error))
    floor = 200 * np.finfo(float).eps * np.abs(exact).max()
    clear = [pair for pair in errors if pair[1] > floor][-3:]
    logs = np.log(clear)
    return {
        "problem": problem.name,
        "method": kind.__name__,
        "order": order,
        "slope": float(-np.polyfit(logs[:, 0], logs[:, 1], 1)[0]),
        "steps": " ".join(str(n) for n, _ in clear),
        "errors": " ".join(f"{error:.1e}" for _, error in clear),
    }


@cache
def _exact(problem: InitialValueProblem) -> Any:
    """States at 21 times of the span, to 1e-15."""
    return extended_solution(problem, np.linspace(*problem.span, 1001))[::50]


def stiff_row(starts: int, control: str = "P", form: str = "first") -> dict[str, Any]:
    """One run, and the errors of runs whose start differs in the last digits, to either side.

    Whether a step is accepted hangs on roundings, and from there on the runs differ: the error of
    a single one is a draw, 2 % to either side.
    """
    solver = smcpn.EKF1(order=3, smooth=True, form=form)

    def run(tolerance: float, start: float = 2.0) -> smcpn.Solution:
        return smcpn.solve(
            VAN_DER_POL_1E6.model,
            VAN_DER_POL_1E6.span,
            VAN_DER_POL_1E6.theta,
            initial=(start, 0.0),
            solver=solver,
            rtol=tolerance,
            atol=1e-6,
            control=control,
        )

    def error(start: float) -> float:
        return distance(VAN_DER_POL_1E6, run(1e-3, start).mean[-1])

    # The mean is what smooths.
    seconds = best_time(lambda tolerance: run(tolerance).mean[-1])(1e-3)
    errors = [error(2.0 + k * float(np.spacing(2.0))) for k in range(-starts, starts + 1)]
    stats = run(1e-3).stats
    return {
        "problem": VAN_DER_POL_1E6.name,
        "solver": label(solver),
        "control": control,
        "error": errors[starts],
        "median": float(np.median(errors)),
        "least": min(errors),
        "most": max(errors),
        "iterations": stats.steps,
        "rejected": stats.rejected,
        "seconds": seconds,
    }
