"""From a solver to the likelihood it stands for."""

from __future__ import annotations

from smcpn.errors import InputError
from smcpn.likelihood.classical import classical
from smcpn.likelihood.lanes import LaneLikelihood
from smcpn.likelihood.marginal import marginal
from smcpn.problem import Problem
from smcpn.solver import EKF0, RK4

Solver = EKF0 | RK4

LIKELIHOODS = {EKF0: marginal, RK4: classical}


def build_likelihood(
    problem: Problem, solver: Solver, threads: int | None = None
) -> LaneLikelihood:
    """Build the likelihood of a problem under a solver.

    Raises
    ------
    InputError
        If no likelihood goes with the solver.
    """
    builder = LIKELIHOODS.get(type(solver))
    if builder is None:
        known = ", ".join(f"smcpn.{kind.__name__}" for kind in LIKELIHOODS)
        raise InputError(f"solver is {solver!r}: choose one of {known}")
    return builder(problem, solver, threads)  # type: ignore[arg-type]
