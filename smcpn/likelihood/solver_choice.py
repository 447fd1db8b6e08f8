"""Choice of the solver and of its steps, for whoever leaves them open.

`choose_solver` says which solver, with the reason; the functions ``solver_*`` say with which steps,
each for one purpose, and are the same whatever the seed.

A problem is stiff where the steps of an explicit method are bounded by its stability and not by
what accuracy asks for (Hairer and Wanner 1996, section IV.1). Both are counted over a pilot set of
prior draws: the steps that bring the local error of `EKF0` into bounds, of which it needs many
where it is on the verge of stability, and those that `Rosenbrock`, which is L-stable, takes at a
tolerance like that. Where only a part of the draws is stiff the median of either says little: there
solutions diverge however many the steps, the likelihood is zero where the equation has a solution,
and a posterior that reaches so far would end at a wall that is the solver's. A solution that
explodes by itself does so under both. Where particles have come near the posterior both are counted
again there (`chosen_again`): a prior may be stiff where the posterior is not, and the other way.

Steps are judged by the error of a solver that takes so many per sample, in two ways. Before
anything has been learned from the data it is the local error of a step (`local_errors`): it needs
neither a reference nor a solution that is accurate already, so that parameters whose solutions
diverge can be left out. At one parameter vector it is what has built up there, as a share of the
noise variance (`error_budget`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import log2
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from smcpn.base.stored import Line, Stored
from smcpn.errors import InputError, one_of
from smcpn.likelihood.algebraic import check_consistent
from smcpn.likelihood.inputs import LONG, numbers_of_steps
from smcpn.likelihood.measurement import LEAST_INFORMATION
from smcpn.likelihood.own_steps import solver_steps
from smcpn.likelihood.prediction import Averages, Prediction, Stretch, predictions
from smcpn.likelihood.registry import (
    LIKELIHOODS,
    build_likelihood,
    check_likelihood,
    likelihood_name,
    suitable_likelihood,
    with_process_noise,
)
from smcpn.model.measured import SampleNumbers
from smcpn.model.parts import STIFF_PARTS
from smcpn.model.problem import Model, Problem
from smcpn.model.record import Record
from smcpn.model.solver import EKF0, MAX_STEPS, SOLVERS, Rosenbrock, Solver, check_solver

Array = NDArray[np.float64]

SOLVER_SHARE = 0.05
"""Largest mean share of the noise variance that ``steps="auto"`` leaves to the solver."""
FLAT = 1e-6
"""Spread of a state, relative to its size, below which it counts as constant."""


@dataclass(frozen=True)
class ErrorBudget:
    """Solver error in units of the noise variance, mean over samples, of the worst output.

    claimed: Variance that the likelihood counts; 0 for a solver that claims no error.
    change: Squared change of the outputs when the steps are doubled (halved, where the limit is
        near): about the error there is. Where process noise acts it is in units of the variance of
        a prediction, with half the squared relative change of that variance. inf where the solution
        diverges.
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
    measured = counts > 0
    means = totals[:, measured] / counts[measured]
    claimed, change = (float(share.max(initial=0.0)) for share in means)
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
        # Of an output of which limits alone are known there is no mean.
        seen, means = np.isfinite(y).any(axis=0), np.ones((values.shape[0], y.shape[1]))
        means[:, seen] = np.nanmean(y[:, seen], axis=0)
        samples = model.sample_numbers(problem.records[0]).without_limits().mean()
        samples = samples.repeated(len(values))
        noise = effective_variance(model, means, averages.outputs.T, values, samples).T
        spread = _spread(averages.outputs, averages.output_squares)
    # NaN of a solution that diverges.
    return np.fmin.reduce(np.sqrt(noise) / spread, axis=0)


def _spread(mean: Array, square: Array) -> Array:
    """Standard deviation, not less than a rounding of the size makes it."""
    return np.sqrt(np.maximum(square - mean**2, FLAT**2 * square))


LogLikelihoodBy = Callable[[Solver], Callable[[Array], Array]]
"""From a solver to the log-likelihood, (N,), of values (N, d)."""

