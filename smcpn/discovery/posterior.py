"""Posterior of supports and coefficients by the likelihood of trajectories, from what a search found.

The terms of probable models share one compiled kernel (`trajectory`), in which a support is a mask.
Each of the probable models, and of their neighbours, is led to its maximum; these make a proposal
(`proposal`) from which tempered sequential Monte Carlo begins (`tempering`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from smcpn.discovery.pieces import cut, pieces
from smcpn.discovery.proposal import (
    Gaussians,
    SupportProposal,
    active,
    by_support,
    flattened,
    restricted,
)
from smcpn.discovery.regression import SLABS, BetaBinomial
from smcpn.discovery.search import Found, FoundModel
from smcpn.discovery.spike_and_slab import Mask, SpikeAndSlabPrior
from smcpn.discovery.system import CandidateSystem
from smcpn.discovery.tempering import Sampled, sampled
from smcpn.discovery.trajectory import Quadratic, Trajectories, refined, trajectories
from smcpn.errors import InputError
from smcpn.model.record import Record
from smcpn.smc.evidence import combined_log_evidence
from smcpn.smc.particles import distinct_sample_size, normalise
from smcpn.smc.proposals import weighted_moments
from smcpn.solver import Solver

Array = NDArray[np.float64]

SCREENED = 1e-3
"""Sampled inclusion from which a term has a coordinate."""
MOST_TERMS = 60
"""Most terms that have one, those of the models found first."""
LEAST_PROBABLE = 9.0
"""Nats below the best score from which a support has no maximum of its own."""
MOST_MODELS, ROUNDS = 60, 3
NOISE_SPREAD = 2.0
"""Prior standard deviation of the logarithm of the noise, about the search's."""
INITIAL_SPREAD = 100.0
"""Prior standard deviation of initial states about the search's, in units of the noise."""
REPORTED = 1e-4
"""Probability from which a model is in the table."""
FACTORS = (0.25, 1.0, 4.0)
"""On the slab, of the sensitivity."""
LOW_ESS = 100.0


@dataclass(frozen=True)
class SampledModel:
    """A support with the posterior of its coefficients.

    Attributes
    ----------
    support : ndarray of bool, (K,)
    mean, covariance : ndarray, (k,) and (k, k)
    initial : ndarray, (R, n)
        Mean initial states.
    log_evidence, log_evidence_se : float
    log_prior, probability : float
    """

    support: NDArray[np.bool_]
    mean: Array
    covariance: Array
    initial: Array
    log_evidence: float
    log_evidence_se: float
    log_prior: float
    probability: float


