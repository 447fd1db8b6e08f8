"""The start of a run near the posterior: checked, and what to say of it at the end."""

from __future__ import annotations

import numpy as np

from smcpn.distributed.workers import Workers
from smcpn.errors import InputError, listed, shown
from smcpn.estimate.laplace import laplace
from smcpn.estimate.linearise import is_of
from smcpn.estimate.maximise import more_starts
from smcpn.estimate.multistart import SEARCHES
from smcpn.functions.linearised_network import LinearisedNetwork
from smcpn.model.problem import Problem
from smcpn.model.scaled_columns import learned_scales
from smcpn.results.laplace import Laplace
from smcpn.run.run import Run
from smcpn.settings import AUTO, Settings
from smcpn.smc.ibis import Ibis
from smcpn.smc.particles import normalise
from smcpn.smc.replicates import Populations
from smcpn.smc.start import Modes, extreme_spreads

NARROWER, WIDER = 2.0, 3.0
"""Ratios of the spreads of start and particles along a direction that are warned of. A posterior
that is twice as wide as the Gaussian at its mode is skewed and nothing else; a start as wide as
`WIDTH` has its tails."""
HIGHER = 1.0
"""Nats above the highest end of the searches from which a particle is on another hill."""


def approximation_of(start: Laplace | str | None, problem: Problem) -> Laplace | None:
    """Return the Laplace approximation that a run is given to start from; None without one.

    Raises
    ------
    InputError
        For what is none, or is one in other coordinates than those of the problem.
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

    Raises
    ------
    InputError
        As `approximation_of` and `laplace`, and where there is no mode to begin at.
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


def warnings_of_start(run: Run, populations: Populations) -> tuple[str, ...]:
    """Return what a user should know of the start of a finished run, one sentence each."""
    modes = None if run.plan is None else run.plan.modes
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
    assert run.plan is not None
    same = run.plan.solver == run.solver and run.settings.likelihood == run.exact
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

    Particles that only importance weights took from there are what these say.
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
    if not spreads:
        return ()
    worst = max(spreads, key=lambda spread: abs(np.log(max(spread.ratio, 1e-300))))
    parts = np.abs(worst.direction)
    names = [run.problem.names[j] for j in np.argsort(-parts) if parts[j] >= 0.5 * parts.max()]
    return (
        f"along {', '.join(names)} the particles spread {worst.ratio:.2g} times as wide as the "
        "start: its Gaussian is wrong there, or the particles have lost a part of the posterior; "
        "their width and the evidence are not to be trusted without a run from the prior",
    )
