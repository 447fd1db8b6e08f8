"""The start of a run near the posterior: found, checked, and what to say of it at the end."""

from __future__ import annotations

import numpy as np

from smcpn.errors import InputError, shown
from smcpn.estimate.laplace import laplace
from smcpn.estimate.maximise import SEARCHES
from smcpn.model.problem import Problem
from smcpn.results.laplace import Laplace
from smcpn.run.run import Run
from smcpn.settings import AUTO
from smcpn.smc.psis import largest_k
from smcpn.smc.start import Modes
from smcpn.solver import Solver


def approximation_of(
    start: Laplace | str | None,
    problem: Problem,
    likelihood: str | None,
    solver: Solver | None,
    seed: int | None,
    threads: int | None,
) -> Laplace | None:
    """Return the Laplace approximation that a run starts from; None for the prior.

    Raises
    ------
    InputError
        For what is none, or is one in other coordinates than those of the problem.
    """
    if start is None:
        return None
    if isinstance(start, str) and start == AUTO:
        return laplace(problem, likelihood, solver=solver, seed=seed or 0, threads=threads)
    if not isinstance(start, Laplace):
        raise InputError(
            f"start is {shown(start)}: give smcpn.laplace(problem) or 'auto'", argument="start"
        )
    if start.names != problem.names or start.problem.prior.maps != problem.prior.maps:
        raise InputError(
            f"start is a Laplace approximation over {', '.join(start.names)}, and the problem has "
            f"{', '.join(problem.names)}, or priors with other bounds: make it of the same problem",
            argument="start",
        )
    return start


def modes_of(approximation: Laplace, searched: bool) -> Modes:
    """Return the modes to start from; none where a search of the run's own found none.

    Raises
    ------
    InputError
        If an approximation that was given has no mode.
    """
    if searched and not approximation.modes:
        return Modes.none(len(approximation.maximum.starts))
    return approximation.start


def warnings_of_start(run: Run) -> tuple[str, ...]:
    """Return what a user should know of the start of a finished run, one sentence each."""
    modes = run.settings.start
    if modes is None:
        return ()
    if len(modes) == 0:
        return (f"none of {modes.searches} searches found a mode: the run began at the prior",)
    if run.refused_k is not None:
        return (_refused(run.refused_k, run.settings.particles),)
    if modes.searches < SEARCHES:
        return (
            f"searches for the modes to start from: {modes.searches}, and what these missed only "
            "draws from the prior can find; make the start of smcpn.laplace(problem, starts=20)",
        )
    return ()


def _refused(k: float, particles: int) -> str:
    why = (
        "too few of its draws have a likelihood"
        if np.isinf(k)
        else f"the Pareto k of its importance weights is {k:.2g}, and {particles} draws bear "
        f"{largest_k(particles):.2g}"
    )
    return f"the start misses a part of the posterior ({why}): the run began again at the prior"
