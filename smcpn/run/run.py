"""An identification under way: from what was asked to the populations of a posterior."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smcpn.likelihood.registry import Solver, build_likelihood
from smcpn.likelihood.steps import (
    SOLVER_SHARE,
    ErrorBudget,
    error_budget,
    first_solver,
    sufficient_steps,
)
from smcpn.model.problem import Problem
from smcpn.smc.ibis import Ibis
from smcpn.smc.particles import normalise
from smcpn.smc.replicates import Populations, combine
from smcpn.smc.sampler import Progress, Settings, Snapshot
from smcpn.smc.tempering import DiffusionTempering, Tempering

_log = logging.getLogger(__name__)

Path = Ibis | Tempering | DiffusionTempering
METHODS: dict[str, type[Path]] = {
    "ibis": Ibis,
    "tempering": Tempering,
    "diffusion-tempering": DiffusionTempering,
}
"""Methods that lead from the prior to the posterior, by name."""


@dataclass(frozen=True)
class Configuration:
    """What a run is asked to do.

    Attributes
    ----------
    solver : Solver
        Its steps may be ``"auto"``.
    likelihood : str
        Name of the likelihood.
    settings : Settings
    method : str
        A key of `METHODS`.
    replicates : int
        Number of independent populations.
    seed : int or None
        As the user gave it.
    entropy : int
        What the generators are made from; the seed, where there is one.
    """

    solver: Solver
    likelihood: str
    settings: Settings
    method: str = "ibis"
    replicates: int = 1
    seed: int | None = None
    entropy: int = 0

    def generator(self, number: int) -> np.random.Generator:
        """Return the generator of a population, fresh."""
        root = np.random.SeedSequence(self.entropy)
        child = root if self.replicates == 1 else root.spawn(self.replicates)[number]
        return np.random.default_rng(child)


@dataclass(frozen=True)
class RunSnapshot:
    """Where a run is: the solver in force and its populations, finished ones first."""

    solver: Solver
    samplers: tuple[Snapshot, ...] = ()

    @property
    def sample(self) -> int:
        """Samples assimilated by the population at work."""
        return self.samplers[-1].sample if self.samplers else 0

    @property
    def rejuvenations(self) -> int:
        """Rejuvenations so far, of all populations."""
        return sum(len(sampler.rejuvenations) for sampler in self.samplers)


class Run:
    """One population after the other; all again with more steps, where these are chosen here.

    Attributes
    ----------
    solver : Solver
        The one in force.
    samplers : list of Sampler
        Finished ones first; the last one may be at work.
    outcome : tuple of Populations and ErrorBudget, or None
        At the end.
    """

    def __init__(
        self, problem: Problem, configuration: Configuration, threads: int | None = None
    ) -> None:
        self.problem, self.configuration, self.threads = problem, configuration, threads
        self.outcome: tuple[Populations, ErrorBudget] | None = None
        self._begin(first_solver(problem, configuration.solver, configuration.likelihood))

    @classmethod
    def resumed(
        cls,
        problem: Problem,
        configuration: Configuration,
        snapshot: RunSnapshot,
        threads: int | None = None,
    ) -> Run:
        """Return the run that a snapshot was taken of; it goes on to the same bytes."""
        run = cls.__new__(cls)
        run.problem, run.configuration, run.threads = problem, configuration, threads
        run.outcome = None
        run._begin(snapshot.solver)
        run.samplers = [
            run._path.resumed(problem.prior, run.likelihood, configuration.settings, one)
            for one in snapshot.samplers
        ]
        return run

    def snapshot(self) -> RunSnapshot:
        """Take what is needed to go on from here; nothing in it changes later."""
        return RunSnapshot(self.solver, tuple(sampler.snapshot() for sampler in self.samplers))

    def advance(self) -> None:
        """Do the next part: a block of samples, a rejuvenation, or the verdict on the steps."""
        last = self.likelihood.n_samples
        if self.samplers and self.samplers[-1].sample < last:
            self.samplers[-1].advance(last)
        elif len(self.samplers) < self.configuration.replicates:
            rng = self.configuration.generator(len(self.samplers))
            settings = self.configuration.settings
            self.samplers.append(self._path(self.problem.prior, self.likelihood, settings, rng))
        else:
            self._conclude()

    def progress(self) -> Progress | None:
        """Where the population at work stands; None before the first."""
        return self.samplers[-1].progress() if self.samplers else None

    @property
    def _automatic(self) -> bool:
        return self.configuration.solver.steps == "auto"

    @property
    def _path(self) -> type[Path]:
        return METHODS[self.configuration.method]

    def _begin(self, solver: Solver) -> None:
        self.solver = solver
        _log.info("%s likelihood by %r", self.configuration.likelihood, solver)
        self.likelihood = build_likelihood(
            self.problem, solver, self.threads, self.configuration.likelihood
        )
        self.samplers: list[Path] = []

    def judged(self) -> tuple[Populations, ErrorBudget]:
        """Return the populations as they are, and the solver's error at their centre."""
        populations = combine(self.samplers)
        centre, likelihood = self._centre(populations), self.configuration.likelihood
        return populations, error_budget(self.problem, self.solver, centre, likelihood)

    def _conclude(self) -> None:
        """Accept the populations, or begin again with the steps that their centre asks for."""
        populations, budget = self.judged()
        if not self._automatic or budget.share <= SOLVER_SHARE:
            self.outcome = populations, budget
            return
        centre, least = self._centre(populations), 2 * int(self.solver.steps)
        likelihood = self.configuration.likelihood
        self._begin(sufficient_steps(self.problem, self.solver, centre, likelihood, least=least))

    def _centre(self, populations: Populations) -> NDArray[np.float64]:
        """Mean in the sampler's coordinates: that of the values lies off a curved ridge."""
        theta = normalise(populations.log_weights) @ populations.theta
        return self.problem.prior.natural(theta[None, :])[0]
