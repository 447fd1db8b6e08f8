"""Levenberg-Marquardt: the maximum from all starts at once, by damped Newton steps.

With score g and expected information A (`LogLikelihood.expansion`; the prior adds its gradient,
and its curvature where it falls off) steps are those of `smcpn.likelihood.gauss_newton`, each start
with a damping of its own.

Where the noise is known A is Gauss and Newton's J' J; where it is learned, or the solver has a
variance, the steps are those of Fisher's scoring. Where samples are not Gaussian, and so few that
Hessians cost next to nothing, A is the size of the exact curvature (Dauphin 2014). A standard
deviation sigma of the noise takes the step of sigma^2: without damping that is the mean square of
the residuals at once, wherever it was before.

A long record is searched by a piece from its beginning first: there the density has fewer hills,
and most starts have met when the whole of it is due.

References
----------
Dauphin, Y., et al. (2014). Identifying and attacking the saddle point problem in high-dimensional
non-convex optimization. arXiv:1406.2572.
Osborne, M. R. (1992). Fisher's method of scoring. Int. Stat. Review 60.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from math import ceil
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from smcpn.estimate.log_density import LogDensity
from smcpn.estimate.search import (
    CONVERGED,
    DIVERGED_START,
    DIVERGES,
    EDGE,
    LIMIT,
    NO_BETTER,
    NO_GRADIENT,
    ROUNDING,
    SEARCHES,
    Region,
    Search,
    SearchEnd,
)
from smcpn.likelihood.gauss_newton import damped_steps, damping_after, promised
from smcpn.likelihood.gradient import LogLikelihood
from smcpn.model.prior import Prior

Array = NDArray[np.float64]
_log = logging.getLogger(__name__)

PIECE = 0.1
"""Share of a long record on which the searches begin."""
LONG = 5000
"""Mean samples of a record from which it is long."""
SAME_END = 1e-2
"""Squared distance, in posterior sd on the piece, below which two searches go on as one."""
LOWER = 100.0
"""Nats by which an end on the piece is lower than the best if it is not worth the whole record."""
FIRST_DAMPING = 1.0
"""Of a start that may be anywhere: a longer first step may leave its basin."""
NEAR_DAMPING = 1e-3
"""Of the end of another search."""
MOST_DAMPING = 1e12
CLOSE = 1e-9
"""Squared distance from the maximum, in posterior sd, at which a search has converged."""
DIGITS = 1e-13
"""Share of a log density that the sum over the samples rounds away."""
PATIENCE, GAIN = 12, 1e-12
"""Rounds that gain no larger share of the log density end a search, as at a kink."""
CREEPING, SAME_HEIGHT = 100, 0.02
"""Rounds in which a search that has come to the limit of iterations gains less has converged."""
LESS = "much lower than others on the first part of the record"
LONGEST = 5.0
"""Longest step of a logarithm: far from its maximum a learned variance of the dynamics has a score
that grows with the square of the residuals, and next to no information."""
FLAT = 0.1
"""Curvature by which a logarithm is damped at the least, or any other coordinate in units of the
spread of its prior. Of 100 searches for six rates in a box of ten decades 3 converged in 200 rounds
without it, and 87 do."""
EXACT = 20_000
"""Solver steps times parameters up to which Hessians cost less than the steps that they save."""
LEAST_RATIO = 0.2
"""Least factor of a standard deviation of the noise in a step."""
OFF = 1.5
"""Factor between a standard deviation of the noise and its maximum, from which a step is of it
alone."""


class SearchDensity(Protocol):
    """A log density of unconstrained coordinates that has an expansion, as `LogDensity` does."""

    prior: Prior
    bounds: Array
    scale: Array

    @cached_property
    def noise(self) -> list[int]:
        """Columns that are nothing but a standard deviation of the noise."""
        ...

    def expansion(self, theta: Array, share: float = 1.0, /) -> tuple[Array, Array, Array]:
        """Log density (n,), gradient (n, d), and information (n, d, d), none of it negative."""
        ...


class LevenbergMarquardt(Search):
    """Damped Gauss-Newton steps, and Fisher's scoring of noise and solver variances."""

    name = "levenberg-marquardt"

    def __init__(self, damping: float = FIRST_DAMPING) -> None:
        self._damping = damping

    def nearer(self) -> Search:
        """Search with little damping from the first step on."""
        return LevenbergMarquardt(NEAR_DAMPING)

    def patient(self) -> Search:
        """Search that climbs by gradients first.

        Far from its maximum a likelihood says little of how curved it is along a diffusion: there
        scoring creeps, and gradients lead on.
        """
        return SEARCHES["l-bfgs-b"]()

    @classmethod
    def suits(cls, function: LogLikelihood) -> bool:
        """True if the samples are Gaussian given those before, or few."""
        return function.expands or function.steps * len(function.names) <= EXACT

    def __call__(
        self, density: LogDensity, starts: Array, stages: Sequence[Sequence[int]], iterations: int
    ) -> list[SearchEnd]:
        """Ends of searches; starts that are the same are searched from once."""
        records = density.log_likelihood.problem.records
        long = np.mean([len(record) for record in records]) >= LONG
        by_piece = long and density.log_likelihood.expands
        _, first, number = np.unique(starts, axis=0, return_index=True, return_inverse=True)
        near = self._damping == NEAR_DAMPING
        find = _by_piece if by_piece and not near else partial(_at_once, damping=self._damping)
        found = find(density, starts[first], stages, iterations)
        ends = [found[k] for k in number.ravel()]
        return [
            end if first[k] == place else replace(end, evaluations=0)
            for place, (k, end) in enumerate(zip(number.ravel(), ends, strict=True))
        ]


