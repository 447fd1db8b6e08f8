"""`smcpn.maximise`: the most likely parameters of a problem, from searches at several starts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import cache, partial
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from smcpn.base.arguments import ANYTHING, NUMBERS, Count, Seed, checked
from smcpn.base.status import status
from smcpn.codegen.clock import CLOCK
from smcpn.codegen.threads import one_blas_thread
from smcpn.errors import InputError, listed, shown, whole_number
from smcpn.estimate.log_density import LogDensity
from smcpn.estimate.marginal_scales import with_marginal_scales
from smcpn.estimate.matched import MatchedStarts, matched_starts
from smcpn.estimate.multistart import (
    AGREEING,
    DensityBy,
    MultiStart,
    check_search,
    explained,
    finest_affordable,
    least_solver,
    left_unexplained,
    unresolved,
    without_artefacts,
)
from smcpn.estimate.search import (
    AUTOMATIC,
    EDGE,
    INTERRUPTED,
    SearchEnd,
    check_method,
    chosen_search,
)
from smcpn.estimate.shift import called_for, finer_for_all, following, judged
from smcpn.likelihood.gradient import LogLikelihood, uninformed
from smcpn.likelihood.registry import require_exact
from smcpn.likelihood.solver_choice import (
    LEFT_OUT,
    choose_solver,
    finer_solver,
    leaves_open,
    solver_at,
    solver_for_searches,
)
from smcpn.model.distribution import support
from smcpn.model.prior import Prior
from smcpn.model.problem import Problem, check_problem
from smcpn.model.solver import Solver
from smcpn.results.maximum import POSTERIOR, Maximum, StartResult
from smcpn.results.method import TWICE_BELOW, as_high
from smcpn.smc.distributed.workers import Workers, evaluated_by, workers_of

Array = NDArray[np.float64]

Starts = int | Mapping[str, Any] | Sequence[Any] | Array | None
MANY = 20
"""Searches that are advised where so few leave a doubt."""
BUILDS_UP = 0.1
"""Local error that is left to most draws from the prior, over what is allowed where a run begins:
it builds up over the samples."""
DOUBLED = 2
"""Most times that steps are doubled for a search that has not converged, or to search again."""


def given_starts(density: LogDensity, starts: Starts, rng: np.random.Generator) -> Array:
    """Return the starts in unconstrained coordinates, (S, d).

    Starts are a number of draws from the prior; values by name, one or (S,) each, the rest at the
    prior median; or values (S, d) or (d,). One outside the support of its prior is refused.
    """
    prior = density.prior
    if isinstance(starts, Mapping):
        values = _of_mapping(density, starts)
    elif isinstance(starts, (Sequence, np.ndarray)) and not isinstance(starts, (str, bytes)):
        values = np.atleast_2d(_numbers("starts", starts))
    else:
        count = whole_number("starts", starts, 1, otherwise=", values, or a mapping of names")
        return prior.sample(rng, count)
    if values.ndim != 2 or values.shape[1] != len(prior) or len(values) == 0:
        raise InputError(
            f"starts has shape {values.shape}: give (S, {len(prior)}) values, in the order "
            f"{', '.join(prior.names)}"
        )
    _check_inside(prior, values)
    return prior.unconstrained(values)


def free_stages(names: tuple[str, ...], stages: Sequence[Sequence[str]] | None) -> list[list[int]]:
    """Return the free columns of each stage; the last one has all.

    Raises `InputError` for what is no sequence of sequences of parameter names.
    """
    chosen: list[list[int]] = []
    if not isinstance(stages, (list, tuple, type(None))):
        raise InputError(f"stages is {shown(stages)}: give a list of lists of names")
    for stage in stages or ():
        if not isinstance(stage, (list, tuple)):
            example = f", stages=[('{stage}',)]" if isinstance(stage, str) else ""
            raise InputError(f"stages holds {shown(stage)}: give sequences of names{example}")
        unknown = [name for name in stage if name not in names]
        if unknown or not stage:
            raise InputError(
                f"stages holds {shown(tuple(stage))}: choose from the parameters {listed(names)}"
            )
        chosen.append([j for j, name in enumerate(names) if name in stage])
    everything = list(range(len(names)))
    return chosen if chosen and chosen[-1] == everything else [*chosen, everything]


def _of_mapping(density: LogDensity, starts: Mapping[str, Any]) -> Array:
    names = density.names
    unknown = [name for name in starts if name not in names]
    if unknown:
        raise InputError(
            f"starts names '{unknown[0]}', which is no parameter: choose from {', '.join(names)}"
        )
    given = {name: _numbers(f"starts['{name}']", value) for name, value in starts.items()}
    lengths = {len(np.atleast_1d(value)) for value in given.values()} - {1}
    if len(lengths) > 1 or any(value.ndim > 1 for value in given.values()):
        raise InputError("starts gives parameters different numbers of values: give one, or S each")
    size = lengths.pop() if lengths else 1
    median = density.prior.natural(density.centre[None, :])[0]
    columns = [
        np.broadcast_to(np.atleast_1d(given[name] if name in given else median[j]), size)
        for j, name in enumerate(names)
    ]
    return np.stack(columns, axis=1)


def _numbers(name: str, value: Any) -> Array:
    return NUMBERS(name, value)


def _check_inside(prior: Prior, values: Array) -> None:
    for j, (name, distribution) in enumerate(prior.distributions.items()):
        lower, upper = support(distribution)
        outside = ~((values[:, j] > lower) & (values[:, j] < upper))
        if outside.any():
            raise InputError(
                f"starts gives {name} = {values[outside, j][0]:g}, which is not inside the support "
                f"of its prior, ({lower:g}, {upper:g}): correct it or choose another prior"
            )


@checked
def maximise(
    problem: Problem,
    likelihood: str | LogLikelihood | None = None,
    *,
    solver: Solver | str | None = None,
    starts: Annotated[Starts, ANYTHING] = None,
    stages: Annotated[Sequence[Sequence[str]] | None, ANYTHING] = None,
    target: str = POSTERIOR,
    method: str = AUTOMATIC,
    search: str = AUTOMATIC,
    iterations: Count = 500,
    seed: Seed | None = 0,
    threads: Count | None = None,
    executor: Annotated[Executor | Workers | str | None, ANYTHING] = None,
    progress: bool | None = None,
) -> Maximum:
    """Find the parameters of highest posterior density, or of highest likelihood.

    The search runs in the unconstrained coordinates of `Prior` with exact gradients. With
    ``target="posterior"`` it finds the mode of the density of these coordinates, log-Jacobian
    included, which is what `laplace` needs; for a prior on logarithms that is the mode in log x.
    Scales that a prior learns, and length scales of Gaussian processes, are at the mode of their
    marginal density, the others at their maximum given these (see `Prior`): the joint density rises
    without end towards scales of zero where data are weak. That is so where samples are Gaussian
    given those before.

    Parameters
    ----------
    problem : Problem
    likelihood : str or LogLikelihood, optional
        As of `identify`; a `LogLikelihood` of the problem brings its solver.
    solver : EKF0, EKF1 or RK4, optional
        As of `identify`. ``steps="auto"`` searches with what 19 of 20 draws from the prior call
        for, where that is affordable, takes the fewest steps that keep the modes found, and refines
        until twice as many would shift none that matters by more than .1 posterior sd, and no
        search is higher that does not converge.
    starts : int, mapping, or array, optional
        A number of draws from the prior; or values by name, one or (S,) each, with the prior
        median for the rest; or values (S, d) or (d,). By default as many draws as it takes to find
        every height that matters twice, 24 to 96; fewer, at least four, where these would cost more
        than a run of `identify`. Those that are more likely than the draws around them come first,
        and parameters that match the slopes of the outputs, where these tell all states: if they
        explain the outputs they are enough.
        Modes to which fewer than a tenth of the prior leads may be missed.
    stages : sequence of sequence of str, optional
        Parameters that are free in each stage, the others stay; a stage with all of them ends it.
        ``[("sigma", "kappa")]`` fits noise and diffusion first, as Fenrir does.
    target : {"posterior", "likelihood"}
        The likelihood ignores the density of the prior, but its support is still a bound.
    method : {"auto", "levenberg-marquardt", "l-bfgs-b", "trust-exact", "trust-ncg"}
        A `Search`; by default the first that suits. Levenberg-Marquardt takes samples that are
        Gaussian given those before: the marginal, classical and filtering likelihoods, unless the
        noise has another density; and any others of few samples. Where a diffusion is learned,
        L-BFGS-B goes on with searches that it does not bring to an end. Those of
        `scipy.optimize.minimize` suit any likelihood; the last two are Newton's, with exact
        Hessians.
    search : {"auto", "shooting", "lifted"}
        By one trajectory from the initial state on, by a path that may leave the model, or by both
        where the first leaves a doubt. ``"shooting"`` searches with one trajectory from the initial
        state on. ``"lifted"`` first searches over path and parameters together, where the path may
        leave the model a little at every sample, and less and less; it finds maxima of records that
        are chaotic or many periods long. By default the highest end of both, the second only if the
        first leaves a doubt.
    iterations : int
        Most iterations of a stage.
    seed : int, optional
        Of the draws from the prior.
    threads : int, optional
        Threads of the kernel. The result does not depend on them.
    executor : concurrent.futures.Executor or str, optional
        Who evaluates large batches of points, as of `identify`. The result does not depend on it.
    progress : bool, optional
        A line of status on standard error after a second; by default on a terminal and in a
        notebook. ``True`` writes one every ten seconds to a log.

    Returns
    -------
    Maximum
        The highest end of a search that converged; where none did, the highest end. A failure
        is a value as well: ``success`` is False, and ``reason`` says why. After an interrupt
        (Ctrl-C) the highest point so far, as a failure.

    Raises
    ------
    InputError
        For settings out of range.

    References
    ----------
    Tronarp, F., Bosch, N., Hennig, P. (2022). Fenrir. arXiv:2202.01287, for the stages.
    Marquardt, D. (1963). An algorithm for least-squares estimation of nonlinear parameters.
    Rue, H., Martino, S., Chopin, N. (2009). Approximate Bayesian inference for latent Gaussian
    models by using integrated nested Laplace approximations. JRSS B 71, for learned scales.

    Examples
    --------
    >>> maximum = smcpn.maximise(problem, "fenrir", starts=20)  # doctest: +SKIP
    >>> print(maximum.summary())  # doctest: +SKIP
    """
    check_problem(problem)
    check_method(method)
    check_search(search)
    iterations = whole_number("iterations", iterations, 1)
    plan = free_stages(problem.names, stages)
    began, compiled = time.perf_counter(), CLOCK.compile_seconds
    by_solver = partial(
        _maximum_by, problem, starts=starts, plan=plan, target=target, method=method, search=search,
        iterations=iterations, seed=seed, threads=threads, executor=executor, progress=progress,
    )  # fmt: skip
    maximum, density, hidden = by_solver(likelihood, solver)
    if leaves_open(solver, likelihood) and maximum.reason != INTERRUPTED:
        again = called_for(maximum)
        if again is not None:
            choice, solver = again
            maximum, density, hidden = by_solver(choice.likelihood, solver)
    maximum = _doubted(maximum, _doubt(maximum, density) or hidden)
    compiling = CLOCK.compile_seconds - compiled
    return replace(maximum, seconds=time.perf_counter() - began - compiling)


def _maximum_by(
    problem: Problem,
    likelihood: str | LogLikelihood | None,
    solver: Solver | str | None,
    *,
    starts: Starts,
    plan: list[list[int]],
    target: str,
    method: str,
    search: str,
    iterations: int,
    seed: int | None,
    threads: int | None,
    executor: Executor | Workers | str | None,
    progress: bool | None,
) -> tuple[Maximum, LogDensity, str]:
    """Return the maximum by one solver, the density that was searched, and what its steps may hide.

    Parameters are those of `maximise`, with the ``plan`` of its stages.
    """
    with status(progress) as say, workers_of(executor) as workers, one_blas_thread():
        where = evaluated_by(workers)
        function, automatic = _log_likelihood(problem, likelihood, solver, threads)
        function = function.evaluated(where)
        density = LogDensity(function, target, say)

        @cache
        def by(solver: Solver) -> LogLikelihood:
            if solver == function.solver:
                return function
            return LogLikelihood(problem, function.likelihood, solver, threads).evaluated(where)

        def at(solver: Solver) -> LogDensity:
            return LogDensity(by(solver), target, say)

        rng = np.random.default_rng(seed)
        points = None if starts is None else given_starts(density, starts, rng)
        none = MatchedStarts.none(len(problem.names))
        matched = matched_starts(density) if points is None else none
        hidden, refine = "", automatic and not function.solver.adaptive
        if automatic:
            solver, hidden = _searched_by(density, matched)
            density = at(solver)
        climb = with_marginal_scales(chosen_search(method, density.log_likelihood), density)
        maximum: Maximum | None = None

        def ends(density: LogDensity) -> list[SearchEnd]:
            searches = MultiStart(climb, density, plan, iterations, search)
            return (
                searches.in_rounds(rng, matched) if points is None else searches.from_starts(points)
            )

        def on_from(found: list[SearchEnd]) -> list[SearchEnd]:
            return MultiStart(climb, density, plan[-1:], iterations, search).on_from(found)

        try:
            density, found = _searched(density, ends, at, refine)
            found = _without_artefacts(density, found, at)
            if refine:
                least = least_solver(density, found, function.solver, at)
                if least != density.log_likelihood.solver:
                    density = at(least)
                    found = on_from(found)
            maximum = judged(highest_end(density, climb.name, found), not automatic, by)
            doubled = 0
            while automatic:
                solver, doubled = _next_solver(maximum, density, by, doubled)
                if solver is None:
                    break
                density = at(solver)
                # From where they were: more steps change a maximum that is nearly right.
                found = on_from(found)
                maximum = judged(highest_end(density, climb.name, found), not automatic, by)
        except KeyboardInterrupt:
            maximum = _interrupted(density, climb.name, maximum)
    return maximum, density, hidden


def _doubted(maximum: Maximum, doubt: str) -> Maximum:
    """Return a maximum with its doubt, if any, and all that a user should know of it."""
    own = (*maximum.problem.warnings, *maximum.warnings, *_uninformed(maximum))
    return replace(maximum, doubt=doubt, warnings=(*own, doubt) if doubt else own)


def _without_artefacts(
    density: LogDensity, found: list[SearchEnd], at: DensityBy
) -> list[SearchEnd]:
    """Return the ends that finer steps keep, of several where there are such steps."""
    function = density.log_likelihood
    finer = finer_solver(function.problem, function.solver)
    if len(found) < 2 or finer is None:
        return found
    return without_artefacts(density, found, at(finer))


def _searched(
    density: LogDensity, ends: Callable[[LogDensity], list[SearchEnd]], at: DensityBy, refine: bool
) -> tuple[LogDensity, list[SearchEnd]]:
    """Search, and again by finer steps where these make or unmake a mode, twice at most.

    ``ends`` searches with a log density, ``at`` has that by other solvers, and ``refine`` allows
    steps to be doubled.
    """
    found = ends(density)
    for _ in range(DOUBLED if refine else 0):
        solver = density.log_likelihood.solver
        finer = finer_solver(density.log_likelihood.problem, solver)
        if finer is None or finest_affordable(density) < 2.0:
            break
        if not unresolved(density, found, at(finer)):
            break
        density = at(finer)
        found = ends(density)
    return density, found


def _searched_by(density: LogDensity, matched: MatchedStarts) -> tuple[Solver, str]:
    """Return steps to search with, and how they may hide a mode; empty where nothing says so.

    Where slopes of the outputs tell all, they are enough where these lead; elsewhere for most of
    the prior, because steps that are too long hide a mode that they do not resolve.
    """
    function = density.log_likelihood
    problem, solver, likelihood = function.problem, function.solver, function.likelihood
    hidden = ""
    if not matched.alone:
        most = finest_affordable(density)
        solver, share = solver_for_searches(problem, solver, likelihood, most, BUILDS_UP)
        if min(share, matched.turning) > LEFT_OUT:
            hidden = (
                f"by {matched.turning:.0%} of the prior states turn unseen between two samples, "
                f"and for {share:.0%} of it {solver.resolution} is too coarse and more would take "
                f"too long to search with, so that a mode there may be missed: narrow the "
                "prior, or give steps that resolve it"
            )
    if len(matched.starts):
        there = problem.prior.natural(matched.starts[:1])[0]
        solver = solver_at(problem, solver, there, likelihood)
    return solver, hidden


def _interrupted(density: LogDensity, method: str, maximum: Maximum | None) -> Maximum:
    """The highest point so far of a search that the user has interrupted, as a failure.

    Raises `KeyboardInterrupt` if there is none yet.
    """
    if maximum is None:
        if not np.isfinite(density.highest):
            raise KeyboardInterrupt
        path, values = density.top[None, :], np.array([density.highest])
        top = SearchEnd(density.top, values[0], INTERRUPTED, density.evaluations, path, values)
        return highest_end(density, method, [top])
    starts = list(maximum.starts)
    starts[maximum.best] = replace(starts[maximum.best], reason=INTERRUPTED, success=False)
    return replace(maximum, starts=tuple(starts))


def _log_likelihood(
    problem: Problem,
    likelihood: str | LogLikelihood | None,
    solver: Solver | str | None,
    threads: int | None,
) -> tuple[LogLikelihood, bool]:
    """Return the log-likelihood, and whether its steps are to be judged at the maximum."""
    if isinstance(likelihood, LogLikelihood):
        if likelihood.problem is not problem or solver is not None:
            raise InputError(
                "likelihood is a LogLikelihood: give the problem it was made of, and no solver"
            )
        return likelihood, False
    chosen = choose_solver(problem, solver, likelihood)
    require_exact(chosen.likelihood)
    function = LogLikelihood(problem, chosen.likelihood, chosen.solver, threads)
    return function, chosen.solver.automatic


def highest_end(density: LogDensity, method: str, found: list[SearchEnd]) -> Maximum:
    """Return the highest point of the searches that converged; of all, where none did.

    A likelihood may run off to where its arithmetic breaks down, such as a diffusion of zero.
    """
    ends = np.array([one.log_density for one in found])
    converged = np.array([one.success for one in found])
    best = int(np.argmax(np.where(converged, ends, -np.inf) if converged.any() else ends))
    theta, log_density = found[best].theta, found[best].log_density
    prior = float(density.prior.log_density(theta[None, :])[0])
    function = density.log_likelihood
    return Maximum(
        problem=function.problem,
        solver=function.solver,
        likelihood=function.likelihood,
        target=density.target,
        method=method,
        theta=theta,
        log_density=log_density,
        log_likelihood=log_density - prior if density.target == POSTERIOR else log_density,
        starts=tuple(_start_result(density.prior, one) for one in found),
        best=best,
    )


def more_starts(searches: int) -> int:
    """Return how many searches are advised where so many leave a doubt."""
    return max(MANY, 2 * searches)


def _next_solver(
    maximum: Maximum, density: LogDensity, by: Callable[[Solver], LogLikelihood], doubled: int
) -> tuple[Solver | None, int]:
    """Return the solver with which ``steps="auto"`` goes on, None where its steps are enough.

    The number of times that steps were doubled for an unfinished search comes with it.
    """
    solver = following(maximum) or _finer_for_lesser(maximum, density, by)
    if solver is not None:
        return solver, doubled
    return _finer_for_unfinished(maximum, doubled), doubled + 1


def _finer_for_unfinished(maximum: Maximum, doubled: int) -> Solver | None:
    """Return a solver twice as fine where a higher search did not converge; None if none is.

    Steps that are enough at the maximum may be what keeps a higher search from its end: it creeps
    along where the solution by such steps diverges. They are doubled twice at most for it.

    ``doubled`` is how often that was so.
    """
    if doubled < DOUBLED and _unfinished(maximum) is not None:
        return finer_solver(maximum.problem, maximum.solver)
    return None


def _finer_for_lesser(
    maximum: Maximum, density: LogDensity, by: Callable[[Solver], LogLikelihood]
) -> Solver | None:
    """Return a solver twice as fine where it would shift a lesser mode; None if it would not."""
    lesser: list[StartResult] = []
    for one in sorted(maximum.starts, key=lambda one: -one.log_density):
        last = lesser[-1].log_density if lesser else maximum.log_density
        if one.success and not as_high(one.log_density, last):
            lesser.append(one)
    ends = [one.values for one in lesser if one.log_density > maximum.log_density - TWICE_BELOW]
    if not ends:
        return None
    return finer_for_all(density, density.prior.unconstrained(np.stack(ends)), by)


def _unfinished(maximum: Maximum) -> StartResult | None:
    """Return the end of the highest search that did not converge, where it is clearly higher.

    One that ran off to the edge of a prior's support is none.
    """
    cut = [one for one in maximum.starts if not (one.success or one.reason.startswith(EDGE))]
    top = max(cut, key=lambda one: one.log_density, default=None)
    above = top is not None and top.log_density > maximum.log_density + TWICE_BELOW
    return top if above else None


def _doubt(maximum: Maximum, density: LogDensity) -> str:
    """Say why a higher mode may have been missed, and what to do; empty where nothing tells.

    Lifted paths that end where the data are explained are believed, though they be one alone. More
    starts are advised only where searches do not agree.
    """
    if not maximum.found:
        return ""
    remedy = f": take starts={more_starts(len(maximum.starts))}"
    if (higher := _unfinished(maximum)) is not None:
        return (
            f"a search that did not converge ({higher.reason}) reached a log {maximum.target} of "
            f"{higher.log_density:.6g}, higher than the {maximum.log_density:.6g} of the maximum "
            f"that others converged to{remedy}"
        )
    if unexplained := left_unexplained(density, maximum.theta):
        if maximum.independent > 1 and maximum.agreeing >= AGREEING * len(maximum.starts):
            agreeing = f"{maximum.agreeing} of {len(maximum.starts)} searches ended there"
            return f"{unexplained}, and {agreeing}: look at the model, its units and its inputs"
        return f"{unexplained}, so that a better fit was missed or the model is wrong{remedy}"
    several = len(maximum.starts) > 1 and maximum.found
    if not several or maximum.independent > 1:
        return ""
    lifted = maximum.agreeing > 1 or maximum.starts[maximum.best].lifted
    if lifted and explained(density, maximum.theta):
        return ""
    once = (
        "only those with the model relaxed on the way, which may all end in one mode,"
        if lifted
        else "one alone"
    )
    return (
        f"of {len(maximum.starts)} searches {maximum.ended}: {once} led to the highest end, and a "
        f"higher mode may be missed{remedy}"
    )


def _uninformed(maximum: Maximum) -> tuple[str, ...]:
    """Warn of parameters of which the samples say nothing, where that costs a sweep, not more."""
    if not (maximum.found and maximum.function.expands):
        return ()
    stays, known = "where its start was", set[str]()
    if maximum.target == POSTERIOR:
        # Samples tell of the scale of a function by the parameters that it multiplies, and its
        # prior is what holds where there are none.
        stays, known = "where the prior is highest", set(maximum.problem.ode.priors)
    return tuple(
        f"the samples say nothing of {name}: it is {stays}; fix it, or measure what it acts on"
        for name in uninformed(maximum.function, maximum.values)
        if name not in known
    )


def _start_result(prior: Prior, found: SearchEnd) -> StartResult:
    """Express the end of a search in parameter values."""
    path = prior.natural(found.path)
    return StartResult(
        start=path[0],
        values=prior.natural(found.theta[None, :])[0],
        log_density=found.log_density,
        reason=found.reason,
        success=found.success,
        evaluations=found.evaluations,
        path=path,
        path_log_density=found.path_log_density,
        lifted=found.lifted,
    )