@dataclass(frozen=True)
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
    models : tuple of SampledModel
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
    """

    supports: NDArray[np.bool_] = field(repr=False)
    coefficients: Array = field(repr=False)
    initial: Array = field(repr=False)
    noise: Array = field(repr=False)
    weights: Array = field(repr=False)
    replicate: NDArray[np.int64] = field(repr=False)
    models: tuple[SampledModel, ...]
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


def sample_posterior(
    system: CandidateSystem,
    records: Sequence[Record],
    outputs: Sequence[str],
    found: Found,
    *,
    slabs: tuple[float, ...] = SLABS,
    noise: Array | None = None,
    particles: int = 1000,
    replicates: int = 1,
    seed: int = 0,
    solver: Solver | None = None,
    likelihood: str | None = None,
    threads: int | None = None,
) -> SupportPosterior:
    """Draw supports, coefficients, initial states and noise from their posterior.

    Parameters
    ----------
    outputs : sequence of str
        State that each output measures.
    found : Found
        By `search` of the same system and records.
    noise : ndarray, (q,), optional
        Standard deviations, where they are known.
    replicates : int
        Independent runs, which are pooled by their evidence; they tell the errors.
    solver, likelihood
        As of `identify`. By default, and with automatic steps, the steps are those that move no
        coordinate of the best model by .1 posterior sd.
    seed : int
        The same seed gives the same bytes, for any ``threads``.
    """
    begins = cut(system, records, found.path, found.models[0].coefficients)
    parts, samples, first = pieces(records, begins)
    initial = found.path[samples]
    prior = _prior(system, outputs, found, slabs, noise, initial, records)
    masks = np.array([model.support[prior.columns] for model in found.models])
    z = np.array([_coordinates(prior, model, found, noise, initial, first) for model in found.models])
    automatic = solver is None or solver.automatic
    target = trajectories(
        system, parts, outputs, prior, z[0], noise, solver, likelihood, threads
    )  # fmt: skip
    if automatic:
        best = _required(target.maxima(masks[:1], z[:1]))[0]
        target = refined(target, best)
    start = proposal_at_maxima(target, masks, z)
    generators = np.random.default_rng(seed).spawn(replicates)
    runs = [sampled(target, start, particles, rng) for rng in generators]
    return _pooled(target, runs, first, len(outputs) if noise is None else 0, noise)


def _prior(
    system: CandidateSystem,
    outputs: Sequence[str],
    found: Found,
    slabs: tuple[float, ...],
    noise: Array | None,
    initial: Array,
    records: Sequence[Record],
) -> SpikeAndSlabPrior:
    """Prior of the terms that may matter, and of initial states (R, n) about given ones."""
    in_models = np.max([model.support for model in found.models], axis=0)
    order = np.argsort(-(found.sampled_inclusion + in_models), kind="stable")[:MOST_TERMS]
    matter = in_models[order] | (found.sampled_inclusion[order] > SCREENED)
    columns = np.sort(order[matter])
    sd = found.noise if noise is None else noise
    relative = np.mean(sd / np.sqrt(np.nanmean(_outputs(records) ** 2, axis=0)))
    deviation = relative * np.sqrt(np.mean(found.path**2, axis=0))
    for state, value in zip(outputs, sd, strict=True):
        deviation[system.candidates.states.index(state)] = value
    centre = [np.log(found.noise)] if noise is None else []
    spread = [np.full(len(outputs), NOISE_SPREAD)] if noise is None else []
    return SpikeAndSlabPrior(
        supports=BetaBinomial(np.asarray(system.candidates.degrees)[system.places[:, 1]]),
        columns=columns,
        n_terms=len(system.coefficients),
        scale=found.slab[columns],
        slabs=tuple(slabs),
        signs=system.freedom.signs[columns],
        centre=np.concatenate([*centre, initial.ravel()]),
        spread=np.concatenate([*spread, np.tile(INITIAL_SPREAD * deviation, len(initial))]),
    )


def _outputs(records: Sequence[Record]) -> Array:
    return np.concatenate([record.y for record in records])


def _coordinates(
    prior: SpikeAndSlabPrior,
    model: FoundModel,
    found: Found,
    noise: Array | None,
    initial: Array,
    first: NDArray[np.int64],
) -> Array:
    """Coordinates (d,) of a model, with those initial states of its own that it has."""
    sd = [np.log(found.noise)] if noise is None else []
    begins = initial.copy()
    begins[first] = model.initial
    return np.concatenate([model.coefficients[prior.columns], *sd, begins.ravel()])


def _required(ends: Sequence[Quadratic | None]) -> list[Quadratic]:
    """Those that there are.

    Raises
    ------
    InputError
        If there is none.
    """
    found = [end for end in ends if end is not None]
    if not found:
        raise InputError(
            "the trajectory of every model that was found diverges: take method='search', a "
            "solver with more steps, or likelihood='filtering' where the trajectory is chaotic"
        )
    return found


def proposal_at_maxima(target: Trajectories, masks: Mask, z: Array) -> SupportProposal:
    """Proposal about the maxima of probable supports.

    Parameters
    ----------
    masks : ndarray of bool, (G, D)
        Supports to begin with; neighbours of the best are added as long as they are probable.
    z : ndarray, (G, d)
        Points near the maxima.
    """
    ends: dict[bytes, Quadratic] = {}
    scores: dict[bytes, float] = {}
    tried: set[bytes] = set()
    for _ in range(ROUNDS):
        tried |= {mask.tobytes() for mask in masks}
        for end in target.maxima(masks, z):
            score = None if end is None else _score(target, end, end.mask)
            if end is not None and score is not None:
                ends[end.mask.tobytes()], scores[end.mask.tobytes()] = end, score[0]
        _required(list(ends.values()))
        best = max(scores, key=lambda key: scores[key])
        near = _neighbours(target, ends[best], scores[best], tried)[: MOST_MODELS - len(ends)]
        if not near:
            break
        masks, z = np.array([mask for mask, _ in near]), np.array([point for _, point in near])
    anchor = ends[max(scores, key=lambda key: scores[key])]
    gaussians = Gaussians(
        {key: restricted(end, end.mask)[0] for key, end in ends.items()}, anchor
    )
    supports = np.array([ends[key].mask for key in scores])
    weights = flattened(softmax(list(scores.values())))
    return SupportProposal.of(supports, weights, gaussians, len(anchor.z))


def _neighbours(
    target: Trajectories, at: Quadratic, score: float, tried: set[bytes]
) -> list[tuple[Mask, Array]]:
    """Supports that differ in a term and may be probable, best first, with their maxima."""
    found = []
    for j in range(len(at.mask)):
        mask = at.mask.copy()
        mask[j] = not mask[j]
        if mask.tobytes() not in tried:
            scored = _score(target, at, mask)
            if scored is not None and scored[0] > score - LEAST_PROBABLE:
                found.append((*scored, mask))
    found.sort(key=lambda entry: -entry[0])
    return [(mask, point) for _, point, mask in found]


def _score(target: Trajectories, at: Quadratic, mask: Mask) -> tuple[float, Array] | None:
    """Log posterior of a support by an expansion, but for a constant, and its maximum (d,)."""
    try:
        gaussian, value = restricted(at, mask)
    except np.linalg.LinAlgError:
        return None
    z = np.zeros(len(at.z))
    z[active(mask, len(z))] = gaussian.mean
    total = value + float(target.prior.log_density(mask[None], z[None])[0])
    return (total, z) if np.isfinite(total) else None


def _pooled(
    target: Trajectories,
    runs: Sequence[Sampled],
    first: NDArray[np.int64],
    learned: int,
    noise: Array | None,
) -> SupportPosterior:
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
    models = _models(prior, runs, masks, z, weights, replicate, initial, evidences)
    total, error = _evidence(runs, evidences)
    ess = distinct_sample_size(z, np.log(np.maximum(weights, 1e-300)))
    rates = [rate for run in runs for rates in run.acceptance for rate in rates[:1]]
    k = max(run.pareto_k for run in runs)
    inclusion = weights @ masks
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


def _whole(prior: SpikeAndSlabPrior, values: NDArray[np.generic]) -> NDArray[np.generic]:
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
    prior: SpikeAndSlabPrior,
    runs: Sequence[Sampled],
    masks: Mask,
    z: Array,
    weights: Array,
    replicate: NDArray[np.int64],
    initial: Array,
    evidences: Array,
) -> tuple[SampledModel, ...]:
    total = float(np.logaddexp.reduce(evidences) - np.log(len(evidences)))
    found = []
    for mask, rows in by_support(masks):
        own = weights[rows]
        probability = float(own.sum())
        if probability < REPORTED:
            continue
        inside = own / probability
        mean, factor = weighted_moments(z[np.ix_(rows, np.flatnonzero(mask))], inside)
        log_prior = float(prior.log_probability(mask[None])[0])
        error = _model_error(own, replicate[rows], len(runs), probability)
        found.append(
            SampledModel(
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


def _model_error(
    own: Array, replicate: NDArray[np.int64], n_runs: int, probability: float
) -> float:
    """Standard error of a model's log evidence: within its draws, or between runs."""
    within = np.square(own).sum() / probability**2 - 1.0 / len(own)
    if n_runs == 1:
        return float(np.sqrt(max(within, 0.0)))
    parts = np.bincount(replicate, weights=own, minlength=n_runs) * n_runs / probability
    return float(parts.std(ddof=1) / np.sqrt(n_runs))


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
    here = prior.log_slab(masks, z)
    result = {}
    for factor in FACTORS:
        ratio = prior.log_slab(masks, z, factor) - here
        shares = weights * np.exp(ratio - ratio.max())
        result[factor] = _whole(prior, shares @ masks / shares.sum())
    return result


def _warnings(runs: Sequence[Sampled], ess: float) -> tuple[str, ...]:
    found = []
    if not all(run.independent for run in runs):
        k = max(run.pareto_k for run in runs)
        found.append(
            f"the Pareto k of the importance weights is {k:.2g}: the models' posteriors are far "
            "from Gaussian, the draws are those of the path and errors of the evidence are not to "
            "be trusted, use replicates=4 or more particles"
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
