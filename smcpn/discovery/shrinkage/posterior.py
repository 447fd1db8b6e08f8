"""Posterior of all coefficients under a prior that shrinks them, as a discovery returns it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from smcpn.discovery.results.models import DiscoveredModel
from smcpn.smc.resampling import systematic
from smcpn.solver import Solver

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ShrunkPosterior:
    """Weighted draws of coefficients, initial states and noise, and what they tell.

    Attributes
    ----------
    coefficients : ndarray, (N, K)
    initial : ndarray, (N, R, n)
        States at the first samples of the records.
    noise : ndarray, (N, q)
        Standard deviations.
    weights : ndarray, (N,)
        They sum to one.
    replicate : ndarray of int, (N,)
    model : DiscoveredModel
        All coefficients, with their means and covariance.
    level : ndarray, (K,)
        Of the widest equal-tailed credible interval of each coefficient without zero.
    shrinkage : ndarray, (K,)
        Share of the prior variance that is left given the data, see `ShrunkSampler`.
    log_evidence, log_evidence_se : float
    ess : float
        Effective sample size, where copies count once.
    solver : Solver
    likelihood : str
    warnings : tuple of str
    """

    coefficients: Array = field(repr=False)
    initial: Array = field(repr=False)
    noise: Array = field(repr=False)
    weights: Array = field(repr=False)
    replicate: NDArray[np.int64] = field(repr=False)
    model: DiscoveredModel
    level: Array
    shrinkage: Array
    log_evidence: float
    log_evidence_se: float
    ess: float
    solver: Solver
    likelihood: str
    warnings: tuple[str, ...]

    def chosen(self, n: int, seed: int) -> NDArray[np.int64]:
        """Draw numbers (n,) of draws by their weights."""
        return systematic(self.weights, np.random.default_rng(seed), n)
