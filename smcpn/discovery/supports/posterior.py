"""Posterior of supports and coefficients: weighted draws of all runs, and what they tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from smcpn.discovery.results.models import DiscoveredModel
from smcpn.discovery.supports.proposal import by_support
from smcpn.discovery.supports.spike_and_slab import Mask, SpikeAndSlabPrior
from smcpn.discovery.supports.tempering import Sampled
from smcpn.discovery.supports.trajectory import Trajectories
from smcpn.smc.evidence import combined_log_evidence
from smcpn.smc.particles import distinct_sample_size, normalise
from smcpn.smc.proposals import weighted_moments
from smcpn.smc.resampling import systematic
from smcpn.solver import Solver

Array = NDArray[np.float64]

REPORTED = 1e-4
"""Probability from which a model is in the table."""
FACTORS = (0.25, 1.0, 4.0)
"""On the slab, of the sensitivity."""
LOW_ESS = 100.0


@dataclass(frozen=True, eq=False)
class SupportPosterior:
    """Weighted draws of supports and coefficients, and what they tell.

    Attributes
    ----------
    supports : ndarray of bool, (N, K)
    coefficients : ndarray, (N, K)
        Zero where absent.
    initial : ndarray, (N, R, n)
        States at the first samples of the records.
    noise : ndarray, (N, q)
        Standard deviations.
    weights : ndarray, (N,)
        They sum to one.
    replicate : ndarray of int, (N,)
    models : tuple of DiscoveredModel
        The most probable first.
    inclusion, inclusion_se : ndarray, (K,)
        Probability that a coefficient is not zero, and its standard error.
    sensitivity : dict of float to ndarray, (K,)
        Inclusion with the slab that many times as wide.
    log_evidence, log_evidence_se : float
        Of all models together.
    ess : float
        Effective sample size, where copies count once.
    acceptance : float
        Of moves; nan where none was needed.
    pareto_k : float
        Of the importance weights, the largest of all replicates.
    solver : Solver
    likelihood : str
    warnings : tuple of str
    shrinkage : ndarray, (K,), optional
        With a shrinkage prior, under which no coefficient is zero, see `Shrunk`; ``inclusion`` is
        the level of the widest credible interval without zero then.
    """

    supports: NDArray[np.bool_] = field(repr=False)
    coefficients: Array = field(repr=False)
    initial: Array = field(repr=False)
    noise: Array = field(repr=False)
    weights: Array = field(repr=False)
    replicate: NDArray[np.int64] = field(repr=False)
    models: tuple[DiscoveredModel, ...]
    inclusion: Array
    inclusion_se: Array
    sensitivity: dict[float, Array] = field(repr=False)
    log_evidence: float
    log_evidence_se: float
    ess: float
    acceptance: float
    pareto_k: float
    solver: Solver
    likelihood: str
    warnings: tuple[str, ...]
    shrinkage: Array | None = None

    def chosen(self, n: int, seed: int) -> NDArray[np.int64]:
        """Draw numbers (n,) of draws by their weights."""
        return systematic(self.weights, np.random.default_rng(seed), n)


def pooled(
    target: Trajectories,
    runs: Sequence[Sampled],
    first: NDArray[np.int64],
    learned: int,
    noise: Array | None,
) -> SupportPosterior:
    """Pool runs, each in proportion to its evidence.

    Parameters
    ----------
    first : ndarray of int, (R,)
        Pieces with which the records begin.
    learned : int
        Outputs whose noise has a coordinate.
    noise : ndarray, (q,), optional
        Standard deviations of those that have none.
    """
    prior = target.prior
    evidences = np.array([run.log_evidence for run in runs])
    parts = [
        normalise(run.log_weights) * weight
        for run, weight in zip(runs, softmax(evidences), strict=True)
    ]
    weights = np.concatenate(parts)
    masks, z = np.concatenate([run.masks for run in runs]), np.concatenate([run.z for run in runs])
    count = masks.shape[1]
    n_states = len(target.problem.ode.states)
    initial = z[:, count + learned :].reshape(len(z), -1, n_states)[:, first]
    sd = np.exp(z[:, count : count + learned]) if noise is None else np.tile(noise, (len(z), 1))
    replicate = np.repeat(np.arange(len(runs)), [len(run.z) for run in runs])
    models = _models(target, runs, masks, z, weights, replicate, initial, evidences)
    total, error = _evidence(runs, evidences)
    ess = distinct_sample_size(z, np.log(np.maximum(weights, 1e-300)))
    rates = [rate for run in runs for rates in run.acceptance for rate in rates[:1]]
    k = max(run.pareto_k for run in runs)
    inclusion = np.minimum(weights @ masks, 1.0)
    return SupportPosterior(
        supports=_whole(prior, masks),
        coefficients=_whole(prior, np.where(masks, z[:, :count], 0.0)),
        initial=initial,
        noise=sd,
        weights=weights,
        replicate=replicate,
        models=models,
        inclusion=_whole(prior, inclusion),
        inclusion_se=_whole(prior, _inclusion_error(masks, weights, parts, inclusion)),
        sensitivity=_sensitivity(prior, masks, z, weights),
        log_evidence=total,
        log_evidence_se=error,
        ess=ess,
        acceptance=float(np.mean(rates)) if rates else float("nan"),
        pareto_k=k,
        solver=target.solver,
        likelihood=target.likelihood,
        warnings=_warnings(runs, ess),
    )


def _whole(prior: SpikeAndSlabPrior, values: NDArray[Any]) -> NDArray[Any]:
    """Values (..., D) in their places among all K terms."""
    result = np.zeros((*values.shape[:-1], prior.n_terms), dtype=values.dtype)
    result[..., prior.columns] = values
    return result


def _evidence(runs: Sequence[Sampled], evidences: Array) -> tuple[float, float]:
    if len(runs) > 1:
        total, error = combined_log_evidence(evidences)
        return float(total), float(error)
    run = runs[0]
    return run.log_evidence, float(np.sqrt(max(1.0 / run.ess - 1.0 / len(run.z), 0.0)))


def _models(
    target: Trajectories,
    runs: Sequence[Sampled],
    masks: Mask,
    z: Array,
    weights: Array,
    replicate: NDArray[np.int64],
    initial: Array,
    evidences: Array,
) -> tuple[DiscoveredModel, ...]:
    total = float(np.logaddexp.reduce(evidences) - np.log(len(evidences)))
    names = np.array(target.problem.names)[: masks.shape[1]]
    prior, found = target.prior, []
    for mask, rows in by_support(masks):
        own = weights[rows]
        probability = float(own.sum())
        if probability < REPORTED:
            continue
        inside = own / probability
        mean, factor = weighted_moments(z[np.ix_(rows, np.flatnonzero(mask))], inside)
        log_prior = float(prior.log_probability(mask[None])[0])
        error = _model_error(own, replicate[rows], len(runs), len(z))
        found.append(
            DiscoveredModel(
                names=tuple(names[mask].tolist()),
                support=_whole(prior, mask),
                mean=mean,
                covariance=factor @ factor.T,
                initial=np.tensordot(inside, initial[rows], axes=1),
                log_evidence=total + float(np.log(probability)) - log_prior,
                log_evidence_se=error,
                log_prior=log_prior,
                probability=probability,
            )
        )
    return tuple(sorted(found, key=lambda model: -model.probability))


def _model_error(own: Array, replicate: NDArray[np.int64], n_runs: int, size: int) -> float:
    """Standard error of a model's log evidence: of so many draws, or between runs.

    Parameters
    ----------
    own : ndarray, (n,)
        Weights of the draws that have its support.
    replicate : ndarray of int, (n,)
    """
    share = own / own.sum()
    if n_runs == 1:
        return float(np.sqrt(max(np.square(share).sum() - 1.0 / size, 0.0)))
    each = np.bincount(replicate, weights=share, minlength=n_runs) * n_runs
    return float(each.std(ddof=1) / np.sqrt(n_runs))


def _inclusion_error(
    masks: Mask, weights: Array, parts: Sequence[Array], inclusion: Array
) -> Array:
    """Standard error of inclusions: of a ratio of means, or between runs."""
    if len(parts) == 1:
        return np.sqrt(np.square(weights) @ np.square(masks - inclusion))
    each, begin = [], 0
    for part in parts:
        each.append(part @ masks[begin : begin + len(part)] / part.sum())
        begin += len(part)
    return np.std(each, axis=0, ddof=1) / np.sqrt(len(parts))


def _sensitivity(
    prior: SpikeAndSlabPrior, masks: Mask, z: Array, weights: Array
) -> dict[float, Array]:
    """Inclusion with wider and narrower slabs, by the ratio of their densities."""
    possible = weights > 0.0
    masks, z, weights = masks[possible], z[possible], weights[possible]
    here = prior.log_slab(masks, z)
    result = {}
    for factor in FACTORS:
        ratio = prior.log_slab(masks, z, factor) - here
        shares = weights * np.exp(ratio - ratio.max())
        result[factor] = _whole(prior, np.minimum(shares @ masks / shares.sum(), 1.0))
    return result


def _warnings(runs: Sequence[Sampled], ess: float) -> tuple[str, ...]:
    found = []
    if not all(run.independent for run in runs):
        k = max(run.pareto_k for run in runs)
        found.append(
            f"importance weights of Gaussians fitted to the models are poor (Pareto k {k:.2g}): "
            "the posterior is far from Gaussian, draws are particles of the path, and the error of "
            "the evidence may be larger than stated, use replicates=4 or more particles"
        )
    if ess < LOW_ESS:
        found.append(
            f"the effective sample size is {ess:.0f}: probabilities below {1 / ess:.2g} and "
            "intervals are coarse, use more particles"
        )
    if any(run.exponents and run.exponents[-1] < 1.0 for run in runs):
        found.append(
            "the path did not reach the posterior: use likelihood='filtering', or method='search'"
        )
    return tuple(found)
