"""Searches from given starts, and from where a search over path and parameters has led them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError, shown
from smcpn.estimate.lifted.measurements import difference_variances
from smcpn.estimate.lifted.starts import lifted_ends
from smcpn.estimate.log_density import LogDensity
from smcpn.estimate.search import AUTOMATIC, LIMIT, Found, Search
from smcpn.results.ends import SAME

Array = NDArray[np.float64]

SHOOTING, LIFTED = "shooting", "lifted"
KINDS = (AUTOMATIC, SHOOTING, LIFTED)
"""What a search follows: one trajectory from the start on, a path that may leave the model, or
both where the first leaves a doubt."""

FIRST_LOOK = 60
"""Iterations after which a search is looked at: chaos takes any number of them to nowhere."""
NEGLIGIBLE = 30.0
"""Nats below the best at which a search that was cut short is given up."""
AGREEING = 0.5
"""Share of the searches that end in the highest mode, from which it is not doubted."""
UNEXPLAINED = 0.1
"""Share of the outputs' variance that a mode may leave, or twice what is noise, up to half."""
MOST_UNEXPLAINED = 0.5


def check_search(search: str) -> None:
    """Refuse what is no kind of search.

    Raises
    ------
    InputError
        Naming those there are.
    """
    if not isinstance(search, str) or search not in KINDS:
        raise InputError(f"search is {shown(search)}: choose one of {', '.join(KINDS)}")


def searched(
    climb: Search,
    density: LogDensity,
    starts: Array,
    stages: Sequence[Sequence[int]],
    iterations: int,
    search: str,
) -> list[Found]:
    """Search from every start, (S, d), along the paths that are wanted, and return the ends.

    Of two ends of a start the higher one is returned, one that converged before one that did not.

    Raises
    ------
    InputError
        If inputs are delayed and only lifted paths are wanted.
    """
    if search == SHOOTING:
        return climb(density, starts, stages, iterations)
    if search == LIFTED:
        if density.log_likelihood.problem.model.delay is not None:
            raise InputError(
                f"search is '{LIFTED}', whose paths know no delay of inputs: choose '{SHOOTING}'",
                argument="search",
            )
        return _lifted(climb, density, starts, stages, iterations, _unsearched(density, starts))
    look = min(iterations, FIRST_LOOK)
    found = climb(density, starts, stages, look)
    if not undoubted(density, found):
        found = _lifted(climb, density, starts, stages, iterations, found)
    return _finished(climb, density, stages, iterations - look, found)


def _lifted(
    climb: Search,
    density: LogDensity,
    starts: Array,
    stages: Sequence[Sequence[int]],
    iterations: int,
    found: Sequence[Found],
) -> list[Found]:
    """The higher of what was found from each start and where its path leads."""
    points, of_start = lifted_ends(density, starts)
    again = climb(density, points, stages, iterations) if len(points) else []
    return [
        one if end < 0 else _better(one, again[end])
        for one, end in zip(found, of_start, strict=True)
    ]


def _finished(
    climb: Search,
    density: LogDensity,
    stages: Sequence[Sequence[int]],
    iterations: int,
    found: list[Found],
) -> list[Found]:
    """Go on with searches that the first look cut short, where they may end as high as the best."""
    if density.log_likelihood.problem.diffusion is not None:
        climb = climb.patient()
    best = max((o.log_density for o in found if not np.isnan(o.log_density)), default=-np.inf)
    chosen = [
        k
        for k, one in enumerate(found)
        if one.reason == LIMIT and one.log_density > best - NEGLIGIBLE
    ]
    if not chosen or iterations < 1:
        return found
    again = climb(density, np.stack([found[k].theta for k in chosen]), stages[-1:], iterations)
    for k, other in zip(chosen, again, strict=True):
        found[k] = found[k].followed_by(other)
    return found


def undoubted(density: LogDensity, found: Sequence[Found]) -> bool:
    """Whether half of the searches end in the highest mode, and it explains the outputs.

    Where process noise acts the likelihood follows the outputs by itself, and a path that may leave
    the model adds nothing; lifted paths know no delay.
    """
    problem = density.log_likelihood.problem
    if problem.model.process_noise is not None or problem.model.delay is not None:
        return True
    ends = np.array([one.log_density for one in found])
    best = found[int(np.argmax(ends))]
    agreeing = np.mean(ends > best.log_density - SAME)
    return bool(agreeing >= AGREEING and best.success and explained(density, best.theta))


def explained(density: LogDensity, theta: Array) -> bool:
    """Whether parameters (d,) explain the outputs, up to what is noise of these.

    Only Gaussian white noise tells: its log density is one of the mean square.
    """
    problem = density.log_likelihood.problem
    model = problem.model
    if model.density is not None or model.coloured or model.process_noise is not None:
        return False
    values = problem.prior.natural(theta[None, :])
    variances = model.noise_variances(values)[:, 0]
    counts = np.isfinite(np.concatenate([record.y for record in problem.records])).sum(axis=0)
    noise, spread = difference_variances(problem.records)
    allowed = spread * np.clip(2.0 * noise / spread, UNEXPLAINED, MOST_UNEXPLAINED)
    constant = float(np.sum(counts * np.log(2.0 * np.pi * variances)))
    square = -2.0 * float(density.log_likelihood(values)[0]) - constant
    return bool(square <= np.sum(counts * allowed / variances))


def _unsearched(density: LogDensity, starts: Array) -> list[Found]:
    """The starts as they are, as ends that nothing has led to."""
    return [
        Found(theta, float(value), NOT_LIFTED, 0, theta[None, :], np.array([value]))
        for theta, value in zip(starts, density.value(starts), strict=True)
    ]


NOT_LIFTED = "no path led from the start"


def _better(one: Found, lifted: Found) -> Found:
    """The higher end of the same start, with the path to it and the evaluations of both."""
    if (one.success, one.log_density) >= (lifted.success, lifted.log_density):
        return replace(one, evaluations=one.evaluations + lifted.evaluations)
    return replace(
        lifted,
        evaluations=one.evaluations + lifted.evaluations,
        path=np.concatenate([one.path[:1], lifted.path]),
        path_log_density=np.concatenate([one.path_log_density[:1], lifted.path_log_density]),
        lifted=True,
    )
