"""`smcpn.nuts`: the posterior of a problem by the No-U-Turn sampler."""

from __future__ import annotations

import time
import warnings
from concurrent.futures import Executor
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from smcpn.base.arguments import ANYTHING, Count, Index, Seed, checked
from smcpn.base.status import status
from smcpn.codegen.clock import CLOCK
from smcpn.codegen.threads import processors
from smcpn.errors import InputError, shown
from smcpn.estimate.laplace import laplace
from smcpn.estimate.linearise import is_of
from smcpn.estimate.log_density import LogDensity
from smcpn.estimate.nuts.sampler import (
    Chains,
    ChainSettings,
    Coordinates,
    check_bend,
    coordinates_of,
    nutpie,
    sampled,
)
from smcpn.likelihood.gradient import LogLikelihood
from smcpn.model.problem import Problem
from smcpn.model.solver import Solver
from smcpn.results.draws import Timing
from smcpn.results.exports.arviz import arviz_module
from smcpn.results.laplace import NOTABLE, Laplace
from smcpn.results.maximum import equally_weighted
from smcpn.results.nuts import NutsPosterior, warnings_of_chains
from smcpn.smc.distributed.workers import evaluated_by, workers_of
from smcpn.smc.replicates import SamplerWarning

Array = NDArray[np.float64]

TUNE, TUNE_WITHOUT = 200, 1000
"""Draws for tuning with the metric of a Laplace approximation, and without one."""
LEAST_DRAWS, LEAST_TUNE = 4, 20
"""Of a chain; R-hat and the adaptation need them."""

TAILS = (0.05, 0.95)
"""Quantiles whose effective draws are those of the tails."""


@checked
def nuts(
    problem: Problem,
    draws: Count = 1000,
    *,
    tune: Index | None = None,
    chains: Count = 4,
    likelihood: Annotated[str | LogLikelihood | None, ANYTHING] = None,
    solver: Annotated[Solver | str | None, ANYTHING] = None,
    start: Annotated[Laplace | None, ANYTHING] = None,
    seed: Seed | None = None,
    threads: Count | None = None,
    executor: Annotated[Executor | str | None, ANYTHING] = None,
    progress: bool | None = None,
) -> NutsPosterior:
    """Return the posterior of a problem as draws of the No-U-Turn sampler, by `nutpie`.

    Chains start at the modes of the posterior, as `laplace` finds them, and begin with its
    covariance for a metric. Networks are linear in their weights about a maximum, see
    `linearise_networks`. Where there are few parameters, and the densities of their priors are
    smooth, the log density is machine code that nutpie calls; where not, all chains are evaluated
    together. Gradients serve many parameters; for several modes, and for the evidence, take
    `identify`.

    Parameters
    ----------
    problem : Problem
    draws : int
        Of each chain.
    tune : int, optional
        Draws before these, which adapt step and metric: 200, or 1000 where the posterior has no
        Laplace approximation.
    chains : int
    likelihood, solver
        As of `laplace`: any likelihood with gradients.
    start : Laplace, optional
        Of this problem, in place of a search; it brings its likelihood and solver.
    seed : int, optional
        The same seed gives the same draws, for any ``threads``.
    threads : int, optional
        Chains that run at the same time; all processors by default.
    executor : concurrent.futures.Executor or str, optional
        Who evaluates large batches of points of the search, as of `identify`, and runs the chains;
        where the log density is no machine code it is the gradients of all chains. The draws do
        not depend on it.
    progress : bool, optional
        A line of status; by default on a terminal and in a notebook.

    Returns
    -------
    NutsPosterior
        After an interrupt (Ctrl-C) with the draws there are, where chains run in this process and
        have some.

    Raises
    ------
    InputError
        If nutpie is not installed, for settings out of range, or a likelihood without gradient; and
        where there is no Laplace approximation of many parameters, and their posterior is so bent
        that chains would hardly move.

    Warns
    -----
    SamplerWarning
        Of divergent trajectories, of an R-hat above 1.01, and of few effective draws.

    References
    ----------
    Hoffman, M. D., Gelman, A. (2014). The No-U-Turn sampler. JMLR 15.
    Seyboldt, A., Carlson, E. L., Carpenter, B. (2026). Preconditioning Hamiltonian Monte Carlo by
    minimizing Fisher divergence. arXiv:2603.18845, for the adaptation.

    Examples
    --------
    >>> posterior = smcpn.nuts(problem, draws=1000, seed=1)  # doctest: +SKIP
    >>> print(posterior.summary())  # doctest: +SKIP
    """
    if draws < LEAST_DRAWS:
        raise InputError(f"draws is {draws}: take at least {LEAST_DRAWS}", argument="draws")
    if tune is not None and tune < LEAST_TUNE:
        raise InputError(f"tune is {tune}: take at least {LEAST_TUNE}", argument="tune")
    nutpie()
    began, compiled = time.perf_counter(), CLOCK.compile_seconds
    found_here = start is None
    with status(progress) as say, workers_of(executor) as workers:
        if start is None:
            start = laplace(
                problem, likelihood, solver=solver, seed=seed or 0, threads=threads,
                executor=workers,
            )  # fmt: skip
        else:
            _check_start(start, problem, likelihood, solver)
        density = LogDensity(start.maximum.function.evaluated(evaluated_by(workers)))
        coordinates = coordinates_of(start, density)
        if found_here and not start.success:
            check_bend(coordinates, density)
        settings = ChainSettings(
            draws=draws,
            tune=(TUNE if start.success else TUNE_WITHOUT) if tune is None else tune,
            seeds=np.asarray(
                np.random.SeedSequence(seed).generate_state(chains, np.uint64), np.uint64
            ),
            threads=min(chains, threads or processors()),
        )
        found = sampled(density, coordinates, settings, workers, say)
    posterior = _posterior(start, found, settings, coordinates, seed)
    compiling = CLOCK.compile_seconds - compiled
    timing = Timing(
        wall=time.perf_counter() - began - compiling,
        compile=compiling,
        kernel=0.0,
        theta_steps=found.statistics.gradients * density.log_likelihood.steps,
    )
    for warning in posterior.warnings:
        warnings.warn(warning, SamplerWarning, stacklevel=3)
    return replace(posterior, timing=timing)


