"""The likelihood of the solver that sees the data: the product of p(y_t | y_<t, z_<=t).

Every sample corrects the state, so that errors of the solver do not add up over the record. With
a calibrated diffusion (``"fixed"``, ``"fixed-diagonal"``) a data-free filter runs beside it, whose
residuals give the running quasi-MLE.
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
from smcpn.likelihood.diffusion import Diffusion, running_diffusion
from smcpn.likelihood.processes import Layout
from smcpn.problem import Problem
from smcpn.record import Record
from smcpn.solver import EKF0, EKF1

SCHEME = Scheme(joint=False)


def filtering(
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
        If the solver's diffusion changes from step to step, or its steps are not a number.
    """
    return conditioned_likelihood(problem, solver, SCHEME, _diffusion, threads, start_order)


def filtering_moments(
    problem: Problem,
    solver: EKF0 | EKF1,
    theta: NDArray[np.float64],
    number: int,
    record: Record,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """One-step-ahead moments of the outputs, see `conditioned_moments`."""
    return conditioned_moments(problem, solver, SCHEME, _diffusion, theta, number, record)


def _diffusion(problem: Problem, solver: EKF0 | EKF1) -> Diffusion:
    processes = len(Layout.of(problem.model, solver, outputs=False).processes)
    return running_diffusion(problem, solver, processes)
