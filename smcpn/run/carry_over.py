"""The stage of a run in which populations are carried over, to finer steps or to an estimate."""

from __future__ import annotations

from smcpn.run.judge import judge_on_the_way
from smcpn.run.run import CarryOver, Run, Step


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
