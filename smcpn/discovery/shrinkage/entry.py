"""The posterior under a shrinkage prior, of whole trajectories that begin where a search ended.

Chaotic records are cut where their trajectory forgets its beginning: there an initial error grows
until the likelihood of the whole trajectory has a thousand maxima, none of which tells more than
the rounding of its initial state. Each piece is a record with an initial state of its own, as in
multiple shooting (Bock 1983): what is lost is only that one piece begins where the one before ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm

from smcpn.discovery.equations.system import CandidateSystem
from smcpn.discovery.results.models import DiscoveredModel, ShrunkPosterior
from smcpn.discovery.search.linearisation import LibraryRate
from smcpn.discovery.search.search import SearchResult
from smcpn.discovery.shrinkage.priors import Shrinkage
from smcpn.discovery.shrinkage.sampler import (
    NOISE_SHAPE,
    CoefficientPopulations,
    Point,
    ShrinkageRun,
)
from smcpn.model.record import Record, stated_outputs

Array = NDArray[np.float64]

GROWTH = 10.0
"""Growth of an initial error, in units of the states' rms, that a piece may have at its end."""
EARLY = 0.75
"""Share of what is left of a record before which it must have grown so far: what grows near the end
may be about to be undone."""
LEAST_SAMPLES = 20
"""Of a piece."""


def cut(
    system: CandidateSystem, records: Sequence[Record], path: Array, coefficients: Array
) -> list[NDArray[np.int64]]:
    """Return the first samples of the pieces of each record, 0 for the first.

    Growth that a later sample undoes, as within the period of an oscillation, does not count.

    ``path``, (T, n), is that of all records, one after the other.
    """
    rate, scale = LibraryRate(system), np.sqrt(np.mean(path**2, axis=0))
    scale = np.where(scale > 0.0, scale, 1.0)
    n, result, begin = path.shape[1], [], 0
    for record in records:
        x = path[begin : begin + len(record)]
        begin += len(record)
        values = (coefficients / rate.unit)[None]
        slopes = rate.with_derivatives(x[None], record.u, record.t, values)[1][0, :, :, :n]
        slopes = slopes * scale / scale[:, None]
        steps = np.asarray(expm(slopes[:-1] * np.diff(record.t)[:, None, None]), dtype=float)
        result.append(np.array(_begins(steps)))
    return result


def _begins(steps: Array) -> list[int]:
    """First samples of pieces, by the transitions (T - 1, n, n) between samples."""
    begins = [0]
    while len(steps) - begins[-1] >= 2 * LEAST_SAMPLES:
        growth = [1.0]
        product = np.eye(steps.shape[1])
        for step in steps[begins[-1] :]:
            product = step @ product
            growth.append(float(np.linalg.norm(product, 2)))
        lasting = np.minimum.accumulate(growth[::-1])[::-1]
        grown = np.flatnonzero(~(lasting <= GROWTH))
        if not len(grown) or grown[0] > EARLY * len(growth):
            break
        begins.append(begins[-1] + max(int(grown[0]), LEAST_SAMPLES))
    return begins


def pieces(
    records: Sequence[Record], begins: Sequence[NDArray[np.int64]]
) -> tuple[list[Record], NDArray[np.int64], NDArray[np.int64]]:
    """Cut records.

    Returned are also the first sample of each piece, in all records one after the other, and the
    pieces with which the records begin.
    """
    found: list[Record] = []
    samples, first, offset = [], [], 0
    for record, own in zip(records, begins, strict=True):
        ends = [*own[1:].tolist(), len(record)]
        first.append(len(found))
        found += [record[a:b] for a, b in zip(own.tolist(), ends, strict=True)]
        samples += (own + offset).tolist()
        offset += len(record)
    return found, np.array(samples), np.array(first)


KNOWN = 1e8
"""Shape of the gamma prior of 1 / sigma^2 where the noise is known."""
INITIAL_SPREAD = 100.0
"""Prior standard deviation of initial states about the search's, in units of the noise."""


