"""The posterior under a shrinkage prior from what a search found, as that of supports is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from smcpn.discovery.equations.system import CandidateSystem
from smcpn.discovery.results.models import DiscoveredModel
from smcpn.discovery.search.search import Found
from smcpn.discovery.shrinkage.shrinkage import Shrinkage
from smcpn.discovery.shrinkage.shrunk import Point, Shrunk, shrunken
from smcpn.discovery.supports.pieces import cut, pieces
from smcpn.discovery.supports.posterior import SupportPosterior
from smcpn.discovery.supports.sampling import INITIAL_SPREAD, state_deviations
from smcpn.distributed.workers import Workers
from smcpn.model.record import Record
from smcpn.solver import Solver, check_solver

Array = NDArray[np.float64]

KNOWN = 1e8
"""Shape of the gamma prior of 1 / sigma^2 where the noise is known."""


def shrunk_posterior(
    system: CandidateSystem,
    records: Sequence[Record],
    outputs: Sequence[str],
    found: Found,
    prior: Shrinkage,
    *,
    noise: Array | None = None,
    particles: int = 1000,
    replicates: int = 1,
    seed: int = 0,
    solver: Solver | str | None = None,
    likelihood: str | None = None,
    threads: int | None = None,
    workers: Workers | None = None,
) -> SupportPosterior:
    """Draw all coefficients, initial states and noise from their posterior.

    In place of inclusion it has `excluding_level`: no coefficient is zero.

    Parameters
    ----------
    outputs : sequence of str
        State that each output measures.
    found : Found
        By `search` of the same system and records; its best model is where the likelihood is
        linearised first.
    prior : Shrinkage
    noise : ndarray, (q,), optional
        Standard deviations, where they are known: to four digits, for they are sampled.
    particles, replicates, seed, solver, likelihood, threads, workers
        As of `shrunken`.
    """
    solver = None if isinstance(solver, str) and solver == "auto" else cast(Solver | None, solver)
    if solver is not None:
        check_solver(solver)
    best = found.models[0]
    parts, samples, first = pieces(records, cut(system, records, found.path, best.coefficients))
    sd = found.noise if noise is None else noise
    initial = found.path[samples]
    initial[first] = best.initial
    posterior = shrunken(
        parts,
        system,
        outputs,
        prior,
        Point(best.coefficients, initial, sd),
        found.slab,
        spread=INITIAL_SPREAD * state_deviations(system, records, outputs, found, sd),
        noise_prior=None if noise is None else (KNOWN, KNOWN * noise**2),
        solver=solver,
        likelihood=likelihood,
        particles=particles,
        replicates=replicates,
        seed=seed,
        threads=threads,
        workers=workers,
    )
    return _as_of_supports(posterior, system, len(outputs), first, replicates)


def excluding_level(values: Array, weights: Array) -> Array:
    """Return the level of the widest equal-tailed credible interval without zero, (K,).

    That is 2 max(P(theta > 0), P(theta < 0)) - 1 of draws (N, K): 0 where a coefficient is as
    likely positive as negative, 1 where its sign is certain.
    """
    return np.abs(2.0 * (weights @ (values > 0.0)) - 1.0)


def _as_of_supports(
    found: Shrunk,
    system: CandidateSystem,
    n_outputs: int,
    first: NDArray[np.int64],
    replicates: int,
) -> SupportPosterior:
    k, n = len(system.coefficients), len(system.candidates.states)
    values, weights = found.values[:, :k], found.weights
    noise = found.values[:, k : k + n_outputs]
    scales = found.values.shape[1] - found.n_scales
    initial = found.values[:, k + n_outputs : scales].reshape(len(weights), -1, n)[:, first]
    mean = weights @ values
    off = values - mean
    level = excluding_level(values, weights)
    model = DiscoveredModel(
        names=system.coefficients,
        support=np.ones(k, dtype=bool),
        mean=mean,
        covariance=(off * weights[:, None]).T @ off,
        initial=np.tensordot(weights, initial, axes=1),
        log_evidence=found.log_evidence,
        log_prior=0.0,
        probability=1.0,
        log_evidence_se=found.log_evidence_se,
    )
    return SupportPosterior(
        supports=np.ones(values.shape, dtype=bool),
        coefficients=values,
        initial=initial,
        noise=noise,
        weights=weights,
        replicate=np.repeat(np.arange(replicates), len(weights) // replicates),
        models=(model,),
        inclusion=level,
        inclusion_se=np.sqrt(np.maximum(1.0 - level**2, 0.0) / found.ess),
        sensitivity={},
        log_evidence=found.log_evidence,
        log_evidence_se=found.log_evidence_se,
        ess=found.ess,
        acceptance=float("nan"),
        pareto_k=float("nan"),
        solver=found.solver,
        likelihood=found.likelihood,
        warnings=found.warnings,
        shrinkage=found.shrinkage,
    )
