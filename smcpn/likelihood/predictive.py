"""What a likelihood expects of every sample, for one parameter vector: mean and covariance."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from smcpn.likelihood.build import LIKELIHOODS, Solver, likelihood_name
from smcpn.problem import Problem
from smcpn.record import Record

Array = NDArray[np.float64]


def predictive_moments(
    problem: Problem,
    solver: Solver,
    values: Array,
    records: Iterable[tuple[int, Record]],
    likelihood: str | None = None,
) -> list[tuple[Array, Array]]:
    """Run the likelihood's own recursion and return the mean and the solver's covariance.

    Parameters
    ----------
    solver : EKF0, EKF1 or RK4
        With a number of steps, counted per sampling interval of the problem's first record.
    values : ndarray, (d,)
        Parameter values.
    records : iterable of (int, Record)
        Each with the number of the initial state it starts from.
    likelihood : str, optional
        As of `build_likelihood`.

    Returns
    -------
    list of (mean (T, q), covariance (T, q, q))
        Outputs without noise. Of the marginal likelihood J Sigma J' (PN-SMC eq. 20); zero of the
        classical one, which claims no error. Of those that see the data, both are given the
        samples before: the covariance is what the solver is uncertain of one sample ahead.
    """
    theta = np.asarray(values, dtype=float)[:, None]
    moments = LIKELIHOODS[likelihood_name(solver, likelihood)].moments
    return [
        moments(problem, _same_step_length(problem, solver, record), theta, number, record)
        for number, record in records
    ]


def _same_step_length(problem: Problem, solver: Solver, record: Record) -> Solver:
    """Scale the steps per sample, so that a record sampled more coarsely has no longer steps."""
    learned, here = (float(np.diff(r.t).mean()) for r in (problem.records[0], record))
    return replace(solver, steps=max(1, int(np.ceil(int(solver.steps) * here / learned - 1e-6))))
