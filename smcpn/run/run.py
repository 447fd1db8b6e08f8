"""`Run`: the populations of an identification, advanced part by part."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from smcpn.codegen.clock import counted_apart
from smcpn.codegen.kernel import CLOCK
from smcpn.distributed.likelihood import distributed, evaluated_by
from smcpn.distributed.workers import Workers
from smcpn.errors import InputError
from smcpn.estimate.first_samples import SearchesOfFirstSamples, first_samples
from smcpn.likelihood.contract import EstimatedLikelihood
from smcpn.likelihood.differentiable import DifferentiableLanes
from smcpn.likelihood.gradient import LogLikelihood
from smcpn.likelihood.lanes import Grid, LaneLikelihood
from smcpn.likelihood.registry import LIKELIHOODS, build_estimate, build_likelihood
from smcpn.likelihood.shift import AUTOMATIC_SHIFT, DiscretisationShift, shift_of_particles
from smcpn.likelihood.solver_choice import (
    LogLikelihoodBy,
    finer_solver,
    solver_for_approach,
)
from smcpn.likelihood.wall import Wall, wall_of
from smcpn.model.problem import Problem
from smcpn.model.scaled_columns import learned_scales
from smcpn.run.departure import Departure, departure, shift_by_filters
from smcpn.run.plan import (
    exact_likelihood,
    followed_instead,
    planned,
    tempered_instead,
    why_not_searched,
)
from smcpn.run_state import Plan, RunState
from smcpn.settings import AUTO, METHODS, Method, RunSettings
from smcpn.smc.estimation import MOST, spread_out
from smcpn.smc.ibis import Ibis
from smcpn.smc.particles import (
    AnyLikelihood,
    ParticleSystem,
    effective_sample_size,
    log_ratio,
    normalise,
)
from smcpn.smc.psis import largest_k
from smcpn.smc.replicates import Populations, combine
from smcpn.smc.sampler import Progress, Sampler
from smcpn.smc.sampler import Settings as SamplerSettings
from smcpn.smc.start import WIDTH, MixtureStart, share_beyond
from smcpn.smc.state import SamplerState
from smcpn.smc.tempering import CollapsedError, Tempering
from smcpn.solver import Solver

_log = logging.getLogger(__name__)

FIRST_CHECK = 128
"""Samples after which the steps are judged on the way for the first time; then at twice as many."""
JUDGES = 200
"""Particles by which they are judged, or twenty for each parameter where that is more."""
FAR = 4.0
"""Shift, in posterior sd, from which it costs less to begin again than to carry particles over."""
BEYOND = 0.01
"""Share of particles from the prior that may end beyond the modes of a start."""
EFFECTIVE = 0.5
"""Share of the draws of a start with learned scales that must be effective at the posterior."""
CUT_OFF = 0.01
"""Share of the last proposals that diverge, from which coarse steps may have cut off a part of the
posterior, which particles that are carried over would not reach."""

ExactLikelihood = LaneLikelihood | DifferentiableLanes
Outcome = tuple[Populations, DiscretisationShift | None]
Both = tuple[AnyLikelihood, AnyLikelihood]


def bridges(sampler: Sampler) -> int:
    """Parts in which a population was carried over to an estimate; 0 where it was not."""
    if np.isnan(sampler.state.log_floor):
        return 0
    # Each part but the last is followed by a rejuvenation.
    return 1 + sum(r.state_particles > 0 and r.exponent < 1.0 for r in sampler.rejuvenations)


class Run:
    """Populations computed one after the other, carried over to finer steps with ``steps="auto"``.

    Where the likelihood is an estimate, they are computed by its approximation, and carried over
    to it at the end; without an approximation they begin with it.

    Attributes
    ----------
    workers : Workers or None
        Who evaluate large batches of particles; None for this process alone.
    state : RunState
        All that the run goes on from but for the populations; replaced as it goes on.
    samplers : list of Sampler
        Finished ones first; the last one may be at work.
    wall : Wall or None
        Of the solver, at which the posterior ends.
    outcome : tuple of Populations and DiscretisationShift, or None
        At the end. The shift is None where a finer solver cannot be had.
    departure : Departure or None
        At the end, from the likelihood that only particle filters estimate; None where there is
        none that the likelihood approximates.
    """

    def __init__(
        self,
        problem: Problem,
        settings: RunSettings,
        threads: int | None = None,
        workers: Workers | None = None,
    ) -> None:
        self.problem, self.settings = problem, settings
        self.threads, self.workers = threads, workers
        self.state = RunState(settings.solver)
        self._clear()
        if why_not_searched(problem, settings) != "":
            self._follow(planned(problem, settings, threads, workers))

    @classmethod
    def resumed(
        cls,
        problem: Problem,
        settings: RunSettings,
        state: RunState,
        threads: int | None = None,
        workers: Workers | None = None,
    ) -> Run:
        """Return the run of a `snapshot`; continued, it ends in the same bytes."""
        run = cls.__new__(cls)
        run.problem, run.settings = problem, settings
        run.threads, run.workers = threads, workers
        run.state = replace(state, samplers=())
        run._clear()
        if run.plan is None:
            return run
        run._take(state.solver)
        run.samplers = [
            run._method_of(one).resumed(
                problem.prior, likelihood, run._sampler_settings, one, finer
            )
            for one, (likelihood, finer) in run._likelihoods_of(state)
        ]
        for number in range(len(run.samplers)):
            run._let_search(number)
        return run

    def _change(self, **fields: Any) -> None:
        """Replace fields of the state."""
        self.state = replace(self.state, **fields)

    @property
    def plan(self) -> Plan | None:
        """Plan of the way to the posterior; None before the first part of a run that searches."""
        return self.state.plan

    @property
    def solver(self) -> Solver:
        """The one in force."""
        return self.state.solver

    def _likelihoods_of(self, state: RunState) -> Iterator[tuple[SamplerState, Both]]:
        """Yield populations with their likelihood, and that to which each is carried over.

        Raises
        ------
        InputError
            If a likelihood is an estimate and the other is none.
        """
        for solver, one in zip(state.solvers, state.samplers, strict=True):
            estimates, fixed = one.state_particles > 0, self.settings.state_particles
            most = MOST if fixed is None else fixed
            if (
                (estimates and not self._is_estimate)
                or (not estimates and self.exact is None)
                or one.state_particles > most
            ):
                raise InputError("a population is of another likelihood: begin anew")
            if not estimates:
                yield one, (self._at(solver), self.likelihood)
                continue
            estimate = self._estimate(solver).with_state_particles(one.state_particles)
            estimate = estimate.with_look_ahead(one.look_ahead)
            yield one, (self._at(solver), estimate) if one.refining else (estimate, estimate)

    @property
    def exact(self) -> str | None:
        """Name of the likelihood that populations have first; None for an estimate."""
        return exact_likelihood(self.problem, self.settings)

    @property
    def _is_estimate(self) -> bool:
        return self.settings.likelihood != self.exact

    def snapshot(self) -> RunState:
        """Return the state with that of the populations, from which `resumed` continues."""
        samplers = tuple(sampler.snapshot() for sampler in self.samplers)
        return replace(self.state, samplers=samplers)

    def advance(self) -> None:
        """Compute the next part.

        That is the search of a run that needs one, a block of samples, a rejuvenation, or the check
        of the steps.
        """
        if self.plan is None:
            self._follow(planned(self.problem, self.settings, self.threads, self.workers))
            return
        begun = CLOCK.theta_steps
        self._advance()
        self._change(work=self.state.work + CLOCK.theta_steps - begun)

    def _advance(self) -> None:
        last = self.likelihood.n_samples
        refining = [k for k, sampler in enumerate(self.samplers) if sampler.finer is not None]
        if refining:
            self._carry_over(refining[0])
        elif behind := [k for k, sampler in enumerate(self.samplers) if sampler.sample < last]:
            self._assimilate(behind[0], last)
        elif len(self.samplers) < self.settings.replicates:
            rng, prior = self.settings.generator(len(self.samplers)), self.problem.prior
            self.samplers.append(self._method(prior, self.likelihood, self._sampler_settings, rng))
            self._change(solvers=(*self.state.solvers, self.solver), checked=0)
            self._let_search(len(self.samplers) - 1)
        else:
            self._conclude()

    def progress(self) -> Progress | None:
        """Progress of the current population; None before the first."""
        if not self.samplers:
            return None
        workers = "" if self.workers is None else self.workers.state
        return replace(self.samplers[-1].progress(), workers=workers)

    def judged(self) -> Outcome:
        """Return the combined populations, and their shift when the solver is made finer."""
        populations = combine(self.samplers)
        finer = finer_solver(self.problem, self.solver)
        at_hand = all(solver == self.solver for solver in self.state.solvers)
        if finer is None or not at_hand:
            return populations, None
        if self._comparable is None:
            return populations, self._shift_by_filters(finer)
        return populations, self._shift(finer, self.samplers)

    @property
    def _method(self) -> type[Method]:
        assert self.plan is not None
        return METHODS[self.plan.method]

    def _method_of(self, state: SamplerState) -> type[Method]:
        """Method of a population: what has a posterior goes on to further samples by IBIS."""
        behind = 0 < state.sample < self.problem.n_samples
        return Ibis if behind else self._method

    @property
    def start(self) -> MixtureStart | None:
        """Density at which the populations begin; None for the prior."""
        modes = None if self.plan is None else self.plan.modes
        if (
            modes is None
            or len(modes) == 0
            or (self.state.refused_k is not None and not self.state.widened)
        ):
            return None
        width = WIDTH if self.state.widened else 1.0
        return MixtureStart(self.problem.prior, modes, learned_scales(self.problem), width)

    @property
    def _sampler_settings(self) -> SamplerSettings:
        return replace(self.settings.sampler, start=self.start)

    def _judge_start(self, sampler: Sampler) -> None:
        """Begin again where the weights show that the start is not near enough to the posterior.

        That is at the modes widened, or, where these miss a part of it, at the prior; so it is
        where the weights were too heavy to tell the error of the evidence, and moves could not
        either. Moves that follow the gradient carry particles along the path from where they begin,
        and in many dimensions no start has weights of which the largest do not matter.
        """
        pareto_k = sampler.state.pareto_k
        if self.settings.follows_gradient and np.isfinite(pareto_k):
            return
        if self.state.refused_k is not None:
            return
        ended = sampler.sample == self.likelihood.n_samples
        open_end = ended and isinstance(sampler, Tempering) and sampler.leaves_error_open
        if pareto_k > largest_k(self.settings.particles) or open_end:
            self._change(refused_k=pareto_k, widened=bool(np.isfinite(pareto_k)))
            self._change(widened=self.state.widened and self._covers_posterior())
        elif self._leaves_scales_open(sampler):
            self._change(refused_k=pareto_k, widened=True)
        else:
            return
        begin = "the modes widened" if self.state.widened else "the prior"
        _log.info("the start has Pareto k %.2f: begin again at %s", pareto_k, begin)
        self._begin(self._first)

    def _judge_cost(self, sampler: Sampler) -> None:
        """Begin again with the whole record where IBIS, which was not asked for, has cost as much.

        What rejuvenations evaluate is counted: blocks have no part in that.
        """
        assert self.plan is not None
        if self.settings.method != AUTO:
            return
        weighing = self.settings.particles * self.likelihood.n_samples
        weighings = sampler.cost.reevaluated / weighing
        plan = tempered_instead(self.plan, self.solver, weighings, len(self.problem.prior))
        if plan is not None:
            _log.info("IBIS has weighed the record %.0f times: temper the whole of it", weighings)
            self._follow(plan)

    def _leaves_scales_open(self, sampler: Sampler) -> bool:
        """True if few draws of a start with learned scales count for the posterior.

        The posterior of a scale has a long tail. Where few or none of the draws are in it their k
        does not tell, moves from them come into it late, and the evidence is stated too low.
        Learned lengths are left out: moves do not find back from modes that are wider.
        """
        columns = learned_scales(self.problem)
        if sampler.sample or sampler.state.exponent != 0.0 or columns is None or columns.stretches:
            return False
        effective = effective_sample_size(sampler.system.log_increment)
        return bool(effective < EFFECTIVE * self.settings.particles)

    def _covers_posterior(self) -> bool:
        """True if particles from the prior end nowhere but about the modes of the start."""
        assert self.start is not None
        likelihood, rng = self._at(self._coarse), self.settings.generator(self.settings.replicates)
        try:
            beyond = share_beyond(self.start, likelihood, self.settings.sampler, rng)
        except InputError as error:
            _log.info("what the start misses is not known: %s", error)
            return False
        return beyond < BEYOND

    def _give_up_start(self) -> None:
        """Begin again at the prior."""
        refused = self.state.refused_k
        if refused is None or refused <= largest_k(self.settings.particles):
            refused = np.inf
        self._change(refused_k=refused, widened=False)
        self._begin(self._first)

    @property
    def _first(self) -> Solver:
        """Solver of the first population: by ``method="auto"`` the way from the prior is coarse."""
        assert self.plan is not None
        if self.settings.method != AUTO or self.start is not None or self.plan.reason:
            return self.plan.solver
        return self._coarse

    @property
    def _coarse(self) -> Solver:
        """The solver of the plan, or one of fewer steps that has about the same likelihood."""
        assert self.plan is not None
        modes = None if self.exact is None else self.plan.modes
        values = self.problem.prior.natural(modes.means) if modes else None
        by = self._log_likelihood_by(self.exact or self.settings.likelihood)
        return solver_for_approach(self.plan.solver, values, by)

    def _follow(self, plan: Plan) -> None:
        """Begin what was planned."""
        self._change(plan=plan)
        self._begin(self._first)

    def _clear(self) -> None:
        self.outcome: Outcome | None = None
        self.wall: Wall | None = None
        self.departure: Departure | None = None
        self.samplers: list[Method] = []
        self._likelihoods: dict[Solver, ExactLikelihood] = {}
        self._estimates: dict[Solver, EstimatedLikelihood] = {}
        self._functions: dict[Solver, LogLikelihood] = {}

    def _begin(self, solver: Solver) -> None:
        self._clear()
        self._change(solvers=(), checked=0)
        self._take(solver)

    def _take(self, solver: Solver) -> None:
        """Put a solver in force."""
        self.likelihood = self._at(solver)
        self._change(solver=solver)
        _log.info("%s likelihood by %r", self.exact or self.settings.likelihood, solver)

    def _at(self, solver: Solver) -> ExactLikelihood | EstimatedLikelihood:
        """The likelihood that populations have first, by a solver."""
        return self._estimate(solver) if self.exact is None else self._exact(self.exact, solver)

    def _exact(self, name: str, solver: Solver) -> ExactLikelihood:
        """An exact likelihood by a solver, made once."""
        if solver not in self._likelihoods:
            built = build_likelihood(self.problem, solver, self.threads, name)
            found = distributed(built, self.workers)
            if self.settings.follows_gradient:
                where = evaluated_by(self.workers)
                found = DifferentiableLanes(found, self.problem, name, solver, self.threads, where)
            self._likelihoods[solver] = found
        return self._likelihoods[solver]

    def _estimate(self, solver: Solver) -> EstimatedLikelihood:
        """The estimated likelihood by a solver, made once."""
        if solver not in self._estimates:
            name = self.settings.likelihood
            built = build_estimate(self.problem, solver, self.threads, name)
            self._estimates[solver] = distributed(built, self.workers)
        return self._estimates[solver]

    @property
    def _comparable(self) -> str | None:
        """Name of the likelihood by which solvers are compared; None where filters do that.

        Where particles were not carried over to an estimate at once, its approximation is too far
        from it to tell the effect of the steps.
        """
        name = self.exact or LIKELIHOODS[self.settings.likelihood].approximation
        assert name is not None
        near = max(map(bridges, self.samplers), default=0) <= 1
        return name if near and LIKELIHOODS[name].takes_noise(self.problem.model) else None

    def _compared(self, sampler: Method, finer: Solver, some: slice) -> ParticleSystem:
        """Particles for a comparison; those with an estimate are compared by its approximation."""
        assert self._comparable is not None
        likelihood = self._exact(self._comparable, finer)
        if not sampler.state.state_particles:
            return sampler.compared(likelihood, some)
        system = sampler.system.take(some)
        values = self.problem.prior.natural(system.theta)
        before = self._exact(self._comparable, self.solver)
        ends = [one.evaluate(values, sampler.sample)[1] for one in (likelihood, before)]
        return replace(system, log_increment=log_ratio(*ends))

    def _assimilate(self, number: int, last: int) -> None:
        """Advance a population; judge the steps of the one at work after a rejuvenation."""
        sampler = self.samplers[number]
        before = len(sampler.rejuvenations)
        try:
            sampler.advance(last)
        except InputError as error:
            if not self._begins_otherwise(error):
                raise
            return
        self._judge_start(sampler)
        if self._follow_samples(sampler):
            return
        if len(sampler.rejuvenations) > before and sampler.sample < last:
            self._judge_cost(sampler)
        whole = sampler.state.exponent is None and len(sampler.rejuvenations) > before
        at_work = self.samplers[-1:] == [sampler]
        if whole and at_work and sampler.sample >= max(FIRST_CHECK, 2 * self.state.checked):
            self._judge_on_the_way()

    def _begins_otherwise(self, error: InputError) -> bool:
        """Begin again where another begin may do better: with all steps, or at the prior."""
        if self._approaching:
            _log.info("%r is too coarse: begin with all steps", self.solver)
            self._begin(self.settings.solver)
        elif self.start is not None and (self.state.widened or isinstance(error, CollapsedError)):
            self._give_up_start()
        else:
            return False
        return True

    def _follow_samples(self, sampler: Sampler) -> bool:
        """Begin again by IBIS where tempering from the prior missed what the searches found."""
        ended = sampler.sample == self.likelihood.n_samples
        given = self.settings.method != AUTO or self.settings.follows_gradient
        if not ended or given or self.start is not None or self.plan is None:
            return False
        plan = followed_instead(self.plan, sampler.log_evidence)
        if plan is None:
            return False
        _log.info("%s", plan.reason)
        self._follow(plan)
        return True

    def _let_search(self, number: int) -> None:
        """Have a population that assimilates samples look for what it loses; see `smc.looks`."""
        sampler, solver = self.samplers[number], self.state.solvers[number]
        if isinstance(sampler, Ibis) and self.exact is not None:
            sampler.searches = SearchesOfFirstSamples(
                partial(self._differentiable, self.exact, solver),
                partial(first_samples, self.problem.records),
            )

    def _differentiable(self, name: str, solver: Solver) -> LogLikelihood:
        """A likelihood with its gradient by a solver, made once."""
        if solver not in self._functions:
            function = LogLikelihood(self.problem, name, solver, self.threads)
            self._functions[solver] = function.evaluated(evaluated_by(self.workers))
        return self._functions[solver]

    def _carry_over(self, number: int) -> None:
        """Carry a population over to the solver in force."""
        sampler = self.samplers[number]
        sampler.cross_refinement()
        if sampler.finer is None:
            solvers = list(self.state.solvers)
            solvers[number] = self.solver
            self._change(solvers=tuple(solvers))
            self._let_search(number)
            if isinstance(sampler, Ibis):
                # Coarse steps may have cut off what these do not.
                sampler.look()
            if sampler.sample < self.likelihood.n_samples:
                self._judge_on_the_way()

    def _judge_on_the_way(self) -> None:
        """Refine the steps of the population at work where the samples so far call for it.

        The shift grows with the root of the number of samples: found late, it is a long way.
        """
        sampler, finer = self.samplers[-1], finer_solver(self.problem, self.solver)
        last = sampler.sample == self.likelihood.n_samples
        if last or not self.settings.solver.automatic or self.exact is None:
            return
        if finer is not None:
            shift = self._shift(finer, [sampler])
            if shift.size > AUTOMATIC_SHIFT:
                self._refine(finer, shift, [len(self.samplers) - 1])
                return
        self._change(checked=sampler.sample)

    def _conclude(self) -> None:
        """Accept the populations, or carry all of them over to finer steps."""
        behind = [k for k, solver in enumerate(self.state.solvers) if solver != self.solver]
        if behind:
            self._begin_to_carry(behind)
            return
        if self._approaching:
            final = self.settings.solver
            everyone = list(range(len(self.samplers)))
            self._refine(final, self._shift(final, self.samplers), everyone)
            return
        approximate = [sampler for sampler in self.samplers if not sampler.state.state_particles]
        carried = self.exact is not None and len(approximate) < len(self.samplers)
        populations, shift = self.judged()
        fine = shift is None or shift.size <= AUTOMATIC_SHIFT or not self.settings.solver.automatic
        if shift is not None and not fine and not carried:
            self._refine(shift.finer, shift, list(range(len(self.samplers))))
            return
        self.wall = self._ends_at()
        beyond = None if self.wall is None else self.wall.finer
        if beyond is not None and self.settings.solver.automatic and not carried:
            _log.info("%s", self.wall)
            self._begin(beyond)
        elif self._is_estimate and approximate:
            approximate[0].begin_estimate(self._estimate(self.solver))
        else:
            self.departure = self._departure()
            self.outcome = populations, shift

    def _ends_at(self) -> Wall | None:
        """Wall of the solver at which the posterior ends; None where there is none."""
        name = self._comparable
        if name is None:
            return None
        shares = normalise(np.array([sampler.log_evidence for sampler in self.samplers]))
        systems = [sampler.system for sampler in self.samplers]
        return wall_of(
            self.problem,
            self.solver,
            name,
            np.concatenate([one.theta for one in systems]),
            np.concatenate([s * one.weights for s, one in zip(shares, systems, strict=True)]),
            self._log_likelihood_by(name),
        )

    def _log_likelihood_by(self, name: str) -> LogLikelihoodBy:
        """Log-likelihood of a name, of the whole record, by any solver."""
        n = self.problem.n_samples
        return lambda solver: lambda values: self._exact(name, solver).evaluate(values, n)[1]

    def _departure(self) -> Departure | None:
        """Compare an approximation with what it approximates, at a few particles."""
        name, problem, solver = self.settings.likelihood, self.problem, self.solver
        kind, estimated = LIKELIHOODS[name], LIKELIHOODS[name].approximates
        grid = Grid.of(problem.records, problem.model.delay)
        if estimated is None or kind.traced(problem, solver, grid).exact:
            return None
        try:
            estimate = build_estimate(problem, solver, self.threads, estimated)
        except InputError as error:
            _log.info("the %s likelihood is not compared with another: %s", name, error)
            return None
        rng = self.settings.generator(self.settings.replicates)
        # A check is none of the weighings that led to the posterior.
        with counted_apart():
            return departure(
                problem.names, solver, self.samplers[0].system, problem.prior.natural, name,
                estimate, estimated, rng,
            )  # fmt: skip

    @property
    def _approaching(self) -> bool:
        """True if the solver in force is a first approach to the one that was given."""
        return not self.settings.solver.automatic and self.solver != self.settings.solver

    def _refine(self, finer: Solver, shift: DiscretisationShift, numbers: list[int]) -> None:
        """Put a finer solver in force, and begin to carry populations over to it."""
        last = [self.samplers[k].rejuvenations[-1:] for k in numbers]
        cut_off = any(r.diverged > CUT_OFF * r.evaluations for records in last for r in records)
        if shift.worst > FAR or cut_off or self.exact is None:
            self._begin(finer)
            return
        self._take(finer)
        self._begin_to_carry(numbers)

    def _begin_to_carry(self, numbers: list[int]) -> None:
        """Begin to carry populations over to the solver in force."""
        assert self.exact is not None
        likelihood = self._exact(self.exact, self.solver)
        for k in numbers:
            self.samplers[k].refine(likelihood, self.samplers[k].compared(likelihood))

    def _shift_by_filters(self, finer: Solver) -> DiscretisationShift:
        """Shift of the first population, where no approximation is near enough to tell it."""
        sampler, names = self.samplers[0], self.problem.names
        estimate = sampler.estimate
        assert estimate is not None
        fine = self._estimate(finer).with_state_particles(estimate.state_particles)
        both = estimate, fine.with_look_ahead(estimate.look_ahead)
        theta = sampler.system.theta[spread_out(sampler.system, max(JUDGES, 20 * len(names)))]
        rng = self.settings.generator(self.settings.replicates)
        with counted_apart():
            return shift_by_filters(
                names, (self.solver, finer), both, theta, self.problem.prior.natural(theta), rng
            )

    def _shift(self, finer: Solver, samplers: Sequence[Method]) -> DiscretisationShift:
        """Shift of populations together, by evenly chosen particles."""
        n, d = samplers[0].system.theta.shape
        some = slice(None, None, max(1, n * len(samplers) // max(JUDGES, 20 * d)))
        chosen = [self._compared(sampler, finer, some) for sampler in samplers]
        shares = normalise(np.array([sampler.log_evidence for sampler in samplers]))
        weights = [share * one.weights for share, one in zip(shares, chosen, strict=True)]
        return shift_of_particles(
            self.problem.names,
            self.solver,
            finer,
            np.concatenate([one.theta for one in chosen]),
            np.concatenate(weights),
            np.concatenate([one.log_increment for one in chosen]),
        )
