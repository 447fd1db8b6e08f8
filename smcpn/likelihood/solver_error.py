"""The error of a solver that runs with so many steps per sample, measured in two ways.

Before anything has been learned from the data it is the local error of a step (`local_errors`): it
needs neither a reference nor a solution that is accurate already, so that parameters whose
solutions diverge can be left out. At one parameter vector it is what has built up there, as a share
of the noise variance (`error_budget`). `smcpn.likelihood.solver_choice` chooses steps by both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smcpn.likelihood.inputs import LONG
from smcpn.likelihood.measurement import LEAST_INFORMATION
from smcpn.likelihood.prediction import Averages, Prediction, Stretch, predictions
from smcpn.model.measured import SampleNumbers
from smcpn.model.problem import Model, Problem
from smcpn.model.record import Record
from smcpn.solver import MAX_STEPS, Solver

Array = NDArray[np.float64]

SOLVER_SHARE = 0.05
"""Largest mean share of the noise variance that ``steps="auto"`` leaves to the solver."""
FLAT = 1e-6
"""Spread of a state, relative to its size, below which it counts as constant."""


@dataclass(frozen=True)
class ErrorBudget:
    """Solver error in units of the noise variance, mean over samples, of the worst output.

    Attributes
    ----------
    claimed : float
        Variance that the likelihood counts; 0 for a solver that claims no error.
    change : float
        Squared change of the outputs when the steps are doubled (halved, where the limit is
        near): about the error there is. Where process noise acts it is in units of the variance
        of a prediction, with half the squared relative change of that variance. inf where the
        solution diverges.
    """

    claimed: float
    change: float

    @property
    def share(self) -> float:
        """The larger of the two."""
        return max(self.claimed, self.change)


def error_budget(
    problem: Problem, found: list[Prediction], values: Array, steps: int
) -> ErrorBudget:
    """Measure the solver's error at parameter values (d,), in two ways, by predictions with it.

    The claimed variance alone may be wrong: what the solver does not see, it does not claim. Of a
    likelihood that sees the data both are errors of predictions one sample ahead. Where process
    noise acts, the variance of a prediction is not the solver's error, and counts as noise.
    """
    compared = 2 * steps if 2 * steps <= MAX_STEPS else steps // 2
    filtered = found[0].compiled.recursion.takes_process_noise
    totals, counts = np.zeros((2, len(problem.observe))), np.zeros(len(problem.observe))
    for parts in _stretches(found, values, (steps, compared)):
        y = np.concatenate([part.y for part, _ in parts])
        own, other = zip(*parts, strict=True)
        at = np.asarray(values, dtype=float)
        noise = np.concatenate([_noise(problem, at, one) for one in own])
        shares = _shares(own, other, noise, filtered)
        for j, seen in enumerate(np.isfinite(y).T):
            totals[:, j] += [share[seen, j].sum() for share in shares]
            counts[j] += seen.sum()
    claimed, change = (float(np.max(total[counts > 0] / counts[counts > 0])) for total in totals)
    return ErrorBudget(*(share if np.isfinite(share) else np.inf for share in (claimed, change)))


def _stretches(
    found: list[Prediction], values: Array, steps: tuple[int, int]
) -> Iterator[list[tuple[Stretch, Stretch]]]:
    """Yield predictions by two numbers of steps, of at least `LONG` samples but the last ones."""
    parts: list[tuple[Stretch, Stretch]] = []
    for one in found:
        for part in zip(*(one.stretches(values, n) for n in steps), strict=True):
            parts.append(part)
            if sum(len(own.y) for own, _ in parts) >= LONG:
                yield parts
                parts = []
    if parts:
        yield parts


def _joined(parts: Sequence[Stretch]) -> tuple[Array, Array]:
    """Mean and variance of the outputs, (T, q) both."""
    means = np.concatenate([part.mean for part in parts])
    return means, np.concatenate([np.diagonal(p.covariance, axis1=1, axis2=2) for p in parts])


def _shares(
    own: Sequence[Stretch], other: Sequence[Stretch], noise: Array, filtered: bool
) -> tuple[Array, Array]:
    """Claimed variance and change in units of the noise variance, (T, q) both."""
    with np.errstate(over="ignore", invalid="ignore"):
        (mean, variance), (compared, finer) = _joined(own), _joined(other)
        change = np.square(mean - compared)
        if filtered:
            scatter, more = variance + noise, finer - variance
            change = change / scatter + 0.5 * np.square(more / scatter)
            return np.zeros_like(variance), change
        return variance / noise, change / noise


def _noise(problem: Problem, values: Array, part: Stretch) -> Array:
    """Variance of the noise, (T, q); where it is not Gaussian, the inverse information of a value.

    The information is that of the measured y (T, q) about the output, at the outputs (T, q).
    """
    model, outputs = problem.model, part.mean
    if model.density is None:
        return np.broadcast_to(model.noise_variances(values[None, :])[:, 0], outputs.shape)
    piece = part.record[part.begin : part.begin + len(outputs)]
    y, samples = np.nan_to_num(part.y, nan=1.0), model.sample_numbers(piece)
    return effective_variance(model, y, outputs, values, samples)


def effective_variance(
    model: Model, y: Array, outputs: Array, values: Array, samples: SampleNumbers
) -> Array:
    """Variance of Gaussian noise, or inverse information of values about outputs, (K, q) all.

    Parameters are (d,) or (K, d), and there are K samples.
    """
    function = model.density_function(lambda one: [one.information(), one.variances])
    information, variance = function(y, outputs, values, samples)
    inverse = 1.0 / np.maximum(information, LEAST_INFORMATION)
    return np.where(np.isfinite(variance), variance, inverse)


def without_data(
    problem: Problem, solver: Solver, likelihood: str | None = None
) -> list[Prediction]:
    """Predictions of the solutions without data, over a long record by its first `LONG` samples."""
    hidden = [_begin(record).unmeasured(len(problem.observe)) for record in problem.records]
    return predictions(problem, solver, enumerate(hidden), likelihood)


def _begin(record: Record) -> Record:
    """As much of a record as is looked at before anything has been learned."""
    return record if len(record) <= LONG else record[:LONG]


def local_errors(problem: Problem, found: list[Prediction], values: Array, steps: int) -> Array:
    """Local error in units of what is allowed, of the worst state, (N,); inf where it diverges."""
    with np.errstate(all="ignore"):
        averages = _averages(found, values, steps)
        spread = _spread(averages.states, averages.state_squares)
        allowed = np.sqrt(SOLVER_SHARE) * _relative_noise(problem, averages, values) * spread
        error = np.sqrt(averages.error_squares)
        worst = np.where(error > 0.0, error / allowed, error).max(axis=0)
    return np.where(np.isfinite(worst), worst, np.inf)


def median_of_finite(errors: Array) -> float:
    """Median of those that are finite; inf where these are not the most."""
    finite = np.isfinite(errors)
    return float(np.median(errors[finite])) if 2 * finite.sum() > len(errors) else np.inf


def _averages(found: list[Prediction], values: Array, steps: int) -> Averages:
    """Averages over the samples of all records."""
    theta = np.ascontiguousarray(values.T)
    weights = np.array([len(one.record) for one in found], dtype=float)
    each = [one.averages(theta, steps) for one in found]
    together = (np.average(parts, axis=0, weights=weights) for parts in zip(*each, strict=True))
    return Averages(*together)


def _relative_noise(problem: Problem, averages: Averages, values: Array) -> Array:
    """Standard deviation of the noise over that of the output, of the clearest output, (N,)."""
    model = problem.model
    y = np.concatenate([record.y[:LONG] for record in problem.records])
    if model.density is None:
        noise, spread = model.noise_variances(values), np.nanstd(y, axis=0)[:, None]
    else:
        n = values.shape[0]
        means = np.nan_to_num(np.repeat(np.nanmean(y, axis=0)[None], n, axis=0), nan=1.0)
        samples = model.sample_numbers(problem.records[0]).without_limits().mean().repeated(n)
        noise = effective_variance(model, means, averages.outputs.T, values, samples).T
        spread = _spread(averages.outputs, averages.output_squares)
    # NaN of a solution that diverges.
    return np.fmin.reduce(np.sqrt(noise) / spread, axis=0)


def _spread(mean: Array, square: Array) -> Array:
    """Standard deviation, not less than a rounding of the size makes it."""
    return np.sqrt(np.maximum(square - mean**2, FLAT**2 * square))
