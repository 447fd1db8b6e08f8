"""The stages of a run, in their order: plan, search, sample, carry over, judge.

`advance` computes the next part of a run by the stage that is due, and has the run go on as that
says; `identified` does so to the end.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable
from dataclasses import replace

from smcpn.checkpoint.run import CheckpointWriter
from smcpn.checkpoint.run_state import RunState
from smcpn.codegen.clock import CLOCK
from smcpn.codegen.threads import one_blas_thread
from smcpn.results.draws import Timing
from smcpn.results.posterior import Posterior
from smcpn.run.judge import judge, judge_on_the_way
from smcpn.run.plan import planned
from smcpn.run.posterior import posterior_of
from smcpn.run.progress import progress_line
from smcpn.run.restore import InMemory
from smcpn.run.run import Begin, CarryOver, ExchangeSolver, Outcome, Run, Step
from smcpn.run.sample import sample
from smcpn.smc.replicates import SamplerWarning
from smcpn.smc.sampler import Progress


def begin_to_carry_over(run: Run, step: CarryOver) -> None:
    """Put the solver of the step in force, and begin to carry its populations over to it."""
    if step.to_estimate:
        for k in step.numbers:
            run.samplers[k].begin_estimate(run.likelihoods.estimated(step.solver))
        return
    if step.solver != run.solver:
        run.take(step.solver)
    assert run.likelihoods.first is not None
    likelihood = run.likelihoods.exact(run.likelihoods.first, step.solver)
    for k in step.numbers:
        run.samplers[k].refine(likelihood, run.samplers[k].compared(likelihood))


def carry_over(run: Run, number: int) -> Step | None:
    """Carry a population over by a part; return the step that this calls for, None to go on."""
    sampler = run.samplers[number]
    sampler.cross_refinement()
    if sampler.finer is not None:
        return None
    solvers = list(run.state.solvers)
    solvers[number] = run.solver
    run.change(solvers=tuple(solvers))
    run.let_search(number)
    # Coarse steps may have cut off what these do not.
    run.look(number)
    return judge_on_the_way(run) if sampler.sample < run.likelihood.n_samples else None


_log = logging.getLogger(__name__)


def advance(run: Run) -> None:
    """Compute the next part of a run.

    That is the search of a run that needs one, a block of samples, a rejuvenation, or the check
    of the steps.
    """
    if run.state.plan is None:
        run.begin(Begin(plan=planned(run.problem, run.settings, run.threads, run.workers)))
        return
    begun, choice = CLOCK.theta_steps, run.plan.choice
    step = _next_step(run)
    if isinstance(step, Begin):
        run.begin(step)
    elif isinstance(step, ExchangeSolver):
        run.exchange(step.plan)
    elif isinstance(step, CarryOver):
        begin_to_carry_over(run, step)
    elif isinstance(step, Outcome):
        run.outcome = step
    # Steps of two solvers do not cost the same, and cannot be added.
    same = run.plan.choice == choice
    run.change(work=run.state.work + CLOCK.theta_steps - begun if same else 0)


def _next_step(run: Run) -> Step | None:
    """Compute by the stage that is due; None where the run goes on as it did."""
    last = run.likelihood.n_samples
    carried = [k for k, sampler in enumerate(run.samplers) if sampler.finer is not None]
    behind = [k for k, sampler in enumerate(run.samplers) if sampler.sample < last]
    if carried:
        return carry_over(run, carried[0])
    if behind:
        return sample(run, behind[0])
    if len(run.samplers) < run.settings.replicates:
        run.add_population()
        return None
    return judge(run)


def identified(
    begin: Callable[[], Run],
    progress: bool | Callable[[Progress], None] | None,
    kept: CheckpointWriter[RunState] | InMemory[RunState],
) -> Posterior:
    """Advance a run to its end and return its posterior.

    ``begin`` makes the run; what it compiles is counted. ``kept`` receives a snapshot after every
    part.
    """
    began, before = time.perf_counter(), replace(CLOCK)
    with progress_line(progress) as report, kept, one_blas_thread():
        run = begin()
        if run.state.plan is None:
            kept.offer(run.snapshot())
        while run.outcome is None:
            advance(run)
            kept.offer(run.snapshot())
            state = run.progress()
            if report is not None and state is not None:
                report(state)
    posterior = posterior_of(run, kept.warnings)
    work = CLOCK.since(before)
    timing = Timing(
        wall=time.perf_counter() - began - work.compile_seconds,
        compile=work.compile_seconds,
        kernel=work.run_seconds,
        theta_steps=work.theta_steps,
    )
    for warning in posterior.warnings:
        warnings.warn(warning, SamplerWarning, stacklevel=3)
    posterior = replace(posterior, timing=timing)
    if _log.isEnabledFor(logging.INFO):
        _log.info("how it was computed:\n%s", posterior.computation)
    return posterior
