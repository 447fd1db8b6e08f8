"""IBIS: iterated batch importance sampling over the samples of a record (Chopin 2002)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError
from smcpn.likelihood.contract import Likelihood
from smcpn.prior import Prior
from smcpn.smc.bridge import next_exponent
from smcpn.smc.moves import MoveSettings, Rejuvenation, rejuvenate
from smcpn.smc.particles import ParticleSystem
from smcpn.smc.target import Target, finite_or_excluded
from smcpn.smc.weights import ess_and_log_mean, log_mean_exp

Array = NDArray[np.float64]

FIRST_ACCEPTANCE = 0.6
"""Acceptance assumed before the first rejuvenation."""
SMALL_BLOCK = 4
"""Samples looked at after a rejuvenation; doubled while there is no further one."""


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
    moves : MoveSettings
    """

    particles: int = 1000
    ess: float = 0.5
    block: int = 64
    moves: MoveSettings = field(default_factory=MoveSettings)

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


class Ibis:
    """A sequential sampler: it holds one particle system and absorbs samples.

    Attributes
    ----------
    system : ParticleSystem
        The posterior given the samples so far.
    sample : int
        Number of samples absorbed.
    ess, log_evidence_path : list of float
        After each sample: effective sample size before a rejuvenation, and log p(y_0, ..., y_t).
    rejuvenations : list of Rejuvenation
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
        )
        self.sample = 0
        self.ess: list[float] = []
        self.log_evidence_path: list[float] = []
        self.rejuvenations: list[Rejuvenation] = []
        self._log_evidence_at_resampling = 0.0

    @property
    def log_evidence(self) -> float:
        """Log p(y) of the samples absorbed so far."""
        return self._log_evidence_at_resampling + float(log_mean_exp(self.system.log_weights))

    def run(
        self, last: int | None = None, progress: Callable[[Progress], None] | None = None
    ) -> None:
        """Absorb the samples up to ``last`` (all, by default)."""
        last = self.likelihood.n_samples if last is None else last
        block = min(SMALL_BLOCK, self.settings.block)
        while self.sample < last:
            before = len(self.rejuvenations)
            self._absorb_block(min(self.sample + block, last))
            calm = len(self.rejuvenations) == before
            block = min(2 * block if calm else SMALL_BLOCK, self.settings.block)
            if progress is not None:
                progress(self._progress())

    def _absorb_block(self, end: int) -> None:
        """Weigh the samples up to ``end``, or up to the first that calls for a rejuvenation."""
        system, begin = self.system, self.sample
        values = self.prior.natural(system.theta)
        state, increments = self.likelihood.advance(values, system.state, begin, end)
        increments = finite_or_excluded(increments)
        # Added in the order of time, row by row: the rounding does not see the blocks.
        weights = np.add.accumulate(np.vstack([system.log_weights, increments]))
        ess, log_means = ess_and_log_mean(weights[1:])
        low = np.flatnonzero(ess < self._threshold)
        calm = int(low[0]) if len(low) else end - begin
        likelihood = np.add.reduce(np.vstack([system.log_likelihood, increments[:calm]]))
        self.ess += ess[: calm + 1].tolist()
        evidence = self._log_evidence_at_resampling + log_means[:calm]
        self.log_evidence_path += evidence.tolist()
        self.sample = begin + calm
        whole = begin + calm == end
        if not whole:
            crossing = begin + calm + 1
            if crossing < end:
                state, _ = self.likelihood.advance(values, system.state, begin, crossing)
        self.system = replace(
            system,
            log_weights=weights[calm],
            log_likelihood=likelihood,
            pending=np.zeros(len(system)) if whole else increments[calm],
            state=state,
        )
        if not whole:
            self._absorb_pending()

    def _absorb_pending(self) -> None:
        """Take the pending sample in, in as many parts as the particles need."""
        exponent = 0.0
        self._check_alive()
        while exponent < 1.0:
            exponent, log_weights = next_exponent(
                self.system.log_weights, self.system.pending, exponent, self._threshold
            )
            self.system = replace(self.system, log_weights=log_weights)
            if self.system.ess < self._threshold or exponent < 1.0:
                self._rejuvenate(exponent)
        self.log_evidence_path.append(self.log_evidence)
        self.system = replace(
            self.system,
            log_likelihood=self.system.log_likelihood + self.system.pending,
            pending=np.zeros(len(self.system)),
        )
        self.sample += 1

    def _rejuvenate(self, exponent: float) -> None:
        self._log_evidence_at_resampling = self.log_evidence
        previous = self.rejuvenations[-1].acceptance if self.rejuvenations else FIRST_ACCEPTANCE
        self.system, record = rejuvenate(
            self.system,
            Target(self.prior, self.likelihood, self.sample, exponent),
            self._rng,
            self.settings.moves,
            previous,
        )
        self.rejuvenations.append(record)

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
        )
