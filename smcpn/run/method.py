"""The `MethodRecord` of a run."""

from __future__ import annotations

from smcpn.results.method import MethodRecord
from smcpn.run.run import Run


def method_record(run: Run) -> MethodRecord:
    """Return what a run, finished or not, has done so far."""
    plan, modes = run.plan, None if run.plan is None else run.plan.modes
    assert plan is not None
    weighing = run.likelihood.n_steps * run.settings.particles * run.settings.replicates
    pareto_k = [run.refused_k] if run.refused_k is not None else []
    if run.start is not None:
        pareto_k = [sampler.pareto_k for sampler in run.samplers]
    return MethodRecord(
        asked=run.settings.method,
        used=plan.method,
        searches=0 if modes is None else modes.searches,
        modes=0 if modes is None else len(modes),
        pareto_k=max(pareto_k, default=float("nan")),
        fallback=_fallback(run),
        weighings=run.work / weighing,
        search_weighings=plan.work / weighing,
    )


def _fallback(run: Run) -> str:
    plan = run.plan
    if plan is None or plan.reason:
        return "" if plan is None else plan.reason
    if run.refused_k is not None:
        return "the start misses a part of the posterior"
    return "no search found a mode" if plan.modes is not None and not len(plan.modes) else ""
