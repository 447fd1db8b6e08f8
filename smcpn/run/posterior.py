"""The posterior of a run, with how it was reached and what a user should know of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from smcpn.codegen.clock import counted_apart
from smcpn.estimate.maximise import more_starts
from smcpn.estimate.multistart import SEARCHES
from smcpn.likelihood.contract import is_estimated
from smcpn.likelihood.shift import DiscretisationShift
from smcpn.model.functions.network import LinearisedNetwork
from smcpn.model.learned_scales import learned_scales
from smcpn.results.draws import Timing
from smcpn.results.method import MethodRecord
from smcpn.results.posterior import Posterior
from smcpn.run.judge import bridges, judged
from smcpn.run.run import Run
from smcpn.smc.evidence import largest_k
from smcpn.smc.ibis import Ibis
from smcpn.smc.particles import normalise
from smcpn.smc.replicates import Populations
from smcpn.smc.sampler import Sampler
from smcpn.smc.settings import AUTO
from smcpn.smc.start import Modes, Spread, extreme_spreads
from smcpn.smc.tempering import Tempering

WITNESSES = 100
"""Particles, about, that tell how many filters look ahead."""
NARROWER, WIDER = 2.0, 3.0
"""Ratios of the spreads of start and particles along a direction that are warned of. A posterior
that is twice as wide as the Gaussian at its mode is skewed and nothing else; a start as wide as
`WIDTH` has its tails."""
HIGHER = 1.0
"""Nats above the highest end of the searches from which a particle is on another hill."""


def posterior_of(run: Run, further_warnings: tuple[str, ...] = ()) -> Posterior:
    """Return the posterior of a run, at its end or of the samples assimilated so far."""
    outcome = run.outcome or judged(run)
    populations, shift = outcome.populations, outcome.shift
    walled = () if outcome.wall is None else outcome.wall.warnings
    found = run.problem.warnings + populations.warnings + walled
    found += _warnings_of_steps(run, shift) + further_warnings
    if run.outcome is not None:
        found += _warnings_of_start(run, populations)
        found += () if outcome.departure is None else outcome.departure.warnings
    return Posterior(
        problem=run.problem,
        solver=run.solver,
        likelihood=run.settings.likelihood,
        shift=shift,
        timing=Timing(wall=0.0, compile=0.0, kernel=0.0, theta_steps=0),
        seed=run.settings.seed,
        method=_method_record(run),
        **vars(replace(populations, warnings=found)),
    )


def _warnings_of_steps(run: Run, shift: DiscretisationShift | None) -> tuple[str, ...]:
    """Return a warning if the steps shift the posterior, or if that could not be measured."""
    if shift is not None:
        return shift.warnings
    if run.outcome is None:
        return ()
    if not run.settings.solver.automatic:
        return ()
    return (
        f"{run.solver.resolution} is as fine as the automatic choice goes: how far finer steps "
        "would shift the posterior is not known",
    )


def _method_record(run: Run) -> MethodRecord:
    """Return what a run, finished or not, has done so far."""
    plan, modes = run.plan, run.plan.modes
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
        solver_reason=run.settings.solver_reason,
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
    if plan.reason:
        return plan.reason
    if run.state.refused_k is not None and not run.state.widened:
        return "the start misses a part of the posterior"
    return "no search found a mode" if plan.modes is not None and not len(plan.modes) else ""


def _warnings_of_start(run: Run, populations: Populations) -> tuple[str, ...]:
    """Return what a user should know of the start of a finished run, one sentence each."""
    modes = run.plan.modes
    functions = run.problem.ode.functions.values()
    if modes is None:
        return ()
    if len(modes) == 0:
        found = f"none of {modes.searches} searches found a mode"
        if len(modes.ends):
            found = f"no Gaussian describes the posterior where searches ended: {modes.doubt}"
        begun = f"{found}: the run began at the prior"
        return (begun, *_lost(modes, populations.log_evidence))
    if run.state.refused_k is not None and not run.state.widened:
        # Where the run chooses its method this is a choice, which `MethodRecord` tells.
        asked = run.settings.method != AUTO
        refused = (_refused(run.state.refused_k, run.settings.particles),) if asked else ()
        return refused + _lost(modes, populations.log_evidence)
    if any(isinstance(one.function, LinearisedNetwork) for one in functions):
        # It is about one maximum that these functions are linear.
        doubt = (modes.doubt,) if modes.doubt else ()
        return doubt + _disagreement(run, populations)
    few = (
        f"searches for the modes to start from: {modes.searches}, and what these missed only "
        "draws from the prior can find; pass start=smcpn.laplace(problem, starts=20)",
    )
    doubt = (f"the run began at start=smcpn.laplace(problem), where {modes.doubt}",)
    told = few if modes.searches < SEARCHES else doubt if modes.doubt else ()
    return told + _surpassed(run, modes, populations) + _disagreement(run, populations)


def _surpassed(run: Run, modes: Modes, populations: Populations) -> tuple[str, ...]:
    """Warn if a particle is higher than all ends of the searches, by the same likelihood.

    Where scales are learned searches climb another density, and of a record that has become longer
    they have climbed that of its beginning.
    """
    same = run.plan.solver == run.solver and run.settings.likelihood == run.likelihoods.first
    longer = any(isinstance(sampler, Ibis) for sampler in run.samplers)
    if not same or longer or not len(modes.ends) or learned_scales(run.problem) is not None:
        return ()
    heights = populations.log_likelihood + run.problem.prior.log_density(populations.theta)
    highest = float(np.max(heights[np.isfinite(heights)], initial=-np.inf))
    if highest <= modes.ends[0] + HIGHER:
        return ()
    return (
        f"particles reach a log posterior of {highest:.6g}, and the searches ended at "
        f"{modes.ends[0]:.6g} at most: smcpn.maximise and smcpn fit end in a lesser mode, take "
        f"starts={more_starts(modes.searches)}",
    )


def _refused(k: float, particles: int) -> str:
    why = (
        "too few of its draws have a likelihood"
        if np.isinf(k)
        else f"few of its {particles} draws have nearly all of the weight"
    )
    return f"the start misses a part of the posterior ({why}): the run began again at the prior"


def _lost(modes: Modes, log_evidence: float) -> tuple[str, ...]:
    """Warn if a run from the prior has less evidence than there is about the modes alone."""
    if not modes.missed_by(log_evidence):
        return ()
    about = "is" if len(modes) else "must be more than"
    return (
        f"the run from the prior missed the modes that the searches found: its log-evidence is "
        f"{log_evidence:.6g}, and about those alone it {about} {modes.log_evidence:.6g}; use more "
        "particles, or a prior nearer to them",
    )


def _disagreement(run: Run, populations: Populations) -> tuple[str, ...]:
    """Warn if moved particles are far wider or narrower than the start along some direction.

    Particles that only importance weights took from there are what these say. Where the Gaussian at
    a mode is wrong, as of a posterior that the bounds of its prior shape, and weighted draws from
    the start have the width of the particles, nothing is lost.
    """
    longer = any(isinstance(sampler, Ibis) for sampler in run.samplers)
    if run.start is None or longer or not populations.rejuvenations:
        return ()
    weights = normalise(populations.log_weights)
    chains = populations.rejuvenations[-1].chains
    independent = chains / run.settings.particles if chains else 1.0
    spreads = extreme_spreads(run.start, populations.theta, weights, independent)
    narrowest = 1.0 / (NARROWER * run.start.width)
    spreads = [one for one in spreads if not narrowest < one.ratio < WIDER]
    if spreads:
        found = _spreads_by_weights(run)
        spreads = [one for one in spreads if not any(one.agrees_with(other) for other in found)]
    if not spreads:
        return ()
    worst = max(spreads, key=lambda spread: abs(np.log(max(spread.ratio, 1e-300))))
    parts = np.abs(worst.direction)
    names = [run.problem.names[j] for j in np.argsort(-parts) if parts[j] >= 0.5 * parts.max()]
    return (
        f"along {', '.join(names)} the particles spread {worst.ratio:.2g} times as wide as the "
        "start, which draws from the start do not confirm: its Gaussian is wrong there, or the "
        "particles have lost a part of the posterior; their width and the evidence are not to be "
        "trusted without a run from the prior",
    )


def _spreads_by_weights(run: Run) -> list[Spread]:
    """Spreads of draws from the start that are weighted to the posterior; empty without trust.

    A start that is wider than the posterior has good weights, of whatever shape that is. In many
    dimensions few draws of modes widened are near it, but those of the modes as they are.
    """
    start, settings = run.start, run.settings
    assert start is not None
    drawn = [_drawn_from(run, width) for width in sorted({start.width, 1.0}, reverse=True)]
    trusted = [one for one in drawn if one.state.pareto_k <= largest_k(settings.particles)]
    return [
        spread
        for one in trusted
        for spread in extreme_spreads(start, one.system.theta, normalise(one.system.log_increment))
    ]


def _drawn_from(run: Run, width: float) -> Tempering:
    """Return draws from the modes of so many times their width, and their weights."""
    settings = run.settings
    begun = replace(settings.sampler, start=run.start_of_width(width))
    with counted_apart():
        rng = settings.generator(settings.replicates)
        drawn = Tempering(run.problem.prior, run.likelihood, begun, rng)
        drawn.proceed(run.likelihood.n_samples)
    return drawn
