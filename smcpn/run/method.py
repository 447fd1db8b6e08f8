"""The `MethodRecord` of a run."""

from __future__ import annotations

from typing import Any

import numpy as np

from smcpn.likelihood.contract import is_estimated
from smcpn.results.method import MethodRecord
from smcpn.run.run import Run, bridges
from smcpn.smc.ibis import Ibis
from smcpn.smc.sampler import Sampler

WITNESSES = 100
"""Particles, about, that tell how many filters look ahead."""


def method_record(run: Run) -> MethodRecord:
    """Return what a run, finished or not, has done so far."""
    plan, modes = run.plan, None if run.plan is None else run.plan.modes
    assert plan is not None
    weighing = run.likelihood.n_steps * run.settings.particles * run.settings.replicates
    pareto_k = [run.state.refused_k] if run.state.refused_k is not None else []
    if run.start is not None and not run.state.widened:
        pareto_k = [sampler.state.pareto_k for sampler in run.samplers]
    return MethodRecord(
        asked=run.settings.method,
        used=plan.method,
        remarks=tuple(
            f"{name} {one.function.remark}"
            for name, one in run.problem.ode.functions.items()
            if one.function.remark
        ),
        searches=0 if modes is None else modes.searches,
        modes=0 if modes is None else len(modes),
        ends=() if modes is None else tuple(modes.ends.tolist()),
        pareto_k=max(pareto_k, default=float("nan")),
        width=1.0 if run.start is None else run.start.width,
        fallback=_fallback(run),
        weighings=run.state.work / weighing,
        search_weighings=plan.work / weighing,
        **_of_estimate(run),
    )


def _of_estimate(run: Run) -> dict[str, Any]:
    """Fields on an estimated likelihood, as far as a run has come to it."""
    begun = [sampler for sampler in run.samplers if sampler.state.state_particles]
    if not begun:
        return {}
    made = [[r for r in sampler.rejuvenations if r.state_particles] for sampler in begun]
    return {
        "state_particles": max(sampler.state.state_particles for sampler in begun),
        "bridges": max(map(bridges, begun)),
        "acceptance": made[-1][-1].acceptance if made[-1] else float("nan"),
        "estimate_variance": max(sampler.state.estimate_variance for sampler in begun),
        "guided": float(np.mean([_guided(run, sampler) for sampler in begun])),
    }


def _guided(run: Run, sampler: Sampler) -> float:
    """Share of a population whose filters look ahead, by evenly chosen particles.

    None do that follow the samples.
    """
    some = slice(None, None, max(1, len(sampler.system) // WITNESSES))
    estimate, system = sampler.in_force, sampler.system.take(some)
    follows_samples = isinstance(sampler, Ibis) and np.isnan(sampler.state.log_floor)
    if follows_samples or not is_estimated(estimate):
        return 0.0
    looks = estimate.guided(run.problem.prior.natural(system.theta), estimate.n_samples)
    # The sum of all weights is 1 up to rounding.
    return float(np.average(looks, weights=system.weights))


def _fallback(run: Run) -> str:
    plan = run.plan
    if plan is None or plan.reason:
        return "" if plan is None else plan.reason
    if run.state.refused_k is not None and not run.state.widened:
        return "the start misses a part of the posterior"
    return "no search found a mode" if plan.modes is not None and not len(plan.modes) else ""
