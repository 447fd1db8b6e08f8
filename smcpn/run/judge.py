"""The stage of a run that judges: whether its steps are fine enough, and what is left open."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from smcpn.codegen.clock import counted_apart
from smcpn.errors import InputError
from smcpn.likelihood.contract import is_estimated
from smcpn.likelihood.lanes import Grid
from smcpn.likelihood.registry import LIKELIHOODS, build_estimate
from smcpn.likelihood.shift import AUTOMATIC_SHIFT, DiscretisationShift, shift_of_particles
from smcpn.likelihood.solver_choice import finer_solver, solver_beyond_wall, stiff_beyond_wall
from smcpn.likelihood.wall import PosteriorPoints, share_cut_off, wall_of
from smcpn.model.solver import Solver
from smcpn.run.departure import Departure, departure, shift_by_filters
from smcpn.run.run import Begin, CarryOver, Outcome, Run, Step
from smcpn.smc.estimation import spread_out
from smcpn.smc.particles import ParticleSystem, log_ratio, normalise
from smcpn.smc.replicates import combine
from smcpn.smc.sampler import Sampler
from smcpn.smc.settings import Method

_log = logging.getLogger(__name__)

JUDGES = 200
"""Particles by which they are judged, or twenty for each parameter where that is more."""
FAR = 4.0
"""Shift, in posterior sd, from which it costs less to begin again than to carry particles over."""
TAIL, EXPLAINED = 0.0015, 0.1
"""Share of moves from the posterior that finer steps alone accept, from which the tail of a
parameter was cut off: where it was .002 to .015, a standard deviation was .8 of the right one, and
in right runs it is .0005 at most. A shift from so many posterior sd on explains such moves."""
CUT_OFF = 0.01
"""Share of the last proposals that diverge, from which coarse steps may have cut off a part of the
posterior, which particles that are carried over would not reach."""


def judge(run: Run) -> Step:
    """Return how a run goes on whose populations have come to the last sample, or its outcome."""
    everyone = tuple(range(len(run.samplers)))
    behind = tuple(k for k in everyone if run.state.solvers[k] != run.solver)
    if behind:
        return CarryOver(run.solver, behind)
    automatic = run.settings.solver.automatic
    if run.approaches:
        final = run.settings.solver
        return _refined(run, final, _shift(run, final, run.samplers), everyone)
    approximate = tuple(k for k in everyone if not run.samplers[k].state.state_particles)
    carried = run.likelihoods.first is not None and len(approximate) < len(everyone)
    outcome = judged(run)
    shift = outcome.shift
    points = _points(run)
    if shift is not None and automatic and not carried:
        compared = None if shift.size > EXPLAINED else points
        if compared is not None and share_cut_off(compared, shift.finer) > TAIL:
            return Begin(solver_beyond_wall(run.problem, run.solver) or shift.finer)
        if shift.size > AUTOMATIC_SHIFT:
            return _refined(run, shift.finer, shift, everyone)
    wall = None if points is None else wall_of(points)
    if wall is not None and run.settings.solver_open:
        choice = stiff_beyond_wall(run.problem, run.solver, wall.finer)
        if choice is not None:
            return run.planned_anew(choice)
    if wall is not None and wall.finer is not None and automatic and not carried:
        _log.info("%s", wall)
        return Begin(wall.finer)
    if run.settings.likelihood != run.likelihoods.first and approximate:
        return CarryOver(run.solver, approximate[:1], to_estimate=True)
    return replace(outcome, wall=wall, departure=_departure(run))


def judge_on_the_way(run: Run) -> Step | None:
    """Refine the steps of the population at work where the samples so far call for it.

    The shift grows with the root of the number of samples: found late, it is a long way.
    """
    sampler, finer = run.samplers[-1], finer_solver(run.problem, run.solver)
    last = sampler.sample == run.likelihood.n_samples
    if last or not run.settings.solver.automatic or run.likelihoods.first is None:
        return None
    if finer is not None:
        shift = _shift(run, finer, [sampler])
        if shift.size > AUTOMATIC_SHIFT:
            return _refined(run, finer, shift, (len(run.samplers) - 1,))
    run.change(checked=sampler.sample)
    return None


def judged(run: Run) -> Outcome:
    """Return the combined populations, and their shift when the solver is made finer."""
    populations = combine(run.samplers)
    finer = finer_solver(run.problem, run.solver)
    at_hand = all(solver == run.solver for solver in run.state.solvers)
    if finer is None or not at_hand:
        return Outcome(populations, None)
    by_filters = _comparable(run) is None
    shift = _shift_by_filters(run, finer) if by_filters else _shift(run, finer, run.samplers)
    return Outcome(populations, shift)


def bridges(sampler: Sampler) -> int:
    """Parts in which a population was carried over to an estimate; 0 where it was not."""
    if np.isnan(sampler.state.log_floor):
        return 0
    # Each part but the last is followed by a rejuvenation.
    return 1 + sum(r.state_particles > 0 and r.exponent < 1.0 for r in sampler.rejuvenations)


def _refined(
    run: Run, finer: Solver, shift: DiscretisationShift, numbers: tuple[int, ...]
) -> Begin | CarryOver:
    """Carry populations over to a finer solver, or begin again by it where that costs less."""
    last = [run.samplers[k].rejuvenations[-1:] for k in numbers]
    cut_off = any(r.diverged > CUT_OFF * r.evaluations for records in last for r in records)
    if shift.worst > FAR or cut_off or run.likelihoods.first is None:
        return Begin(finer)
    return CarryOver(finer, numbers)


def _comparable(run: Run) -> str | None:
    """Name of the likelihood by which solvers are compared; None where filters do that.

    Where particles were not carried over to an estimate at once, its approximation is too far
    from it to tell the effect of the steps.
    """
    name = run.likelihoods.first or LIKELIHOODS[run.settings.likelihood].approximation
    assert name is not None
    near = max(map(bridges, run.samplers), default=0) <= 1
    return name if near and LIKELIHOODS[name].takes(run.problem.model) else None


def _compared(run: Run, sampler: Method, finer: Solver, some: slice) -> ParticleSystem:
    """Particles for a comparison; those with an estimate are compared by its approximation."""
    name = _comparable(run)
    assert name is not None
    likelihood = run.likelihoods.exact(name, finer)
    if not sampler.state.state_particles:
        return sampler.compared(likelihood, some)
    system = sampler.system.take(some)
    values = run.problem.prior.natural(system.theta)
    before = run.likelihoods.exact(name, run.solver)
    ends = [one.evaluate(values, sampler.sample)[1] for one in (likelihood, before)]
    return replace(system, log_increment=log_ratio(*ends))


def _shift(run: Run, finer: Solver, samplers: Sequence[Method]) -> DiscretisationShift:
    """Shift of populations together, by evenly chosen particles."""
    n, d = samplers[0].system.theta.shape
    some = slice(None, None, max(1, n * len(samplers) // max(JUDGES, 20 * d)))
    chosen = [_compared(run, sampler, finer, some) for sampler in samplers]
    shares = normalise(np.array([sampler.log_evidence for sampler in samplers]))
    weights = [share * one.weights for share, one in zip(shares, chosen, strict=True)]
    return shift_of_particles(
        run.problem.names,
        run.solver,
        finer,
        np.concatenate([one.theta for one in chosen]),
        np.concatenate(weights),
        np.concatenate([one.log_increment for one in chosen]),
    )


def _shift_by_filters(run: Run, finer: Solver) -> DiscretisationShift:
    """Shift of the first population, where no approximation is near enough to tell it."""
    sampler, names = run.samplers[0], run.problem.names
    estimate = sampler.in_force
    assert is_estimated(estimate)
    fine = run.likelihoods.estimated(finer).with_state_particles(estimate.state_particles)
    both = estimate, fine.with_look_ahead(estimate.look_ahead)
    theta = sampler.system.theta[spread_out(sampler.system, max(JUDGES, 20 * len(names)))]
    rng = run.settings.generator(run.settings.replicates)
    with counted_apart():
        return shift_by_filters(
            names, (run.solver, finer), both, theta, run.problem.prior.natural(theta), rng
        )


def _points(run: Run) -> PosteriorPoints | None:
    """Particles of all populations for tests by moves; None without an exact likelihood."""
    name = _comparable(run)
    if name is None:
        return None
    shares = normalise(np.array([sampler.log_evidence for sampler in run.samplers]))
    systems = [sampler.system for sampler in run.samplers]
    theta = np.concatenate([one.theta for one in systems])
    weights = np.concatenate([s * one.weights for s, one in zip(shares, systems, strict=True)])
    by = run.likelihoods.by(name)
    return PosteriorPoints(run.problem, run.solver, name, theta, weights, by)


def _departure(run: Run) -> Departure | None:
    """Compare an approximation with what it approximates, at a few particles."""
    name, problem, solver = run.settings.likelihood, run.problem, run.solver
    kind, estimated = LIKELIHOODS[name], LIKELIHOODS[name].approximates
    grid = Grid.of(problem.records, problem.model.delay)
    if estimated is None or kind.traced(problem, solver, grid).exact:
        return None
    try:
        estimate = build_estimate(problem, solver, run.threads, estimated)
    except InputError as error:
        _log.info("the %s likelihood is not compared with another: %s", name, error)
        return None
    rng = run.settings.generator(run.settings.replicates)
    # A check is none of the weighings that led to the posterior.
    with counted_apart():
        return departure(
            problem.names, solver, run.samplers[0].system, problem.prior.natural, name,
            estimate, estimated, rng,
        )  # fmt: skip
