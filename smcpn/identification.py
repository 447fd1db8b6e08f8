"""From a problem to its posterior."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

import numpy as np

from smcpn.arguments import real_number, whole_number
from smcpn.codegen.kernel import CLOCK
from smcpn.errors import InputError
from smcpn.likelihood.budget import SOLVER_SHARE, ErrorBudget, error_budget, sufficient_steps
from smcpn.likelihood.build import (
    Solver,
    build_likelihood,
    default_solver,
    likelihood_name,
)
from smcpn.posterior import Posterior, Timing
from smcpn.problem import Problem
from smcpn.progress import progress_line
from smcpn.smc.diagnostics import SamplerWarning
from smcpn.smc.diffusion import DiffusionTempering
from smcpn.smc.engine import Ibis
from smcpn.smc.moves import IndependentMetropolis, MoveStrategy
from smcpn.smc.rejuvenation import MoveSettings
from smcpn.smc.replicates import Populations, combine
from smcpn.smc.resampling import SCHEMES
from smcpn.smc.sampler import Progress, Settings
from smcpn.smc.tempering import Tempering
from smcpn.smc.weights import normalise

LEAST_PARTICLES = 10
PATHS = {"data": Ibis, "tempering": Tempering, "diffusion": DiffusionTempering}
"""Ways from the prior to the posterior, by name."""
_MEDIAN_DRAWS = 1001
_FALLBACK_STEPS = 4


def ibis(
    problem: Problem,
    *,
    solver: Solver | None = None,
    likelihood: str | None = None,
    particles: int = 1000,
    seed: int | None = None,
    ess: float = 0.5,
    block: int = 64,
    max_moves: int = 10,
    moves: MoveStrategy | None = None,
    path: str = "data",
    resampling: str = "systematic",
    replicates: int = 1,
    threads: int | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
) -> Posterior:
    """Identify the parameters of a problem by iterated batch importance sampling.

    Parameters
    ----------
    problem : Problem
    solver : EKF0, EKF1 or RK4
        `EKF0` and `EKF1` count the numerical error of the integration in the posterior, `RK4`
        does not. By default ``EKF0(order=3, steps="auto")``, or what goes with ``likelihood``.
    likelihood : {"marginal", "filtering", "dalton", "fenrir", "classical"}, optional
        By default the one the solver stands for: marginal for `EKF0`, filtering for `EKF1`,
        classical for `RK4`. Filtering, dalton and fenrir learn the solution from the data too, so
        that coarse steps and chaos do less harm.
    particles : int
        Number of particles.
    seed : int, optional
        The same seed gives the same bytes, for any ``threads`` and ``block``.
    ess : float
        Rejuvenate when the effective sample size falls below this share of ``particles``.
    block : int
        Most samples weighed in one call.
    max_moves : int
        Most moves of one rejuvenation, where ``moves`` is not given.
    moves : MoveStrategy, optional
        `IndependentMetropolis` by default; `RandomWalkMetropolis` or `WasteFree`.
    path : {"data", "tempering", "diffusion"}
        Absorb one sample after the other, the whole record at rising exponents, or the whole
        record at a falling diffusion, which a likelihood with local maxima calls for.
    resampling : {"systematic", "ssp", "stratified", "residual", "multinomial"}
    replicates : int
        Independent populations of ``particles`` each, combined by their evidence; they give the
        error of the log-evidence and R-hat.
    threads : int, optional
        Threads of the kernel; all processors by default.
    progress : bool or callable, optional
        A progress line on standard error; by default where that is a terminal. A function is
        called with a `Progress` after each block instead.

    Returns
    -------
    Posterior

    Raises
    ------
    InputError
        For settings out of range, or when the model diverges for every particle.

    Warns
    -----
    SamplerWarning
        For what deserves a second look; `Posterior.concerns` keeps the sentences.

    References
    ----------
    Chopin, N. (2002). A sequential particle filter method for static models. Biometrika 89.
    Longbottom et al. (2024), arXiv:2404.12923, for the likelihood.
    """
    if seed is not None:
        seed = whole_number("seed", seed, 0)
    if threads is not None:
        threads = whole_number("threads", threads, 1, otherwise=", or None for all processors")
    max_moves = whole_number("max_moves", max_moves, 1)
    replicates = whole_number("replicates", replicates, 1)
    settings = Settings(
        particles=whole_number("particles", particles, LEAST_PARTICLES),
        ess=real_number("ess", ess, "choose a share between 0 and 1"),
        block=whole_number("block", block, 1),
        moves=moves or IndependentMetropolis(MoveSettings(max_moves=max_moves)),
        resample=SCHEMES[_choice("resampling", resampling, SCHEMES)],
    )
    solver = default_solver(problem, likelihood) if solver is None else solver
    name = likelihood_name(solver, likelihood)
    run = _Run(
        problem,
        name,
        settings,
        PATHS[_choice("path", path, PATHS)],
        _generators(seed, replicates),
        threads,
    )
    begin, before = time.perf_counter(), replace(CLOCK)
    with progress_line(progress) as report:
        solver, populations, budget = run.with_sufficient_steps(solver, report)
    work = CLOCK.since(before)
    concerns = populations.concerns + _solver_concerns(budget)
    populations = replace(populations, concerns=concerns)
    for concern in concerns:
        warnings.warn(concern, SamplerWarning, stacklevel=2)
    return Posterior(
        problem=problem,
        solver=solver,
        likelihood=name,
        budget=budget,
        timing=Timing(
            wall=time.perf_counter() - begin - work.compile_seconds,
            compile=work.compile_seconds,
            kernel=work.run_seconds,
            theta_steps=work.theta_steps,
        ),
        seed=seed,
        **vars(populations),
    )


@dataclass(frozen=True)
class _Run:
    """Everything of an identification but the solver."""

    problem: Problem
    likelihood: str
    settings: Settings
    path: type[Ibis] | type[Tempering] | type[DiffusionTempering]
    generators: Callable[[], list[np.random.Generator]]
    threads: int | None

    def with_sufficient_steps(
        self, solver: Solver, report: Callable[[Progress], None] | None
    ) -> tuple[Solver, Populations, ErrorBudget]:
        """Sample, and where the steps are chosen here, again with more until they suffice."""
        automatic = getattr(solver, "steps", None) == "auto"
        if automatic:
            solver = self._first_steps(solver)
        while True:
            populations = self.sample(solver, report)
            centre = self._centre(populations)
            budget = error_budget(self.problem, solver, centre, self.likelihood)
            if not automatic or budget.share <= SOLVER_SHARE:
                return solver, populations, budget
            least = 2 * int(solver.steps)
            solver = sufficient_steps(self.problem, solver, centre, self.likelihood, least=least)

    def sample(self, solver: Solver, report: Callable[[Progress], None] | None) -> Populations:
        """Run every population."""
        likelihood = build_likelihood(self.problem, solver, self.threads, self.likelihood)
        samplers = [
            self.path(self.problem.prior, likelihood, self.settings, rng)
            for rng in self.generators()
        ]
        for sampler in samplers:
            sampler.run(progress=report)
        return combine(samplers)

    def _first_steps(self, solver: Solver) -> Solver:
        prior = self.problem.prior
        theta = prior.sample(np.random.default_rng(0), _MEDIAN_DRAWS)
        median = prior.natural(np.median(theta, axis=0)[None, :])[0]
        try:
            return sufficient_steps(self.problem, solver, median, self.likelihood)
        except InputError:
            # The median of a wide prior may diverge where the posterior does not: begin with a
            # few steps, the posterior mean decides.
            return replace(solver, steps=_FALLBACK_STEPS)

    def _centre(self, populations: Populations) -> np.ndarray:
        """Mean in the sampler's coordinates: that of the values lies off a curved ridge."""
        theta = normalise(populations.log_weights) @ populations.theta
        return self.problem.prior.natural(theta[None, :])[0]


def _solver_concerns(budget: ErrorBudget) -> tuple[str, ...]:
    if budget.share <= SOLVER_SHARE:
        return ()
    return (
        f"the solver's error is {budget.share:.2g} of the noise variance at the posterior mean: "
        "raise steps (or steps='auto'), parameters may be biased",
    )


def _generators(seed: int | None, replicates: int) -> Callable[[], list[np.random.Generator]]:
    """Fresh generators for the populations, the same ones at every call."""
    root = np.random.SeedSequence(seed)
    children = [root] if replicates == 1 else root.spawn(replicates)
    return lambda: [np.random.default_rng(child) for child in children]


def _choice(name: str, value: str, known: Collection[str]) -> str:
    if value not in known:
        raise InputError(f"{name} is {value!r}: choose one of {', '.join(known)}")
    return value
