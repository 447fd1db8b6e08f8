"""From a solver to the likelihood it stands for."""

from __future__ import annotations

from smcpn.arguments import shown
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
    check_solver(solver)
    return LIKELIHOODS[type(solver)](problem, solver, threads)  # type: ignore[arg-type]


def check_solver(solver: Solver) -> None:
    """Refuse what is no solver.

    Raises
    ------
    InputError
        For the class in place of an instance, and for anything else.
    """
    if isinstance(solver, type) and solver in LIKELIHOODS:
        name = solver.__name__
        raise InputError(f"solver is the class {name}: give an instance, smcpn.{name}()")
    if type(solver) not in LIKELIHOODS:
        known = ", ".join(f"smcpn.{kind.__name__}" for kind in LIKELIHOODS)
        raise InputError(f"solver is {shown(solver)}: choose one of {known}")
