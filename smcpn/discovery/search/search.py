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

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from smcpn.base.status import tell
from smcpn.discovery.equations.system import CandidateSystem
from smcpn.discovery.search.adequacy import (
    LackOfFit,
    OmittedFunction,
    lack_of_fit,
    omitted_function,
)
from smcpn.discovery.search.arrivals import Arrivals
from smcpn.discovery.search.linearisation import LibraryPaths, LibraryRate
from smcpn.discovery.search.maxima import NOT_FINITE, Maxima, further, maximum, polished
from smcpn.discovery.search.path_regression import (
    ErrorModel,
    LinearPoint,
    PathRegression,
    Point,
    orthonormal,
    sizes,
)
from smcpn.discovery.search.state import (
    CountedModels,
    Landing,
    SearchState,
    Selection,
    Stage,
    SupportMaximum,
    supports_array,
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
    smooth_parts,
    stated_deviations,
)
from smcpn.model.record import Record
from smcpn.smc.distributed.workers import Workers, distributed
from smcpn.smc.state import RandomState

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
SAME_SCORE = 0.1
"""Change of a score by further steps from a maximum, at most."""
ROUNDS = 4
"""Of selections, and maxima of the supports that are selected."""
SWEEPS = 300
MODELS = 20
"""Most models whose own Laplace evidence is taken."""
LEAST_PROBABLE = 8.0
"""No evidence is taken of a model whose score on the linear model is lower by more."""
COUNTED, MOST_COUNTED = 12.0, 400
"""The same for a model to be counted, by this score, in the probabilities of others; and most."""

_NONE = (
    "no equation of these terms has a trajectory near the data: leave out terms that grow fast, "
    "or give samples that are closer together"
)


@dataclass(frozen=True)
class FoundModel:
    """A support with its coefficients, of the K free ones of a system.

    support: (K,)
    coefficients: (K,), posterior means; zero outside the support.
    covariance: (k, k), of the coefficients in the support.
    initial: (R, n), most likely state at the first sample of each record.
    log_evidence: By Laplace's method at the model's own maximum, but for a constant that all models
        share.
    log_prior: Log probability of the support before the data.
    probability: Among all supports that are counted.
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

    models: The most probable first.
    inclusion: (K,), probability that a coefficient is not zero, over all supports that are counted.
    noise: (q,), standard deviation of the noise of each output.
    path: (T, n), of the best model, all records one after the other.
    slab: (K,), unit of the slab of each coefficient: rms(dx/dt) / rms(term) on the smoothed path.
    error: Standard deviation of the model error of a sample, as a share of the noise.
    lack: What the data ask for most beside the best model, where that can be told.
    omitted: The function that the library does not have and the data are most for, where there is
        one.
    """

    models: tuple[FoundModel, ...]
    inclusion: Array
    noise: Array
    path: Array
    slab: Array
    error: float
    lack: LackOfFit | None
    omitted: OmittedFunction | None