_log = logging.getLogger(__name__)

SUSPECT_STEPS = 64
"""Explicit steps per sample from which those of the stiff solver are counted too."""
STIFF_RATIO = 30.0
"""Explicit steps over those of the stiff solver, each of which costs some ten times as much.

The explicit one, which says how large its error is, is kept where it takes three times as long."""
COMPARED = 1e-4
"""Tolerance at which steps of the stiff solver are counted."""
UNSTABLE_RATIO = 5.0
"""The same of a draw whose explicit solution diverges: where accuracy asks for short steps, as of a
fast oscillation, both solvers take about as many."""
UNSTABLE_SHARE = 0.1
"""Share of unstable draws, among all and among the most likely, from which a problem is stiff."""
CHEAPER = 5.0
"""Explicit steps over those of the stiff solver up to which they cost half as much, or less."""
WORTH = 20_000_000
"""Steps of the stiff solver for all particles, over the records, from which it pays to compile the
explicit one."""
LIKELY = 4
"""The most likely draws are one in so many."""
FINER = 4
"""Factor between the numbers of steps that are tried on what diverges."""
MOST_STEPS = 4_000_000
"""Solver steps over all records beyond which ``steps="auto"`` gives up."""
COARSER = 4
"""Steps over those of a first approach, where they are given."""
NEAR = 8.0
"""Nats by which the log-likelihood at a mode may differ on a first approach: those of a point that
is four standard deviations off."""
LASTING, LEFT_OUT = 4, 0.05
"""Steps of particles from the prior over those that one draw in two calls for, at most, and the
share of draws for which steps may be too few."""
_MEDIAN_DRAWS = 1001
_PILOT_DRAWS = 64
_FALLBACK_STEPS = 4


@dataclass(frozen=True)
class SolverChoice(Stored):
    """A solver with its likelihood, and why it is that one.

    Attributes
    ----------
    solver : Solver
        Its steps may still be open.
    likelihood : str
        Name of the likelihood that goes with it.
    reason : str
    open : bool
        Whether another solver may be chosen where the particles are.
    """

    solver: Solver
    likelihood: Line
    reason: Line
    open: bool = False


def choose_solver(
    problem: Problem, solver: Solver | str | None = None, likelihood: str | None = None
) -> SolverChoice:
    """Choose the solver, where none is given, and the likelihood, where none is named.

    A solver that is given is taken. For None and ``"auto"`` it is `EKF0`, or `Rosenbrock` where the
    problem, or a part of its prior, is stiff, or there are events or algebraic equations; where a
    likelihood is named, or there is process noise, it is the solver that goes with it.
    """
    values, is_open = pilot_values(problem), False
    check_consistent(problem, values)
    if not leaves_open(solver):
        chosen, reason = cast(Solver, solver), "it is given"
        check_solver(chosen)
    elif problem.model.events is not None:
        chosen, reason = default_solver(problem, likelihood), "it finds the events of the state"
    elif problem.model.algebraic:
        chosen, reason = default_solver(problem, likelihood), "there are algebraic equations"
    elif likelihood is not None:
        chosen, reason = default_solver(problem, likelihood), "it goes with the likelihood"
    else:
        is_open = stiff_solver(problem) is not None
        stiff = _stiff_choice(problem, values, "prior")
        chosen, reason = stiff or (
            default_solver(problem, None),
            "nothing shows that the problem is stiff",
        )
    _log.info("%r: %s", chosen, reason)
    return SolverChoice(chosen, likelihood_name(problem, chosen, likelihood), reason, is_open)


def leaves_open(solver: Solver | str | None, likelihood: Any = None) -> bool:
    """True where neither a solver is given nor a likelihood that one goes with."""
    automatic = solver is None or (isinstance(solver, str) and solver == "auto")
    return automatic and likelihood is None


def solver_named(name: str, problem: Problem, likelihood: str | None) -> Solver:
    """Return a solver by its name with its own settings, or for ``"auto"`` the one that suits."""
    if one_of("solver", name, (*SOLVERS, "auto")) == "auto":
        return choose_solver(problem, None, likelihood).solver
    return cast(Any, SOLVERS[name])()