def _at_once(
    density: LogDensity,
    starts: Array,
    stages: Sequence[Sequence[int]],
    iterations: int,
    damping: float,
) -> list[SearchEnd]:
    """Search on the whole record."""
    climbs = climbed(density, starts, stages, iterations, damping=damping)
    return [_found(density, climb) for climb in climbs]


def _by_piece(
    density: LogDensity, starts: Array, stages: Sequence[Sequence[int]], iterations: int
) -> list[SearchEnd]:
    """Search on a piece, and from the distinct ends there on the whole record."""
    first = climbed(density, starts, stages, iterations, PIECE)
    tops = np.array([climb.value for climb in first])
    values, ends = density.value(starts), np.stack([climb.theta for climb in first])
    there = density.value(ends)
    # Its end on the piece may be worse than a start that knew the whole.
    begins = np.where((there > values)[:, None], ends, starts)
    leader = _leaders(first, there > values)
    worth = tops > tops.max(initial=-np.inf) - LOWER
    chosen = sorted({int(k) for k in leader[worth]})
    again = climbed(density, begins[chosen], stages[-1:], iterations, damping=NEAR_DAMPING)
    climbs = {k: _found(density, climb) for k, climb in zip(chosen, again, strict=True)}
    found: list[SearchEnd] = []
    for k, climb in enumerate(first):
        spent = ceil(PIECE * climb.evaluations)
        end = climbs.get(int(leader[k]))
        if end is None:
            reason = climb.reason if climb.reason == DIVERGED_START else LESS
            end = SearchEnd(begins[k], max(there[k], values[k]), reason, 0, ends[:0], values[:0])
        elif leader[k] != k:
            end = replace(end, evaluations=0)
        path = np.concatenate([starts[k : k + 1], end.path])
        heights = np.concatenate([values[k : k + 1], end.path_log_density])
        found.append(
            replace(end, evaluations=end.evaluations + spent, path=path, path_log_density=heights)
        )
    return found


