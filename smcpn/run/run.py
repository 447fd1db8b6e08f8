"""`Run`: the populations of an identification, with the state that they go on from.

A stage looks at a run and says with which `Step` it goes on; `smcpn.run.stages` has their order.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from smcpn.checkpoint.run_state import Plan, RunState
from smcpn.errors import InputError
from smcpn.estimate.first_samples import Hills, SearchesOfFirstSamples, first_samples
from smcpn.estimate.multistart import likely_hills, many_hills
from smcpn.likelihood.contract import EstimatedLikelihood, Likelihood
from smcpn.likelihood.gradient import LogLikelihood
from smcpn.likelihood.lanes import LaneLikelihood
from smcpn.likelihood.registry import build_estimate, build_likelihood
from smcpn.likelihood.shift import DiscretisationShift
from smcpn.likelihood.solver_choice import (
    LogLikelihoodBy,
    SolverChoice,
    solver_for_approach,
    solver_for_run,
)
from smcpn.likelihood.wall import Wall
from smcpn.model.learned_scales import learned_scales
from smcpn.model.problem import Problem
from smcpn.model.solver import Solver
from smcpn.run.departure import Departure
from smcpn.run.plan import exact_likelihood, planned, why_not_searched
from smcpn.smc.distributed.workers import Workers, distributed, evaluated_by
from smcpn.smc.estimation import MOST
from smcpn.smc.ibis import Ibis
from smcpn.smc.looks import take_back_lost
from smcpn.smc.replicates import Populations
from smcpn.smc.sampler import Progress
from smcpn.smc.sampler import Settings as SamplerSettings
from smcpn.smc.settings import AUTO, METHODS, Method, RunSettings
from smcpn.smc.start import WIDTH, MixtureStart
from smcpn.smc.state import SamplerState

_log = logging.getLogger(__name__)

Both = tuple[Likelihood, Likelihood]


@dataclass(frozen=True)
class Begin:
    """The step of a run whose populations begin anew.

    Attributes
    ----------
    solver : Solver or None
        By default the first one of the plan.
    plan : Plan or None
        In place of the one that there is.
    refused_k, widened
        What a run remembers of the start that it gives up, see `RunState`; None for nothing new.
    """

    solver: Solver | None = None
    plan: Plan | None = None
    refused_k: float | None = None
    widened: bool | None = None


@dataclass(frozen=True)
class ExchangeSolver:
    """The step of a run whose population goes on with another solver, reweighted where it is.

    plan: With the solver.
    """

    plan: Plan


@dataclass(frozen=True)
class CarryOver:
    """The step of a run that puts a solver in force, and carries populations over to it.

    numbers: Of the populations.
    to_estimate: Whether it is to the estimated likelihood by this solver.
    """

    solver: Solver
    numbers: tuple[int, ...]
    to_estimate: bool = False


@dataclass(frozen=True)
class Outcome:
    """The end of a run, or what it would be at this moment.

    shift: None where a finer solver cannot be had.
    wall: Of the solver, at which the posterior ends.
    departure: From the likelihood that only particle filters estimate; None where there is none
        that the likelihood approximates.
    """

    populations: Populations
    shift: DiscretisationShift | None
    wall: Wall | None = None
    departure: Departure | None = None


Step = Begin | ExchangeSolver | CarryOver | Outcome


class Likelihoods:
    """The likelihoods of a run by any solver, each made once.

    first: Name of the likelihood that populations have first; None for an estimate.
    """

    def __init__(
        self, problem: Problem, settings: RunSettings, threads: int | None, workers: Workers | None
    ) -> None:
        self._problem, self._settings = problem, settings
        self._threads, self._workers = threads, workers
        self.first = exact_likelihood(problem, settings)
        self._exact: dict[tuple[str, Solver], LaneLikelihood] = {}
        self._estimates: dict[Solver, EstimatedLikelihood] = {}
        self._gradients: dict[tuple[str, Solver], LogLikelihood] = {}

    def at(self, solver: Solver) -> LaneLikelihood | EstimatedLikelihood:
        """Return the likelihood that populations have first."""
        return self.estimated(solver) if self.first is None else self.exact(self.first, solver)

    def exact(self, name: str, solver: Solver) -> LaneLikelihood:
        """Return an exact likelihood; with its gradient, where moves follow it."""
        if (name, solver) not in self._exact:
            built = build_likelihood(self._problem, solver, self._threads, name)
            found = distributed(built, self._workers)
            if self._settings.follows_gradient:
                found = found.with_derivatives(partial(self.gradient, name, solver))
            self._exact[name, solver] = found
        return self._exact[name, solver]

    def estimated(self, solver: Solver) -> EstimatedLikelihood:
        """Return the estimated likelihood of the run."""
        if solver not in self._estimates:
            name = self._settings.likelihood
            built = build_estimate(self._problem, solver, self._threads, name)
            self._estimates[solver] = distributed(built, self._workers)
        return self._estimates[solver]

    def gradient(self, name: str, solver: Solver) -> LogLikelihood:
        """Return an exact likelihood with its gradient."""
        if (name, solver) not in self._gradients:
            function = LogLikelihood(self._problem, name, solver, self._threads)
            self._gradients[name, solver] = function.evaluated(evaluated_by(self._workers))
        return self._gradients[name, solver]

    def by(self, name: str) -> LogLikelihoodBy:
        """Return an exact log-likelihood, of the whole record, as a function of the solver."""
        n = self._problem.n_samples
        return lambda solver: lambda values: self.exact(name, solver).evaluate(values, n)[1]


class Run:
    """Populations computed one after the other, carried over to finer steps with ``steps="auto"``.

    Where the likelihood is an estimate, they are computed by its approximation, and carried over
    to it at the end; without an approximation they begin with it.

    settings: With the solver of the plan, where that was chosen again.
    workers: Who evaluate large batches of particles; None for this process alone.
    state: All that the run goes on from but for the populations; replaced as it goes on.
    samplers: Finished ones first; the last one may be at work.
    likelihood: The one that populations have first by the solver in force.
    outcome: At the end.
    """

    def __init__(
        self,
        problem: Problem,
        settings: RunSettings,
        threads: int | None = None,
        workers: Workers | None = None,
    ) -> None:
        self._configure(problem, settings, RunState(settings.solver), threads, workers)
        if why_not_searched(problem, settings) != "":
            self.begin(Begin(plan=planned(problem, settings, threads, workers)))

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
        run._configure(problem, settings, replace(state, samplers=()), threads, workers)
        if run.state.plan is None:
            return run
        run.take(state.solver)
        run.samplers = [
            run._method_of(one).resumed(
                problem.prior, likelihood, run._sampler_settings, one, finer
            )
            for one, (likelihood, finer) in run._likelihoods_of(state)
        ]
        for number in range(len(run.samplers)):
            run.let_search(number)
        return run

    def _configure(
        self,
        problem: Problem,
        settings: RunSettings,
        state: RunState,
        threads: int | None,
        workers: Workers | None,
    ) -> None:
        self.problem, self._settings, self.state = problem, settings, state
        self.threads, self.workers = threads, workers
        self._clear()

    def _clear(self) -> None:
        self.outcome: Outcome | None = None
        self.samplers: list[Method] = []
        self.likelihoods = Likelihoods(self.problem, self.settings, self.threads, self.workers)

    @property
    def settings(self) -> RunSettings:
        """Settings of the run, with the solver that is chosen at the moment."""
        plan = self.state.plan
        return self._settings if plan is None else self._settings.taking(plan.choice)

    def change(self, **fields: Any) -> None:
        """Replace fields of the state."""
        self.state = replace(self.state, **fields)

    def begin(self, step: Begin) -> None:
        """Begin anew without populations."""
        remembered = {"plan": step.plan, "refused_k": step.refused_k, "widened": step.widened}
        self.change(**{name: one for name, one in remembered.items() if one is not None})
        if step.solver is None:
            self._leave_explicit()
        solver = step.solver or self._first_solver
        self._clear()
        self.change(solvers=(), checked=0)
        self.take(solver)

    def _leave_explicit(self) -> None:
        """Go back to the stiff solver where a run begins at the prior, which called for it."""
        plan = self.plan
        if self.start is not None or plan.choice is None or plan.choice.solver.adaptive:
            return
        first = self._settings
        solver = solver_for_run(self.problem, first.solver, first.likelihood)
        choice = SolverChoice(first.solver, first.likelihood, first.solver_reason)
        self.change(plan=replace(plan, solver=solver, choice=choice))

    def exchange(self, plan: Plan) -> None:
        """Have the population at work go on with the solver of a plan, evidence included."""
        self.change(plan=plan, solvers=(plan.solver,))
        self.likelihoods = Likelihoods(self.problem, self.settings, self.threads, self.workers)
        self.take(plan.solver)
        self.samplers[0].exchange(self.likelihood)
        self.let_search(0)

    def planned_anew(self, choice: SolverChoice) -> Begin:
        """Return the beginning of the run with another solver, after its own searches.

        Where a start was refused the run begins at the prior, and nothing is searched again.
        """
        if self.state.refused_k is not None and self.start is None:
            solver = solver_for_run(self.problem, choice.solver, choice.likelihood)
            return Begin(plan=replace(self.plan, solver=solver, choice=choice))
        plan = planned(self.problem, self._settings, self.threads, self.workers, choice)
        return Begin(plan=plan)

    def take(self, solver: Solver) -> None:
        """Put a solver in force."""
        self.likelihood = self.likelihoods.at(solver)
        self.change(solver=solver)
        name = self.likelihoods.first or self.settings.likelihood
        _log.info("%s likelihood by %r", name, solver)

    def add_population(self) -> None:
        """Add a population that has not seen a sample."""
        number = len(self.samplers)
        rng, method = self.settings.generator(number), METHODS[self.plan.method]
        settings = self._sampler_settings
        self.samplers.append(method(self.problem.prior, self.likelihood, settings, rng))
        self.change(solvers=(*self.state.solvers, self.solver), checked=0)
        self.let_search(number)

    def let_search(self, number: int) -> None:
        """Have a population that assimilates samples look for what it loses; see `smc.looks`."""
        sampler = self.samplers[number]
        if isinstance(sampler, Ibis):
            sampler.searches = self._searches(number, likely_hills)

    def look(self, number: int) -> None:
        """Have a population that began at the prior look for what it has lost on the way.

        None does for which searches were made before: these say what a run has missed.
        """
        sampler = self.samplers[number]
        if isinstance(sampler, Ibis):
            sampler.look()
        elif self.plan.modes is None and (searches := self._searches(number, many_hills)):
            take_back_lost(sampler, searches)

    def _searches(self, number: int, hills: Hills) -> SearchesOfFirstSamples | None:
        """Searches by the likelihood of a population; None where that is an estimate."""
        name, solver = self.likelihoods.first, self.state.solvers[number]
        if name is None:
            return None
        return SearchesOfFirstSamples(
            partial(self.likelihoods.gradient, name, solver),
            partial(first_samples, self.problem.records),
            hills,
        )

    @property
    def plan(self) -> Plan:
        """Plan of the way to the posterior, which a run that searches has after its first part."""
        assert self.state.plan is not None
        return self.state.plan

    @property
    def solver(self) -> Solver:
        """The one in force."""
        return self.state.solver

    @property
    def approaches(self) -> bool:
        """True if the solver in force is a first approach to the one that was given."""
        return not self.settings.solver.automatic and self.solver != self.settings.solver

    @property
    def start(self) -> MixtureStart | None:
        """Density at which the populations begin; None for the prior."""
        left = self.state.refused_k is not None and not self.state.widened
        return None if left else self.start_of_width(WIDTH if self.state.widened else 1.0)

    def start_of_width(self, width: float) -> MixtureStart | None:
        """Return the density about the modes of the plan; None without any."""
        modes = None if self.state.plan is None else self.state.plan.modes
        if not modes:
            return None
        return MixtureStart(self.problem.prior, modes, learned_scales(self.problem), width)

    @property
    def _first_solver(self) -> Solver:
        """Solver of the first population: by ``method="auto"`` the way from the prior is coarse."""
        given = self.settings.method != AUTO or self.start is not None or self.plan.reason
        return self.plan.solver if given else self.coarse_solver

    @property
    def coarse_solver(self) -> Solver:
        """The solver of the plan, or one of fewer steps that has about the same likelihood."""
        name, modes = self.likelihoods.first, self.plan.modes
        values = self.problem.prior.natural(modes.means) if modes and name else None
        by = self.likelihoods.by(name or self.settings.likelihood)
        return solver_for_approach(self.plan.solver, values, by)

    @property
    def _sampler_settings(self) -> SamplerSettings:
        return replace(self.settings.sampler, start=self.start)

    def _method_of(self, state: SamplerState) -> type[Method]:
        """Method of a population: what has a posterior goes on to further samples by IBIS."""
        behind = 0 < state.sample < self.problem.n_samples
        return Ibis if behind else METHODS[self.plan.method]

    def _likelihoods_of(self, state: RunState) -> Iterator[tuple[SamplerState, Both]]:
        """Yield populations with their likelihood, and that to which each is carried over.

        Raises `InputError` if a likelihood is an estimate and the other is none.
        """
        first, fixed = self.likelihoods.first, self.settings.state_particles
        for solver, one in zip(state.solvers, state.samplers, strict=True):
            estimates, most = one.state_particles > 0, MOST if fixed is None else fixed
            other = self.settings.likelihood == first if estimates else first is None
            if other or one.state_particles > most:
                raise InputError("a population is of another likelihood: begin anew")
            if not estimates:
                yield one, (self.likelihoods.at(solver), self.likelihood)
                continue
            estimate = self.likelihoods.estimated(solver).with_state_particles(one.state_particles)
            estimate = estimate.with_look_ahead(one.look_ahead)
            yield one, (self.likelihoods.at(solver) if one.refining else estimate, estimate)

    def snapshot(self) -> RunState:
        """Return the state with that of the populations, from which `resumed` continues."""
        samplers = tuple(sampler.snapshot() for sampler in self.samplers)
        return replace(self.state, samplers=samplers)

    def progress(self) -> Progress | None:
        """Progress of the current population; None before the first."""
        if not self.samplers:
            return None
        workers = "" if self.workers is None else self.workers.state
        return replace(self.samplers[-1].progress(), workers=workers)
