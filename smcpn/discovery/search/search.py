"""Which terms stand in the equations: Gauss-Newton steps along a path, each with a selection.

A path that may leave the equations a little at every sample (`smcpn.estimate.path_search`) is
linearised with the coefficients of all candidate terms, and smoothed as an affine function of them.
What is left, whitened, is a linear regression on the coefficients, in which a support is selected
(`supports`). Path and coefficients take a step, and the model error falls from half of the noise to
nothing: a homotopy from the regression of smoothed slopes to the likelihood of trajectories. Where
the evidence of a larger one is clearly better, as that of trajectories which a solver with loose
tolerances made, it stays.

In the end MCMC visits supports on the linear model, and each of the most probable ones is led to
its own maximum and has its Laplace evidence taken there. The others, of which each is little and
all together are not, are counted with their scores on the linear model. From the best one a second,
shorter homotopy begins, which is followed where it ends higher.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from smcpn.discovery.equations.system import CandidateSystem
from smcpn.discovery.search.adequacy import (
    LackOfFit,
    OmittedFunction,
    lack_of_fit,
    omitted_function,
)
from smcpn.discovery.search.linearisation import LibraryPaths, LibraryRate
from smcpn.discovery.search.path_regression import (
    LinearPoint,
    PathRegression,
    Point,
    orthonormal,
    sizes,
)
from smcpn.discovery.search.supports import (
    SLABS,
    Support,
    best_support,
    most_probable,
    sampled_inclusion,
)
from smcpn.errors import InputError
from smcpn.estimate.smoothed_outputs import (
    Start,
    first_path,
    least_variances,
    logarithms,
    noise_variances,
)
from smcpn.model.record import Record
from smcpn.status import tell

Array = NDArray[np.float64]

MODEL_ERRORS = (0.5, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
"""Standard deviations of the model error of a sample, as a share of the noise."""
AGAIN = (0.3, 0.03, 0.003)
"""Those of the second homotopy, which begins at the best model."""
ITERATIONS, MOST_ITERATIONS = 2, 6
"""With each of them; most where the path is not near the data and the equations."""
NEAR = 2.0
"""Mean of whitened squares below which it is."""
LARGER, LARGEST = 3.0, 1e4
"""From one first model error that is tried to the next, and the last."""
CLEARLY = 5.0
"""Log evidence by which a model error has to be better than the least, to be ended with."""
HOPELESS = 0.5
"""The same for each number in the data, by which smaller ones are not tried any more."""
RIDGE = 1e-3
"""Of the regression of smoothed slopes that the first Jacobians are of."""
SETTLED = 0.05
"""Change of coefficients, in standard deviations, that ends Gauss-Newton steps."""
POLISHING, ROUNDS = 6, 4
"""Most Gauss-Newton steps with one support, and rounds of these and selection."""
UNLIKE = 0.2
"""Difference of a log variance of noise from a model's own, from which it has its own."""
SWEEPS = 300
MODELS = 20
"""Most models whose own Laplace evidence is taken."""
LEAST_PROBABLE = 8.0
"""No evidence is taken of a model whose score on the linear model is lower by more."""
COUNTED, MOST_COUNTED = 12.0, 400
"""The same for a model to be counted, by this score, in the probabilities of others; and most."""

NOT_FINITE = (ValueError, np.linalg.LinAlgError)
"""What `PathRegression.linearised` raises where trajectories leave all bounds."""
_NONE = (
    "no equation of these terms has a trajectory near the data: leave out terms that grow fast, "
    "or give samples that are closer together"
)


@dataclass(frozen=True)
class FoundModel:
    """A support with its coefficients, of the K free ones of a system.

    Attributes
    ----------
    support : ndarray of bool, (K,)
    coefficients : ndarray, (K,)
        Posterior means; zero outside the support.
    covariance : ndarray, (k, k)
        Of the coefficients in the support.
    initial : ndarray, (R, n)
        Most likely state at the first sample of each record.
    log_evidence : float
        By Laplace's method at the model's own maximum, but for a constant that all models share.
    log_prior : float
        Log probability of the support before the data.
    probability : float
        Among all supports that are counted.
    """

    support: Support
    coefficients: Array
    covariance: Array
    initial: Array
    log_evidence: float
    log_prior: float
    probability: float

    @property
    def deviations(self) -> Array:
        """Standard deviations of the coefficients, (K,); zero outside the support."""
        result = np.zeros(self.support.shape)
        result[self.support] = np.sqrt(np.diag(self.covariance))
        return result