def _leaders(climbs: Sequence[Climb], moved: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Number of the first search that ended where each one did, of those that have moved."""
    leader = np.arange(len(climbs))
    for k, climb in enumerate(climbs):
        for other in range(k):
            if (
                leader[other] == other
                and moved[k]
                and moved[other]
                and climb.reason == climbs[other].reason == CONVERGED
                and climbs[other].squared_distance(climb.theta) < SAME_END
            ):
                leader[k] = other
                break
    return leader


def distinct(climbs: Sequence[Climb]) -> list[Climb]:
    """Return the searches that ended in different places, the highest first."""
    ordered = sorted(climbs, key=lambda climb: -climb.value)
    leader = _leaders(ordered, np.ones(len(ordered), dtype=bool))
    return [climb for k, climb in enumerate(ordered) if leader[k] == k]


def climbed(
    density: SearchDensity,
    starts: Array,
    stages: Sequence[Sequence[int]],
    iterations: int,
    share: float = 1.0,
    damping: float = FIRST_DAMPING,
) -> list[Climb]:
    """Run the searches to their ends, all points of a round in one call.

    ``starts`` are (S, d), ``share`` is that of each record, from its beginning, and ``damping``
    that of the first step of a stage.
    """
    climbs = [Climb(start, stages, iterations, damping) for start in starts]
    rounds = 0
    while searching := [climb for climb in climbs if not climb.reason]:
        points = np.stack([climb.trial for climb in searching])
        for climb, *expansion in zip(searching, *density.expansion(points, share), strict=True):
            climb.judge(*expansion)
        choose_trials(density, [climb for climb in searching if not climb.reason])
        rounds += 1
        top = max(climb.value for climb in climbs)
        _log.info("round %d of %d searches: log density %.8g", rounds, len(searching), top)
    return climbs


class Climb:
    """One search: where it is, the point that it wants to know, and why it ended.

    trial: (d,), point to evaluate next.
    theta, gradient: (d,)
    information: (d, d), at the best point.
    reason: Why it ended; "" before.
    of_noise, noise_refused: Whether the trial moves the noise alone, and whether the last one that
        did was no better.
    """

    def __init__(
        self,
        start: Array,
        stages: Sequence[Sequence[int]],
        iterations: int,
        damping: float,
    ) -> None:
        self._stages, self._iterations = [list(free) for free in stages], iterations
        self._first_damping = damping
        self._obstacle = ""
        self.of_noise = self.noise_refused = False
        self.trial, self.theta, self.value = start, start, -np.inf
        self._begin_stage()
        d = len(start)
        self.gradient, self.information = np.zeros(d), np.zeros((d, d))
        self.evaluations, self.reason = 0, ""
        self.path: list[Array] = [start]
        self.path_values: list[float] = []

    def judge(self, value: float, gradient: Array, information: Array) -> None:
        """Take the trial, or not, and choose the next one."""
        self.evaluations += 1
        usable = np.isfinite(gradient).all() and np.isfinite(information).all()
        obstacle = DIVERGES if not np.isfinite(value) else NO_GRADIENT if not usable else ""
        if self.evaluations == 1:
            self.path_values.append(float(value))
            if obstacle:
                self.value = float(value)
                self.reason = DIVERGED_START if obstacle == DIVERGES else NO_GRADIENT
                return
            accepted = True
        else:
            self._left -= 1
            with np.errstate(over="ignore"):  # a promise of next to nothing
                gain = (value - self.value) / self.predicted
            accepted = not obstacle and value > self.value and gain > 1e-4
            self._obstacle = obstacle
            self.noise_refused = self.of_noise and not accepted
            if not self.of_noise:
                self.damping, self._growth = damping_after(
                    self.damping, self._growth, float(gain) if accepted else 0.0
                )
            if accepted:
                self.path.append(self.trial)
                self.path_values.append(float(value))
        if accepted:
            self.theta, self.value = self.trial, float(value)
            self.gradient, self.information = gradient, information
        self._values.append(self.value)

    def squared_distance(self, theta: Array) -> float:
        """Squared distance of a point from the best one, in posterior sd."""
        away = theta - self.theta
        return float(away @ self.information @ away)

    def _begin_stage(self) -> None:
        self.free, self._left = self._stages.pop(0), self._iterations
        self.damping, self._growth = self._first_damping, 2.0
        self.predicted = float(np.finfo(float).tiny)
        self._values: list[float] = []

    def ended(self, reason: str) -> bool:
        """Take the reason why a stage has ended; return whether another one follows."""
        if not self._stages:
            self.reason = reason
            return False
        self._begin_stage()
        return True

    def end(self, distance: float) -> str:
        """Why the stage ends at this squared distance from its maximum; empty where it goes on."""
        if distance <= CLOSE + DIGITS * abs(self.value):
            return CONVERGED
        if self.damping > MOST_DAMPING or self._gained(PATIENCE) <= GAIN * abs(self.value):
            return self.verdict(distance)
        if self._left > 0:
            return ""
        # In a bent valley a search creeps on for ever, and is as high as its end.
        return CONVERGED if self._gained(CREEPING) <= SAME_HEIGHT else LIMIT

    def _gained(self, rounds: int) -> float:
        """Gain of the last so many rounds; infinite before there were as many."""
        return (
            self._values[-1] - self._values[-1 - rounds] if len(self._values) > rounds else np.inf
        )

    def gain_of_noise(self, j: int, step: float, ratio: float) -> float:
        """Gain, beyond the parabola, of a step of the standard deviation by a ratio.

        With n samples and s the step of its logarithm, whose parabola gains n s^2, it is
        n (s - log ratio), so that a long step is not judged by what it cannot gain.
        """
        s = 0.5 * (ratio**2 - 1.0)
        parabola = 0.5 * self.information[j, j] * step**2
        return parabola * ((s - np.log(ratio)) / s**2 - 1.0) if abs(s) > 1e-3 else 0.0

    def verdict(self, distance: float) -> str:
        """Judge a search that finds no better point."""
        rounding = ROUNDING * (1.0 + abs(self.value))
        if distance <= rounding:
            return CONVERGED
        if self._obstacle:
            return self._obstacle
        gained = np.diff(self.path_values)[-1:].sum() if len(self.path_values) > 1 else np.inf
        return CONVERGED if gained <= rounding else NO_BETTER


def choose_trials(density: SearchDensity, climbs: Sequence[Climb]) -> None:
    """Choose the next trial of each search, or end it; their algebra is done together."""
    while climbs:
        steps, distances = _steps(density, climbs)
        reasons = [climb.end(float(far)) for climb, far in zip(climbs, distances, strict=True)]
        trials = _moved(density, climbs, steps)
        staged: list[Climb] = []
        for climb, reason, trial, far in zip(climbs, reasons, trials, distances, strict=True):
            if not reason and (trial != climb.theta).any():
                climb.trial = trial
            elif climb.ended(reason or climb.verdict(float(far))):
                staged.append(climb)
        climbs = staged


def _steps(density: SearchDensity, climbs: Sequence[Climb]) -> tuple[Array, Array]:
    """Damped steps (S, d), and squared distances (S,) of the maxima that the slopes predict.

    What each step promises is kept with its search.
    """
    lower, upper = density.bounds.T
    theta = np.stack([climb.theta for climb in climbs])
    gradient = np.stack([climb.gradient for climb in climbs])
    whole = np.stack([climb.information for climb in climbs])
    free = np.zeros(theta.shape, dtype=bool)
    for row, climb in zip(free, climbs, strict=True):
        row[climb.free] = True
    free &= ~np.where(gradient < 0, theta <= lower, theta >= upper)
    damping = np.array([climb.damping for climb in climbs])
    alone = _noise_is_off(density, theta, gradient, whole, free)
    alone &= np.array([not climb.noise_refused for climb in climbs])
    free[np.ix_(alone, np.setdiff1d(np.arange(theta.shape[1]), density.noise))] = False
    damping = np.where(alone, 0.0, damping)
    for climb, its in zip(climbs, alone.tolist(), strict=True):
        climb.of_noise = its
    least = np.full(len(density.scale), FLAT)
    identity = np.setdiff1d(np.arange(len(least)), density.prior.mapped)
    least[identity] /= np.square(density.scale[identity])
    step, distances = damped_steps(gradient, whole, free, damping, least)
    bent = [j for j in density.prior.mapped if j not in density.noise]
    longest = np.abs(step[:, bent]).max(axis=1, keepdims=True, initial=LONGEST)
    step = step * (LONGEST / longest)
    clipped = np.clip(step, lower - theta, upper - theta)
    # A step of the noise is shortened by its root below.
    clipped[:, density.noise] = step[:, density.noise]
    for climb, gain in zip(climbs, promised(gradient, whole, clipped), strict=True):
        climb.predicted = max(float(gain), float(np.finfo(float).tiny))
    return clipped, distances


def _noise_is_off(
    density: SearchDensity,
    theta: Array,
    gradient: Array,
    information: Array,
    free: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Which of the points (S, d) have a standard deviation of the noise far from its maximum.

    Steps of the other parameters would then be judged by a wrong noise.
    """
    off = np.zeros(len(theta), dtype=bool)
    with np.errstate(all="ignore"):
        values, slopes = density.prior.natural(theta), density.prior.slopes(theta)[0]
        for j in density.noise:
            step = gradient[:, j] / information[:, j, j]
            ratio = _ratio(step * slopes[:, j] / values[:, j])
            off |= free[:, j] & np.isfinite(ratio) & (np.abs(np.log(ratio)) > np.log(OFF))
    return off


def _ratio(step: Array) -> Array:
    """Factor of a standard deviation after steps of its logarithm that are of the variance."""
    return np.sqrt(np.maximum(1.0 + 2.0 * step, LEAST_RATIO**2))


def _moved(density: SearchDensity, climbs: Sequence[Climb], steps: Array) -> Array:
    """Points (S, d) after steps (S, d), which are of the variance where a parameter is noise."""
    theta, prior = np.stack([climb.theta for climb in climbs]), density.prior
    moved = theta + steps
    with np.errstate(all="ignore"):
        values, slopes = prior.natural(theta), prior.slopes(theta)[0]
        for j in density.noise:
            coordinate, step = prior.maps[j], steps[:, j]
            sd = values[:, j] * _ratio(step * slopes[:, j] / values[:, j])
            other = coordinate.unconstrained(coordinate.inside(sd))
            taken = (step != 0.0) & (values[:, j] > 0.0) & np.isfinite(other)
            moved[taken, j] = other[taken]
            for k in np.flatnonzero(taken).tolist():
                climb, longer = climbs[k], float(sd[k] / values[k, j])
                climb.predicted += climb.gain_of_noise(j, float(step[k]), longer)
    return np.clip(moved, *density.bounds.T)


def _found(density: LogDensity, climb: Climb) -> SearchEnd:
    """Return the end of a climb as what a search found."""
    edge = Region(density.names, density.scale, density.bounds).at_edge(climb.theta)
    return SearchEnd(
        theta=climb.theta,
        log_density=climb.value,
        reason=EDGE + ", ".join(edge) if edge else climb.reason,
        evaluations=climb.evaluations,
        path=np.array(climb.path),
        path_log_density=np.array(climb.path_values),
    )
