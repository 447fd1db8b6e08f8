"""`smcpn.laplace`: the Gaussian about the mode of a posterior, in unconstrained coordinates.

Its curvature is that of the log density at the mode, where kinks may have spoilt the second
derivatives.

Of problems with networks the modes are those of the weights. Networks of few weights fit the same
data by several functions, which differ between the samples. The highest log density is no measure
of them: a high, narrow peak of the weights may hold less of the posterior than a lower, wide one.
What counts is the evidence of the problem that is linear in the weights about each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from smcpn.base.arguments import ANYTHING, Count, Seed, checked
from smcpn.base.status import status
from smcpn.errors import InputError
from smcpn.estimate.linearise import linearise_networks, networks_of, start_of
from smcpn.estimate.log_density import LogDensity
from smcpn.estimate.marginal_scales import averaged_over_scales, with_marginal_scales
from smcpn.estimate.maximise import Starts, highest_end, maximise, more_starts
from smcpn.estimate.multistart import ENOUGH, FIRST_LOOK, SHOOTING
from smcpn.estimate.search import AUTOMATIC, INTERRUPTED, chosen_search
from smcpn.estimate.shift import called_for
from smcpn.likelihood.classical import Classical
from smcpn.likelihood.gradient import (
    DIFFERENCE,
    LogLikelihood,
    fisher_information,
    score_information,
)
from smcpn.likelihood.solver_choice import choose_solver, leaves_open, solver_from_prior
from smcpn.model.learned_scales import learned_scales
from smcpn.model.prior import prior_expansion
from smcpn.model.problem import Problem
from smcpn.model.solver import RK4, Solver
from smcpn.results.laplace import Laplace
from smcpn.results.maximum import POSTERIOR, Maximum
from smcpn.results.method import as_high
from smcpn.smc.distributed.workers import Workers, evaluated_by, workers_of
from smcpn.smc.start import SAME_MODE, Mode, Modes

Array = NDArray[np.float64]

SUSPECT = 4.0
"""Factor between curvatures of Hessian and Gauss-Newton beyond which kinks are looked for."""
AGREEING = 1.25
"""Factor up to which the Hessian of a density that has kinks is still believed."""
OTHER_DIFFERENCE = 3.7 * DIFFERENCE
"""Step of a second Hessian: where the gradient jumps, the two differ by about this factor."""


def trusted_curvature(
    density: LogDensity, theta: Array, free: NDArray[np.int64] | None = None
) -> tuple[Array, Array]:
    """Minus the Hessian of a log posterior at a mode, by Gauss-Newton where kinks have spoilt it.

    Where the model has kinks, as of a maximum or a dead zone, gradients jump, and differences of
    them are of any size and sign. Relative to the Gauss-Newton matrix of the likelihood, plus the
    curvature of the prior, the Hessian of a density with many samples has eigenvalues near one.
    Where one is negative or off by more than `SUSPECT`, and the Hessian depends on the step of the
    differences, all that are off by more than `AGREEING` become one.

    ``free`` are the coordinates of which it is, where the others are held; d is their number.
    Returned are the curvature, (d, d), in units of the spread of the prior, symmetric, nan where
    derivatives are not finite; and the directions of length one, (d, k), in which it is that of
    Gauss-Newton.
    """
    of = np.ix_(*[np.arange(len(theta)) if free is None else free] * 2)
    curvature = _curvature(density, theta, DIFFERENCE)[of]
    function, values = density.log_likelihood, density.prior.natural(theta[None, :])[0]
    nothing = curvature, np.empty((len(curvature), 0))
    for information in (score_information, fisher_information):
        compared = _posterior_information(density, theta, information(function, values))[of]
        root = _root(compared)
        if root is None:
            return nothing
        eigenvalues, vectors = np.linalg.eigh(_relative(curvature, root))
        if _within(eigenvalues, SUSPECT).all():
            return nothing
    change = _curvature(density, theta, OTHER_DIFFERENCE)[of] - curvature
    if np.abs(_relative(change, root)).max() < AGREEING - 1:
        return nothing
    off = ~_within(eigenvalues, AGREEING)
    trusted = root @ vectors * np.sqrt(np.where(off, 1.0, eigenvalues))
    directions = np.linalg.solve(root.T, vectors[:, off])
    return trusted @ trusted.T, directions / np.linalg.norm(directions, axis=0)


def _curvature(density: LogDensity, theta: Array, difference: float) -> Array:
    curvature = -density.hessian(theta[None, :], difference)[0]
    curvature = curvature * np.outer(density.scale, density.scale)
    return 0.5 * (curvature + curvature.T)


def _within(eigenvalues: Array, factor: float) -> NDArray[np.bool_]:
    return (eigenvalues > 1 / factor) & (eigenvalues < factor)


def _posterior_information(density: LogDensity, theta: Array, information: Array) -> Array:
    """Information of the likelihood and of the prior, in units of the spread of the prior."""
    slopes = density.prior.slopes(theta[None, :])[0][0] * density.scale
    prior = prior_expansion(density.prior, theta[None, :], density.scale).diagonal[0]
    own = np.maximum(-prior * density.scale**2, 0.0)
    return information * np.outer(slopes, slopes) + np.diag(own)


def _root(information: Array) -> Array | None:
    """Lower Cholesky factor; None where it is not finite, or leaves a direction open."""
    if not np.isfinite(information).all():
        return None
    try:
        return np.asarray(np.linalg.cholesky(information), dtype=np.float64)
    except np.linalg.LinAlgError:
        return None


def _relative(curvature: Array, root: Array) -> Array:
    """A curvature in units of the information L L'; what is not finite counts as zero."""
    known = np.where(np.isfinite(curvature), curvature, 0.0)
    return np.asarray(np.linalg.solve(root, np.linalg.solve(root, known).T), dtype=np.float64)


