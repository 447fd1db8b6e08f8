"""Searches for the weights of networks, and which of the functions they lead to is taken.

Networks of few weights fit the same data by several functions, which differ between the samples.
The highest log density is no measure of them: a high, narrow peak of the weights may hold less of
the posterior than a lower, wide one. What counts is the evidence of the problem that is linear in
the weights about each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from smcpn.distributed.workers import Workers
from smcpn.estimate.linearise import networks_of
from smcpn.estimate.maximise import maximise
from smcpn.likelihood.classical import Classical
from smcpn.likelihood.solver_choice import choose_solver, solver_from_prior
from smcpn.model.problem import Problem
from smcpn.results.laplace import Laplace
from smcpn.results.maximum import Maximum
from smcpn.results.search_summary import as_high
from smcpn.solver import RK4, Solver

WORK, FEWEST = 9000, 15
"""Weights times iterations of a search for them, and iterations at least.

That of sixty weights has settled after some hundred; of hundreds of weights each is dear.
"""
ENOUGH, MOST = 4, 8
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

    Parameters
    ----------
    problem : Problem
        With networks.
    search : callable
        From a seed to a maximum of it.
    linear_about : callable
        From a maximum to the approximation of the problem that is linear in the weights about it.
    seed : int
        From which those of the searches are drawn.

    Raises
    ------
    InputError
        As ``linear_about``, if no search leads anywhere.
    """
    enough = ENOUGH if len(problem.names) <= FEW else 1
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
    return _doubted(best)


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


def _doubted(best: Laplace) -> Laplace:
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
