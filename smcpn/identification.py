"""From a problem to its posterior."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection
from dataclasses import replace

import numpy as np

from smcpn.arguments import real_number, whole_number
from smcpn.codegen.kernel import CLOCK
from smcpn.errors import InputError
from smcpn.likelihood.budget import SOLVER_SHARE, ErrorBudget
from smcpn.likelihood.build import Solver, check_solver
from smcpn.posterior import Posterior, Timing
from smcpn.problem import Problem
from smcpn.progress import progress_line
from smcpn.run import PATHS, Configuration, Run
from smcpn.smc.diagnostics import SamplerWarning
from smcpn.smc.moves import IndependentMetropolis, MoveStrategy
from smcpn.smc.rejuvenation import MoveSettings
from smcpn.smc.resampling import SCHEMES
from smcpn.smc.sampler import Progress, Settings
from smcpn.solver import EKF0

LEAST_PARTICLES = 10


def ibis(
    problem: Problem,
    *,
    solver: Solver | None = None,
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
    solver : EKF0 or RK4
        `EKF0` counts the numerical error of the integration in the posterior, `RK4` does not.
        By default ``EKF0(order=3, steps="auto")``.
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
    path : {"data", "tempering"}
        Absorb one sample after the other, or the whole record at rising exponents.
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
    solver = EKF0() if solver is None else solver
    check_solver(solver)
    configuration = Configuration(
        solver=solver,
        settings=settings,
        path=_choice("path", path, PATHS),
        replicates=replicates,
        seed=seed,
        entropy=np.random.SeedSequence(seed).entropy,  # type: ignore[arg-type]
    )
    return identified(lambda: Run(problem, configuration, threads), progress)


def identified(
    begin: Callable[[], Run], progress: bool | Callable[[Progress], None] | None
) -> Posterior:
    """Take a run to its end.

    Parameters
    ----------
    begin : callable
        Makes the run; what it compiles is counted.
    """
    began, before = time.perf_counter(), replace(CLOCK)
    with progress_line(progress) as report:
        run = begin()
        while run.outcome is None:
            run.advance()
            state = run.progress()
            if report is not None and state is not None:
                report(state)
    populations, budget = run.outcome
    work = CLOCK.since(before)
    concerns = populations.concerns + _solver_concerns(budget)
    for concern in concerns:
        warnings.warn(concern, SamplerWarning, stacklevel=3)
    return Posterior(
        problem=run.problem,
        solver=run.solver,
        budget=budget,
        timing=Timing(
            wall=time.perf_counter() - began - work.compile_seconds,
            compile=work.compile_seconds,
            kernel=work.run_seconds,
            theta_steps=work.theta_steps,
        ),
        seed=run.configuration.seed,
        **vars(replace(populations, concerns=concerns)),
    )


def _solver_concerns(budget: ErrorBudget) -> tuple[str, ...]:
    if budget.share <= SOLVER_SHARE:
        return ()
    return (
        f"the solver's error is {budget.share:.2g} of the noise variance at the posterior mean: "
        "raise steps (or steps='auto'), parameters may be biased",
    )


def _choice(name: str, value: str, known: Collection[str]) -> str:
    if value not in known:
        raise InputError(f"{name} is {value!r}: choose one of {', '.join(known)}")
    return value
