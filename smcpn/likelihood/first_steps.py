"""The steps to begin with, before anything has been learned from the data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from smcpn.errors import InputError
from smcpn.likelihood.budget import sufficient_steps
from smcpn.likelihood.build import Solver
from smcpn.likelihood.pilot import pilot_steps
from smcpn.problem import Problem

_MEDIAN_DRAWS = 1001
_PILOT_DRAWS = 64
_FALLBACK_STEPS = 4


def first_solver(problem: Problem, solver: Solver, likelihood: str | None = None) -> Solver:
    """Choose the steps before anything has been absorbed, where they are not given.

    The local error over a pilot set of prior draws says where to begin, and the error budget at
    the prior median whether that is enough. Both are the same whatever the seed.
    """
    if solver.steps != "auto":
        return solver
    prior = problem.prior
    theta = prior.sample(np.random.default_rng(0), _MEDIAN_DRAWS)
    guess = pilot_steps(problem, solver, prior.natural(theta[:_PILOT_DRAWS]), likelihood)
    median = prior.natural(np.median(theta, axis=0)[None, :])[0]
    try:
        return sufficient_steps(problem, solver, median, likelihood, least=guess or 1)
    except InputError:
        # The median of a wide prior may diverge where the posterior does not: begin with what the
        # pilot set asks for, the posterior mean decides.
        return replace(solver, steps=guess or _FALLBACK_STEPS)
