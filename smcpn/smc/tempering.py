"""Tempering: the whole record at once, raised to exponents from 0 to 1."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from smcpn.smc.sampler import Sampler
from smcpn.smc.target import RecordTarget, finite_or_excluded
from smcpn.smc.trace import Trace


class Tempering(Sampler):
    """An adaptive path of exponents over the whole record.

    It is the bridge that takes IBIS across one informative sample, with the record for a sample.
    Fewer rejuvenations than the data path, each over the whole record; nothing is known until
    the end. A likelihood needs no ``advance``.

    References
    ----------
    Jasra, A. et al. (2011). Inference for Levy-driven stochastic volatility models via adaptive
    sequential Monte Carlo. Scandinavian Journal of Statistics 38.
    """

    def advance(self, last: int) -> None:
        """Weigh the record, then go on along the exponents, one at a time."""
        if self.exponent is None:
            self._weigh()
        if self._cross(RecordTarget(self.prior, self.likelihood, 0, 0.0)):
            self._absorb_pending()

    def _weigh(self) -> None:
        values = self.prior.natural(self.system.theta)
        state, log_likelihood = self.likelihood.browse(values, self.likelihood.n_samples)
        self.system = replace(self.system, pending=finite_or_excluded(log_likelihood), state=state)
        self._begin_bridge()

    def _absorb_pending(self) -> None:
        self.system = replace(
            self.system,
            log_likelihood=self.system.pending,
            pending=np.zeros(len(self.system)),
        )
        self.sample = self.likelihood.n_samples
        self.trace = Trace.of_end(self.sample, self.system.ess, self.log_evidence)
