"""Searches from several starts: from where, how many, and whether their ends can be believed.

Draws from the prior that are more likely than those around them are searched from first, and the
parameters that match the slopes of the outputs (`matched`). Where the latter lead to the highest
end, and it leaves of the outputs what is noise, that is all: whatever else explains the states has
their slopes too, but where the prior allows it to turn unseen between samples. Rounds of further
starts follow otherwise, until every height that matters was found twice: a mode is missed only
where few draws of the prior, of some `ENOUGH` searches less than one in ten, lead to it. Where the
ends remain in doubt, searches over path and parameters together look again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from smcpn.errors import InputError, shown
from smcpn.estimate.log_density import LogDensity
from smcpn.estimate.matched import MatchedStarts
from smcpn.estimate.path_search.homotopy import lifted_ends
from smcpn.estimate.search import AUTOMATIC, DIVERGES, LIMIT, Search, SearchEnd
from smcpn.estimate.smoothed_outputs import difference_variances, output_variances
from smcpn.likelihood.solver_choice import effective_variance
from smcpn.model.parts import PARTS, SMOOTH_PARTS, check_parts
from smcpn.model.problem import Problem
from smcpn.model.solver import Solver
from smcpn.results.maximum import StartResult
from smcpn.results.method import TWICE_BELOW, as_high, heights

Array = NDArray[np.float64]

DensityBy = Callable[[Solver], LogDensity]
"""From a solver to the log density by it."""

SHOOTING, LIFTED = "shooting", "lifted"
KINDS = (AUTOMATIC, SHOOTING, LIFTED)
"""What a search follows: one trajectory from the start on, a path that may leave the model, or
both where the first leaves a doubt."""

CANDIDATES = 64
"""Draws from the prior whose most likely are searched from first."""
SEARCHES, MOST_HILLS = 4, 6
"""Fewest and most of these: one alone ends in a lesser mode now and then."""
NEIGHBOURS, NEAR = 8, 256
"""A draw that is more likely than so many around it, or one in so many of all, is taken for a hill
of its own: of many draws several lie on each side of a wide hill."""
LOOKED_AT = 16 * NEAR
"""Draws, the most likely ones, that may be hills: of more, the others have higher ones around."""
EACH, MANY_EACH = 16, 1024
"""Further draws for each search of the second round, and of those that follow, or of both where
states may turn unseen between samples, which look for hills so narrow that few searches lead
there."""
ENOUGH = 24
"""Searches from which it counts that each height was found twice: of basins that a tenth of the
draws lead to, one in twelve is missed by so many."""
MOST = 96
"""Searches after which heights that were found once stay in doubt."""
WORK, EVALUATIONS = 20_000_000, 2000
"""Solver steps that the searches, or the draws that they begin at, may take together, or
evaluations where these are more: a run weighs a thousand particles a few times."""
TURNS = 4
"""Times as much work where states may turn unseen between samples, for there may be as many modes
as turns."""
MISFIT, MANY_MORE, LIKELIEST = 5.0, 8, 200
"""Standard deviations by which chi-square of a known noise is too large, so that no fit has been
found; how many times as many searches there then are, and draws for each, of which the most likely
are searched from. Of 100 such starts for the twelve rates of an immune response one to three end at
a fit, and of 200 draws of the prior none."""
GLANCE, PROMISING = 20, 0.25
"""Iterations after which such a search is looked at, and the share of them, the highest, that go
on: nine in ten have come to rest by then where nothing moves."""
ROUGH = 0.5
"""Share of the searches that end alone, from which a density has too many hills for so few."""
SAME_PLACE = 1e-3
"""Distance of ends that are one maximum, in standard deviations of the prior, along each axis."""
MANY_VALUES = 50
"""Measured values of a record that may be many periods long."""

FIRST_LOOK = 60
"""Iterations after which a search is looked at: chaos takes any number of them to nowhere."""
NEGLIGIBLE = 30.0
"""Nats below the best at which a search that was cut short is given up."""
AGREEING = 0.5
"""Share of the searches that end in the highest mode, from which it is not doubted."""
UNEXPLAINED = 0.1, 0.5
"""Share of the outputs' variance that a mode may leave: twice what is noise between these."""
RESOLVED = 0.0, 0.1
"""The same where slopes of the outputs are known, so that only one mode may have them."""
BEYOND_NOISE = 0.1, np.inf
"""The same, of an end that is doubted."""


