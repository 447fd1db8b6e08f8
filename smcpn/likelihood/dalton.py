"""DALTON with Gaussian noise: log p(y, z) - log p(z), each linearised where its own filter is.

Wu and Lysy (2024), algorithm 1: one filter sees the outputs y and the residuals z of the ODE, the
other the residuals alone. The difference is taken sample by sample, so that it has increments.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smcpn.likelihood.conditioned import Scheme
from smcpn.likelihood.conditioned_lanes import (
    ConditionedLikelihood,
    conditioned_likelihood,
    conditioned_moments,
)
from smcpn.likelihood.diffusion import KnownDiffusion, known_diffusion
from smcpn.problem import Problem
from smcpn.record import Record
from smcpn.solver import EKF0, EKF1

SCHEME = Scheme(joint=True)


def dalton(
    problem: Problem,
    solver: EKF0 | EKF1,
    threads: int | None = None,
    *,
    start_order: int | None = None,
) -> ConditionedLikelihood:
    """Build the likelihood of a problem.

    Parameters
    ----------
    start_order : int, optional
        See `ConditionedSymbols`.

    Raises
    ------
    InputError
        If the solver's diffusion is calibrated, or its steps are not a number.
    """
    return conditioned_likelihood(problem, solver, SCHEME, _diffusion, threads, start_order)


def dalton_moments(
    problem: Problem,
    solver: EKF0 | EKF1,
    theta: NDArray[np.float64],
    number: int,
    record: Record,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """One-step-ahead moments of the outputs, see `conditioned_moments`."""
    return conditioned_moments(problem, solver, SCHEME, _diffusion, theta, number, record)


def _diffusion(problem: Problem, solver: EKF0 | EKF1) -> KnownDiffusion:
    return known_diffusion(problem, solver, "dalton")
