"""Tempering: the whole record at once, raised to exponents from 0 to 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from smcpn.smc.sampler import Progress, Sampler
from smcpn.smc.target import RecordTarget, finite_or_excluded


class Tempering(Sampler):
    """An adaptive path of exponents over the whole record.

    It is the bridge that takes IBIS across one informative sample, with the record for a sample.
    Fewer rejuvenations than the data path, each over the whole record; nothing is known until
    the end. A likelihood needs no ``advance``.

    Attributes
    ----------
    sample : int
        0 until the end, then the number of samples.
    ess, log_evidence_path : list of float
        As of `Ibis`; nan but for the last sample.

    References
    ----------
    Jasra, A. et al. (2011). Inference for Levy-driven stochastic volatility models via adaptive
    sequential Monte Carlo. Scandinavian Journal of Statistics 38.
    """

    def run(self, progress: Callable[[Progress], None] | None = None) -> None:
        """Take the population from the prior to the posterior."""
        samples = self.likelihood.n_samples
        values = self.prior.natural(self.system.theta)
        state, log_likelihood = self.likelihood.browse(values, samples)
        self.system = replace(self.system, pending=finite_or_excluded(log_likelihood), state=state)
        self._bridge(RecordTarget(self.prior, self.likelihood, 0, 0.0))
        self.system = replace(
            self.system,
            log_likelihood=self.system.pending,
            pending=np.zeros(len(self.system)),
        )
        self.sample = samples
        unknown = [float("nan")] * (samples - 1)
        self.ess = [*unknown, self.system.ess]
        self.log_evidence_path = [*unknown, self.log_evidence]
        if progress is not None:
            progress(self._progress())
