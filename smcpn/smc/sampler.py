"""What every path from prior to posterior has in common: a population, the bridge, the evidence."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError
from smcpn.likelihood.contract import Likelihood
from smcpn.model.prior import Prior
from smcpn.smc.evidence import EvidenceEstimate, ancestral_variance, pooled, unrelated_share
from smcpn.smc.moves import IndependentMetropolis, MoveStrategy, Rejuvenation
from smcpn.smc.particles import ParticleSystem, effective_sample_size, log_mean_exp
from smcpn.smc.resampling import Resample, systematic
from smcpn.smc.target import Start, Target, tempered
from smcpn.smc.trace import Trace

# ---- Across one informative sample in parts, so that it never kills the whole population.
#
# With small noise a single observation can leave one particle alive. Its
# likelihood is raised to an exponent that keeps the effective sample size, the particles are
# rejuvenated there, and so on until the exponent is one.

Array = NDArray[np.float64]

WHOLE = 0.8
"""A sample is assimilated whole while the ESS stays above this share of the threshold."""
PRECISION = 1e-8
"""Bisection ends at this relative width of the step."""
BISECTIONS = 200


def next_exponent(
    log_weights: Array, pending: Array, exponent: float, threshold: float
) -> tuple[float, Array]:
    """Choose how much more of the pending sample the weights can bear.

    Parameters
    ----------
    log_weights, pending : ndarray, (N,)
    exponent : float
        How much of the sample is assimilated already.
    threshold : float
        Effective sample size to keep.

    Returns
    -------
    exponent : float
        1 if the rest can be assimilated at once; otherwise found by bisection on the ESS of the
        *cumulative* weights. It may stay where it is when leaving out the diverged particles
        already takes the ESS below the threshold.
    log_weights : ndarray, (N,)
        The weights at that exponent.
    """

    def weights_at(value: float) -> Array:
        return log_weights + tempered(pending, value - exponent)

    if effective_sample_size(weights_at(1.0)) >= WHOLE * threshold:
        return 1.0, weights_at(1.0)
    low, high = exponent, 1.0
    for _ in range(BISECTIONS):
        if high - low <= PRECISION * (low - exponent):
            break
        middle = 0.5 * (low + high)
        if effective_sample_size(weights_at(middle)) < threshold:
            high = middle
        else:
            low = middle
    excludes = np.isfinite(log_weights) & (pending == -np.inf)
    if low == exponent and not excludes.any():
        low = high
    return low, weights_at(low)


# ---- What a run has cost, and what the next rejuvenation would.


@dataclass(frozen=True)
class Cost:
    """Work in weighed samples: one sample of the record, for one parameter vector.

    Evaluations are N T + the sum over rejuvenations of K N t. Rejuvenations come at about
    geometric times, so a whole run costs some 20 N T; in a stream the next one grows with t.

    Attributes
    ----------
    advanced : int
        Weighed once each, as the record went by.
    browsed : int
        Weighed again by rejuvenations.
    next_browse : int
        What a rejuvenation now would weigh, with as many moves as the last one.
    next_seconds : float
        And how long it would take, at the speed of the last one; nan before the first.
    """

    advanced: int
    browsed: int
    next_browse: int
    next_seconds: float

    @property
    def evaluations(self) -> int:
        """All samples weighed so far."""
        return self.advanced + self.browsed


def cost_so_far(particles: int, sample: int, rejuvenations: Sequence[Rejuvenation]) -> Cost:
    """Account for a run of ``particles`` particles that has assimilated ``sample`` samples."""
    last = rejuvenations[-1] if rejuvenations else None
    following = (last.evaluations if last else particles) * (sample + 1)
    seconds = last.seconds * following / last.browsed if last and last.browsed else float("nan")
    return Cost(
        advanced=particles * sample,
        browsed=sum(record.browsed for record in rejuvenations),
        next_browse=following,
        next_seconds=seconds,
    )


_log = logging.getLogger(__name__)


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
    start : Start, optional
        A density near the posterior to begin at, in place of the prior; `Tempering` can.
    """

    particles: int = 1000
    ess: float = 0.5
    block: int = 64
    moves: MoveStrategy = field(default_factory=IndependentMetropolis)
    resample: Resample = systematic
    start: Start | None = None

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