def _check_start(start: object, problem: Problem, likelihood: object, solver: object) -> None:
    if not isinstance(start, Laplace):
        raise InputError(f"start is {shown(start)}: give what smcpn.laplace returns")
    if not is_of(start, problem) or likelihood is not None or solver is not None:
        raise InputError(
            "start is a Laplace approximation: give the problem it was made of, and neither "
            "likelihood nor solver, which it brings"
        )


def _posterior(
    start: Laplace, found: Chains, settings: ChainSettings, coordinates: Coordinates,
    seed: int | None,
) -> NutsPosterior:  # fmt: skip
    chains, draws, d = found.theta.shape
    r_hat, bulk, tail = (
        np.array([rule(found.theta[:, :, j]) for j in range(d)], dtype=float)
        for rule in _diagnostics(chains)
    )
    said = [*start.maximum.warnings, *found.statistics.warnings()]
    said += warnings_of_chains(start.names, r_hat, bulk, tail, chains)
    if found.interrupted:
        said.append(
            f"the run was interrupted after {draws} of {settings.draws} draws of each chain"
        )
    shares = coordinates.modes.shares
    if 1.0 - shares.max() > NOTABLE:
        said.append(
            f"the posterior has {len(shares)} modes, between which chains do not pass: "
            "smcpn.identify weighs them"
        )
    particles = equally_weighted(
        start.maximum, found.theta.reshape(-1, d), float("nan"), seed, tuple(said)
    )
    same: dict[str, Any] = vars(particles) | {
        "r_hat": r_hat,
        "replicate": np.repeat(np.arange(chains), draws),
    }
    return NutsPosterior(**same, statistics=found.statistics, ess_bulk=bulk, ess_tail=tail)


def _diagnostics(chains: int) -> list[Any]:
    """Rank-normalised R-hat, and effective draws of the bulk and the tails, of draws (C, D)."""
    arviz = arviz_module()
    return [
        arviz.rhat if chains > 1 else lambda values: np.nan,
        lambda values: arviz.ess(values, method="bulk"),
        lambda values: arviz.ess(values, method="tail", prob=TAILS),
    ]
