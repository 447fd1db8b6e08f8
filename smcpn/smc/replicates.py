"""Independent populations taken together: the honest error of a Monte Carlo method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smcpn.smc.diagnostics import concerns
from smcpn.smc.engine import Ibis
from smcpn.smc.evidence import combined_log_evidence, r_hat
from smcpn.smc.proposals import weighted_moments
from smcpn.smc.rejuvenation import Rejuvenation
from smcpn.smc.tempering import Tempering

Array = NDArray[np.float64]

HIGH_R_HAT = 1.05
"""Vehtari et al. (2021) ask for 1.01 of chains; populations of 1000 draws differ by more."""


@dataclass(frozen=True)
class Populations:
    """R populations of N particles as one weighted sample.

    Attributes
    ----------
    theta : ndarray, (R N, d)
    log_weights : ndarray, (R N,)
        Each population counts in proportion to its evidence: the mixture is then consistent for
        the posterior even where some populations missed a mode.
    log_likelihood : ndarray, (R N,)
    eve : ndarray, (R N,)
    replicate : ndarray, (R N,)
        Number of the population of each particle.
    log_evidence, log_evidence_se : float
        Of the mean evidence. The error comes from the spread of the populations, or from the
        ancestry where there is one only.
    log_evidences : ndarray, (R,)
    path_samples : ndarray, (K,)
        Numbers of samples absorbed at which the paths are known, see `Trace`.
    ess_path, log_evidence_path : ndarray, (K,)
    rejuvenations : tuple of Rejuvenation
        Of all populations, one after the other.
    r_hat : ndarray, (d,)
        Potential scale reduction in unconstrained coordinates; nan for one population.
    concerns : tuple of str
        What deserves a second look, one sentence of each kind.
    """

    theta: Array
    log_weights: Array
    log_likelihood: Array
    eve: NDArray[np.int64]
    replicate: NDArray[np.int64]
    log_evidence: float
    log_evidence_se: float
    log_evidences: Array
    path_samples: NDArray[np.int64]
    ess_path: Array
    log_evidence_path: Array
    rejuvenations: tuple[Rejuvenation, ...]
    r_hat: Array
    concerns: tuple[str, ...]


def combine(samplers: Sequence[Ibis | Tempering]) -> Populations:
    """Combine finished samplers of the same problem and number of particles."""
    systems = [sampler.system for sampler in samplers]
    log_evidences = np.array([sampler.log_evidence for sampler in samplers])
    n, d = systems[0].theta.shape
    paths = np.array([sampler.trace.log_evidence for sampler in samplers])
    if len(samplers) == 1:
        log_weights = systems[0].log_weights
        log_evidence, error = log_evidences[0], samplers[0].log_evidence_se
        path, scale = paths[0], np.full(d, np.nan)
    else:
        with np.errstate(divide="ignore"):
            logs = [np.log(n * system.weights) for system in systems]
        log_weights = np.concatenate(
            [own + z for own, z in zip(logs, log_evidences - log_evidences.max(), strict=True)]
        )
        log_evidence, error = combined_log_evidence(log_evidences)
        path, _ = combined_log_evidence(paths)
        moments = [weighted_moments(system.theta, system.weights) for system in systems]
        means = np.array([mean for mean, _ in moments])
        variances = np.array([np.square(factor).sum(axis=1) for _, factor in moments])
        scale = r_hat(means, variances, n)
    return Populations(
        theta=np.concatenate([system.theta for system in systems]),
        log_weights=log_weights,
        log_likelihood=np.concatenate([system.log_likelihood for system in systems]),
        eve=np.concatenate([system.eve + r * n for r, system in enumerate(systems)]),
        replicate=np.repeat(np.arange(len(systems)), n),
        log_evidence=float(log_evidence),
        log_evidence_se=float(error),
        log_evidences=log_evidences,
        path_samples=samplers[0].trace.samples,
        ess_path=np.sum([sampler.trace.ess for sampler in samplers], axis=0),
        log_evidence_path=np.asarray(path),
        rejuvenations=tuple(r for sampler in samplers for r in sampler.rejuvenations),
        r_hat=scale,
        concerns=tuple(_concerns(samplers, scale).values()),
    )


def _concerns(samplers: Sequence[Ibis | Tempering], scale: Array) -> dict[str, str]:
    found: dict[str, str] = {}
    for sampler in samplers:
        found = concerns(sampler.rejuvenations) | found
    if np.nanmax(scale, initial=0.0) > HIGH_R_HAT:
        found["r_hat"] = (
            f"R-hat reaches {np.nanmax(scale):.2f}: the populations disagree, use more particles"
        )
    return found
