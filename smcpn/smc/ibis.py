"""IBIS, iterated batch importance sampling: the posterior sample by sample (Chopin 2002)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.smc.estimation import extended
from smcpn.smc.looks import Searches, next_look, take_back_lost
from smcpn.smc.particles import (
    Target,
    accumulated,
    ess_and_log_mean,
    finite_or_excluded,
)
from smcpn.smc.sampler import Sampler

Array = NDArray[np.float64]

SMALL_BLOCK = 4
"""Samples evaluated at once after a rejuvenation; doubled while there is no further one."""
MOST_INCREMENTS = 2**22
"""Increments of all particles together that are held at once."""


class Ibis(Sampler):
    """A sequential sampler: it assimilates one sample after the other.

    Particle i has the weight W_t^i = W_{t-1}^i p(y_t | y_0, ..., y_{t-1}, theta^i); where the
    effective sample size falls below its threshold, particles are resampled and moved by a kernel
    that leaves p(theta | y_0, ..., y_t) invariant. The population is the posterior given the
    samples so far at any time. With a likelihood that is estimated by a particle filter for every
    particle this is SMC^2.

    References
    ----------
    Chopin, N. (2002). A sequential particle filter method for static models. Biometrika 89.
    Chopin, N., Jacob, P. E., Papaspiliopoulos, O. (2013). SMC^2. JRSS B 75.

    searches: Who looks for what the particles have lost, after numbers of samples that double, and
        after the last one; see `smcpn.smc.looks`.
    """

    searches: Searches | None = None
    _block = SMALL_BLOCK

    def proceed(self, last: int) -> None:
        """Assimilate a block of samples, or the next part of a sample that is too informative."""
        begin = self.sample
        if self.state.exponent is None:
            most = max(1, MOST_INCREMENTS // len(self.system))
            block = min(self._block, self.settings.block, most)
            end = min(begin + block, last, self._next_look)
            self._assimilate(self._with_keys(end))
            self._block = 2 * block
        if self.state.exponent is not None:
            self._block = SMALL_BLOCK
            if self._cross(Target(self.prior, self.likelihood, self.sample, 0.0)):
                self._assimilate_increment()
        if self.sample > begin and self.state.exponent is None:
            self._look_where_due(begin)

    @property
    def _next_look(self) -> int:
        """Number of samples after which there is the next look."""
        return next_look(self.sample, len(self.prior))

    def _look_where_due(self, begin: int) -> None:
        """Look after so many samples as call for it, and after the last one.

        begin: Samples before those that have just come.
        """
        if self.sample in (self.likelihood.n_samples, next_look(begin, len(self.prior))):
            self.look()

    def look(self) -> None:
        """Search for what the particles have lost, and where there is any begin anew with it."""
        if self.searches is not None:
            take_back_lost(self, self.searches)

    @override
    def _recomputed(self, index: Any) -> tuple[Array, Array, Array]:
        values, keys = self.prior.natural(self.system.theta[index]), self.system.keys[index]
        likelihood, t = self.likelihood, self.sample
        state, log_likelihood = likelihood.accumulate(values, None, 0, t, keys)
        log_increment = np.zeros(len(values))
        if self.state.exponent is not None:
            state, increments = likelihood.advance(values, state, t, t + 1, keys)
            log_increment = finite_or_excluded(increments[0])
        return state, finite_or_excluded(log_likelihood), log_increment

    @property
    @override
    def _keyed_samples(self) -> int:
        state = self.state
        return self.sample if state.exponent is None or state.refining else self.sample + 1

    def _with_keys(self, end: int) -> int:
        """Draw keys for the next sample where they are needed; return how far they go, to ``end``.

        Those of a block of samples are drawn when its first sample comes, whatever the blocks in
        which samples are assimilated.
        """
        self._draw_keys(self.sample + 1)
        while self.likelihood.n_keys(end) > self.system.keys.shape[1]:
            end -= 1
        return end

    def _draw_keys(self, samples: int) -> None:
        """Draw the keys of the first ``samples`` that are missing."""
        keys = extended(self._rng, self.system.keys, self.likelihood.n_keys(samples))
        if keys is not self.system.keys:
            self._change_system(keys=keys)

    def _assimilate(self, end: int) -> None:
        """Assimilate samples up to ``end``, or up to the first that calls for a rejuvenation."""
        system, begin = self.system, self.sample
        values, keys, likelihood = self.prior.natural(system.theta), system.keys, self.likelihood
        state, increments = likelihood.advance(values, system.state, begin, end, keys)
        increments = finite_or_excluded(increments)
        weights = accumulated(system.log_weights, increments)
        ess, log_means = ess_and_log_mean(weights[1:])
        low = np.flatnonzero(ess < self._threshold)
        calm = int(low[0]) if len(low) else end - begin
        total = np.add.reduce(np.vstack([system.log_likelihood, increments[:calm]]))
        evidence = self.state.log_evidence_at_resampling + log_means[:calm]
        trace = self.state.trace.extended(ess[:calm], evidence)
        whole = begin + calm == end
        if not whole:
            crossing = begin + calm + 1
            if crossing < end:
                state, _ = likelihood.advance(values, system.state, begin, crossing, keys)
        system = replace(
            system,
            log_weights=weights[calm],
            log_likelihood=total,
            log_increment=np.zeros(len(system)) if whole else increments[calm],
            state=state,
        )
        self._change(system=system, sample=begin + calm, trace=trace)
        if not whole:
            self._change(ess_before=float(ess[calm]))
            self._begin_bridge()

    def _assimilate_increment(self) -> None:
        """Add the log increment to the log-likelihood, and count its sample."""
        ends = np.array([self.state.ess_before]), np.array([self.log_evidence])
        self._add_increment()
        self._change(sample=self.sample + 1, trace=self.state.trace.extended(*ends))
