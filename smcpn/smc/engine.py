"""IBIS: iterated batch importance sampling over the samples of a record (Chopin 2002)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from smcpn.smc.sampler import Progress, Sampler
from smcpn.smc.target import Target, finite_or_excluded
from smcpn.smc.weights import ess_and_log_mean

Array = NDArray[np.float64]

SMALL_BLOCK = 4
"""Samples looked at after a rejuvenation; doubled while there is no further one."""


class Ibis(Sampler):
    """A sequential sampler: it absorbs one sample after the other.

    The posterior given the samples so far is valid at any time.

    Attributes
    ----------
    sample : int
        Number of samples absorbed.
    ess, log_evidence_path : list of float
        After each sample: effective sample size before a rejuvenation, and log p(y_0, ..., y_t).
    """

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
        self._bridge(Target(self.prior, self.likelihood, self.sample, 0.0))
        self.log_evidence_path.append(self.log_evidence)
        self.system = replace(
            self.system,
            log_likelihood=self.system.log_likelihood + self.system.pending,
            pending=np.zeros(len(self.system)),
        )
        self.sample += 1