@dataclass(frozen=True)
class SearchResult:
    """The most probable models of a system with K free coefficients, noise and fitted path.

    Attributes
    ----------
    models : tuple of FoundModel
        The most probable first.
    inclusion : ndarray, (K,)
        Probability that a coefficient is not zero, over all supports that are counted.
    noise : ndarray, (q,)
        Standard deviation of the noise of each output.
    path : ndarray, (T, n)
        Of the best model, all records one after the other.
    slab : ndarray, (K,)
        Unit of the slab of each coefficient: rms(dx/dt) / rms(term) on the smoothed path.
    error : float
        Standard deviation of the model error of a sample, as a share of the noise.
    lack : LackOfFit or None
        What the data ask for most beside the best model, where that can be told.
    omitted : OmittedFunction or None
        The function that the library does not have and the data are most for, where there is one.
    """

    models: tuple[FoundModel, ...]
    inclusion: Array
    noise: Array
    path: Array
    slab: Array
    error: float
    lack: LackOfFit | None
    omitted: OmittedFunction | None


@np.errstate(over="ignore", invalid="ignore")
def search(
    records: Sequence[Record],
    system: CandidateSystem,
    *,
    observe: Array | None = None,
    noise: Array | None = None,
    relative: bool = False,
    slabs: tuple[float, ...] = SLABS,
    seed: int = 0,
) -> SearchResult:
    """Return the most probable supports with their coefficients.

    Parameters
    ----------
    records : sequence of Record
        Outputs, NaN where missing.
    system : CandidateSystem
        Parameters of its known part have their defaults; its diffusion is not read.
    observe : ndarray, (q, n), optional
        Outputs are ``observe @ x`` and noise; the states if not given.
    noise : ndarray, (q,), optional
        Standard deviation of the noise of each output, up to one common factor; learned if not
        given.
    relative : bool
        Whether noise multiplies: outputs are ``(observe @ x) exp(e)``, and ``noise`` is of e.
    slabs : sequence of float
        Widths of the slab, in units of rms(dx/dt) / rms(term), that scores are averaged over.
    seed : int
        Of the MCMC over supports.

    Raises
    ------
    InputError
        If a hidden state is not told by a known equation, a parameter of the known part has no
        default, or no trajectory of these terms comes near the data.
    """
    matrix = np.eye(len(system.candidates.states)) if observe is None else np.asarray(observe)
    problem = _Problem.of(records, system, matrix, noise, relative)
    rng = np.random.default_rng(seed)
    try:
        steps, point = _begun(problem, slabs)
        point = _led(steps, point)
        found = _models(steps, point, rng)
    except NOT_FINITE as error:
        raise InputError(_NONE) from error
    for _ in range(ROUNDS - 1):
        try:
            best = _better(found.ends[0], point, rng)
            if best is None:
                break
            found = _models(best.steps, best.point, rng)
        except NOT_FINITE:
            break
        point = best.point
    return _result(problem, steps, found)


def _better(best: _End, point: Point, rng: np.random.Generator) -> _End | None:
    """The best end if its support is another than that of the point it comes of; or beyond it."""
    if np.array_equal(best.point.support, point.support):
        return _loosened(best, rng)
    return best


def _loosened(best: _End, rng: np.random.Generator) -> _End | None:
    """Begin a shorter homotopy at an end; return where that ends if it is more probable, or None.

    Greedy steps may have ended at a support from which many terms have to change at once: here it
    is sampled where the model error is large.
    """
    steps, point = best.steps, best.point
    linear = steps.linearised(point, max(AGAIN[0], steps.share))
    sampled_inclusion(linear.regression, point.support, SWEEPS, rng)
    point = steps.moved(linear, most_probable(linear.regression, 1)[0][1])
    for share in AGAIN:
        point = _selected(steps, point, max(share, steps.share))
    if np.array_equal(point.support, best.point.support):
        return None
    found = _end(steps, steps.linearised(point, steps.share), point.support)
    return found if found is not None and found.score > best.score else None


@dataclass(frozen=True)
class _Problem:
    """Records and a rate of states in units of their rms, with the path to begin from.

    Attributes
    ----------
    scale : ndarray, (n,)
        Units of the states.
    observe : ndarray, (q, n)
        Of scaled states.
    start : Start
        Scaled.
    variances : ndarray, (q,)
        Of the noise of the outputs.
    groups : ndarray of int, (K,)
        Degree of the term of each free coefficient.
    signs : ndarray of int, (K,)
        1 or -1 where it has a sign, else 0.
    told : bool
        Whether the noise is known.
    relative : bool
        Whether it multiplies.
    least : ndarray, (q,)
        Its least variances.
    """

    records: Sequence[Record]
    rate: LibraryRate
    scale: Array
    observe: Array
    start: Start
    variances: Array
    groups: NDArray[np.int64]
    signs: NDArray[np.int64]
    told: bool
    relative: bool
    least: Array

    @classmethod
    def of(
        cls,
        records: Sequence[Record],
        system: CandidateSystem,
        observe: Array,
        noise: Array | None,
        relative: bool,
    ) -> _Problem:
        """Smooth the outputs, and scale the system by what comes of it."""
        measured = logarithms(records) if relative else records
        variances = noise_variances(measured) if noise is None else np.square(noise)
        start = first_path(measured, observe, variances, LibraryRate(system).equations(), relative)
        scale = sizes(start.path)
        rate = LibraryRate(system.scaled(scale, sizes(np.concatenate([r.u for r in records]))))
        scaled = Start(start.path / scale, start.rate / scale, start.deviation / scale)
        groups = np.asarray(system.candidates.degrees)[system.places[:, 1]]
        return cls(
            records, rate, scale, observe * scale, scaled, variances, groups,
            system.freedom.signs, noise is not None, relative, least_variances(measured),
        )  # fmt: skip


