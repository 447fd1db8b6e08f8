"""Choose the solver steps per sample from the solver's error, and measure that error.

Before anything has been learned from the data, the local error over a pilot set of prior draws
gives a first guess (`pilot_steps`): it needs neither a reference nor a solution that is accurate
already, so that draws whose solutions diverge can be left out. The error budget looks at one
parameter vector, and at the error that has built up there, as a share of the noise variance
(`error_budget`, `sufficient_steps`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import log2
from weakref import WeakKeyDictionary

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError
from smcpn.likelihood.inputs import LONG
from smcpn.likelihood.measurement import LEAST_INFORMATION
from smcpn.likelihood.prediction import Averages, Prediction, Stretch, predictions
from smcpn.likelihood.registry import LIKELIHOODS, likelihood_name
from smcpn.model.problem import Model, Problem
from smcpn.model.record import Record
from smcpn.solver import MAX_STEPS, Solver

Array = NDArray[np.float64]

SOLVER_SHARE = 0.05
"""Largest mean share of the noise variance that ``steps="auto"`` leaves to the solver."""
MOST_STEPS = 4_000_000
"""Solver steps over all records beyond which ``steps="auto"`` gives up."""
COARSER = 4
"""Steps over those of a first approach, where they are given."""
LASTING, LEFT_OUT = 4, 0.05
"""Steps of a stream over those that one draw from the prior in two calls for, at most, and the
share of draws for which steps may be too few."""


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

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence where the solver's error may bias the parameters."""
        if self.share <= SOLVER_SHARE:
            return ()
        return (
            f"the solver's error is {self.share:.2g} of the noise variance at the posterior mean: "
            "raise steps (or steps='auto'), parameters may be biased",
        )


def error_budget(
    problem: Problem, solver: Solver, values: Array, likelihood: str | None = None
) -> ErrorBudget:
    """Measure the solver's error at parameter values (d,), in two ways.

    The claimed variance alone may be wrong: what the solver does not see, it does not claim. Of a
    likelihood that sees the data both are errors of predictions one sample ahead. Where process
    noise acts, the variance of a prediction is not the solver's error, and counts as noise.
    """
    found = predictions(problem, solver, enumerate(problem.records), likelihood)
    return _budget(problem, found, values, int(solver.steps))


def _budget(problem: Problem, found: list[Prediction], values: Array, steps: int) -> ErrorBudget:
    compared = 2 * steps if 2 * steps <= MAX_STEPS else steps // 2
    filtered = found[0].compiled.recursion.takes_process_noise
    totals, counts = np.zeros((2, len(problem.observe))), np.zeros(len(problem.observe))
    for parts in _stretches(found, values, (steps, compared)):
        y = np.concatenate([part.y for part, _ in parts])
        own, other = zip(*parts, strict=True)
        noise = _noise(problem, np.asarray(values, dtype=float), y, _joined(own)[0])
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


def affordable(problem: Problem, steps: int) -> bool:
    """True if ``steps="auto"`` still tries this number of steps per sample."""
    return steps <= MAX_STEPS and steps * problem.n_samples <= MOST_STEPS


def finer_solver(problem: Problem, solver: Solver) -> Solver | None:
    """Return a solver twice as fine; None where that is more than ``steps="auto"`` tries."""
    finer = solver.refined()
    return finer if finer is not None and affordable(problem, int(finer.steps)) else None