WORK, FEWEST = 9000, 15
"""Weights times iterations of a search for them, and iterations at least.

That of sixty weights has settled after some hundred; of hundreds of weights each is dear.
"""
LEAST, MOST = 4, 8
"""Searches at least, of few weights, and at most: until two have led to the highest evidence."""
FEW = 150
"""Weights that are few. Of more the searches do not settle, each takes long, and the first that
leads anywhere is taken."""
VANISHED = 1e-3
"""Scale of a network, over its typical size, below which an end is left out."""
LOWER = 10.0
"""Nats below the highest end down to which the evidence about an end is asked for."""
ALIKE = 0.5
"""Difference of log-evidences below which ends are one function, of weights that have not all
settled."""


def best_of_networks(
    problem: Problem,
    search: Callable[[int], Maximum],
    linear_about: Callable[[Maximum], Laplace],
    seed: int,
) -> Laplace:
    """Return the approximation of highest evidence, of those about the maxima that searches find.

    ``search`` leads from a seed to a maximum; ``linear_about`` makes of one the approximation of
    the problem that is linear in the weights about it, and raises `InputError`, as this does if no
    search leads anywhere.
    """
    enough = LEAST if len(problem.names) <= FEW else 1
    ends: list[Maximum] = []
    known: list[tuple[Maximum, Laplace]] = []

    def about(end: Maximum) -> Laplace:
        same = next((one for other, one in known if _as_high(end, other)), None)
        if same is None:
            same = linear_about(end)
            known.append((end, same))
        return same

    best: Laplace | None = None
    draws = np.random.default_rng(seed).integers(2**31, size=MOST).tolist()
    for count, draw in enumerate(draws, start=1):
        end = search(draw)
        if end.found and not _vanished(end):
            ends.append(end)
        if len(ends) < enough and count < MOST:
            continue
        best, times = _highest_evidence([about(one) for one in _highest(ends or [end])])
        if times >= min(enough, 2):
            return best
    assert best is not None
    return _found_once(best)


