"""`Run`: the populations of an identification, advanced part by part."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from smcpn.likelihood.registry import build_likelihood
from smcpn.likelihood.steps import (
    SOLVER_SHARE,
    ErrorBudget,
    error_budget,
    first_solver,
    sufficient_steps,
)
from smcpn.model.problem import Problem
from smcpn.settings import METHODS, Method, RunSettings, RunSnapshot
from smcpn.smc.particles import normalise
from smcpn.smc.psis import largest_k
from smcpn.smc.replicates import Populations, combine
from smcpn.smc.sampler import Progress
from smcpn.smc.sampler import Settings as SamplerSettings
from smcpn.smc.start import MixtureStart
from smcpn.solver import Solver

_log = logging.getLogger(__name__)


class Run:
    """Populations computed one after the other, all again with more steps where ``steps="auto"``.

    Attributes
    ----------
    solver : Solver
        The one in force.
    samplers : list of Sampler
        Finished ones first; the last one may be at work.
    refused_k : float or None
        Pareto k of the start that was given up for the prior.
    outcome : tuple of Populations and ErrorBudget, or None
        At the end.
    """

    def __init__(self, problem: Problem, settings: RunSettings, threads: int | None = None) -> None:
        self.problem, self.settings, self.threads = problem, settings, threads
        self.outcome: tuple[Populations, ErrorBudget] | None = None
        self.refused_k: float | None = None
        self._begin(first_solver(problem, settings.solver, settings.likelihood))

    @classmethod
    def resumed(
        cls,
        problem: Problem,
        settings: RunSettings,
        snapshot: RunSnapshot,
        threads: int | None = None,
    ) -> Run:
        """Return the run of a snapshot; continued, it ends in the same bytes."""
        run = cls.__new__(cls)
        run.problem, run.settings, run.threads = problem, settings, threads
        run.outcome, run.refused_k = None, snapshot.refused_k
        run._begin(snapshot.solver)
        run.samplers = [
            run._method.resumed(problem.prior, run.likelihood, run._sampler_settings, one)
            for one in snapshot.samplers
        ]
        return run

    def snapshot(self) -> RunSnapshot:
        """Return an immutable copy of the state, from which `resumed` continues."""
        populations = tuple(sampler.snapshot() for sampler in self.samplers)
        return RunSnapshot(self.solver, populations, self.refused_k)

    def advance(self) -> None:
        """Compute the next part: a block of samples, a rejuvenation, or the check of the steps."""
        last = self.likelihood.n_samples
        if self.samplers and self.samplers[-1].sample < last:
            self.samplers[-1].advance(last)
            self._judge_start(self.samplers[-1].pareto_k)
        elif len(self.samplers) < self.settings.replicates:
            rng, prior = self.settings.generator(len(self.samplers)), self.problem.prior
            self.samplers.append(self._method(prior, self.likelihood, self._sampler_settings, rng))
        else:
            self._conclude()

    def progress(self) -> Progress | None:
        """Progress of the current population; None before the first."""
        return self.samplers[-1].progress() if self.samplers else None

    @property
    def _automatic(self) -> bool:
        return self.settings.solver.steps == "auto"

    @property
    def _method(self) -> type[Method]:
        return METHODS[self.settings.method]

    @property
    def start(self) -> MixtureStart | None:
        """Where the populations begin; None for the prior."""
        modes = self.settings.start
        if modes is None or len(modes) == 0 or self.refused_k is not None:
            return None
        return MixtureStart(self.problem.prior, modes)

    @property
    def _sampler_settings(self) -> SamplerSettings:
        return replace(self.settings.sampler, start=self.start)

    def _judge_start(self, pareto_k: float) -> None:
        """Begin again at the prior where the weights show that the start misses what matters."""
        if self.refused_k is None and pareto_k > largest_k(self.settings.particles):
            _log.info("the start has Pareto k %.2f: begin again at the prior", pareto_k)
            self.refused_k = pareto_k
            self.samplers = []

    def _begin(self, solver: Solver) -> None:
        self.solver = solver
        _log.info("%s likelihood by %r", self.settings.likelihood, solver)
        self.likelihood = build_likelihood(
            self.problem, solver, self.threads, self.settings.likelihood
        )
        self.samplers: list[Method] = []

    def judged(self) -> tuple[Populations, ErrorBudget]:
        """Return the combined populations, and the error budget at their mean."""
        populations = combine(self.samplers)
        centre, likelihood = self._centre(populations), self.settings.likelihood
        return populations, error_budget(self.problem, self.solver, centre, likelihood)

    def _conclude(self) -> None:
        """Accept the populations, or begin again with the steps needed at their mean."""
        populations, budget = self.judged()
        if not self._automatic or budget.share <= SOLVER_SHARE:
            self.outcome = populations, budget
            return
        centre, least = self._centre(populations), 2 * int(self.solver.steps)
        likelihood = self.settings.likelihood
        self._begin(sufficient_steps(self.problem, self.solver, centre, likelihood, least=least))

    def _centre(self, populations: Populations) -> NDArray[np.float64]:
        """Mean in the sampler's coordinates: that of the values lies off a curved ridge."""
        theta = normalise(populations.log_weights) @ populations.theta
        return self.problem.prior.natural(theta[None, :])[0]