def coarser_solver(solver: Solver) -> Solver | None:
    """Return a solver of a quarter of the steps, for a first approach; None where it has too few.

    A quarter of the cost buys a posterior that is near; what is learned with it is carried over.
    """
    if solver.automatic or solver.adaptive or int(solver.steps) < COARSER:
        return None
    return solver.with_steps(int(solver.steps) // COARSER)


def _noise(problem: Problem, values: Array, y: Array, outputs: Array) -> Array:
    """Variance of the noise, (T, q); where it is not Gaussian, the inverse information of a value.

    The information is that of the measured y (T, q) about the output, at the outputs (T, q).
    """
    model = problem.model.with_numbers()
    if model.density is None:
        return np.broadcast_to(model.noise_variances(values[None, :])[:, 0], outputs.shape)
    return effective_variance(model, np.nan_to_num(y, nan=1.0).T, outputs.T, values).T


def effective_variance(model: Model, y: Array, outputs: Array, theta: Array) -> Array:
    """Inverse information of values (q, K) about outputs (q, K); theta is (d,) or (d, K)."""
    density = model.density
    assert density is not None
    symbols = [density.y, density.output, model.theta]
    function = ca.Function("information", symbols, [density.information()])
    return 1.0 / np.maximum(function(y, outputs, theta).full(), LEAST_INFORMATION)


def sufficient_steps(
    problem: Problem,
    solver: Solver,
    values: Array,
    likelihood: str | None = None,
    share: float = SOLVER_SHARE,
    least: int = 1,
) -> Solver:
    """Double the steps per sample until the solver's share is small.

    Raises
    ------
    InputError
        If even the largest number of steps is not enough.
    """
    found = predictions(problem, solver, enumerate(problem.records), likelihood)
    steps = least
    while affordable(problem, steps):
        if _budget(problem, found, values, steps).share <= share:
            return replace(solver, steps=steps)
        steps *= 2
    raise InputError(
        f"steps 'auto' finds no number up to {steps // 2} that brings the solver's error below "
        f"{share:.0%} of the noise variance: check the model, its priors and the noise, give a "
        "number of steps, or, where the model is stiff, take solver='auto' or smcpn.AdaptiveEKF1()"
    )


def enough_steps(
    problem: Problem, solver: Solver, values: Array, likelihood: str | None = None
) -> Solver:
    """Return the solver with steps that are enough at values (d,), too; itself if no number is."""
    if solver.adaptive:
        return solver
    with suppress(InputError):
        least = int(solver.steps)
        return sufficient_steps(problem, solver, values, likelihood, least=least)
    return solver


FLAT = 1e-6
"""Spread of a state, relative to its size, below which it counts as constant."""


def pilot_steps(
    problem: Problem, solver: Solver, values: Array, likelihood: str | None = None
) -> int | None:
    """Steps per sample, a power of two, that bring the local error of most parameters into bounds.

    The local error e of each state is allowed what the noise is to the outputs: in root mean
    square over the record, e is at most ``sqrt(SOLVER_SHARE) r`` times the standard deviation of
    the state, where r is that of the noise over that of the measured output. The solution runs
    without data, over a long record by its first `LONG` samples.

    Parameters
    ----------
    solver : EKF0, EKF1 or RK4
    values : ndarray, (N, d)
        Parameter values. The median of their errors counts; those of solutions that diverge do
        not, unless they are the most.
    likelihood : str, optional
        As of `build_likelihood`.

    Returns
    -------
    int or None
        None if no number of steps is enough.
    """
    return sufficient_errors(problem, solver, values, likelihood)[0]


def sufficient_errors(
    problem: Problem, solver: Solver, values: Array, likelihood: str | None = None
) -> tuple[int | None, Array]:
    """Return what `pilot_steps` does, and the local errors (N,) by the last steps it tried."""
    found = without_data(problem, solver, likelihood)
    order, steps, errors = found[0].local_order, 1, np.full(len(values), np.inf)
    while affordable(problem, steps):
        errors = local_errors(problem, found, values, steps)
        error = median_of_finite(errors)
        if error <= 1.0:
            return steps, errors
        # The error falls with this power of the number of steps.
        doublings = int(log2(error) / order) if np.isfinite(error) else 0
        steps *= 2 ** max(1, doublings)
    return None, errors


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
    model = problem.model.with_numbers()
    y = np.concatenate([record.y[:LONG] for record in problem.records])
    if model.density is None:
        noise, spread = model.noise_variances(values), np.nanstd(y, axis=0)[:, None]
    else:
        n = values.shape[0]
        means = np.repeat(np.nanmean(y, axis=0)[:, None], n, axis=1)
        noise = effective_variance(model, means, averages.outputs, values.T)
        spread = _spread(averages.outputs, averages.output_squares)
    # NaN of a solution that diverges.
    return np.fmin.reduce(np.sqrt(noise) / spread, axis=0)


def _spread(mean: Array, square: Array) -> Array:
    """Standard deviation, not less than a rounding of the size makes it."""
    return np.sqrt(np.maximum(square - mean**2, FLAT**2 * square))


_MEDIAN_DRAWS = 1001
_PILOT_DRAWS = 64
_FALLBACK_STEPS = 4


def longest_interval(problem: Problem) -> float | None:
    """Longest sampling interval; None where all are the same, within a record."""
    if all(record.uniform for record in problem.records):
        return None
    return float(max(np.diff(record.t).max() for record in problem.records))


def pilot_values(problem: Problem) -> Array:
    """Parameter values (N, d) drawn from the prior, the same whatever the seed."""
    return problem.prior.natural(prior_draws(problem)[:_PILOT_DRAWS])


_DRAWS: WeakKeyDictionary[Problem, Array] = WeakKeyDictionary()
"""Draws from the prior of each problem, which one run asks for some ten times."""


def prior_draws(problem: Problem) -> Array:
    """Unconstrained draws from the prior (N, d), the same whatever the seed."""
    if problem not in _DRAWS:
        draws = problem.prior.sample(np.random.default_rng(0), _MEDIAN_DRAWS)
        draws.setflags(write=False)
        _DRAWS[problem] = draws
    return _DRAWS[problem]


def first_solver(problem: Problem, solver: Solver, likelihood: str | None = None) -> Solver:
    """Choose the steps before anything has been assimilated, where they are not given.

    The local error over a pilot set of prior draws says where to begin, and the error budget at
    the prior median whether that is enough. Both are the same whatever the seed.
    """
    if not solver.automatic:
        return solver
    if solver.adaptive:
        return solver.begun()
    if LIKELIHOODS[likelihood_name(problem, solver, likelihood)].divides:
        solver = solver.divided(longest_interval(problem))
    guess = pilot_steps(problem, solver, pilot_values(problem), likelihood)
    median = problem.prior.natural(np.median(prior_draws(problem), axis=0)[None, :])[0]
    try:
        return sufficient_steps(problem, solver, median, likelihood, least=guess or 1)
    except InputError:
        # The median of a wide prior may diverge where the posterior does not: begin with the
        # steps of the pilot set, the posterior mean decides.
        return replace(solver, steps=guess or _FALLBACK_STEPS)


def lasting_solver(problem: Problem, solver: Solver, likelihood: str | None = None) -> Solver:
    """Choose the steps of a stream, which cannot go back to its first samples with finer ones.

    They are those of `first_solver`, or up to four times as many where the prior calls for them,
    see `spanning_solver`. A stream takes as many in every interval.
    """
    chosen = first_solver(problem, solver, likelihood)
    if not solver.automatic or chosen.adaptive:
        return chosen
    return spanning_solver(problem, chosen, likelihood, LASTING, 1.0)[0].divided(None)


def spanning_solver(
    problem: Problem, solver: Solver, likelihood: str | None, most: float, allowed: float
) -> tuple[Solver, float]:
    """Return steps that are enough for 19 of 20 draws from the prior, and the share they fail.

    The posterior may be there, and what a solver does not resolve has no likelihood by it. Where
    more steps help no further draw, they are the fewest that help as many.

    Parameters
    ----------
    most : float
        Times as many steps, at most.
    allowed : float
        Local error of a draw, in units of what `pilot_steps` allows.
    """
    if solver.adaptive:
        return solver, 0.0
    found, values = without_data(problem, solver, likelihood), pilot_values(problem)
    tried: list[tuple[Solver, float]] = []
    finer: Solver | None = solver
    while finer is not None:
        errors = local_errors(problem, found, values, int(finer.steps))
        tried.append((finer, float(np.mean(errors > allowed))))
        enough = tried[-1][1] <= LEFT_OUT or 2 * int(finer.steps) > most * int(solver.steps)
        finer = None if enough else finer_solver(problem, finer)
    return min(tried, key=lambda one: one[1])
