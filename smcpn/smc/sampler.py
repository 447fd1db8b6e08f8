"""What every path from prior to posterior has in common: a population, the bridge, the evidence."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from smcpn.errors import InputError
from smcpn.likelihood.contract import Likelihood
from smcpn.prior import Prior
from smcpn.smc.bridge import next_exponent
from smcpn.smc.cost import Cost, cost_so_far
from smcpn.smc.evidence import EvidenceEstimate, ancestral_variance, pooled, unrelated_share
from smcpn.smc.moves import IndependentMetropolis, MoveStrategy
from smcpn.smc.particles import ParticleSystem
from smcpn.smc.rejuvenation import Rejuvenation
from smcpn.smc.resampling import Resample, systematic
from smcpn.smc.target import Target
from smcpn.smc.weights import log_mean_exp


@dataclass(frozen=True)
class Settings:
    """How the sampler runs.

    Attributes
    ----------
    particles : int
        Number of particles N.
    ess : float
        Rejuvenate when the effective sample size falls below this share of N.
    block : int
        Most samples weighed in one call. Results do not depend on it.
    moves : MoveStrategy
    resample : callable
        One of `smcpn.smc.resampling`.
    """

    particles: int = 1000
    ess: float = 0.5
    block: int = 64
    moves: MoveStrategy = field(default_factory=IndependentMetropolis)
    resample: Resample = systematic

    def __post_init__(self) -> None:
        if self.particles < 10:
            raise InputError(f"particles is {self.particles}: use at least 10")
        if not 0.0 < self.ess < 1.0:
            raise InputError(f"ess is {self.ess}: choose a share between 0 and 1")
        if self.block < 1:
            raise InputError(f"block is {self.block}: choose 1 or more samples")


@dataclass(frozen=True)
class Progress:
    """Where a run stands; given to the ``progress`` callback."""

    sample: int
    n_samples: int
    ess: float
    log_evidence: float
    rejuvenations: tuple[Rejuvenation, ...]
    cost: Cost


class Sampler:
    """One population of particles on its way from the prior to the posterior.

    Attributes
    ----------
    system : ParticleSystem
        The posterior given the samples so far.
    sample : int
        Number of samples absorbed.
    rejuvenations : list of Rejuvenation
    ess, log_evidence_path : list of float
        After each sample: effective sample size before a rejuvenation, and log p(y_0, ..., y_t);
        nan where a path does not know it.
    """

    def __init__(
        self,
        prior: Prior,
        likelihood: Likelihood,
        settings: Settings,
        rng: np.random.Generator,
    ) -> None:
        self.prior, self.likelihood, self.settings, self._rng = prior, likelihood, settings, rng
        theta = prior.sample(rng, settings.particles)
        n = len(theta)
        self.system = ParticleSystem(
            theta=theta,
            log_weights=np.zeros(n),
            log_prior=prior.log_density(theta),
            log_likelihood=np.zeros(n),
            pending=np.zeros(n),
            state=likelihood.start(prior.natural(theta)),
            eve=np.arange(n),
            family=np.arange(n),
        )
        self.sample = 0
        self.rejuvenations: list[Rejuvenation] = []
        self.ess: list[float] = []
        self.log_evidence_path: list[float] = []
        self._log_evidence_at_resampling = 0.0
        self._begin_ancestry(0.0)

    @property
    def log_evidence(self) -> float:
        """Log p(y) of the samples absorbed so far."""
        return self._log_evidence_at_resampling + float(log_mean_exp(self.system.log_weights))

    @property
    def log_evidence_se(self) -> float:
        """Standard error of `log_evidence`."""
        return float(np.sqrt(self._evidence_variance()))

    @property
    def cost(self) -> Cost:
        """Work done so far, and what the next rejuvenation would add."""
        return cost_so_far(self.settings.particles, self.sample, self.rejuvenations)

    def _bridge(self, target: Target) -> None:
        """Absorb what is pending in as many parts as the particles need."""
        exponent = 0.0
        self._check_alive()
        while exponent < 1.0:
            exponent, log_weights = next_exponent(
                self.system.log_weights, self.system.pending, exponent, self._threshold
            )
            self.system = replace(self.system, log_weights=log_weights)
            if self.system.ess < self._threshold or exponent < 1.0:
                self._rejuvenate(replace(target, exponent=exponent))

    def _rejuvenate(self, target: Target) -> None:
        by_weights = EvidenceEstimate(self.log_evidence, self._evidence_variance())
        previous = self.rejuvenations[-1] if self.rejuvenations else None
        self.system, record = self.settings.moves.rejuvenate(
            self.system, target, self._rng, self.settings.resample, previous
        )
        self.rejuvenations.append(record)
        self._log_evidence_at_resampling = by_weights.log
        self._log_pair_ratios.append(record.log_pair_ratio)
        if np.isfinite(record.evidence.variance):
            both = pooled([by_weights, record.evidence])
            self._log_evidence_at_resampling = both.log
            self._begin_ancestry(both.variance)

    def _begin_ancestry(self, variance: float) -> None:
        """Count the error of the evidence from here, where its variance is known."""
        _, family = np.unique(self.system.theta[:, 0], return_inverse=True)
        self.system = replace(self.system, family=family)
        self._variance_at_start = variance
        self._unrelated_at_start = unrelated_share(self.system.weights, family)
        self._log_pair_ratios: list[float] = []

    def _evidence_variance(self) -> float:
        return self._variance_at_start + ancestral_variance(
            self.system.weights,
            self.system.family,
            self._unrelated_at_start,
            self._log_pair_ratios,
        )

    def _check_alive(self) -> None:
        alive = np.isfinite(self.system.log_weights) & np.isfinite(self.system.pending)
        if not alive.any():
            when = (
                "at every draw from the prior" if not self.rejuvenations else "for every particle"
            )
            raise InputError(
                f"the model's solution is NaN or infinite {when} at sample {self.sample}: "
                "check the model and units, narrow the prior, or raise steps"
            )

    @property
    def _threshold(self) -> float:
        return self.settings.ess * self.settings.particles

    def _progress(self) -> Progress:
        return Progress(
            sample=self.sample,
            n_samples=self.likelihood.n_samples,
            ess=self.system.ess,
            log_evidence=self.log_evidence,
            rejuvenations=tuple(self.rejuvenations),
            cost=self.cost,
        )
