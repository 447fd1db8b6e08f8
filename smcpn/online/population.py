"""Populations that take one sample at a time, at the least cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from smcpn.likelihood.growing import GrowingLikelihood
from smcpn.prior import Prior
from smcpn.smc.engine import Ibis
from smcpn.smc.particles import ParticleSystem
from smcpn.smc.sampler import Snapshot
from smcpn.smc.target import Target, finite_or_excluded

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
    innovation : ndarray, (q,)
        Measured minus predicted output in predictive standard deviations; nan where missing.
    """

    __slots__ = ("ess", "innovation", "log_mean", "system")

    def __init__(
        self, system: ParticleSystem, ess: float, log_mean: float, innovation: Array
    ) -> None:
        self.system, self.ess, self.log_mean, self.innovation = system, ess, log_mean, innovation


class Weigher:
    """Weighs one sample after the other; the parameters are prepared once."""

    def __init__(self, prior: Prior, likelihood: GrowingLikelihood) -> None:
        self._prior, self._likelihood = prior, likelihood
        self._theta, self.columns = np.empty(0), np.empty(0)
        self._log_weights, self._weights = np.empty(0), np.empty(0)

    def prepare(self, system: ParticleSystem) -> None:
        """Have the parameters of a population at hand."""
        if system.theta is not self._theta:
            self._theta = system.theta
            self.columns = self._likelihood.columns(self._prior.natural(system.theta))

    def __call__(self, system: ParticleSystem, sample: int) -> Weighed:
        """Absorb a sample: the arithmetic of `Ibis` for a block of one."""
        self.prepare(system)
        likelihood, place = self._likelihood, self._likelihood.place(sample)
        state, increment = likelihood.weigh(self.columns, system.state, place)
        predicted = likelihood.predicted(self.columns, state, place)
        with np.errstate(all="ignore"):
            innovation = standardised(place.y, predicted, self.weights(system))
            if not isfinite(np.add.reduce(increment)):
                increment = finite_or_excluded(increment)
            log_weights = system.log_weights + increment
            top = np.maximum.reduce(log_weights)
            top = top if isfinite(top) else 0.0
            weights = np.exp(log_weights - top)
            total = weights.sum()
            squares = np.einsum("...i,...i->...", weights, weights)
            log_mean = np.log(total / len(weights)) + top
            ess = float(total * total / (squares if squares > 0 else 1.0))
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
        if total > 0:
            self._log_weights, self._weights = log_weights, weights / total
        return Weighed(moved, ess, float(log_mean), innovation)

    def states(self, system: ParticleSystem) -> Array:
        """Values of the states, (n, N)."""
        return system.state[self._likelihood.places]

    def weights(self, system: ParticleSystem) -> Array:
        """Normalised weights of a population, known already if it was the last one weighed."""
        if system.log_weights is not self._log_weights:
            self._log_weights, self._weights = system.log_weights, system.weights
        return self._weights


def standardised(y: Array, predicted: Array, weights: Array) -> Array:
    """Measured minus predicted outputs in predictive standard deviations, (q,).

    Parameters
    ----------
    y : ndarray, (q,)
    predicted : ndarray, (2 q, N)
        Mean and variance for every particle.
    weights : ndarray, (N,)
        Before the sample.
    """
    q = len(y)
    expected = predicted[:q] @ weights
    if not all(map(isfinite, expected.tolist())):
        # A diverged particle has no weight, but nan times zero is nan.
        predicted = np.where(weights > 0, predicted, 0.0)
        expected = predicted[:q] @ weights
    centred = predicted[:q] - expected[:, None]
    centred *= centred
    centred += predicted[q:]
    return (y - expected) / np.sqrt(centred @ weights)


def state_mean(weigher: Weigher, system: ParticleSystem) -> Array:
    """Posterior mean of the states, (n,)."""
    states, weights = weigher.states(system), weigher.weights(system)
    mean = states @ weights
    return mean if np.isfinite(mean).all() else np.nan_to_num(states) @ weights


