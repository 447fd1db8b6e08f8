"""`smcpn.laplace`: the Gaussian about the mode of a posterior, in unconstrained coordinates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from smcpn.arguments import ANYTHING, Count, Seed, checked
from smcpn.distributed.likelihood import evaluated_by
from smcpn.distributed.workers import Workers, workers_of
from smcpn.errors import InputError
from smcpn.estimate.curvature import trusted_curvature
from smcpn.estimate.linearise import linearise_networks, networks_of, start_of
from smcpn.estimate.log_density import LogDensity
from smcpn.estimate.marginal_scales import averaged_over_scales, with_marginal_scales
from smcpn.estimate.maximise import Starts, highest_end, maximise, more_starts
from smcpn.estimate.multistart import ENOUGH, FIRST_LOOK, SHOOTING
from smcpn.estimate.search import AUTOMATIC, INTERRUPTED, chosen_search
from smcpn.estimate.weights import best_of_networks, search_of_networks
from smcpn.likelihood.gradient import LogLikelihood
from smcpn.model.problem import Problem
from smcpn.model.scaled_columns import learned_scales
from smcpn.results.laplace import Laplace
from smcpn.results.maximum import POSTERIOR, Maximum
from smcpn.smc.start import SAME_MODE, Mode, Modes
from smcpn.solver import Solver
from smcpn.status import status

Array = NDArray[np.float64]

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
        return _doubted(replace(found, modes=tuple(_modes(found, function, _gaussian_at_top))))


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

    Raises
    ------
    KeyboardInterrupt
        If it was.
    """
    if maximum.reason == INTERRUPTED:
        raise KeyboardInterrupt("the search was interrupted: smcpn.maximise keeps where it was")
    return maximum


def modes_near(density: LogDensity, starts: Array) -> Modes:
    """Return the modes of a posterior that searches from starts, (S, d), end in.

    Each start is followed once, by its own path and no longer than it takes to look: what
    `laplace` adds, its rounds, its finer steps and Newton's method, is for an answer; this is for
    draws whose weights tell the rest.

    Parameters
    ----------
    density : LogDensity
        Of the posterior.
    starts : ndarray, (S, d)
        Unconstrained coordinates.
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