class Search:
    """A search of the most probable supports, computed part by part.

    Between parts a `snapshot` has all that it goes on from.

    Outputs of ``records``, NaN where missing, are ``observe @ x``, (q, n), and noise; the states if
    not given. Parameters of the known part of ``system`` have their defaults; its diffusion is not
    read. ``noise``, (q,), has the standard deviation of each output, up to one common factor, and
    is learned if not given, or told by ``y_sd`` of the records, where it is not NaN; with
    ``relative`` it multiplies: outputs are ``(observe @ x) exp(e)``, and ``noise`` is of e. Inputs
    come with a ``delay``, and doses of the records enter the states. Scores are averaged over
    ``slabs``, widths in units of rms(dx/dt) / rms(term). ``seed`` is that of the MCMC over
    supports, and ``workers`` lead supports to their maxima. From a ``state`` that is a `snapshot`
    the same bytes come; it is replaced in every part, only the random generator goes on in place.

    A hidden state that is told by no known equation, and terms of which no trajectory comes near
    the data, are refused.
    """

    @np.errstate(over="ignore", invalid="ignore")
    def __init__(
        self,
        records: Sequence[Record],
        system: CandidateSystem,
        *,
        observe: Array | None = None,
        noise: Array | None = None,
        relative: bool = False,
        delay: Mapping[str, float] | None = None,
        slabs: tuple[float, ...] = SLABS,
        seed: int = 0,
        state: SearchState | None = None,
        workers: Workers | None = None,
    ) -> None:
        matrix = np.eye(len(system.candidates.states)) if observe is None else np.asarray(observe)
        self._arrivals = Arrivals.of(records, system, delay or {})
        self._problem = _Problem.of(self._arrivals, system, matrix, noise, relative)
        self._workers = workers
        rng = np.random.default_rng(seed)
        try:
            self._steps, point = _begun(self._problem, slabs)
        except NOT_FINITE as error:
            raise InputError(_NONE) from error
        self.state = state or SearchState(
            "larger", RandomState.of(rng), point, self._steps.errors, self._steps.paths.steps
        )
        self._rng = self.state.random_state.generator()
        self._maxima: tuple[Selection | None, Any] = (None, None)

    @property
    def ended(self) -> bool:
        """True if nothing is left to compute but the `result`."""
        return self.state.stage == "end"

    def snapshot(self) -> SearchState:
        """Return the state with that of the random generator."""
        return replace(self.state, random_state=RandomState.of(self._rng))

    @np.errstate(over="ignore", invalid="ignore")
    def proceed(self) -> None:
        """Compute the next part.

        Raises `InputError` if no trajectory of these terms comes near the data.
        """
        part: dict[Stage, Callable[[], None]] = {
            "larger": self._with_larger_error,
            "smaller": self._with_smaller_error,
            "select": self._select,
            "maxima": self._lead_to_maxima,
            "again": self._begin_again,
        }
        try:
            part[self.state.stage]()
        except NOT_FINITE as error:
            if self.state.counted is None:
                raise InputError(_NONE) from error
            self._change(stage="end")
        self._change(parts=self.state.parts + 1)

    @np.errstate(over="ignore", invalid="ignore")
    def verify(self) -> None:
        """Lead one of the models that were found on from its maximum, and refuse it if it moves."""
        found = [] if self.state.counted is None else list(self.state.counted.maxima)
        found += [one for one in self.state.maxima if one is not None]
        # By the system's entropy: nobody who wrote a file can know which.
        for one in np.random.default_rng().permutation(len(found))[:1]:
            kept, here = found[one], None
            with suppress(*NOT_FINITE):
                steps = self._steps_with(kept.errors)
                here = further(steps, kept)
            if here is None or abs(here - kept.score) > SAME_SCORE:
                raise InputError(
                    "a model that it found has another evidence here: use the versions of smcpn "
                    "and its packages that wrote it, or begin anew"
                )

    def _change(self, **fields: Any) -> None:
        self.state = replace(self.state, **fields)

    def _steps_with(self, errors: ErrorModel) -> PathRegression:
        """Steps with sizes of errors, and as many Runge-Kutta steps as the search has reached."""
        steps = self._steps.with_errors(errors)
        if steps.paths.steps != self.state.substeps:
            steps.paths.steps = self.state.substeps
        return steps

    def _with_larger_error(self) -> None:
        """Take steps with a model error above those of the homotopy, where one is called for."""
        state, steps = self.state, self._steps_with(self.state.errors)
        share = _first_error(steps, state.point) if np.isnan(state.share) else state.share
        if share <= MODEL_ERRORS[0]:
            self._change(stage="smaller", share=share)
            return
        point = _selected(steps, state.point, share)
        evidence = float(steps.evidence(steps.linearised(point, share)))
        landings = (*state.landings, Landing(evidence, share, point))
        substeps = steps.paths.steps
        self._change(point=point, landings=landings, share=share / LARGER, substeps=substeps)

    def _with_smaller_error(self) -> None:
        """Take steps with the next model error, down to the least one.

        Or to that where none at first is more probable. Data that obey no equation of these terms,
        as those of a solver with loose tolerances, or of a system that is disturbed, are not
        explained by more and more terms.
        """
        state, steps = self.state, self._steps_with(self.state.errors)
        share, level = MODEL_ERRORS[state.level], state.level + 1
        terms = state.point.support.sum()
        tell(f"search: model error {level} of {len(MODEL_ERRORS)}, {terms} terms")
        point = _selected(steps, state.point, share)
        best = max(state.landings, default=None, key=lambda one: one.evidence)
        lacks = -np.inf
        if best is not None:
            lacks = best.evidence - steps.evidence(steps.linearised(point, share))
        stage: Stage = "smaller"
        if lacks > HOPELESS * steps.count or level == len(MODEL_ERRORS):
            stage, steps.share = "select", MODEL_ERRORS[-1]
            if best is not None and lacks > CLEARLY:
                steps.end_with(best.point, best.share)
                point = _selected(steps, best.point, best.share)
        substeps = steps.paths.steps
        self._change(stage=stage, point=point, errors=steps.errors, substeps=substeps, level=level)

    def _select(self) -> None:
        """Find which supports are probable, by the linear model at the maximum of one of them."""
        steps = self._steps_with(self.state.errors)
        point = polished(steps, self.state.point)[0]
        steps = steps.with_noise_of(point)
        steps.refine(point, steps.share)
        linear = steps.linearised(polished(steps, point)[0], steps.share)
        support = best_support(linear.regression, point.support)
        sampled_inclusion(linear.regression, support, SWEEPS, self._rng)
        probable = most_probable(linear.regression, MOST_COUNTED)
        first = probable[0][0]
        chosen = [one for score, one in probable[:MODELS] if score > first - LEAST_PROBABLE]
        others = [pair for pair in probable[len(chosen) :] if pair[0] > first - COUNTED]
        selection = Selection(
            point=linear.point,
            errors=steps.errors,
            chosen=supports_array(chosen, len(support)),
            others=supports_array([one for _, one in others], len(support)),
            scores=np.array([score for score, _ in others]),
        )
        self._maxima = selection, distributed(Maxima(steps, linear), self._workers)
        substeps = steps.paths.steps
        self._change(stage="maxima", selection=selection, maxima=(), substeps=substeps)

    def _maxima_of(self, selection: Selection) -> Any:
        """`Maxima` of the supports of a selection, by the workers where there are some."""
        if self._maxima[0] is not selection:
            steps = self._steps_with(selection.errors)
            linear = steps.linearised(selection.point, steps.share)
            self._maxima = selection, distributed(Maxima(steps, linear), self._workers)
        return self._maxima[1]

    def _lead_to_maxima(self) -> None:
        """Lead the next support to its maximum, or all of them at once by the workers."""
        selection, before = self.state.selection, self.state.maxima
        assert selection is not None
        maxima, begin = self._maxima_of(selection), len(before)
        tell(f"maximum of model {begin + 1} of {len(selection.chosen)}")
        some = selection.chosen[begin : begin + 1 if self._workers is None else None]
        ends = (*before, *maxima.unpacked(some, maxima.packed(some)))
        if len(ends) == len(selection.chosen):
            self._count(selection, ends, maxima.linear)
        else:
            self._change(maxima=ends)

    def _count(
        self,
        selection: Selection,
        ends: Sequence[SupportMaximum | None],
        linear: LinearPoint,
    ) -> None:
        """Put the models of a selection in place of those that were found before."""
        found = sorted((end for end in ends if end is not None), key=lambda end: -end.score)
        if not found:
            raise InputError(_NONE)
        scores = selection.scores - linear.regression.score(found[0].point.support)
        counted = CountedModels(tuple(found), selection.others, scores)
        rounds = self.state.rounds + 1
        stage: Stage = "again" if rounds < ROUNDS else "end"
        self._change(stage=stage, counted=counted, rounds=rounds, selection=None, maxima=())

    def _begin_again(self) -> None:
        """Select from the best model, if it has another support than that of the last selection.

        Or from where a second homotopy ends that begins there.
        """
        assert self.state.counted is not None
        best = self.state.counted.maxima[0]
        steps = self._steps_with(best.errors)
        if np.array_equal(best.point.support, self.state.point.support):
            better = _loosened(steps, best, self._rng)
            self._change(substeps=steps.paths.steps)
            if better is None:
                self._change(stage="end")
                return
            best = better
        self._change(stage="select", point=best.point, errors=best.errors)

    @np.errstate(over="ignore", invalid="ignore")
    def result(self) -> SearchResult:
        """Return what was found, at the end."""
        assert self.state.counted is not None
        steps = self._steps_with(self.state.counted.maxima[0].errors)
        return _result(self._problem, steps, self.state.counted, self._arrivals.given)