def check_search(search: str) -> None:
    """Refuse what is no kind of search.

    Raises `InputError` naming those there are.
    """
    if not isinstance(search, str) or search not in KINDS:
        raise InputError(f"search is {shown(search)}: choose one of {', '.join(KINDS)}")


def likely_hills(density: LogDensity, rng: np.random.Generator) -> Array:
    """Return four to six of 64 draws from the prior, on different hills of the density, (S, d).

    The most likely draws may all lie on one hill. First come those that are more likely than the
    eight draws nearest to them, six at most; the most likely others make up four.

    References
    ----------
    Torn, A., Viitanen, S. (1992). Topographical global optimization. In: Recent Advances in Global
    Optimization, Princeton.
    """
    candidates = density.prior.sample(rng, CANDIDATES)
    values = density.value(candidates)
    order = np.argsort(-values, kind="stable")
    tops = _hilltops(density, candidates, values, order, MOST_HILLS)
    others = order[~np.isin(order, tops)][: max(SEARCHES - len(tops), 0)]
    return candidates[np.concatenate([tops, others])]


def further_starts(density: LogDensity, rng: np.random.Generator, count: int, draws: int) -> Array:
    """Return other draws from the prior to search from, (S, d), at most ``count``.

    They are the highest hills of so many ``draws``. Of few draws these are half of the starts, and
    the first that have a likelihood at all the others: a narrow mode may have no draw that is
    likely.
    """
    candidates = density.prior.sample(rng, draws)
    values = density.value(candidates)
    order = np.argsort(-values, kind="stable")
    most = count if draws >= MANY_EACH * count else max(count // 2, 1)
    tops = _hilltops(density, candidates, values, order, most)
    others = np.setdiff1d(np.flatnonzero(np.isfinite(values)), tops)[: count - len(tops)]
    return candidates[np.concatenate([tops, others])]


def many_hills(density: LogDensity, rng: np.random.Generator) -> Array:
    """Return `ENOUGH` draws from the prior to search from, (S, d), as two rounds have them."""
    first = likely_hills(density, rng)
    count = ENOUGH - len(first)
    return np.concatenate([first, further_starts(density, rng, count, EACH * count)])


def _likeliest(density: LogDensity, rng: np.random.Generator, count: int) -> Array:
    """Return the most likely of `LIKELIEST` times as many draws from the prior, (S, d).

    Draws whose solution diverges are none of them.
    """
    candidates = density.prior.sample(rng, LIKELIEST * count)
    values = density.value(candidates)
    best = np.argsort(-values, kind="stable")[:count]
    return candidates[best[np.isfinite(values[best])]]


def _highest(found: Sequence[SearchEnd]) -> SearchEnd:
    """Return the highest end; one whose density is not a number is none."""
    return max(found, key=lambda one: float(np.nan_to_num(one.log_density, nan=-np.inf)))


def _hilltops(
    density: LogDensity, candidates: Array, values: Array, order: NDArray[np.intp], most: int
) -> NDArray[np.intp]:
    """Return candidates that are more likely than those nearest to them, the highest first.

    ``order`` has the candidates, (n, d), the most likely first, and ``most`` of its places count.
    """
    points = candidates / density.scale
    tree, near = KDTree(points), max(NEIGHBOURS, len(values) // NEAR)
    found, block = order[:0], 4 * most
    # Neighbours are looked up for the highest only: of many draws that is most of the work.
    looked_at = order[:LOOKED_AT]
    for first in range(0, len(looked_at), block):
        some = looked_at[first : first + block]
        # The nearest few are enough to refuse most.
        for count in (NEIGHBOURS, near):
            around = tree.query(points[some], count + 1)[1]
            beside = np.where(around == some[:, None], -np.inf, values[around]).max(axis=1)
            some = some[values[some] > beside]
        found = np.concatenate([found, some])
        if len(found) >= most:
            break
    return found[:most]


@dataclass(frozen=True)
class MultiStart:
    """Searches of a density, all by one method.

    climb: Each of them, from where it starts.
    stages: Free coordinates of each stage; the last one has all.
    iterations: Of a stage, at most.
    search: One of `KINDS`.
    """

    climb: Search
    density: LogDensity
    stages: Sequence[Sequence[int]]
    iterations: int
    search: str

    def in_rounds(self, rng: np.random.Generator, matched: MatchedStarts) -> list[SearchEnd]:
        """Search from draws of the prior, as many as what is found calls for, and return the ends.

        A first round has four to six starts and those that are ``matched``, a second one `ENOUGH`
        with these, each further one as many as were before. They end when every height that matters
        was found twice, or slopes of the outputs led to the highest, or after `MOST` searches; of a
        record or a model that is expensive, before they would cost more than a run.
        """
        density, hills = self.density, likely_hills(self.density, rng)
        if self.search == LIFTED:
            return self.from_starts(hills)
        first = len(hills)
        found = self._looked(np.concatenate([hills, matched.starts]))
        found[first:] = [replace(one, lifted=True) for one in found[first:]]
        told = matched.alone and _told_by_slopes(density, found)
        times = TURNS if matched.turning > 0.0 else 1
        misfit = False
        while not told:
            done = settled(found)
            doubtful = len(found) >= ENOUGH and _agreement(found) < AGREEING
            # Where a fit was hard to find, one that was found once may not be the best.
            misfit = doubtful and (misfits(density, found) or (misfit and _times(found) == 1))
            if done and not misfit:
                break
            most = MANY_MORE * MOST if misfit else MOST
            count = _further_searches(density, found, times, most)
            if not count:
                break
            each = MANY_EACH if len(found) >= ENOUGH or times > 1 else EACH
            draws = max(EACH * count, min(each * count, int(times * _affordable(density))))
            if misfit:
                starts = _likeliest(density, rng, count)
            else:
                starts = further_starts(density, rng, count, draws)
            if not len(starts):
                break
            found += self.promising(starts) if misfit else self._looked(starts)
        return self._after_look(found, hills, told)

    def from_starts(self, starts: Array) -> list[SearchEnd]:
        """Search from every start, (S, d), along the paths that are wanted, and return the ends.

        Of two ends of a start the higher one is returned, one that converged before one that did
        not.

        Raises `InputError` if there are events or algebraic equations, and only lifted paths are
        wanted.
        """
        if self.search == SHOOTING:
            return self._climbed(starts, self.iterations)
        if self.search == LIFTED:
            parts, remedy = self._problem.model.parts, f"choose '{SHOOTING}'"
            takes, instead = SMOOTH_PARTS | {"delay"}, dict.fromkeys(PARTS, remedy)
            check_parts(parts, f"search '{LIFTED}'", takes, instead, "search")
            return self._lifted(starts, _unsearched(self.density, starts))
        return self._after_look(self._looked(starts), starts)

    def on_from(self, found: Sequence[SearchEnd]) -> list[SearchEnd]:
        """Search on from the ends of searches of a density much the same, as of coarser steps.

        Ends that both densities have far below the highest stay where they are.
        """
        ends, of_search = distinct_ends(self.density, found)
        there, near = self.density.value(ends), np.zeros(len(ends), dtype=bool)
        for height in (_of_ends(found, of_search), there):
            known = np.where(np.isnan(height), -np.inf, height)
            near |= known >= known.max() - NEGLIGIBLE
        place = np.cumsum(near) - 1

        def of_all(again: Sequence[SearchEnd]) -> list[SearchEnd]:
            return [
                one.followed_by(again[int(place[end])])
                if near[end]
                else _stays(one, float(there[end]))
                for one, end in zip(found, of_search, strict=True)
            ]

        if self.search == LIFTED:
            return of_all(self.from_starts(ends[near]))
        again = self._climbed(ends[near], self.iterations)
        # A lesser mode that one search in many ends in would be lost to the end of a lifted path.
        if self.search == AUTOMATIC and not undoubted(self.density, of_all(again)):
            again = self._lifted(ends[near], again)
        return of_all(again)

    def promising(self, starts: Array) -> list[SearchEnd]:
        """Search from many starts, (S, d), and on from the highest ends of these only."""
        found = self._climbed(starts, min(self._look, GLANCE))
        reached = [one.log_density for one in found]
        least = np.nanquantile(reached, 1.0 - PROMISING, method="lower")
        return self._gone_on(found, self._look - GLANCE, float(least))

    @property
    def _problem(self) -> Problem:
        return self.density.log_likelihood.problem

    @property
    def _look(self) -> int:
        """Iterations after which a search is looked at."""
        return min(self.iterations, FIRST_LOOK)

    def _climbed(self, starts: Array, iterations: int) -> list[SearchEnd]:
        return self.climb(self.density, starts, self.stages, iterations)

    def _looked(self, starts: Array) -> list[SearchEnd]:
        return self._climbed(starts, self._look)

    def _after_look(
        self, found: list[SearchEnd], starts: Array, told: bool = False
    ) -> list[SearchEnd]:
        """Finish searches, the first of which began at these starts, lifted where in doubt."""
        left = self.iterations - self._look
        if _few(self._problem):
            found, left = self._finished(found, left), 0
        if self.search == AUTOMATIC and not (told or undoubted(self.density, found)):
            found[: len(starts)] = self._lifted(starts, found[: len(starts)])
        return self._finished(found, left)

    def _lifted(self, starts: Array, found: Sequence[SearchEnd]) -> list[SearchEnd]:
        """The higher of what was found from each start and where its path leads."""
        points, of_start = lifted_ends(self.density, starts)
        again = self._climbed(points, self.iterations) if len(points) else []
        return [
            one if end < 0 else _better(one, again[end])
            for one, end in zip(found, of_start, strict=True)
        ]

    def _finished(self, found: list[SearchEnd], left: int) -> list[SearchEnd]:
        """Go on with searches that a look cut short, where they may end as high as the best."""
        climb = self.climb if self._problem.diffusion is None else self.climb.patient()
        best = max((o.log_density for o in found if not np.isnan(o.log_density)), default=-np.inf)
        return replace(self, climb=climb)._gone_on(found, left, best - NEGLIGIBLE)

    def _gone_on(self, found: list[SearchEnd], left: int, least: float) -> list[SearchEnd]:
        """Go on with the searches that were cut short above a height."""
        chosen = [k for k, o in enumerate(found) if o.reason == LIMIT and o.log_density > least]
        if not chosen or left < 1:
            return found
        points = np.stack([found[k].theta for k in chosen])
        again = self.climb(self.density, points, self.stages[-1:], left)
        for k, other in zip(chosen, again, strict=True):
            found[k] = found[k].followed_by(other)
        return found


def _further_searches(
    density: LogDensity, found: Sequence[SearchEnd], times: int, most: int
) -> int:
    """Return how many searches follow: up to `ENOUGH` at once, then as many as there were.

    Fewer where these would cost more than the run that they serve, or so many times as much; none
    beyond ``most``.
    """
    each = density.evaluations * (1 + len(density.names)) / len(found)
    missing = ENOUGH - len(found) if len(found) < ENOUGH else min(len(found), most - len(found))
    return max(0, min(missing, int(times * _affordable(density) / each) - len(found)))


def _affordable(density: LogDensity) -> float:
    """Return how many evaluations cost little beside the run that the searches serve."""
    return max(WORK / max(density.log_likelihood.steps, 1), EVALUATIONS)


def finest_affordable(density: LogDensity) -> float:
    """Return how many times as many steps leave the searches as many evaluations as they need."""
    return WORK / (EVALUATIONS * max(density.log_likelihood.steps, 1))


def settled(found: Sequence[SearchEnd]) -> bool:
    """True if searches are enough, and have found every height that matters at least twice.

    Where most of them end alone there may be hills of any height that none has seen. One that was
    cut short, higher than all others, was found once.
    """
    alone = sum(count for _, count in heights([one.log_density for one in found]) if count == 1)
    once = found_once(found) or (_highest(found).reason == LIMIT and _times(found) == 1)
    return len(found) >= ENOUGH and alone <= ROUGH * len(found) and not once


def _told_by_slopes(density: LogDensity, found: Sequence[SearchEnd]) -> bool:
    """True if a start that matches slopes led to the highest end, where these are well known.

    A model that states more noise than the samples show allows other slopes.
    """
    top = max(one.log_density for one in found)
    led = [one for one in found if one.lifted and one.success and as_high(one.log_density, top)]
    if not (led and explained(density, led[0].theta, RESOLVED)):
        return False
    problem = density.log_likelihood.problem
    stated = problem.model.noise_variances(problem.prior.natural(led[0].theta[None, :]))[:, 0]
    return bool(np.all(stated <= _allowed(problem, RESOLVED)))


def found_once(found: Sequence[SearchEnd | StartResult]) -> list[float]:
    """Return the heights that matter and that one search alone has led to, the highest first.

    Lifted paths may all lead to one end, whatever others there are: they count as one search.
    """
    shot = [one.log_density for one in found if one.success and not one.lifted]
    lifted = [
        height for height, _ in heights([o.log_density for o in found if o.success and o.lifted])
    ]
    told = heights([*shot, *lifted])
    return [height for height, count in told if count == 1 and height > told[0][0] - TWICE_BELOW]


def _stays(one: SearchEnd, log_density: float) -> SearchEnd:
    """Return an end with its log density by other steps; a failure where these diverge."""
    reason = one.reason if np.isfinite(log_density) else DIVERGES
    return replace(one, log_density=log_density, reason=reason)


def undoubted(density: LogDensity, found: Sequence[SearchEnd]) -> bool:
    """True if searches agree, and the highest mode explains the outputs.

    They agree where half of them end there, or where they are `settled`. Of a few values that is
    enough: no path is many periods long.
    Where process noise acts the likelihood follows the outputs by itself, and a path that may leave
    the model adds nothing; lifted paths know few parts (`SMOOTH_PARTS`).
    """
    problem = density.log_likelihood.problem
    if problem.model.process_noise is not None or not problem.model.smooth:
        return True
    best = _highest(found)
    if not (best.success and (_agreement(found) >= AGREEING or settled(found))):
        return False
    return _few(problem) or explained(density, best.theta)


def _agreement(found: Sequence[SearchEnd]) -> float:
    """Share of searches that end as high as the highest."""
    return _times(found) / len(found)


def _times(found: Sequence[SearchEnd]) -> int:
    """Return how many searches end as high as the highest."""
    highest = _highest(found).log_density
    return sum(as_high(one.log_density, highest) for one in found)


def misfits(density: LogDensity, found: Sequence[SearchEnd]) -> bool:
    """True if the highest end of searches leaves far more than a noise that is known.

    Of few values only: differences of many tell of noise that is not known, too.
    """
    best = _highest(found)
    return bool(np.isfinite(best.log_density)) and _misfit(density, best.theta) > 0.0


def _misfit(density: LogDensity, theta: Array) -> float:
    """Mean square of few residuals over that of known noise where it is far more, 0 elsewhere."""
    problem = density.log_likelihood.problem
    logs = _log_variances(problem)
    if logs is None:
        return 0.0
    value = float(density.log_likelihood(problem.prior.natural(theta[None, :]))[0])
    square = -2.0 * value - float(np.sum(np.log(2.0 * np.pi) + logs))
    far = np.isfinite(square) and square > len(logs) + MISFIT * np.sqrt(2.0 * len(logs))
    return square / len(logs) if far else 0.0


def _log_variances(problem: Problem) -> Array | None:
    """Log variance of the noise of each value of few; None where it is not known, or not white."""
    model, found = problem.model, list[Array]()
    unknown = (
        [model.theta, model.x] if model.density is None else [model.theta, model.density.output]
    )
    variances = model.noise_variance if model.density is None else model.density.variances
    known = not ca.depends_on(variances, ca.vertcat(*unknown))
    gaussian = model.density is None or model.density.gaussian
    if (
        not (known and gaussian and _few(problem))
        or model.coloured
        or model.process_noise is not None
    ):
        return None
    values = problem.prior.natural(np.zeros((1, len(problem.prior))))[0]
    for record in problem.records:
        y = np.nan_to_num(record.y, nan=1.0)
        if model.density is None:
            of_all = np.broadcast_to(model.noise_variances(values[None, :])[:, 0], y.shape)
        else:
            of_all = effective_variance(model, y, y, values, model.sample_numbers(record))
        found.append(np.log(of_all[np.isfinite(record.y)]))
    return np.concatenate(found)


def explained(density: LogDensity, theta: Array, shares: tuple[float, float] = UNEXPLAINED) -> bool:
    """True if parameters (d,) explain the outputs, up to what is noise of these.

    Only Gaussian white noise tells: its log density is one of the mean square.

    ``shares`` are the least and most of the outputs' variance that the residuals may have, in the
    mean.
    """
    over = _over_allowed(density, theta, shares)
    return over is not None and over <= 1.0


def left_unexplained(density: LogDensity, theta: Array) -> str:
    """Say that parameters (d,) leave much more of the outputs than noise; empty where not.

    Differences of few samples do not tell the noise: only one that is given is compared.
    """
    if _few(density.log_likelihood.problem):
        over = _misfit(density, theta)
        known = f"residuals of the best fit are {np.sqrt(over):.2g} times the noise that is given"
        return known if over else ""
    over = _over_allowed(density, theta, BEYOND_NOISE)
    if over is None or over <= 1.0:
        return ""
    over_noise = _over_allowed(density, theta, (0.0, np.inf))
    assert over_noise is not None
    return (
        f"residuals of the best fit are {np.sqrt(2.0 * over_noise):.2g} times the noise that the "
        "samples show"
    )


def _over_allowed(density: LogDensity, theta: Array, shares: tuple[float, float]) -> float | None:
    """Mean square of residuals over what is allowed; None where no mean square can be told."""
    problem = density.log_likelihood.problem
    model = problem.model
    if model.density is not None or model.coloured or model.process_noise is not None:
        return None
    values = problem.prior.natural(theta[None, :])
    variances = model.noise_variances(values)[:, 0]
    counts = np.sum([np.isfinite(record.y).sum(axis=0) for record in problem.records], axis=0)
    constant = float(np.sum(counts * np.log(2.0 * np.pi * variances)))
    square = -2.0 * float(density.log_likelihood(values)[0]) - constant
    return float(square / np.sum(counts * _allowed(problem, shares) / variances))


def _allowed(problem: Problem, shares: tuple[float, float]) -> Array:
    """Variance that residuals of each output may have, (q,): twice that of noise, within shares."""
    noise, spread = difference_variances(problem.records), output_variances(problem.records)
    return spread * np.clip(2.0 * noise / spread, *shares)


def _few(problem: Problem) -> bool:
    """True if no record has so many values that it may be many periods long."""
    most = max(int(np.isfinite(record.y).sum(axis=0).max()) for record in problem.records)
    return most < MANY_VALUES


def distinct_ends(
    density: LogDensity, found: Sequence[SearchEnd]
) -> tuple[Array, NDArray[np.int64]]:
    """Return the different ends of searches (E, d), and which of them each search ended in.

    Ends of one height are one where they differ by less than rounding leaves of a maximum.
    """
    ends: list[SearchEnd] = []
    of_search = np.empty(len(found), np.int64)
    for k, one in enumerate(found):
        for place, other in enumerate(ends):
            away = np.abs(one.theta - other.theta) / density.scale
            low, high = sorted((one.log_density, other.log_density))
            if as_high(low, high) and away.max() <= SAME_PLACE:
                of_search[k] = place
                break
        else:
            of_search[k] = len(ends)
            ends.append(one)
    return np.stack([one.theta for one in ends]), of_search


def _of_ends(found: Sequence[SearchEnd], of_search: NDArray[np.int64]) -> Array:
    """Log density of the different ends of searches, (E,)."""
    first = np.unique(of_search, return_index=True)[1]
    return np.array([found[k].log_density for k in first])


def least_solver(
    density: LogDensity, found: Sequence[SearchEnd], coarse: Solver, at: DensityBy
) -> Solver:
    """Return the fewest steps, from ``coarse`` on, by which all modes are as high as they are.

    ``density`` is the one that was searched, by as many steps or more; ``at`` has it by other
    solvers.
    """
    converged = [one for one in found if one.success]
    ends, _ = distinct_ends(density, converged or found)
    here = density.value(ends)
    modes = here >= here.max() - NEGLIGIBLE
    fine, solver = density.log_likelihood.solver, coarse
    while int(solver.steps) < int(fine.steps):
        with np.errstate(invalid="ignore"):
            moved = np.abs(at(solver).value(ends[modes]) - here[modes])
        if moved.max() <= AS_HIGH:
            return solver
        solver = solver.with_steps(2 * int(solver.steps))
    return fine


def unresolved(density: LogDensity, found: Sequence[SearchEnd], finer: LogDensity) -> bool:
    """True if finer steps make or unmake a mode that matters: there may be more of these."""
    ends, _ = distinct_ends(density, found)
    here, there = density.value(ends), finer.value(ends)
    with np.errstate(invalid="ignore"):
        matter = np.maximum(here, there) > max(here.max(), there.max()) - TWICE_BELOW
        return bool((np.abs(here - there) > FAR)[matter].any())


def without_artefacts(
    density: LogDensity, found: Sequence[SearchEnd], finer: LogDensity
) -> list[SearchEnd]:
    """Return the ends of searches, those that only the solver's steps have made as failures.

    A linearised filter may break down and find anything likely. Such an end falls with a finer
    solver far below others that stay where they are; where none stays the steps are too long for
    all, and their shift says so.
    """
    ends, of_search = distinct_ends(density, found)
    there = finer.value(ends)
    here = _of_ends(found, of_search)
    converged = np.array(
        [any(one.success for one, end in zip(found, of_search, strict=True) if end == k)
         for k in range(len(ends))]
    )  # fmt: skip
    with np.errstate(invalid="ignore"):
        stays = converged & (np.abs(there - here) < FAR)
    if not stays.any():
        return list(found)
    fallen = there < there[stays].max() - FAR
    false = fallen & (here > here[stays].max())
    return [
        replace(one, reason=ARTEFACT, log_density=-np.inf) if false[end] else one
        for one, end in zip(found, of_search, strict=True)
    ]


def _unsearched(density: LogDensity, starts: Array) -> list[SearchEnd]:
    """The starts as they are, as ends that nothing has led to."""
    return [
        SearchEnd(theta, float(value), NOT_LIFTED, 0, theta[None, :], np.array([value]))
        for theta, value in zip(starts, density.value(starts), strict=True)
    ]


NOT_LIFTED = "no path led from the start"
ARTEFACT = "the likelihood there is one of the solver's steps alone"
AS_HIGH = 0.05
"""Nats by which finer steps may shift a mode, before the shift of the posterior is judged."""
FAR = 10.0
"""Nats by which finer steps may move an end that is believed, or must lower one that is not."""


def _better(one: SearchEnd, lifted: SearchEnd) -> SearchEnd:
    """The higher end of the same start, with the path to it and the evaluations of both.

    Where both are as high, which rounding alone would decide, the start's own search found it.
    """
    low, high = one.log_density, lifted.log_density
    enough = low >= high or as_high(low, high)
    if one.success > lifted.success or (one.success == lifted.success and enough):
        return replace(one, evaluations=one.evaluations + lifted.evaluations)
    return replace(
        lifted,
        evaluations=one.evaluations + lifted.evaluations,
        path=np.concatenate([one.path[:1], lifted.path]),
        path_log_density=np.concatenate([one.path_log_density[:1], lifted.path_log_density]),
        lifted=True,
    )
