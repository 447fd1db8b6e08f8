"""The stage of a run in which populations sample: from where they begin to the last sample.

What shows on the way that another begin does better has the run begin anew.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from smcpn.errors import InputError
from smcpn.estimate.shift import JUDGES
from smcpn.likelihood.solver_choice import (
    UNSTABLE_SHARE,
    chosen_again,
    takes_few_steps,
)
from smcpn.model.learned_scales import learned_scales
from smcpn.run.judge import judge_on_the_way
from smcpn.run.run import Begin, ExchangeSolver, Run, Step
from smcpn.smc.estimation import spread_out
from smcpn.smc.evidence import largest_k
from smcpn.smc.ibis import Ibis
from smcpn.smc.particles import effective_sample_size
from smcpn.smc.settings import AUTO, Method
from smcpn.smc.start import WIDTH, share_beyond
from smcpn.smc.tempering import CollapsedError, Tempering

_log = logging.getLogger(__name__)

FIRST_CHECK = 128
"""Samples after which the steps are judged on the way for the first time; then at twice as many."""
TEMPERED = 15
"""Weighings that tempering from the prior takes for each parameter, at most as a rule: 5 to 15 on
epidemics, oscillators and populations of 21 to 200 samples, where its moves are accepted."""
BEYOND = 0.01
"""Share of particles from the prior that may end beyond the modes of a start."""
EFFECTIVE, OF_SCALES = 0.25, 0.5
"""Share of the draws of a start that must be effective at the posterior; of one with learned
scales. They are .7 where that is Gaussian, in few and in twenty dimensions."""


def sample(run: Run, number: int) -> Step | None:
    """Advance a population by a part; return the step that this calls for, None to go on."""
    sampler, last = run.samplers[number], run.likelihood.n_samples
    before = len(sampler.rejuvenations)
    try:
        sampler.proceed(last)
    except InputError as error:
        otherwise = _begin_otherwise(run, sampler, error)
        if otherwise is None:
            raise
        return otherwise
    refused = _refused_start(run, sampler)
    from_prior = run.start is None if refused is None else not refused.widened
    missed = _missed_modes(run, sampler) if from_prior else None
    if refused is not None or missed is not None:
        return missed if refused is None else replace(refused, plan=missed and missed.plan)
    if sampler.sample == last and not isinstance(sampler, Ibis):
        run.look(number)
    if len(sampler.rejuvenations) == before:
        return None
    if sampler.sample < last and (other := _other_solver(run, sampler)) is not None:
        return other
    costly = _costly(run, sampler) if sampler.sample < last else None
    at_work = sampler.state.exponent is None and run.samplers[-1] is sampler
    if costly is None and at_work and sampler.sample >= max(FIRST_CHECK, 2 * run.state.checked):
        return judge_on_the_way(run)
    return costly


def _begin_otherwise(run: Run, sampler: Method, error: InputError) -> Begin | ExchangeSolver | None:
    """Begin again where that may do better: by another solver, with all steps, or at the prior."""
    if run.settings.solver_open and not run.solver.adaptive:
        other = _called_for(run, sampler)
        if other is not None:
            return other
    if run.approaches:
        _log.info("%r is too coarse: begin with all steps", run.solver)
        return Begin(run.settings.solver)
    if run.start is None or not (run.state.widened or isinstance(error, CollapsedError)):
        return None
    refused = run.state.refused_k
    if refused is None or refused <= largest_k(run.settings.particles):
        refused = np.inf
    return Begin(refused_k=refused, widened=False)


def _refused_start(run: Run, sampler: Method) -> Begin | None:
    """Begin again where the weights show that the start is not near enough to the posterior.

    That is at the modes widened, or, where these miss a part of it, at the prior; so it is
    where the weights were too heavy to tell the error of the evidence, and moves could not
    either. Starts with learned lengths are kept for all but that: moves do not find back from
    modes that are wider. Moves that follow the gradient carry particles along the path from
    where they begin, and in many dimensions no start has weights of which the largest do not
    matter.
    """
    pareto_k = sampler.state.pareto_k
    if run.settings.follows_gradient and np.isfinite(pareto_k):
        return None
    if run.state.refused_k is not None:
        return None
    ended = sampler.sample == run.likelihood.n_samples
    open_end = ended and isinstance(sampler, Tempering) and sampler.leaves_error_open
    scales = learned_scales(run.problem)
    if pareto_k > largest_k(run.settings.particles) or open_end:
        widened = bool(np.isfinite(pareto_k)) and _covers_posterior(run)
    elif scales is not None:
        if scales.stretches or not _few_effective(run, sampler, OF_SCALES):
            return None
        widened = True
    elif _few_effective(run, sampler, EFFECTIVE):
        widened = _covers_posterior(run)
    else:
        return None
    begin = "the modes widened" if widened else "the prior"
    _log.info("the start has Pareto k %.2f: begin again at %s", pareto_k, begin)
    return Begin(refused_k=pareto_k, widened=widened)


def _covers_posterior(run: Run) -> bool:
    """True if particles from the prior end nowhere but about the modes of the start, widened."""
    start = run.start_of_width(WIDTH)
    assert start is not None
    likelihood = run.likelihoods.at(run.coarse_solver)
    rng = run.settings.generator(run.settings.replicates)
    try:
        return share_beyond(start, likelihood, run.settings.sampler, rng) < BEYOND
    except InputError as error:
        _log.info("what the start misses is not known: %s", error)
        return False


def _few_effective(run: Run, sampler: Method, share: float) -> bool:
    """True if less than a share of the draws of a start count for the posterior.

    In some tail it is wider then than the start, and of a thousand draws few or none are there: k,
    which the weights of the others tell, is low.
    """
    if run.start is None or sampler.sample or sampler.state.exponent != 0.0:
        return False
    effective = effective_sample_size(sampler.system.log_increment)
    return bool(effective < share * run.settings.particles)


def _missed_modes(run: Run, sampler: Method) -> Begin | None:
    """Begin again by IBIS where tempering from the prior ended far below what the searches found.

    A chaotic solution is as unlikely by the whole record wherever it is not right to the last
    digit, and every few samples call for one digit more.
    """
    plan, modes = run.plan, run.plan.modes
    ended = sampler.sample == run.likelihood.n_samples
    given = run.settings.method != AUTO or run.settings.follows_gradient
    if not ended or given or plan.method != "tempering":
        return None
    if modes is None or not modes.missed_by(sampler.log_evidence):
        return None
    reason = "tempering missed what the searches had found, so IBIS followed the samples"
    _log.info("%s", reason)
    return Begin(plan=replace(plan, method="ibis", reason=reason))


def _other_solver(run: Run, sampler: Method) -> Begin | ExchangeSolver | None:
    """Go on with another solver where particles from the prior call for it by now.

    They are asked after 1, 2, 4 and so on rejuvenations, for what they say costs evaluations by two
    solvers; those that began about modes were asked there.
    """
    made = len(sampler.rejuvenations)
    if run.start is not None or not run.settings.solver_open or made & (made - 1):
        return None
    last = sampler.rejuvenations[-1]
    if takes_few_steps(run.solver) and last.diverged <= UNSTABLE_SHARE * last.evaluations:
        return None
    return _called_for(run, sampler)


def _called_for(run: Run, sampler: Method) -> Begin | ExchangeSolver | None:
    """Go on with the solver that particles call for; None where that is in force."""
    problem = run.problem
    values = problem.prior.natural(sampler.system.theta[spread_out(sampler.system, JUDGES)])
    alone = run.settings.replicates == 1 and run.plan.choice is None
    particles = run.settings.particles if alone else 0
    again = chosen_again(problem, run.solver, values, particles)
    if again is None:
        return None
    choice, solver = again
    if solver.adaptive:
        return run.planned_anew(choice)
    return ExchangeSolver(replace(run.plan, solver=solver, choice=choice))


def _costly(run: Run, sampler: Method) -> Begin | None:
    """Begin again with the whole record where IBIS by ``method="auto"`` has cost as much.

    At the worst both cost twice the lesser. Where samples make one direction known after the other,
    as the rise of an epidemic and its peak do, IBIS moves particles each time. What is counted is
    what rejuvenations evaluate: blocks have no part in that. What IBIS follows after searches is a
    record that was tempered already.
    """
    plan = run.plan
    if run.settings.method != AUTO or plan.method != "ibis" or plan.modes is not None:
        return None
    weighings = sampler.cost.reevaluated / (run.settings.particles * run.likelihood.n_samples)
    if weighings <= TEMPERED * len(run.problem.prior):
        return None
    _log.info("IBIS has weighed the record %.0f times: temper the whole of it", weighings)
    reason = f"{plan.reason}, but IBIS had cost what tempering does before its end"
    return Begin(plan=replace(plan, method="tempering", solver=run.solver, reason=reason))