def search_of_networks(
    problem: Problem,
    likelihood: str | None,
    solver: Solver | str | None,
    threads: int | None,
    workers: Workers | None = None,
) -> Callable[[int], Maximum]:
    """Return the search for maxima of a problem with networks, as far as a linearisation needs it.

    That is about the function, which has settled long before the weights; the problem that is
    linear about it has a mode of its own, by the solver that is wanted. So errors of integration
    need not be counted here, and steps are chosen once.
    """
    solver = choose_solver(problem, solver, likelihood).solver
    if Classical.takes(problem.model) and problem.diffusion is None:
        steps = 1 if solver.adaptive else int(solver_from_prior(problem, solver, likelihood).steps)
        solver, likelihood = RK4(steps), None

    paths = "lifted" if problem.model.smooth else "shooting"

    def search(seed: int) -> Maximum:
        return maximise(
            problem, likelihood, solver=solver, starts=1, search=paths, seed=seed,
            iterations=max(FEWEST, WORK // len(problem.names)), threads=threads, executor=workers,
        )  # fmt: skip

    return search


def _highest(ends: Sequence[Maximum]) -> list[Maximum]:
    """Return the ends that are not far below the highest."""
    least = max(one.log_density for one in ends) - LOWER
    return [one for one in ends if one.log_density >= least]


def _highest_evidence(found: Sequence[Laplace]) -> tuple[Laplace, int]:
    """Return the approximation of highest evidence, and how many are as good as it."""
    evidences = [one.log_evidence if one.success else -np.inf for one in found]
    best = int(np.argmax(evidences))
    alike = [one for one in evidences if np.isfinite(one) and one >= evidences[best] - ALIKE]
    return found[best], len(alike)


def _found_once(best: Laplace) -> Laplace:
    """Say that one search alone led to an approximation."""
    doubt = (
        f"of {MOST} searches for the weights of the network one alone led to the function of the "
        "highest evidence, and others like it may be missed: take another seed, and of the two "
        "results that of the higher log-evidence"
    )
    found = best.maximum
    doubted = replace(found, doubt=found.doubt or doubt, warnings=(*found.warnings, doubt))
    return replace(best, maximum=doubted)


def _vanished(maximum: Maximum) -> bool:
    """True if a network has become zero, where the density of its weights has no bound."""
    return any(
        name + ".scale" in maximum.names and maximum[name + ".scale"] < VANISHED * network.size
        for name, network in networks_of(maximum.problem).items()
    )


def _as_high(one: Maximum, other: Maximum) -> bool:
    """True if two ends are one maximum."""
    heights = one.log_density, other.log_density
    return as_high(*heights) and as_high(*reversed(heights))


STATIONARY = 1e-6
"""Squared distance of a point from the mode, as its derivatives predict it, in posterior sd, beyond
which Newton's method finishes the search."""
RESOLVED = 1e-13
"""Curvature along a direction, relative to the largest, that rounding leaves."""
NEGLIGIBLE = 30.0
"""An end this much lower in log density than the highest is left out."""
MATTERS = 0.1
"""Share of the posterior without which the log-evidence is off by as much."""
EVERYWHERE = "every direction"


@checked
def laplace(
    problem: Problem | Maximum,
    likelihood: str | LogLikelihood | None = None,
    *,
    solver: Solver | str | None = None,
    starts: Annotated[Starts, ANYTHING] = None,
    stages: Annotated[Sequence[Sequence[str]] | None, ANYTHING] = None,
    search: str = AUTOMATIC,
    iterations: Count = 500,
    seed: Seed | None = 0,
    threads: Count | None = None,
    executor: Annotated[Executor | Workers | str | None, ANYTHING] = None,
    progress: bool | None = None,
) -> Laplace:
    """Approximate a posterior by the Gaussian about its mode.

    Where the model has networks, it is the posterior of the problem that is linear in their weights
    about a maximum, see `linearise_networks`: of those that searches from draws of the prior find,
    that of highest evidence.

    Parameters
    ----------
    problem : Problem or Maximum
        A maximum of the posterior is taken as it is.
    likelihood, solver, starts, stages, search, iterations, seed, threads, executor, progress
        As of `maximise`, for a problem; ``starts`` and ``stages`` not for one with networks.

    Returns
    -------
    Laplace
        A failure is a value as well: ``success`` is False, and ``reason`` names the direction in
        which the posterior does not fall.

    Raises
    ------
    InputError
        For settings out of range, or a maximum of the likelihood; and as `linearise_networks`.

    Examples
    --------
    >>> approximation = smcpn.laplace(problem, starts=20)  # doctest: +SKIP
    >>> posterior = smcpn.identify(problem, start=approximation)  # doctest: +SKIP
    """
    with status(progress), workers_of(executor) as workers:
        if isinstance(problem, Maximum):
            maximum = problem
            likelihood, solver = maximum.likelihood, maximum.solver
        elif networks_of(problem):
            if starts is not None or stages is not None:
                raise InputError(
                    f"{'starts' if stages is None else 'stages'} is given for a model with "
                    "networks: give laplace the smcpn.maximise(problem, ...) that begins there"
                )
            return _of_networks(problem, likelihood, solver, seed or 0, threads, workers)
        else:
            maximum = _uninterrupted(
                maximise(
                    problem, likelihood, solver=solver, starts=starts, stages=stages,
                    search=search, iterations=iterations, seed=seed, threads=threads,
                    executor=workers,
                )
            )  # fmt: skip
        if maximum.target != POSTERIOR:
            raise InputError(
                "the maximum is one of the likelihood, which is no mode of the posterior: "
                "call smcpn.maximise with target='posterior'"
            )
        if networks_of(maximum.problem):
            return _linear_about(maximum, likelihood, solver, threads, workers)
        function = maximum.function.evaluated(evaluated_by(workers))
        found = _gaussian_at_top(maximum, function)
        found = replace(found, modes=tuple(_modes(found, function, _gaussian_at_top)))
        again = called_for(found) if leaves_open(solver, likelihood) else None
        if again is not None:
            return laplace(
                problem, again[0].likelihood, solver=again[1], starts=starts, stages=stages,
                search=search, iterations=iterations, seed=seed, threads=threads, executor=workers,
            )  # fmt: skip
        return _doubted(found)


def _of_networks(
    problem: Problem,
    likelihood: str | LogLikelihood | None,
    solver: Solver | str | None,
    seed: int,
    threads: int | None,
    workers: Workers | None,
) -> Laplace:
    """Return the approximation of a problem with networks, linear in weights that are searched."""
    if isinstance(likelihood, LogLikelihood):
        likelihood, solver = likelihood.likelihood, likelihood.solver
    search = search_of_networks(problem, likelihood, solver, threads, workers)
    return best_of_networks(
        problem,
        lambda draw: _uninterrupted(search(draw)),
        lambda maximum: _linear_about(maximum, likelihood, solver, threads, workers),
        seed,
    )


def _linear_about(
    maximum: Maximum,
    likelihood: str | LogLikelihood | None,
    solver: Solver | str | None,
    threads: int | None,
    workers: Workers | None,
) -> Laplace:
    """Return the approximation of the problem that is linear in its weights about a maximum."""
    linear = linearise_networks(maximum)
    return laplace(
        linear, likelihood, solver=solver, starts=start_of(linear, maximum), search=SHOOTING,
        threads=threads, executor=workers,
    )  # fmt: skip


def _uninterrupted(maximum: Maximum) -> Maximum:
    """Return a maximum whose search was not interrupted.

    Raises `KeyboardInterrupt` if it was.
    """
    if maximum.reason == INTERRUPTED:
        raise KeyboardInterrupt("the search was interrupted: smcpn.maximise keeps where it was")
    return maximum


def modes_near(density: LogDensity, starts: Array) -> Modes:
    """Return the modes of a posterior that searches from starts, (S, d), end in.

    Each start is followed once, by its own path and no longer than it takes to look: what
    `laplace` adds, its rounds, its finer steps and Newton's method, is for an answer; this is for
    draws whose weights tell the rest.
    """
    climb = with_marginal_scales(chosen_search(AUTOMATIC, density.log_likelihood), density)
    found = climb(density, starts, [list(range(starts.shape[1]))], FIRST_LOOK)
    function = density.log_likelihood
    top = _gaussian_at(highest_end(density, climb.name, found), function)
    modes = _modes(top, function, _gaussian_at)
    searches = top.maximum
    if not modes:
        return Modes.none(len(starts))
    return Modes.about(modes, len(searches.starts), searches.ends, searches.doubt)


def _modes(
    highest: Laplace,
    function: LogLikelihood,
    gaussian: Callable[[Maximum, LogLikelihood], Laplace],
) -> list[Mode]:
    """Return the distinct modes that the searches ended in, the highest first."""
    maximum = highest.maximum
    modes = [highest.as_mode()] if highest.success else []
    ends = [
        k
        for k, start in enumerate(maximum.starts)
        if k != maximum.best
        and start.success
        and start.log_density > maximum.log_density - NEGLIGIBLE
    ]
    theta = maximum.problem.prior.unconstrained(np.stack([one.values for one in maximum.starts]))
    for k in sorted(ends, key=lambda k: -maximum.starts[k].log_density):
        if _is_one_of(modes, theta[k]):
            continue
        found = gaussian(_at_end(maximum, k), function)
        if found.success and not _is_one_of(modes, found.centre):
            modes.append(found.as_mode())
    return modes


def _doubted(found: Laplace) -> Laplace:
    """Say which modes that matter one search alone has found, where many have searched.

    As many others may be there that none has found.
    """
    maximum, modes = found.maximum, found.modes
    if maximum.doubt or len(maximum.starts) < ENOUGH or len(modes) < 2:
        return found
    ends = np.stack([one.values for one in maximum.starts if one.success])
    theta = maximum.problem.prior.unconstrained(ends)
    led = [sum(mode.squared_distance(end) <= SAME_MODE for end in theta) for mode in modes]
    shares = [
        share for share, times in zip(found.start.shares, led, strict=True)
        if times <= 1 and share > MATTERS
    ]  # fmt: skip
    if not shares:
        return found
    doubt = (
        f"of {len(maximum.starts)} searches {maximum.ended}: one alone led to a mode that holds "
        f"{max(shares):.0%} of the posterior, and others like it may be missed: take "
        f"starts={more_starts(len(maximum.starts))}"
    )
    return replace(
        found, maximum=replace(maximum, doubt=doubt, warnings=(*maximum.warnings, doubt))
    )


def _is_one_of(modes: Sequence[Mode], theta: Array) -> bool:
    return any(mode.squared_distance(theta) <= SAME_MODE for mode in modes)


def _at_end(maximum: Maximum, k: int) -> Maximum:
    """Return the maximum that a search ended in which is not the highest."""
    prior, start = maximum.problem.prior, maximum.starts[k]
    theta = prior.unconstrained(start.values[None, :])
    return replace(
        maximum,
        theta=theta[0],
        log_density=start.log_density,
        log_likelihood=start.log_density - float(prior.log_density(theta)[0]),
        best=k,
    )


def _gaussian_at_top(maximum: Maximum, function: LogLikelihood) -> Laplace:
    """Return the Gaussian about a maximum, which Newton's method reaches if the search did not."""
    found = _gaussian_at(maximum, function)
    if maximum.found and _distance(found, function) > STATIONARY:
        finished = maximise(
            maximum.problem,
            function,
            starts=maximum.values,
            method="trust-exact",
            search=SHOOTING,
        )
        if finished.reason == INTERRUPTED:
            raise KeyboardInterrupt
        if finished.log_density >= maximum.log_density:
            return _gaussian_at(_finished(maximum, finished), function)
    return found


def _finished(maximum: Maximum, finished: Maximum) -> Maximum:
    """Return the maximum moved to the point that Newton's method found from it."""
    last = finished.starts[0]
    start = maximum.starts[maximum.best]
    start = replace(
        last,
        start=start.start,
        evaluations=start.evaluations + last.evaluations,
        path=np.concatenate([start.path, last.path]),
        path_log_density=np.concatenate([start.path_log_density, last.path_log_density]),
    )
    starts = list(maximum.starts)
    starts[maximum.best] = start
    return replace(
        maximum,
        theta=finished.theta,
        log_density=finished.log_density,
        log_likelihood=finished.log_likelihood,
        starts=tuple(starts),
        seconds=maximum.seconds + finished.seconds,
    )


def _gaussian_at(maximum: Maximum, function: LogLikelihood) -> Laplace:
    """Return the Gaussian whose precision is minus the Hessian of the log density at a maximum.

    In directions in which the Hessian says nothing it is the Gauss-Newton matrix.
    """
    d = len(maximum.theta)
    nothing = np.full((d, d), np.nan)
    if not maximum.found:
        return Laplace(maximum, nothing, np.nan, f"there is no mode: {maximum.reason}")
    density = LogDensity(function, POSTERIOR)
    columns = learned_scales(maximum.problem)
    free = np.arange(d) if columns is None else columns.others
    scale = density.scale[free]
    curvature, replaced = trusted_curvature(density, maximum.theta, free)
    by_products = columns is not None and function.expands
    if columns is not None and by_products and columns.stretches:
        # Of what lengths have made tiny only products of first derivatives have digits.
        return averaged_over_scales(maximum, density, columns)
    if not np.isfinite(curvature).all():
        if columns is not None and by_products:
            found = averaged_over_scales(maximum, density, columns)
            return replace(found, gauss_newton=(EVERYWHERE,))
        reason = "the second derivatives at the mode are not finite"
        return Laplace(maximum, nothing, np.nan, reason)
    gauss_newton = tuple(_direction(maximum, free, direction) for direction in replaced.T)
    eigenvalues, directions = np.linalg.eigh(curvature)
    if eigenvalues[0] <= RESOLVED * max(eigenvalues[-1], 1.0):
        direction = _direction(maximum, free, directions[:, 0])
        reason = f"the posterior does not fall from the mode along {direction}"
        if RESOLVED * eigenvalues[-1] > 1.0:
            # The prior's own curvature is lost beside it.
            reason = (
                f"it is so narrow that rounding hides how it falls along {direction}, beside the "
                "narrowest direction"
            )
        return Laplace(maximum, nothing, np.nan, reason)
    if columns is not None:
        precision = curvature / np.outer(scale, scale)
        found = averaged_over_scales(maximum, density, columns, precision)
        if by_products and found.success and _is_astray(found, density):
            found, gauss_newton = averaged_over_scales(maximum, density, columns), (EVERYWHERE,)
        return replace(found, gauss_newton=gauss_newton)
    spread = scale[:, None] * directions / np.sqrt(eigenvalues)
    log_volume = np.log(scale).sum() - 0.5 * np.log(eigenvalues).sum()
    log_evidence = maximum.log_density + 0.5 * d * np.log(2 * np.pi) + log_volume
    return Laplace(maximum, spread @ spread.T, float(log_evidence), gauss_newton=gauss_newton)


def _is_astray(found: Laplace, density: LogDensity) -> bool:
    """True if the posterior is negligible at the centre that an average over scales has.

    The expansion about the maximum then says nothing at the scales that it makes probable, as where
    a direction has a slope and no curvature.
    """
    log_density = float(density.value_and_gradient(found.centre[None, :])[0][0])
    return not log_density > found.maximum.log_density - NEGLIGIBLE - len(found.centre)


def _distance(approximation: Laplace, function: LogLikelihood) -> float:
    """Squared length of the Newton step g' C g that remains, in posterior sd; scales held."""
    if not approximation.success:
        return np.inf
    maximum = approximation.maximum
    density = LogDensity(function, POSTERIOR)
    gradient = density.value_and_gradient(maximum.theta[None, :])[1][0]
    given = approximation.given_scales
    if given is None:
        return float(gradient @ approximation.covariance @ gradient)
    columns = given.given.columns
    root = given.given.conditional(maximum.theta[None, columns.scales])[1][0]
    return float(np.square(np.linalg.solve(root, gradient[columns.others])).sum())


def _direction(maximum: Maximum, free: NDArray[np.int64], direction: Array) -> str:
    """Render a direction among some columns as a sum in prior sd, the largest part first."""
    coordinates = [c.name for c in maximum.problem.prior.maps]
    labels = [
        name if coordinate == "identity" else f"{coordinate} {name}"
        for name, coordinate in zip(maximum.names, coordinates, strict=True)
    ]
    labels = [labels[j] for j in free]
    direction = direction * np.sign(direction[np.argmax(np.abs(direction))])
    order = [int(j) for j in np.argsort(-np.abs(direction)) if abs(direction[j]) >= 0.1]
    terms = [f"{direction[j]:+.2g} {labels[j]}" for j in order]
    return " ".join(terms).removeprefix("+") + " (in standard deviations of the prior)"
