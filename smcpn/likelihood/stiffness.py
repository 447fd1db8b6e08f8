"""Choose between explicit steps and those of a stiff problem: what ``solver="auto"`` means.

A problem is stiff where the steps of an explicit method are bounded by its stability and not by
what accuracy asks for (Hairer and Wanner 1996, section IV.1). Both are counted over a pilot set of
prior draws: the steps that bring the local error of `EKF0` into bounds, of which it needs many
where it is on the verge of stability, and those that `AdaptiveEKF1`, which is A-stable, takes at
its tolerance.
"""

from __future__ import annotations

import logging
from typing import cast

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError
from smcpn.likelihood.adaptive import Adaptive, solver_steps
from smcpn.likelihood.lanes import Grid
from smcpn.likelihood.registry import default_solver
from smcpn.likelihood.rows import numbers_of_steps
from smcpn.likelihood.steps import longest_interval, pilot_steps, pilot_values
from smcpn.model.problem import Problem
from smcpn.solver import EKF0, MAX_STEPS, AdaptiveEKF1, Solver, check_solver

Array = NDArray[np.float64]
_log = logging.getLogger(__name__)

SUSPECT_STEPS = 64
"""Explicit steps per sample from which those of the stiff solver are counted too."""
STIFF_RATIO = 30.0
"""Explicit steps over those of the stiff solver, each of which costs some fifty times as much."""


def chosen_solver(
    problem: Problem, solver: Solver | str | None, likelihood: str | None = None
) -> Solver:
    """Return the solver that is given; for None and ``"auto"`` the one that suits the problem.

    That is `EKF0`, or `AdaptiveEKF1` where the problem is stiff; where a likelihood is named, or
    there is process noise, it is the solver that goes with it. The same problem gives the same
    solver, whatever the seed.

    Raises
    ------
    InputError
        For what is no solver, and as `default_solver`.
    """
    if solver is not None and not (isinstance(solver, str) and solver == "auto"):
        given = cast(Solver, solver)
        check_solver(given)
        return given
    if likelihood is not None:
        return default_solver(problem, likelihood)
    return stiff_solver(problem) or default_solver(problem, None)


def stiff_solver(problem: Problem) -> Solver | None:
    """Return a solver for the problem if it is stiff at the draws from the prior; None if not."""
    model = problem.model
    taken = Adaptive.takes_noise(model) and (model.delay is None or Adaptive.takes_delay)
    if not taken or problem.diffusion is not None:
        return None
    values = pilot_values(problem)
    longest = longest_interval(problem)
    explicit = pilot_steps(problem, EKF0(interval=longest), values)
    solver = None if explicit is not None and explicit < SUSPECT_STEPS else _adaptive(problem)
    if solver is None:
        return None
    likelihood = Adaptive.build(problem, solver.begun())
    counts = solver_steps(likelihood, problem, values)
    explicit = explicit or 2 * MAX_STEPS
    spacings = [np.diff(record.t) for record in problem.records]
    total = sum(numbers_of_steps(spacing, explicit, longest).sum() for spacing in spacings)
    _log.info("%d explicit steps, or %g adaptive ones", total, counts)
    return solver if total > STIFF_RATIO * counts else None


def _adaptive(problem: Problem) -> AdaptiveEKF1 | None:
    """The stiff solver of the highest order that can be compiled for a problem."""
    for order in (AdaptiveEKF1.order, 3, 2):
        solver = AdaptiveEKF1(order=order)
        try:
            Adaptive(problem, solver.begun(), Grid.of(problem.records, problem.model.delay))
        except InputError:
            continue
        return solver
    return None