def _begun(problem: _Problem, slabs: tuple[float, ...]) -> tuple[PathRegression, Point]:
    """Steps, and the point where they begin: the smoothed path, no term, but ridge Jacobians."""
    start, rate, records = problem.start, problem.rate, problem.records
    paths = LibraryPaths(records, rate, problem.observe, start.path, problem.relative)
    columns, fixed = paths.columns(start.path)
    speed, samples = sizes(start.rate), len(start.path)
    columns /= speed[:, None] * np.sqrt(samples)
    slopes = (start.rate - fixed) / (speed * np.sqrt(samples))
    # What a term is on average is hardly a reason against it, as states may be far from zero; but
    # two that are constant there, as 1 and x y^2 may be, would cancel at any size.
    spread = np.sqrt(np.sum((columns - (1.0 - RIDGE) * columns.mean(axis=0)) ** 2, axis=(0, 1)))
    columns = columns.reshape(-1, len(spread))
    penalised = np.concatenate([columns, np.diag(np.sqrt(RIDGE) * spread)])
    aims = np.concatenate([slopes.ravel(), np.zeros(len(spread))])
    theta = np.asarray(np.linalg.lstsq(penalised, aims, rcond=None)[0], dtype=float)
    steps = PathRegression(
        paths, start, problem.variances, problem.least, orthonormal(columns), problem.groups, slabs,
        problem.signs, problem.told,
    )  # fmt: skip
    point = Point(start.path, theta, np.zeros(len(theta), dtype=bool))
    return steps, point if steps.finite(point) else replace(point, theta=np.zeros(len(theta)))


def _first_error(steps: PathRegression, point: Point) -> float:
    """Least model error with which the linear model at the start can be near the data.

    Where samples are far apart, smoothed slopes are off by more than the noise.
    """
    share = MODEL_ERRORS[0]
    while share < LARGEST:
        linear = steps.linearised(point, share)
        support = best_support(linear.regression, point.support)
        if linear.regression.square(linear.regression.neighbourhood(support).theta) < (
            NEAR * steps.count
        ):
            break
        share *= LARGER
    return share


def _led(steps: PathRegression, point: Point) -> Point:
    """Lead a point to a small model error: the least one, where none at first is more probable.

    Data that obey no equation of these terms, as those of a solver with loose tolerances, or of a
    system that is disturbed, are not explained by more and more terms.
    """
    share, lacks = _first_error(steps, point), -np.inf
    first: list[tuple[float, float, Point]] = []
    while share > MODEL_ERRORS[0]:
        point = _selected(steps, point, share)
        first.append((steps.evidence(steps.linearised(point, share)), share, point))
        share /= LARGER
    best, larger, start = max(first, default=(-np.inf, 0.0, point), key=lambda one: one[0])
    for k, share in enumerate(MODEL_ERRORS):
        tell(f"search: model error {k + 1} of {len(MODEL_ERRORS)}, {point.support.sum()} terms")
        point = _selected(steps, point, share)
        lacks = best - steps.evidence(steps.linearised(point, share)) if first else -np.inf
        if lacks > HOPELESS * steps.count:
            break
    steps.share = MODEL_ERRORS[-1]
    if lacks > CLEARLY:
        steps.end_with(start, larger)
        return _selected(steps, start, larger)
    return point


def _selected(steps: PathRegression, point: Point, share: float) -> Point:
    """Take steps with one model error, each with the support that is best where it begins."""
    steps.refine(point, share)
    for iteration in range(MOST_ITERATIONS):
        linear = steps.linearised(point, share)
        point = steps.moved(linear, best_support(linear.regression, point.support))
        if iteration + 1 >= ITERATIONS and steps.square(point, share) < NEAR * steps.count:
            break
    return point


