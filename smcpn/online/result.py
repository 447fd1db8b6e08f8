"""The posterior of a stream, as an identification returns it."""

from __future__ import annotations

from dataclasses import replace

from smcpn.likelihood.budget import error_budget
from smcpn.likelihood.build import Solver
from smcpn.online.forgetting import Stretch
from smcpn.posterior import Posterior, Timing
from smcpn.problem import Problem
from smcpn.record import Record
from smcpn.smc.replicates import combine


def stream_posterior(
    problem: Problem, solver: Solver, stretch: Stretch, seed: int | None
) -> Posterior:
    """Make the posterior of the population of a stretch that has caught up.

    Parameters
    ----------
    problem : Problem
        Its first record is the template of the stream's.
    """
    template, history = problem.records[0], stretch.likelihood.history
    t, u, y = history.samples(0, stretch.likelihood.n_samples)
    known = template.u_function if template.u_function is not None else u
    uniform = template.dt is not None
    record = Record(
        u=known if template.n_inputs else None,
        y=y,
        dt=template.dt,
        t=None if uniform else t,
        start=float(t[0]) if uniform else 0.0,
        hold=template.hold,
        y_unit=template.y_unit,
        name=template.name,
    )
    observed = problem.with_records([record])
    observed.prior = stretch.prior
    engine = stretch.follower.engine
    engine.flush()
    populations = combine([engine])
    mean = engine.system.weights @ engine.system.theta
    budget = error_budget(observed, solver, stretch.prior.natural(mean[None, :])[0])
    cost = engine.cost
    nan = float("nan")
    return Posterior(
        problem=observed,
        solver=solver,
        budget=budget,
        timing=Timing(nan, nan, nan, int(cost.evaluations * int(solver.steps))),
        seed=seed,
        **vars(replace(populations)),
    )
