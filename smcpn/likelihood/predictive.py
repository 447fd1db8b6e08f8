"""What a likelihood expects of every sample of several records, for one parameter vector."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smcpn.likelihood.build import LIKELIHOODS, Solver, likelihood_name
from smcpn.likelihood.prediction import Prediction
from smcpn.problem import Problem
from smcpn.record import Record

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RecordPrediction:
    """A record, its `Prediction`, and its sampling interval in units of the first record's."""

    record: Record
    prediction: Prediction
    interval: float

    def moments(self, values: Array, steps: int) -> tuple[Array, Array]:
        """As of `Prediction`, at parameters (d,); ``steps`` are counted on the first record."""
        theta = np.asarray(values, dtype=float)[:, None]
        return self.prediction.moments(theta, self.record, self.steps(steps))

    def steps(self, steps: int) -> int:
        """Steps per sample here: those of a record sampled more coarsely are not longer."""
        return max(1, int(np.ceil(steps * self.interval - 1e-6)))


def predictions(
    problem: Problem,
    solver: Solver,
    records: Iterable[tuple[int, Record]],
    likelihood: str | None = None,
) -> list[RecordPrediction]:
    """Compile the likelihood's own recursion; arguments as of `predictive_moments`."""
    recipe = LIKELIHOODS[likelihood_name(solver, likelihood)]
    learned = _mean_interval(problem.records[0])
    return [
        RecordPrediction(
            record,
            recipe.prediction(problem, solver, number, record),
            _mean_interval(record) / learned,
        )
        for number, record in records
    ]


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
    found = predictions(problem, solver, records, likelihood)
    return [one.moments(values, int(solver.steps)) for one in found]


def _mean_interval(record: Record) -> float:
    return float(np.diff(record.t).mean())