def _polished(steps: PathRegression, point: Point) -> tuple[Point, LinearPoint]:
    """Lead a point to the maximum of its support; with what is left there, by its terms."""
    columns = np.flatnonzero(point.support)
    part = steps.restricted(columns)
    inside = Point(point.path, point.theta[columns], np.ones(len(columns), dtype=bool))
    linear = part.linearised(inside, steps.share)
    for _ in range(POLISHING):
        inside = part.moved(linear, inside.support)
        deviation = np.sqrt(np.diag(linear.regression.moments(inside.support)[1]))
        if np.all(np.abs(inside.theta - linear.point.theta) < SETTLED * deviation):
            break
        linear = part.linearised(inside, steps.share)
    theta = np.zeros(len(point.theta))
    theta[columns] = inside.theta
    return Point(inside.path, theta, point.support), linear


@dataclass(frozen=True)
class _End:
    """Maximum of a support, with what is known there, and steps with the noise there."""

    point: Point
    steps: PathRegression
    covariance: Array
    log_evidence: float
    log_prior: float

    @property
    def score(self) -> float:
        return self.log_evidence + self.log_prior


@dataclass(frozen=True)
class _Counted:
    """Probable models at their own maxima, best first, and the scores of others less that of it."""

    ends: list[_End]
    others: list[tuple[float, Support]]


def _models(steps: PathRegression, point: Point, rng: np.random.Generator) -> _Counted:
    """Return probable models.

    Which are probable tells the linear model at the maximum of the support of a point.
    """
    point = _polished(steps, point)[0]
    steps = steps.with_noise_of(point)
    steps.refine(point, steps.share)
    linear = steps.linearised(_polished(steps, point)[0], steps.share)
    support = best_support(linear.regression, point.support)
    sampled_inclusion(linear.regression, support, SWEEPS, rng)
    probable = most_probable(linear.regression, MOST_COUNTED)
    least = probable[0][0] - LEAST_PROBABLE
    chosen = [support for score, support in probable[:MODELS] if score > least]
    found: list[_End | None] = []
    for support in chosen:
        tell(f"maximum of model {len(found) + 1} of {len(chosen)}")
        found.append(_end(steps, linear, support))
    ends = sorted((end for end in found if end is not None), key=lambda end: -end.score)
    if not ends:
        raise InputError(_NONE)
    best = linear.regression.score(ends[0].point.support)
    least = probable[0][0] - COUNTED
    others = [(score - best, one) for score, one in probable[len(chosen) :] if score > least]
    return _Counted(ends, others)


def _end(steps: PathRegression, linear: LinearPoint, support: Support) -> _End | None:
    theta = linear.regression.neighbourhood(support).theta
    try:
        point, there = _polished(steps, Point(steps.path_at(linear, theta), theta, support))
        own = steps.with_noise_of(point)
        if np.any(np.abs(np.log(own.variances / steps.variances)) > UNLIKE):
            steps = own
            point, there = _polished(steps, point)
    except NOT_FINITE:
        return None
    if np.any(steps.signs[support] * point.theta[support] < 0.0):
        return None
    whole = np.ones(support.sum(), dtype=bool)
    covariance = there.regression.moments(whole)[1]
    evidence = there.regression.neighbourhood(whole).evidence - 0.5 * there.log_determinant
    evidence += steps.noise_evidence(point)
    return _End(point, steps, covariance, evidence, steps.prior.log_probability(support))


def _result(problem: _Problem, steps: PathRegression, counted: _Counted) -> SearchResult:
    ends = counted.ends
    scores = [end.score for end in ends] + [ends[0].score + less for less, _ in counted.others]
    supports = [end.point.support for end in ends] + [support for _, support in counted.others]
    probabilities = softmax(scores)
    unit, begins = problem.rate.unit, steps.paths.begins
    models = tuple(
        FoundModel(
            end.point.support, end.point.theta * unit,
            end.covariance * np.outer(unit[end.point.support], unit[end.point.support]),
            end.point.path[begins] * problem.scale, end.log_evidence, end.log_prior,
            float(probability),
        )
        for end, probability in zip(ends, probabilities, strict=False)
    )  # fmt: skip
    best = ends[0]
    return SearchResult(
        models, np.minimum(probabilities @ np.array(supports), 1.0),
        np.sqrt(best.steps.variances), best.point.path * problem.scale, steps.slab * unit,
        steps.share, *_doubted(best, problem.scale),
    )  # fmt: skip


def _doubted(best: _End, scale: Array) -> tuple[LackOfFit | None, OmittedFunction | None]:
    """Lack of fit of a model, and a function that its library omits; None where none can be told.

    Of a model that leaves the data at every sample anyway neither is told.
    """
    steps, point = best.steps, best.point
    lack: LackOfFit | None = None
    omitted: OmittedFunction | None = None
    if steps.share < 1.0:
        with suppress(*NOT_FINITE):
            lack = lack_of_fit(steps, point)
            omitted = omitted_function(steps, point, scale)
    return lack, omitted
