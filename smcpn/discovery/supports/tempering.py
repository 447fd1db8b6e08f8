"""Tempered sequential Monte Carlo over supports and their coordinates.

Particles come from a proposal q near the posterior, and are weighed and moved along
q^(1 - b) (prior x likelihood)^b, with exponents b that keep the effective sample size. At the end
the proposal is fitted to them, and draws from it are weighed: they are independent, and their mean
weight is an unbiased estimate of the evidence. Where the weights of draws from q, or from q fitted
to such draws, can be trusted there is no need of the path.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from smcpn.discovery.supports.moves import Cloud, Path, independent, jumped, walked
from smcpn.discovery.supports.proposal import SupportProposal, flattened
from smcpn.discovery.supports.spike_and_slab import Mask
from smcpn.discovery.supports.trajectory import Trajectories
from smcpn.errors import InputError
from smcpn.smc.particles import effective_sample_size, log_mean_exp, next_exponent, normalise
from smcpn.smc.psis import LIMIT, largest_k, pareto_k
from smcpn.smc.resampling import systematic
from smcpn.status import tell

Array = NDArray[np.float64]

SHARE = 0.5
"""Effective share of the particles that is kept."""
ROUNDS = 3
"""Of an independent and a walking move after each resampling, and one that jumps before."""
MORE = 4
"""Times as many draws for a fit where the first are below that."""
LEAST_SHARE = 0.05
"""Effective share of independent draws at which they need no path."""
ENOUGH = 0.15
"""Effective share of draws from the proposal fitted to the path's particles that are better."""
MOST_EXPONENTS = 60


class NoDrawError(InputError):
    """No draw near the models of a search has a finite likelihood of whole trajectories."""


@dataclass(frozen=True)
class Sampled:
    """Weighted draws of one run.

    Attributes
    ----------
    masks : ndarray of bool, (N, D)
    z : ndarray, (N, d)
    log_weights : ndarray, (N,)
        Their mean is the evidence.
    independent : bool
        Whether they are independent draws from a proposal, or particles of the path.
    exponents : tuple of float
        Of the path; none where the first draws were good.
    acceptance : tuple of float
        Share of accepted independent, jumping and walking moves, after each of these.
    pareto_k : float
        Of the weights of independent draws.
    """

    masks: Mask
    z: Array
    log_weights: Array
    independent: bool
    exponents: tuple[float, ...]
    acceptance: tuple[tuple[float, float, float], ...]
    pareto_k: float

    @property
    def ess(self) -> float:
        """Effective sample size."""
        return float(effective_sample_size(self.log_weights))

    @property
    def trusted(self) -> bool:
        """Whether the weights are those of draws that are enough for their tail."""
        return self.independent and self.pareto_k < largest_k(len(self.z))

    @property
    def log_evidence(self) -> float:
        """Log of the mean weight."""
        return float(log_mean_exp(self.log_weights))


def sampled(
    target: Trajectories, start: SupportProposal, size: int, rng: np.random.Generator
) -> Sampled:
    """Draw from the posterior of supports and coordinates.

    Raises
    ------
    NoDrawError
        If no draw has a likelihood.
    """
    path = Path(start, target)
    first = _weighed(path, start, size, rng)
    if first.ess < SHARE * size and first.pareto_k < LIMIT:
        first = _refitted(path, start, first, rng)
    if first.ess >= LEAST_SHARE * size and first.trusted:
        return first
    end, log_evidence, exponents, acceptance = _along(path, path.drawn(size, rng), rng)
    weights = np.full(size, 1.0 / size)
    last = _weighed(path, start.fitted(end.masks, end.z, weights, flattened), size, rng)
    if last.trusted and last.ess >= ENOUGH * size:
        return replace(last, exponents=exponents, acceptance=acceptance)
    log_weights = np.full(size, log_evidence)
    return Sampled(end.masks, end.z, log_weights, False, exponents, acceptance, last.pareto_k)


def _refitted(
    path: Path, start: SupportProposal, first: Sampled, rng: np.random.Generator
) -> Sampled:
    """Draws from the proposal fitted to more of its own, if these are better than the first."""
    size = len(first.z)
    many = _weighed(path, start, MORE * size, rng)
    fitted = start.fitted(many.masks, many.z, normalise(many.log_weights), flattened)
    again = _weighed(path, fitted, size, rng)
    return again if again.trusted and again.ess > first.ess else first


def _weighed(path: Path, proposal: SupportProposal, size: int, rng: np.random.Generator) -> Sampled:
    """Importance sample from a proposal."""
    tell(f"trajectories of {size} draws")
    masks, z = proposal.sample(rng, size)
    log_density = path.target.log_density(masks, z)
    if not np.isfinite(log_density).any():
        raise NoDrawError(
            "no draw near the models that were found has a finite likelihood: give a solver with "
            "more steps, or likelihood='filtering' where the trajectory is chaotic"
        )
    log_weights = log_density - proposal.log_density(masks, z)
    return Sampled(masks, z, log_weights, True, (), (), pareto_k(log_weights))


def _along(
    path: Path, cloud: Cloud, rng: np.random.Generator
) -> tuple[Cloud, float, tuple[float, ...], tuple[tuple[float, float, float], ...]]:
    """Carry particles to exponent 1; with the log evidence, exponents and acceptances."""
    size = len(cloud.z)
    exponents: list[float] = []
    acceptance: list[tuple[float, float, float]] = []
    log_evidence, exponent = 0.0, 0.0
    while exponent < 1.0 and len(exponents) < MOST_EXPONENTS:
        exponent, log_weights = next_exponent(
            np.zeros(size), cloud.log_ratio, exponent, SHARE * size
        )
        tell(f"trajectories: {len(exponents)} moves, power of the likelihood {exponent:.3g}")
        log_evidence += float(log_mean_exp(log_weights))
        weights = normalise(log_weights)
        fitted = path.start.fitted(cloud.masks, cloud.z, weights, flattened)
        cloud = cloud.take(systematic(weights, rng))
        cloud, rates = _moved(replace(path, exponent=exponent), cloud, fitted, rng)
        exponents.append(exponent)
        acceptance.append(rates)
    return cloud, log_evidence, tuple(exponents), tuple(acceptance)


def _moved(
    path: Path, cloud: Cloud, fitted: SupportProposal, rng: np.random.Generator
) -> tuple[Cloud, tuple[float, float, float]]:
    cloud, jumps = jumped(path, cloud, fitted, rng)
    rates = np.zeros((ROUNDS, 2))
    for k in range(ROUNDS):
        cloud, rates[k, 0] = independent(path, cloud, fitted, rng)
        cloud, rates[k, 1] = walked(path, cloud, fitted.gaussians, rng)
    one, two = rates.mean(axis=0).tolist()
    return cloud, (one, jumps, two)
