"""Populations that take one sample at a time, at the least cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from smcpn.likelihood.growing import GrowingLikelihood
from smcpn.prior import Prior
from smcpn.smc.engine import Ibis
from smcpn.smc.particles import ParticleSystem
from smcpn.smc.sampler import Snapshot
from smcpn.smc.target import finite_or_excluded

Array = NDArray[np.float64]

TRACED = 64
"""Samples whose effective sample size and evidence are added to the trace together."""


class Weighed:
    """What one sample does to the weights of a population.

    Attributes
    ----------
    system : ParticleSystem
        With the sample absorbed whole.
    ess : float
    log_mean : float
        Log of the mean weight.
    """

    __slots__ = ("ess", "log_mean", "system")

    def __init__(self, system: ParticleSystem, ess: float, log_mean: float) -> None:
        self.system, self.ess, self.log_mean = system, ess, log_mean


class Weigher:
    """Weighs one sample after the other; the parameters are prepared once."""

    def __init__(self, prior: Prior, likelihood: GrowingLikelihood) -> None:
        self._prior, self._likelihood = prior, likelihood
        self._theta, self.columns = np.empty(0), np.empty(0)

    def prepare(self, system: ParticleSystem) -> None:
        """Have the parameters of a population at hand."""
        if system.theta is not self._theta:
            self._theta = system.theta
            self.columns = self._likelihood.columns(self._prior.natural(system.theta))

    def __call__(self, system: ParticleSystem, sample: int) -> Weighed:
        """Absorb a sample: the arithmetic of `Ibis` for a block of one."""
        self.prepare(system)
        state, increment = self._likelihood.weigh(self.columns, system.state, sample)
        if not np.isfinite(increment.sum()):
            increment = finite_or_excluded(increment)
        log_weights = system.log_weights + increment
        top = log_weights.max()
        if not np.isfinite(top):
            top = 0.0
        weights = np.exp(log_weights - top)
        total = weights.sum()
        squares = np.einsum("...i,...i->...", weights, weights)
        with np.errstate(divide="ignore"):
            log_mean = np.log(total / len(weights)) + top
        ess = float(total**2 / (squares if squares > 0 else 1.0))
        moved = ParticleSystem(
            theta=system.theta,
            log_weights=log_weights,
            log_prior=system.log_prior,
            log_likelihood=system.log_likelihood + increment,
            pending=system.pending,
            state=state,
            eve=system.eve,
            family=system.family,
        )
        return Weighed(moved, ess, float(log_mean))


class StreamIbis(Ibis):
    """`Ibis` that also absorbs single samples, as long as they call for no rejuvenation.

    `absorb` and `advance` make the same particle system, to the byte.
    """

    likelihood: GrowingLikelihood
    _recent: list[tuple[float, float]]
    _weigher: Weigher | None = None
    last_ess = float("nan")

    def absorb(self) -> bool:
        """Absorb the next sample; where it calls for a rejuvenation change nothing, False."""
        if self._weigher is None:
            self._weigher, self._recent = Weigher(self.prior, self.likelihood), []
        weighed = self._weigher(self.system, self.sample)
        if weighed.ess < self._threshold:
            return False
        self.system, self.last_ess = weighed.system, weighed.ess
        self.sample += 1
        self._recent.append((weighed.ess, self._log_evidence_at_resampling + weighed.log_mean))
        if len(self._recent) >= TRACED:
            self.flush()
        return True

    def set_state(self, state: Array) -> None:
        """Begin at solver states (k, N), which the first sample makes known."""
        self.system = replace(self.system, state=state)

    @property
    def evidence_base(self) -> float:
        """Log-evidence where the weights were last equal."""
        return self._log_evidence_at_resampling

    @property
    def columns(self) -> Array:
        """Parameters of the population, see `GrowingLikelihood.columns`."""
        if self._weigher is None:
            self._weigher, self._recent = Weigher(self.prior, self.likelihood), []
        self._weigher.prepare(self.system)
        return self._weigher.columns

    def flush(self) -> None:
        """Add what `absorb` has seen to the trace."""
        if self._weigher is not None and self._recent:
            self.trace = self.trace.extended(*np.array(self._recent).T)
            self._recent = []

    def advance(self, last: int) -> None:
        """See `Ibis.advance`."""
        self.flush()
        super().advance(last)

    def snapshot(self) -> Snapshot:
        """See `Sampler.snapshot`."""
        self.flush()
        return super().snapshot()


class Provisional:
    """A population that is weighed on while the rejuvenated one is being made.

    It follows the posterior all the time, with fewer and fewer particles that count.
    """

    def __init__(self, sampler: StreamIbis) -> None:
        self.system, self.sample = sampler.system, sampler.sample
        self.evidence_base, self.last_ess = sampler.evidence_base, sampler.system.ess
        self._weigher = Weigher(sampler.prior, sampler.likelihood)

    def absorb(self) -> None:
        """Absorb the next sample, whatever it does to the weights."""
        weighed = self._weigher(self.system, self.sample)
        self.system, self.last_ess = weighed.system, weighed.ess
        self.sample += 1

    @property
    def columns(self) -> Array:
        """Parameters of the population, see `GrowingLikelihood.columns`."""
        self._weigher.prepare(self.system)
        return self._weigher.columns
