"""The posterior of supports and coefficients by whole trajectories, from what a search found.

The terms of probable models share one compiled kernel (`trajectory`), in which a support is a mask.
Each of the probable models, and of their neighbours, is led to its maximum (`maxima`); these make a
proposal (`proposal`), from which tempered sequential Monte Carlo begins (`tempering`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from smcpn.discovery.equations.system import CandidateSystem
from smcpn.discovery.search.regression import SLABS, BetaBinomial
from smcpn.discovery.search.search import Found, FoundModel
from smcpn.discovery.supports.maxima import proposal_at_maxima, required
from smcpn.discovery.supports.pieces import cut, pieces
from smcpn.discovery.supports.posterior import SupportPosterior, pooled
from smcpn.discovery.supports.spike_and_slab import SpikeAndSlabPrior
from smcpn.discovery.supports.tempering import sampled
from smcpn.discovery.supports.trajectory import refined, trajectories
from smcpn.distributed.workers import Workers
from smcpn.model.record import Record
from smcpn.solver import Solver, check_solver

Array = NDArray[np.float64]

SCREENED = 1e-3
"""Sampled inclusion from which a term has a coordinate."""
MOST_TERMS = 60
"""Most terms that have one, those of the models found first."""
NOISE_SPREAD = 2.0
"""Prior standard deviation of the logarithm of the noise, about the search's."""
INITIAL_SPREAD = 100.0
"""Prior standard deviation of initial states about the search's, in units of the noise."""


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
    solver: Solver | str | None = None,
    likelihood: str | None = None,
    threads: int | None = None,
    workers: Workers | None = None,
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
        The same seed gives the same bytes, for any ``threads`` and ``workers``.
    """
    solver = None if isinstance(solver, str) and solver == "auto" else cast(Solver | None, solver)
    if solver is not None:
        check_solver(solver)
    begins = cut(system, records, found.path, found.models[0].coefficients)
    parts, samples, first = pieces(records, begins)
    initial = found.path[samples]
    prior = _prior(system, outputs, found, slabs, noise, initial, records)
    masks = np.array([model.support[prior.columns] for model in found.models])
    z = np.array(
        [_coordinates(prior, model, found, noise, initial, first) for model in found.models]
    )
    automatic = solver is None or solver.automatic
    target = trajectories(
        system, parts, outputs, prior, z[0], noise, solver, likelihood, threads, workers
    )  # fmt: skip
    if automatic:
        best = required(target.maxima(masks[:1], z[:1]))[0]
        target = refined(target, best)
    start = proposal_at_maxima(target, masks, z)
    generators = np.random.default_rng(seed).spawn(replicates)
    runs = [sampled(target, start, particles, rng) for rng in generators]
    return pooled(target, runs, first, len(outputs) if noise is None else 0, noise)


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
    deviation = state_deviations(system, records, outputs, found, sd)
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


def state_deviations(
    system: CandidateSystem,
    records: Sequence[Record],
    outputs: Sequence[str],
    found: Found,
    noise: Array,
) -> Array:
    """Noise (q,) in the units of each state, (n,); of a hidden one in proportion to its rms."""
    relative = np.mean(noise / np.sqrt(np.nanmean(_outputs(records) ** 2, axis=0)))
    deviation = relative * np.sqrt(np.mean(found.path**2, axis=0))
    for state, value in zip(outputs, noise, strict=True):
        deviation[system.candidates.states.index(state)] = value
    return deviation


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
