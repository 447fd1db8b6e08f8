"""From a problem to its posterior."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from smcpn.codegen.kernel import CLOCK
from smcpn.errors import InputError
from smcpn.likelihood.budget import SOLVER_SHARE, solver_share, sufficient_steps
from smcpn.likelihood.build import Solver, build_likelihood
from smcpn.posterior import Posterior, Timing
from smcpn.problem import Problem
from smcpn.progress import progress_line
from smcpn.smc.engine import Ibis
from smcpn.smc.moves import IndependentMetropolis, MoveSettings
from smcpn.smc.sampler import Progress, Settings
from smcpn.solver import EKF0

_MEDIAN_DRAWS = 1001


def ibis(
    problem: Problem,
    *,
    solver: Solver | None = None,
    particles: int = 1000,
    seed: int | None = None,
    ess: float = 0.5,
    block: int = 64,
    max_moves: int = 10,
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
        Most moves of one rejuvenation.
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

    References
    ----------
    Chopin, N. (2002). A sequential particle filter method for static models. Biometrika 89.
    Longbottom et al. (2024), arXiv:2404.12923, for the likelihood.
    """
    settings = Settings(
        particles, ess, block, IndependentMetropolis(MoveSettings(max_moves=max_moves))
    )
    if seed is not None and (not isinstance(seed, int) or seed < 0):
        raise InputError(f"seed is {seed!r}: give a whole number from 0")
    begin, before = time.perf_counter(), replace(CLOCK)
    solver = EKF0() if solver is None else solver
    automatic = getattr(solver, "steps", None) == "auto"
    if automatic:
        solver = sufficient_steps(problem, solver, _prior_median(problem))
    with progress_line(progress) as report:
        sampler = _sample(problem, solver, settings, seed, threads, report)
        share = solver_share(problem, solver, _mean(sampler))
        while automatic and share > SOLVER_SHARE:
            least = 2 * int(solver.steps)
            solver = sufficient_steps(problem, solver, _mean(sampler), least=least)
            sampler = _sample(problem, solver, settings, seed, threads, report)
            share = solver_share(problem, solver, _mean(sampler))
    work = CLOCK.since(before)
    return Posterior(
        problem=problem,
        solver=solver,
        theta=sampler.system.theta,
        log_weights=sampler.system.log_weights,
        log_likelihood=sampler.system.log_likelihood,
        eve=sampler.system.eve,
        log_evidence=sampler.log_evidence,
        ess_path=np.array(sampler.ess),
        log_evidence_path=np.array(sampler.log_evidence_path),
        rejuvenations=tuple(sampler.rejuvenations),
        solver_share=share,
        timing=Timing(
            wall=time.perf_counter() - begin - work.compile_seconds,
            compile=work.compile_seconds,
            kernel=work.run_seconds,
            theta_steps=work.theta_steps,
        ),
        seed=seed,
    )


def _sample(
    problem: Problem,
    solver: Solver,
    settings: Settings,
    seed: int | None,
    threads: int | None,
    report: Callable[[Progress], None] | None,
) -> Ibis:
    likelihood = build_likelihood(problem, solver, threads)
    sampler = Ibis(problem.prior, likelihood, settings, np.random.default_rng(seed))
    sampler.run(progress=report)
    return sampler


def _mean(sampler: Ibis) -> np.ndarray:
    return sampler.system.weights @ sampler.prior.natural(sampler.system.theta)


def _prior_median(problem: Problem) -> np.ndarray:
    theta = problem.prior.sample(np.random.default_rng(0), _MEDIAN_DRAWS)
    return problem.prior.natural(np.median(theta, axis=0)[None, :])[0]