def _loosened(
    steps: PathRegression, best: SupportMaximum, rng: np.random.Generator
) -> SupportMaximum | None:
    """Begin a shorter homotopy at a maximum; return where it ends if more probable, or None.

    Greedy steps may have ended at a support from which many terms have to change at once: here it
    is sampled where the model error is large.
    """
    point = best.point
    linear = steps.linearised(point, max(AGAIN[0], steps.share))
    sampled_inclusion(linear.regression, point.support, SWEEPS, rng)
    point = steps.moved(linear, most_probable(linear.regression, 1)[0][1])
    for share in AGAIN:
        point = _selected(steps, point, max(share, steps.share))
    if np.array_equal(point.support, best.point.support):
        return None
    found = maximum(steps, steps.linearised(point, steps.share), point.support)
    return found if found is not None and found.score > best.score else None


@dataclass(frozen=True)
class _Problem:
    """Records and a rate of states in units of their rms, with the path to begin from.

    sd: (T, q), standard deviations of values in units of those of their outputs, where these tell.
    scale: (n,), units of the states.
    observe: (q, n), of scaled states.
    start: Scaled.
    variances: (q,), of the noise of the outputs.
    groups: (K,), degree of the term of each free coefficient.
    signs: (K,), 1 or -1 where it has a sign, else 0.
    told: Whether the noise is known.
    relative: Whether it multiplies.
    least: (q,), its least variances.
    """

    arrivals: Arrivals
    sd: Array | None
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
        arrivals: Arrivals,
        system: CandidateSystem,
        observe: Array,
        noise: Array | None,
        relative: bool,
    ) -> _Problem:
        """Smooth the outputs, and scale the system by what comes of it."""
        records, entered = arrivals.records, arrivals.entered
        measured = logarithms(records) if relative else smooth_parts(records, entered, observe)
        sd, variances = stated_deviations(records)
        stated = np.isfinite(variances)
        if not stated.all():
            other = noise_variances(measured) if noise is None else np.square(noise)
            variances = np.where(stated, variances, other)
        equations = LibraryRate(system).equations()
        start = first_path(measured, observe, variances, equations, relative, entered)
        scale = sizes(start.path)
        rate = LibraryRate(system.scaled(scale, sizes(np.concatenate([r.u for r in records]))))
        scaled = Start(start.path / scale, start.rate / scale, start.deviation / scale)
        groups = np.asarray(system.candidates.degrees)[system.places[:, 1]]
        return cls(
            arrivals, sd, rate, scale, observe * scale, scaled, variances, groups,
            system.freedom.signs, noise is not None or bool(stated.all()), relative,
            least_variances(measured if relative else records),
        )  # fmt: skip


