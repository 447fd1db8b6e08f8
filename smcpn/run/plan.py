"""The plan of a run: by which method, from where, and with which steps it begins.

Where no solver was given, that which draws of the prior called for is judged again about the modes
that it led to: another one may cost less there, or be the only one that is stable.

``method="auto"`` searches for the modes of the posterior and tempers from there: two to five
weighings of the record, where IBIS takes twenty and, on a long record, two hundred; and of a short
one IBIS may lose in the first samples what later ones make likely. It stays where there is no
gradient to search with, and only as long as it has not cost what tempering from the prior does.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from smcpn.checkpoint.run_state import Plan
from smcpn.codegen.clock import CLOCK
from smcpn.errors import InputError, listed, shown
from smcpn.estimate.laplace import laplace
from smcpn.estimate.linearise import is_of
from smcpn.estimate.shift import called_for
from smcpn.likelihood.registry import LIKELIHOODS
from smcpn.likelihood.solver_choice import (
    SolverChoice,
    solver_for_run,
    solver_from_prior,
)
from smcpn.model.problem import Problem
from smcpn.results.laplace import Laplace
from smcpn.smc.distributed.workers import Workers
from smcpn.smc.settings import AUTO, RunSettings, Settings
from smcpn.smc.start import Modes

_log = logging.getLogger(__name__)


def approximation_of(start: Laplace | str | None, problem: Problem) -> Laplace | None:
    """Return the Laplace approximation that a run is given to start from; None without one.

    Raises `InputError` for what is none, or is one in other coordinates than those of the problem.
    """
    if start is None or (isinstance(start, str) and start == AUTO):
        return None
    if not isinstance(start, Laplace):
        raise InputError(
            f"start is {shown(start)}: give smcpn.laplace(problem) or 'auto'", argument="start"
        )
    if start.names != problem.names or start.problem.prior.maps != problem.prior.maps:
        raise InputError(
            f"start is a Laplace approximation over {listed(start.names)}, and the problem has "
            f"{listed(problem.names)}, or priors with other bounds: make it of the same problem",
            argument="start",
        )
    return start


def approximation_of_networks(
    start: Laplace | str | None,
    problem: Problem,
    settings: Settings,
    workers: Workers | None = None,
) -> Laplace:
    """Return the approximation of a problem with networks that are linear in their weights.

    Raises `InputError` as `approximation_of` and `laplace`, and where there is no mode to begin at.
    """
    if isinstance(start, Laplace):
        if not is_of(start, problem):
            raise InputError(
                "start is a Laplace approximation of another problem: make it of this one",
                argument="start",
            )
        return start
    approximation_of(start, problem)
    found = laplace(
        problem, settings.likelihood, solver=settings.solver, seed=settings.seed or 0,
        threads=settings.threads, executor=workers,
    )  # fmt: skip
    if not found.modes:
        raise InputError(f"no search found weights of the network to begin with: {found.reason}")
    return found


def exact_likelihood(problem: Problem, settings: RunSettings) -> str | None:
    """Name of the likelihood that populations have first; None for an estimate.

    An estimate is approached from the posterior of its approximation, but for ``method="ibis"``,
    which follows the samples, and for noise which the approximation does not take.
    """
    approximation = LIKELIHOODS[settings.likelihood].approximation
    if approximation is None:
        return settings.likelihood
    takes = LIKELIHOODS[approximation].takes_noise(problem.model)
    return approximation if takes and settings.method != "ibis" else None


def why_not_searched(problem: Problem, settings: RunSettings) -> str | None:
    """Return why ``method="auto"`` does not search; empty where it does, None for other methods."""
    if settings.start == AUTO:
        return ""
    if settings.method != AUTO:
        return None
    if exact_likelihood(problem, settings) is None:
        return "an estimated likelihood has no gradient"
    return ""


def planned(
    problem: Problem,
    settings: RunSettings,
    threads: int | None = None,
    workers: Workers | None = None,
    choice: SolverChoice | None = None,
) -> Plan:
    """Return the plan of a run, after its searches where it takes any.

    What goes wrong in a search is no error: the run then begins at the prior.

    ``choice`` takes the place of the solver of the settings, where particles have called for
    another one.
    """
    settings = settings.taking(choice)
    begun, reason = CLOCK.theta_steps, why_not_searched(problem, settings)
    exact = exact_likelihood(problem, settings)
    settings = settings.model_copy(update={"likelihood": exact or settings.likelihood})
    if reason is None:
        modes = settings.start if isinstance(settings.start, Modes) else None
        plan = _from_prior(problem, settings, settings.method, "", modes)
    elif reason:
        method = "tempering" if exact is None else "ibis"
        plan = _from_prior(problem, settings, method, reason)
    else:
        plan = _searched(problem, settings, threads, workers)
    work = plan.work or CLOCK.theta_steps - begun
    return replace(plan, work=work, choice=plan.choice or choice)


def _from_prior(
    problem: Problem, settings: RunSettings, method: str, reason: str, modes: Modes | None = None
) -> Plan:
    choose = solver_for_run if modes is None else solver_from_prior
    solver = choose(problem, settings.solver, settings.likelihood)
    return Plan(method, solver, modes, reason)


def _searched(
    problem: Problem, settings: RunSettings, threads: int | None, workers: Workers | None
) -> Plan:
    method = "tempering" if settings.method == AUTO else settings.method
    try:
        found = laplace(
            problem, settings.likelihood, solver=settings.solver,
            seed=settings.seed or 0, threads=threads, executor=workers,
        )  # fmt: skip
    except InputError as error:
        if settings.method != AUTO:
            raise
        _log.info("no search: %s", error)
        method = "tempering" if settings.follows_gradient else "ibis"
        return _from_prior(problem, settings, method, f"no search is possible: {error}")
    plan = _from_searches(found, method)
    again = called_for(found, settings.particles) if settings.solver_open else None
    if again is None:
        return plan
    choice, solver = again
    if solver.adaptive:
        return planned(problem, settings, threads, workers, choice)
    return replace(plan, solver=solver, choice=choice)


def _from_searches(found: Laplace, method: str) -> Plan:
    if found.modes:
        return Plan(method, found.solver, found.start)
    maximum = found.maximum
    modes = Modes.none(len(maximum.starts), len(found.names), maximum.ends, found.reason)
    return Plan(method, found.solver, modes)