def default_solver(problem: Problem, likelihood: str | None) -> Solver:
    """Return the solver of a problem that is not stiff: `EKF0`, or the likelihood's.

    With process noise, events or algebraic equations it is that of the first likelihood that takes
    them, with noise of another density that of the classical one.
    """
    if likelihood is None:
        fitting = with_process_noise() if problem.model.process_noise is not None else []
        density = problem.model.density
        if not fitting and problem.model.parts & STIFF_PARTS:
            fitting = ["rosenbrock"]
        if not fitting and density is not None and not density.gaussian:
            fitting = ["classical"]
        return LIKELIHOODS[fitting[0]].default_solver(problem) if fitting else EKF0()
    check_likelihood(likelihood)
    return LIKELIHOODS[likelihood].default_solver(problem)


def chosen_again(
    problem: Problem, solver: Solver, values: Array, particles: int = 0
) -> tuple[SolverChoice, Solver] | None:
    """Return the other solver where draws near the posterior call for it, and with which steps.

    None where they do not. Steps of an explicit solver are compared with those of the stiff one
    only where they are many.

    solver: The one in force, with its steps.
    particles: How many there are to be evaluated; without any, no explicit solver follows the stiff
        one.
    """
    if stiff_solver(problem) is None or not len(values):
        return None
    if not solver.adaptive:
        stiff = _stiff_choice(problem, values, "posterior", int(solver.steps))
        found = None if stiff is None else (*stiff, stiff[0])
    else:
        found = _explicit_choice(problem, solver, values, particles) if particles else None
    if found is None:
        return None
    chosen, reason, begun = found
    _log.info("%r: %s", chosen, reason)
    name = likelihood_name(problem, chosen, None)
    return SolverChoice(chosen, name, reason, open=not chosen.adaptive), begun


def takes_few_steps(solver: Solver) -> bool:
    """True for an explicit solver of so few steps in an interval that no other one costs less."""
    return not solver.adaptive and int(solver.steps) < SUSPECT_STEPS


