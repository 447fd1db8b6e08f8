"""Choose between explicit steps and those of a stiff problem: what ``solver="auto"`` means.

A problem is stiff where the steps of an explicit method are bounded by its stability and not by
what accuracy asks for (Hairer and Wanner 1996, section IV.1). Both are counted over a pilot set of
prior draws: the steps that bring the local error of `EKF0` into bounds, of which it needs many
where it is on the verge of stability, and those that `AdaptiveEKF1`, which is A-stable, takes at
its tolerance. Where only a part of the draws is stiff the median of either says little: there
solutions diverge however many the steps, the likelihood is zero where the equation has a
solution, and a posterior that reaches so far would end at a wall that is the solver's. A solution
that explodes by itself does so under both.
"""

from __future__ import annotations

import logging
from typing import cast

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError
from smcpn.likelihood.adaptive import Adaptive, solver_steps
from smcpn.likelihood.inputs import numbers_of_steps
from smcpn.likelihood.lanes import Grid
from smcpn.likelihood.registry import default_solver
from smcpn.likelihood.steps import (
    affordable,
    local_errors,
    longest_interval,
    median_of_finite,
    pilot_values,
    sufficient_errors,
    without_data,
)
from smcpn.model.problem import Problem
from smcpn.solver import EKF0, MAX_STEPS, AdaptiveEKF1, Solver, check_solver

Array = NDArray[np.float64]
_log = logging.getLogger(__name__)

SUSPECT_STEPS = 64
"""Explicit steps per sample from which those of the stiff solver are counted too."""
STIFF_RATIO = 30.0
"""Explicit steps over those of the stiff solver, each of which costs some fifty times as much."""
UNSTABLE_RATIO = 5.0
"""The same of a draw whose explicit solution diverges: where accuracy asks for short steps, as of a
fast oscillation, both solvers take about as many."""
UNSTABLE_SHARE = 0.1
"""Share of unstable draws, among all and among the most likely, from which a problem is stiff."""
LIKELY = 4
"""The most likely draws are one in so many."""
FINER = 4
"""Factor between the numbers of steps that are tried on draws whose solution diverges."""


def chosen_solver(
    problem: Problem, solver: Solver | str | None, likelihood: str | None = None
) -> Solver:
    """Return the solver that is given; for None and ``"auto"`` the one that suits the problem.

    That is `EKF0`, or `AdaptiveEKF1` where the problem, or a part of its prior, is stiff; where a
    likelihood is named, or
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
    if not _takes_adaptive(problem):
        return None
    values = pilot_values(problem)
    explicit = EKF0(interval=longest_interval(problem))
    steps, errors = sufficient_errors(problem, explicit, values)
    tried, unstable = steps or SUSPECT_STEPS, np.zeros(len(values), dtype=bool)
    if steps is None or np.mean(~np.isfinite(errors)) >= UNSTABLE_SHARE:
        tried, unstable = _unstable(problem, explicit, values, tried)
    slow = steps is None or steps >= SUSPECT_STEPS
    solver = adaptive_solver(problem) if slow or unstable.any() else None
    if solver is None:
        return None
    counts, log_likelihood = solver_steps(Adaptive.build(problem, solver.begun()), problem, values)
    total = _steps_of(problem, explicit, steps or 2 * MAX_STEPS)
    median = median_of_finite(counts)
    _log.info("%d explicit steps, or %g adaptive ones", total, median)
    if slow and total > STIFF_RATIO * median:
        return solver
    stiff = unstable & (_steps_of(problem, explicit, tried) > UNSTABLE_RATIO * counts)
    likely = np.argsort(-log_likelihood, kind="stable")[: len(values) // LIKELY]
    _log.info("unstable at %d steps, not as adaptive ones: %.2g", tried, stiff.mean())
    shares = stiff.mean(), stiff[likely].mean()
    return solver if min(shares) >= UNSTABLE_SHARE else None


def _unstable(
    problem: Problem, solver: Solver, values: Array, steps: int
) -> tuple[int, NDArray[np.bool_]]:
    """Return the steps that were tried last, and the draws (N,) that diverged each time.

    None did where it is fewer than `UNSTABLE_SHARE`.
    """
    found, unstable, tried = without_data(problem, solver), np.ones(len(values), dtype=bool), 0
    while affordable(problem, steps) and unstable.mean() >= UNSTABLE_SHARE:
        finite = np.isfinite(local_errors(problem, found, values[unstable], steps))
        unstable[unstable] = ~finite
        tried, steps = steps, FINER * steps
    return tried, unstable & (tried > 0 and unstable.mean() >= UNSTABLE_SHARE)


def _steps_of(problem: Problem, solver: Solver, steps: int) -> float:
    """Steps over all records of an explicit solver that takes so many in its interval."""
    spacings = [np.diff(record.t) for record in problem.records]
    counted = [numbers_of_steps(spacing, steps, solver.interval) for spacing in spacings]
    return float(sum(count.sum() for count in counted))


def adaptive_solver(problem: Problem) -> AdaptiveEKF1 | None:
    """Return the stiff solver of the highest order that can be compiled for a problem, if any."""
    if not _takes_adaptive(problem):
        return None
    for order in (AdaptiveEKF1.order, 3, 2):
        solver = AdaptiveEKF1(order=order)
        try:
            Adaptive(problem, solver.begun(), Grid.of(problem.records, problem.model.delay))
        except InputError:
            continue
        return solver
    return None


def _takes_adaptive(problem: Problem) -> bool:
    model = problem.model
    taken = Adaptive.takes_noise(model) and (model.delay is None or Adaptive.takes_delay)
    return taken and problem.diffusion is None
