"""The plan of a run: by which method, from where, and with which steps it begins.

``method="auto"`` searches for the modes of the posterior and tempers from there: two to five
weighings of the record, where IBIS takes twenty and, on a long record, two hundred; and of a short
one IBIS may lose in the first samples what later ones make likely. It stays where there is no
gradient to search with, and only as long as it has not cost what tempering from the prior does.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from smcpn.codegen.kernel import CLOCK
from smcpn.distributed.workers import Workers
from smcpn.errors import InputError
from smcpn.estimate.laplace import laplace
from smcpn.likelihood.registry import LIKELIHOODS
from smcpn.likelihood.solver_choice import solver_from_prior
from smcpn.model.problem import Problem
from smcpn.run_state import Plan
from smcpn.settings import AUTO, RunSettings
from smcpn.smc.start import Modes
from smcpn.solver import Solver

_log = logging.getLogger(__name__)

TEMPERED = 15
"""Weighings that tempering from the prior takes for each parameter, at most as a rule: 5 to 15 on
epidemics, oscillators and populations of 21 to 200 samples, where its moves are accepted."""


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
) -> Plan:
    """Return the plan of a run, after its searches where it takes any.

    What goes wrong in a search is no error: the run then begins at the prior.
    """
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
    return replace(plan, work=CLOCK.theta_steps - begun)


def tempered_instead(plan: Plan, solver: Solver, weighings: float, parameters: int) -> Plan | None:
    """Return the plan that follows one of IBIS by ``method="auto"``; None where it goes on.

    That is to temper the whole record from the prior, once IBIS has weighed the record as often as
    this takes: at the worst both cost twice the lesser. Where samples make one direction known
    after the other, as the rise of an epidemic and its peak do, IBIS moves particles each time.
    What IBIS follows after searches is a record that was tempered already, see `followed_instead`.

    Parameters
    ----------
    plan : Plan
    solver : Solver
        The one in force.
    weighings : float
        Evaluations by the rejuvenations of IBIS so far, in those of the whole record by all
        particles.
    parameters : int
    """
    if plan.method != "ibis" or plan.modes is not None or weighings <= TEMPERED * parameters:
        return None
    reason = f"{plan.reason}, but IBIS had cost what tempering does before its end"
    return replace(plan, method="tempering", solver=solver, reason=reason)


def followed_instead(plan: Plan, log_evidence: float) -> Plan | None:
    """Return the plan that follows one of tempering by ``method="auto"``; None where it stands.

    That is to follow the samples, where tempering from the prior ended far below what the searches
    found. A chaotic solution is as unlikely by the whole record wherever it is not right to the
    last digit, and every few samples call for one digit more.

    Parameters
    ----------
    plan : Plan
    log_evidence : float
        That of a population from the prior.
    """
    if plan.method != "tempering" or plan.modes is None or not plan.modes.missed_by(log_evidence):
        return None
    reason = "tempering missed what the searches had found, so IBIS followed the samples"
    return replace(plan, method="ibis", reason=reason)


def _from_prior(
    problem: Problem, settings: RunSettings, method: str, reason: str, modes: Modes | None = None
) -> Plan:
    solver = solver_from_prior(problem, settings.solver, settings.likelihood)
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
    if found.modes:
        return Plan(method, found.solver, found.start)
    maximum = found.maximum
    modes = Modes.none(len(maximum.starts), len(problem.names), maximum.ends, found.reason)
    return Plan(method, found.solver, modes)