class ShrinkagePosterior:
    """Draws of all coefficients, initial states and noise from their posterior, part by part.

    ``outputs`` names the state that each output measures; ``found`` is of a `Search` of the same
    system and records, whose best model is where the likelihood is linearised first; ``noise``,
    (q,), has standard deviations, where they are known: to four digits, for they are sampled. The
    options are those of `ShrinkageRun`.
    """

    def __init__(
        self,
        system: CandidateSystem,
        records: Sequence[Record],
        outputs: Sequence[str],
        found: SearchResult,
        prior: Shrinkage,
        *,
        noise: Array | None = None,
        replicates: int = 1,
        **options: Any,
    ) -> None:
        best = found.models[0]
        parts, samples, first = pieces(records, cut(system, records, found.path, best.coefficients))
        sd = found.noise if noise is None else noise
        known = stated_outputs(records) | (noise is not None)
        shape = np.where(known, KNOWN, NOISE_SHAPE)
        initial = found.path[samples]
        initial[first] = best.initial
        self._system, self._n_outputs = system, len(outputs)
        self._first = first
        self.run = ShrinkageRun(
            parts,
            system,
            outputs,
            prior,
            Point(best.coefficients, initial, sd),
            found.slab,
            spread=INITIAL_SPREAD * _state_deviations(system, records, outputs, found, sd),
            noise_prior=(shape, shape * sd**2),
            replicates=replicates,
            **options,
        )

    def result(self) -> ShrunkPosterior:
        """Return the posterior, at the end of the run."""
        return _reported(self.run.result(), self._system, self._n_outputs, self._first)


def _state_deviations(
    system: CandidateSystem,
    records: Sequence[Record],
    outputs: Sequence[str],
    found: SearchResult,
    noise: Array,
) -> Array:
    """Noise (q,) in the units of each state, (n,); of a hidden one in proportion to its rms."""
    y = np.concatenate([record.y for record in records])
    relative = np.mean(noise / np.sqrt(np.nanmean(y**2, axis=0)))
    deviation = relative * np.sqrt(np.mean(found.path**2, axis=0))
    for state, value in zip(outputs, noise, strict=True):
        deviation[system.candidates.states.index(state)] = value
    return deviation


def excluding_level(values: Array, weights: Array) -> Array:
    """Return the level of the widest equal-tailed credible interval without zero, (K,).

    That is 2 max(P(theta > 0), P(theta < 0)) - 1 of draws (N, K): 0 where a coefficient is as
    likely positive as negative, 1 where its sign is certain.
    """
    return np.abs(2.0 * (weights @ (values > 0.0)) - 1.0)


def _reported(
    found: CoefficientPopulations,
    system: CandidateSystem,
    n_outputs: int,
    first: NDArray[np.int64],
) -> ShrunkPosterior:
    k, n = len(system.coefficients), len(system.candidates.states)
    values, weights = found.values[:, :k], found.weights
    noise = found.values[:, k : k + n_outputs]
    scales = found.values.shape[1] - found.prior.n_scales
    initial = found.values[:, k + n_outputs : scales].reshape(len(weights), -1, n)[:, first]
    mean = weights @ values
    off = values - mean
    model = DiscoveredModel(
        names=system.coefficients,
        support=np.ones(k, dtype=bool),
        mean=mean,
        covariance=(off * weights[:, None]).T @ off,
        initial=np.tensordot(weights, initial, axes=1),
        log_evidence=found.log_evidence,
        log_prior=0.0,
        probability=1.0,
    )
    return ShrunkPosterior(
        coefficients=values,
        initial=initial,
        noise=noise,
        weights=weights,
        replicate=found.replicate,
        model=model,
        level=excluding_level(values, weights),
        shrinkage=found.shrinkage,
        log_evidence=found.log_evidence,
        log_evidence_se=found.log_evidence_se,
        ess=found.ess,
        solver=found.solver,
        likelihood=found.likelihood,
        warnings=found.warnings,
    )