@dataclass(frozen=True)
class Snapshot:
    """All that a sampler is at a moment, but for what it was given: prior, likelihood, settings.

    Attributes
    ----------
    system : ParticleSystem
    sample : int
        Number of samples assimilated whole.
    exponent : float or None
        How much of the pending sample is assimilated, while a bridge is being crossed.
    trace : Trace
    rejuvenations : tuple of Rejuvenation
    ess_before : float
        Effective sample size at the pending sample, before the bridge.
    log_evidence_at_resampling, variance_at_start, unrelated_at_start : float
        The account of the evidence, see `smcpn.smc.evidence`.
    log_pair_ratios : tuple of float
    factors : tuple of float
        Factors on the diffusion so far, on a path that lowers it.
    random_state : dict
        Of the bit generator, as numpy gives it.
    """

    system: ParticleSystem
    sample: int
    exponent: float | None
    trace: Trace
    rejuvenations: tuple[Rejuvenation, ...]
    ess_before: float
    log_evidence_at_resampling: float
    variance_at_start: float
    unrelated_at_start: float
    log_pair_ratios: tuple[float, ...]
    factors: tuple[float, ...]
    random_state: dict[str, Any]


class Sampler(ABC):
    """One population of particles on its way from the prior, or another start, to the posterior.

    It goes in parts: a block of samples weighed, or one exponent of a bridge with its
    rejuvenation. Between parts a `snapshot` holds all there is.

    Attributes
    ----------
    system : ParticleSystem
        The posterior given the samples so far.
    sample : int
        Number of samples assimilated.
    exponent : float or None
        How much of the pending sample is assimilated, while a bridge is being crossed.
    factors : list of float
        Factors on the diffusion so far, on a path that lowers it.
    rejuvenations : list of Rejuvenation
    trace : Trace
        Effective sample size before a rejuvenation and log p(y_0, ..., y_t), after each sample.
    """

    takes_start: ClassVar[bool] = False
    """Whether it can begin elsewhere than at the prior."""

    def __init__(
        self,
        prior: Prior,
        likelihood: Likelihood,
        settings: Settings,
        rng: np.random.Generator,
    ) -> None:
        if settings.start is not None and not self.takes_start:
            raise InputError(
                "start is given, but only method='tempering' can begin elsewhere than at the "
                "prior: choose that method, or leave start out"
            )
        self.prior, self.likelihood, self.settings, self._rng = prior, likelihood, settings, rng
        begin: Start = prior if settings.start is None else settings.start
        theta = begin.sample(rng, settings.particles)
        n = len(theta)
        self.system = ParticleSystem(
            theta=theta,
            log_weights=np.zeros(n),
            log_prior=begin.log_density(theta),
            log_likelihood=np.zeros(n),
            pending=np.zeros(n),
            state=likelihood.start(prior.natural(theta)),
            ancestor=np.arange(n),
            family=np.arange(n),
        )
        self.sample = 0
        self.exponent: float | None = None
        self.factors: list[float] = []
        self.rejuvenations: list[Rejuvenation] = []
        self.trace = Trace.empty()
        self._ess_before = float("nan")
        self._log_evidence_at_resampling = 0.0
        self._begin_ancestry(0.0)

    @classmethod
    def resumed(
        cls, prior: Prior, likelihood: Likelihood, settings: Settings, snapshot: Snapshot
    ) -> Self:
        """Return the sampler that `snapshot` was taken of; it goes on to the same bytes."""
        sampler = cls.__new__(cls)
        sampler.prior, sampler.likelihood, sampler.settings = prior, likelihood, settings
        bits = getattr(np.random, snapshot.random_state["bit_generator"])()
        bits.state = snapshot.random_state
        sampler._rng = np.random.Generator(bits)
        sampler.system, sampler.sample = snapshot.system, snapshot.sample
        sampler.exponent, sampler.trace = snapshot.exponent, snapshot.trace
        sampler.rejuvenations = list(snapshot.rejuvenations)
        sampler._ess_before = snapshot.ess_before
        sampler._log_evidence_at_resampling = snapshot.log_evidence_at_resampling
        sampler._variance_at_start = snapshot.variance_at_start
        sampler._unrelated_at_start = snapshot.unrelated_at_start
        sampler._log_pair_ratios = list(snapshot.log_pair_ratios)
        sampler.factors = list(snapshot.factors)
        return sampler

    def snapshot(self) -> Snapshot:
        """Take what is needed to go on from here; nothing in it changes later."""
        return Snapshot(
            system=self.system,
            sample=self.sample,
            exponent=self.exponent,
            trace=self.trace,
            rejuvenations=tuple(self.rejuvenations),
            ess_before=self._ess_before,
            log_evidence_at_resampling=self._log_evidence_at_resampling,
            variance_at_start=self._variance_at_start,
            unrelated_at_start=self._unrelated_at_start,
            log_pair_ratios=tuple(self._log_pair_ratios),
            factors=tuple(self.factors),
            random_state=dict(self._rng.bit_generator.state),
        )

    @abstractmethod
    def advance(self, last: int) -> None:
        """Do the next part on the way to sample ``last``."""

    @abstractmethod
    def recomputed(self, index: Any) -> tuple[Array, Array, Array]:
        """Weigh particles again from the first sample on.

        Returns
        -------
        state : ndarray, (k, n)
        log_likelihood, pending : ndarray, (n,)
        """

    def reweigh(self) -> None:
        """Go on with a changed likelihood: the weights make up for the difference.

        The input near the end of a record changes, for instance, when more of it becomes known.
        """
        state, log_likelihood, pending = self.recomputed(slice(None))
        system, exponent = self.system, self.exponent or 0.0
        alive = np.isfinite(system.log_weights)
        with np.errstate(invalid="ignore"):
            change = log_likelihood - system.log_likelihood
            change += tempered(pending, exponent) - tempered(system.pending, exponent)
        self.system = replace(
            system,
            log_weights=np.where(alive, system.log_weights + change, -np.inf),
            log_likelihood=log_likelihood,
            pending=pending,
            state=state,
        )

    def run(
        self, last: int | None = None, progress: Callable[[Progress], None] | None = None
    ) -> None:
        """Assimilate the samples up to ``last`` (all, by default)."""
        last = self.likelihood.n_samples if last is None else last
        while self.sample < last:
            self.advance(last)
            if progress is not None:
                progress(self.progress())

    @property
    def log_evidence(self) -> float:
        """Log p(y) of the samples assimilated so far."""
        return self._log_evidence_at_resampling + float(log_mean_exp(self.system.log_weights))

    @property
    def log_evidence_se(self) -> float:
        """Standard error of `log_evidence`."""
        return float(np.sqrt(self._evidence_variance()))

    @property
    def cost(self) -> Cost:
        """Work done so far, and what the next rejuvenation would add."""
        return cost_so_far(self.settings.particles, self.sample, self.rejuvenations)

    def _begin_bridge(self) -> None:
        """Have what is pending assimilated in as many parts as the particles need."""
        self._check_alive()
        self.exponent = 0.0

    def _cross(self, target: Target) -> bool:
        """Assimilate one more part of what is pending; tell whether that was the last."""
        assert self.exponent is not None
        exponent, log_weights = next_exponent(
            self.system.log_weights, self.system.pending, self.exponent, self._threshold
        )
        self.system = replace(self.system, log_weights=log_weights)
        if self.system.ess < self._threshold or exponent < 1.0:
            self._rejuvenate(replace(target, exponent=exponent))
        whole = exponent >= 1.0
        self.exponent = None if whole else exponent
        return whole

    def _rejuvenate(self, target: Target) -> None:
        by_weights = EvidenceEstimate(self.log_evidence, self._evidence_variance())
        previous = self.rejuvenations[-1] if self.rejuvenations else None
        self.system, record = self.settings.moves.rejuvenate(
            self.system, target, self._rng, self.settings.resample, previous
        )
        self.rejuvenations.append(record)
        _log.info(
            "rejuvenation %d at sample %d: acceptance %.2f, moves %d",
            len(self.rejuvenations), self.sample, record.acceptance, record.moves,
        )  # fmt: skip
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
            begin = "prior" if self.settings.start is None else "start"
            when = "for every particle" if self.rejuvenations else f"at every draw from the {begin}"
            raise InputError(
                f"the model's solution is NaN or infinite {when} at sample {self.sample}: "
                "check the model and units, narrow the prior, or raise steps"
            )

    @property
    def _threshold(self) -> float:
        return self.settings.ess * self.settings.particles

    def progress(self) -> Progress:
        """Where the run stands."""
        return Progress(
            sample=self.sample,
            n_samples=self.likelihood.n_samples,
            ess=self.system.ess,
            log_evidence=self.log_evidence,
            rejuvenations=tuple(self.rejuvenations),
            cost=self.cost,
        )