def _begun(problem: _Problem, slabs: tuple[float, ...]) -> tuple[PathRegression, Point]:
    """Steps, and the point where they begin: the smoothed path, no term, but ridge Jacobians."""
    start, rate, arrivals = problem.start, problem.rate, problem.arrivals
    entering = arrivals.entering and arrivals.entering.scaled(problem.scale)
    paths = LibraryPaths(
        arrivals.records, rate, problem.observe, start.path, problem.relative, problem.sd, entering
    )
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


def _selected(steps: PathRegression, point: Point, share: float) -> Point:
    """Take steps with one model error, each with the support that is best where it begins."""
    steps.refine(point, share)
    for iteration in range(MOST_ITERATIONS):
        linear = steps.linearised(point, share)
        point = steps.moved(linear, best_support(linear.regression, point.support))
        if iteration + 1 >= ITERATIONS and steps.square(point, share) < NEAR * steps.count:
            break
    return point


def _result(
    problem: _Problem, steps: PathRegression, counted: CountedModels, given: NDArray[np.bool_]
) -> SearchResult:
    """Return models in physical units, and the path at the samples that were given.

    ``steps`` have the errors of the best model.
    """
    ends = counted.maxima
    scores = [end.score for end in ends] + [ends[0].score + less for less in counted.scores]
    supports = [end.point.support for end in ends] + list(counted.others)
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
    best = ends[0].point
    return SearchResult(
        models, np.minimum(probabilities @ np.array(supports), 1.0),
        np.sqrt(steps.variances), best.path[given] * problem.scale, steps.slab * unit,
        steps.share, *_doubted(steps, best, problem.scale),
    )  # fmt: skip


def _doubted(
    steps: PathRegression, point: Point, scale: Array
) -> tuple[LackOfFit | None, OmittedFunction | None]:
    """Lack of fit of a model, and a function that its library omits; None where none can be told.

    Of a model that leaves the data at every sample anyway neither is told.
    """
    lack: LackOfFit | None = None
    omitted: OmittedFunction | None = None
    if steps.share < 1.0:
        with suppress(*NOT_FINITE):
            lack = lack_of_fit(steps, point)
            omitted = omitted_function(steps, point, scale)
    return lack, omitted