@dataclass(frozen=True)
class BlockTarget(Target):
    """prior x p(y_<sample | theta) x p(y_sample, ..., y_end-1 | theta)^exponent.

    Attributes
    ----------
    end : int
        The samples from `sample` to before this one are pending together.
    """

    likelihood: GrowingLikelihood
    end: int = 0

    @property
    def n_samples(self) -> int:
        """Samples that an evaluation weighs."""
        return self.end

    def evaluate(self, theta: Array) -> ParticleSystem:
        """See `Target.evaluate`."""
        values, n = self.prior.natural(theta), len(theta)
        state, log_likelihood = self.likelihood.browse(values, self.sample)
        state, pending = self.likelihood.total(values, state, self.sample, self.end)
        return ParticleSystem(
            theta=theta,
            log_weights=np.zeros(n),
            log_prior=self.prior.log_density(theta),
            log_likelihood=finite_or_excluded(log_likelihood),
            pending=finite_or_excluded(pending),
            state=state,
            eve=np.zeros(n, dtype=np.int64),
            family=np.zeros(n, dtype=np.int64),
        )


class StreamIbis(Ibis):
    """`Ibis` that also absorbs single samples, as long as they call for no rejuvenation.

    `absorb` and `advance` make the same particle system, to the byte.
    """

    likelihood: GrowingLikelihood
    last_ess = float("nan")
    innovation = np.empty(0)

    @cached_property
    def _weigher(self) -> Weigher:
        return Weigher(self.prior, self.likelihood)

    @cached_property
    def _recent(self) -> list[tuple[float, float]]:
        return []

    def absorb(self) -> bool:
        """Absorb the next sample; where it calls for a rejuvenation change nothing, False."""
        weighed = self._weigher(self.system, self.sample)
        self.innovation = weighed.innovation
        if weighed.ess < self._threshold:
            return False
        self.system, self.last_ess = weighed.system, weighed.ess
        self.sample += 1
        self._recent.append((weighed.ess, self._log_evidence_at_resampling + weighed.log_mean))
        if len(self._recent) >= TRACED:
            self.flush()
        return True

    def begin(self) -> None:
        """Take the solver's state from the first sample, which makes it known."""
        values = self.prior.natural(self.system.theta)
        self.system = replace(self.system, state=self.likelihood.start(values))

    def advance_by_one(self) -> None:
        """Absorb the next sample, with the rejuvenations that it calls for."""
        last = self.sample + 1
        while self.sample < last:
            self.advance(last)
        self.last_ess = self.system.ess

    @property
    def evidence_base(self) -> float:
        """Log-evidence where the weights were last equal."""
        return self._log_evidence_at_resampling

    def state_mean(self) -> Array:
        """Posterior mean of the states, (n,)."""
        return state_mean(self._weigher, self.system)

    def flush(self) -> None:
        """Add what `absorb` has seen to the trace."""
        if self._recent:
            self.trace = self.trace.extended(*np.array(self._recent).T)
            self._recent.clear()

    def advance(self, last: int) -> None:
        """See `Ibis.advance`."""
        self.flush()
        super().advance(last)

    def leap(self, end: int) -> None:
        """Absorb the samples up to ``end`` together, bridged as one informative sample would be.

        The posterior is the one that single samples lead to, by fewer rejuvenations.
        """
        self.flush()
        system, begin = self.system, self.sample
        values = self.prior.natural(system.theta)
        state, pending = self.likelihood.total(values, system.state, begin, end)
        self.system = replace(system, pending=finite_or_excluded(pending), state=state)
        self._begin_bridge()
        while not self._cross(BlockTarget(self.prior, self.likelihood, begin, 0.0, end)):
            pass
        system = self.system
        self.system = replace(
            system,
            log_likelihood=system.log_likelihood + system.pending,
            pending=np.zeros(len(system)),
        )
        self.sample = end
        unknown = np.full((2, end - begin), np.nan)
        unknown[:, -1] = system.ess, self.log_evidence
        self.trace = self.trace.extended(*unknown)

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
        self.innovation = sampler.innovation
        self._weigher = Weigher(sampler.prior, sampler.likelihood)

    def absorb(self) -> None:
        """Absorb the next sample, whatever it does to the weights."""
        weighed = self._weigher(self.system, self.sample)
        self.system, self.last_ess = weighed.system, weighed.ess
        self.innovation = weighed.innovation
        self.sample += 1

    def state_mean(self) -> Array:
        """Posterior mean of the states, (n,)."""
        return state_mean(self._weigher, self.system)