def _explicit_solver_at(problem: Problem, values: Array) -> Solver | None:
    """Return the explicit solver with steps for values (N, d) of a posterior; None where it fails.

    They bring local errors into bounds, and what has built up of them at the middle one.
    """
    explicit = default_solver(problem, None).divided(longest_interval(problem))
    steps, errors = pilot_steps(problem, explicit, values)
    if steps is None or not np.isfinite(errors).all():
        return None
    middle = values[np.argsort(errors, kind="stable")[len(values) // 2]]
    return solver_at(problem, replace(cast(Any, explicit), steps=steps), middle)


def stiff_beyond_wall(
    problem: Problem, solver: Solver, finer: Solver | None
) -> SolverChoice | None:
    """Return the stiff solver where the steps that pass a wall are too many; None where not.

    solver, finer: The one that fails, and the next with steps that do not.
    """
    stiff = None if solver.adaptive else stiff_solver(problem)
    if stiff is None or (finer is not None and int(finer.steps) <= SUSPECT_STEPS):
        return None
    reason = f"at a part of the posterior {int(solver.steps)} explicit steps fail"
    return SolverChoice(stiff, likelihood_name(problem, stiff, None), reason)


def _explicit_choice(
    problem: Problem, solver: Solver, values: Array, particles: int
) -> tuple[Solver, str, Solver] | None:
    """Return the explicit solver where it costs half as much at all of the values, and why.

    The last one is the same with its steps.
    """
    counts, _ = solver_steps(build_likelihood(problem, solver), problem, values)
    median = median_of_finite(counts)
    if not WORTH <= particles * median < np.inf:
        return None
    resolved = _explicit_solver_at(problem, values)
    if resolved is None or not takes_few_steps(resolved):
        return None
    total = _steps_of(problem, resolved, int(resolved.steps))
    if total > CHEAPER * median:
        return None
    compared = f"explicit steps are {total:.0f} and stiff ones {median:g}"
    return default_solver(problem, None), f"the posterior is not stiff, {compared}", resolved


def _stiff_choice(
    problem: Problem, values: Array, of: str, least: int = 1
) -> tuple[Solver, str] | None:
    """Return a solver for the problem if it is stiff at values (N, d), and what shows it.

    of: What they are draws of.
    least: Explicit steps that are taken anyhow.
    """
    solver = stiff_solver(problem)
    if solver is None:
        return None
    explicit = default_solver(problem, None).divided(longest_interval(problem))
    steps, errors = pilot_steps(problem, explicit, values)
    steps = None if steps is None else max(steps, least)
    tried, unstable = steps or SUSPECT_STEPS, np.zeros(len(values), dtype=bool)
    if steps is None or np.mean(~np.isfinite(errors)) >= UNSTABLE_SHARE:
        tried, unstable = _unstable(problem, explicit, values, tried)
    slow = steps is None or steps >= SUSPECT_STEPS
    if not (slow or unstable.any()):
        return None
    # Steps that a run has come to are compared with those that it would go on with.
    rival = solver.begun() if least > 1 else replace(solver, tolerance=COMPARED)
    counts, log_likelihood = solver_steps(build_likelihood(problem, rival), problem, values)
    total = _steps_of(problem, explicit, steps or 2 * MAX_STEPS)
    median = median_of_finite(counts)
    if slow and total > STIFF_RATIO * median:
        return solver, (
            f"the problem is stiff, explicit steps would be {total:.0f} and these are {median:g}"
        )
    stiff = unstable & (_steps_of(problem, explicit, tried) > UNSTABLE_RATIO * counts)
    likely = np.argsort(-log_likelihood, kind="stable")[: max(1, len(values) // LIKELY)]
    shares = stiff.mean(), stiff[likely].mean()
    share = f"{stiff.mean():.0%} of the {of} is unstable at {tried} explicit steps"
    unstable_share = f"the problem is stiff, {share}"
    return (solver, unstable_share) if min(shares) >= UNSTABLE_SHARE else None


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


def stiff_solver(problem: Problem) -> Rosenbrock | None:
    """Return the solver of stiff problems, where it takes a problem's noise and inputs."""
    solver = Rosenbrock()
    try:
        suitable_likelihood(problem, solver)
    except InputError:
        return None
    return solver


def solver_from_prior(problem: Problem, solver: Solver, likelihood: str | None = None) -> Solver:
    """Choose the steps before anything has been learned from the data, where they are not given.

    The local error over a pilot set of prior draws says where to begin, and the error budget at
    the prior median whether that is enough.
    """
    if not solver.automatic:
        return solver
    if solver.adaptive:
        return solver.begun()
    if LIKELIHOODS[likelihood_name(problem, solver, likelihood)].divides:
        solver = solver.divided(longest_interval(problem))
    guess, _ = pilot_steps(problem, solver, pilot_values(problem), likelihood)
    median = problem.prior.natural(np.median(prior_draws(problem), axis=0)[None, :])[0]
    try:
        return sufficient_steps(problem, solver, median, likelihood, least=guess or 1)
    except InputError:
        # The median of a wide prior may diverge where the posterior does not: begin with the
        # steps of the pilot set, the posterior mean decides.
        return replace(solver, steps=guess or _FALLBACK_STEPS)


def solver_for_searches(
    problem: Problem, solver: Solver, likelihood: str | None, most: float, allowed: float
) -> tuple[Solver, float]:
    """Return steps that are enough for 19 of 20 draws from the prior, and the share they fail.

    The posterior may be there, and what a solver does not resolve has no likelihood by it. Where
    more steps help no further draw, they are the fewest that help as many.

    most: Times as many steps, at most.
    allowed: Local error of a draw, in units of what `pilot_steps` allows.
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


def solver_for_run(problem: Problem, solver: Solver, likelihood: str | None = None) -> Solver:
    """Choose the steps of particles that begin at the prior, before which nothing was searched.

    They are those of `solver_from_prior`, or up to four times as many where the prior calls for
    them, see `solver_for_searches`: what these do not resolve no later steps give back.
    """
    chosen = solver_from_prior(problem, solver, likelihood)
    if not solver.automatic or chosen.adaptive:
        return chosen
    return solver_for_searches(problem, chosen, likelihood, LASTING, 1.0)[0]


def solver_for_stream(problem: Problem, solver: Solver, likelihood: str | None = None) -> Solver:
    """Choose the steps of a stream as of a run, of which it takes as many in every interval."""
    chosen = solver_for_run(problem, solver, likelihood)
    return chosen.divided(None) if solver.automatic and not chosen.adaptive else chosen


def solver_for_approach(solver: Solver, modes: Array | None, by: LogLikelihoodBy) -> Solver:
    """Return a solver of a quarter of the steps for the way from the prior, where one will do.

    A quarter of the cost buys a posterior that is near; what is learned with it is carried over. It
    must have about the same likelihood as ``solver``, which is returned where it does not.

    modes: (E, d), values at which both are compared; without any the coarse one is taken unseen.
    by: The log-likelihood by a solver.
    """
    if solver.automatic or solver.adaptive or int(solver.steps) < COARSER:
        return solver
    coarse = solver.with_steps(int(solver.steps) // COARSER)
    if modes is None:
        return coarse
    with np.errstate(invalid="ignore"):
        change = by(solver)(modes) - by(coarse)(modes)
    return coarse if (np.abs(change) <= NEAR).all() else solver


def solver_at(
    problem: Problem, solver: Solver, values: Array, likelihood: str | None = None
) -> Solver:
    """Return the solver with steps that are enough at values (d,), too; itself if no number is."""
    if solver.adaptive:
        return solver
    with suppress(InputError):
        least = int(solver.steps)
        return sufficient_steps(problem, solver, values, likelihood, least=least)
    return solver


def solver_beyond_wall(problem: Problem, solver: Solver) -> Solver | None:
    """Return the solver with which ``steps="auto"`` goes on where this one fails; None without."""
    return finer_solver(problem, solver, FINER) or finer_solver(problem, solver)


def finer_solver(problem: Problem, solver: Solver, factor: int = 2) -> Solver | None:
    """Return a solver twice as fine; None where that is more than ``steps="auto"`` tries."""
    finer = solver.refined(factor)
    return finer if finer is not None and affordable(problem, int(finer.steps)) else None


def affordable(problem: Problem, steps: int) -> bool:
    """True if ``steps="auto"`` still tries this number of steps per sample."""
    return steps <= MAX_STEPS and steps * problem.n_samples <= MOST_STEPS


def sufficient_steps(
    problem: Problem,
    solver: Solver,
    values: Array,
    likelihood: str | None = None,
    share: float = SOLVER_SHARE,
    least: int = 1,
) -> Solver:
    """Double the steps per sample until the solver's share is small."""
    found = predictions(problem, solver, enumerate(problem.records), likelihood)
    steps = least
    while affordable(problem, steps):
        if error_budget(problem, found, values, steps).share <= share:
            return replace(cast(Any, solver), steps=steps)
        steps *= 2
    raise InputError(
        f"steps 'auto' finds no number up to {steps // 2} that brings the solver's error below "
        f"{share:.0%} of the noise variance: check the model, its priors and the noise, give a "
        "number of steps, or, where the model is stiff, take solver='auto' or smcpn.Rosenbrock()"
    )


def pilot_steps(
    problem: Problem, solver: Solver, values: Array, likelihood: str | None = None
) -> tuple[int | None, Array]:
    """Steps per sample, a power of two, that bring the local error of most parameters into bounds.

    The local error e of each state is allowed what the noise is to the outputs: in root mean
    square over the record, e is at most ``sqrt(SOLVER_SHARE) r`` times the standard deviation of
    the state, where r is that of the noise over that of the measured output. The solution runs
    without data, over a long record by its first `LONG` samples.

    values: (N, d), parameter values. The median of their errors counts; those of solutions that
        diverge do not, unless they are the most.
    likelihood: As of `build_likelihood`.

    Returns None where no number of steps is enough, and the local errors (N,) by the last ones.
    """
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
