"""Tempering: the whole record at once, raised to exponents from 0 to 1."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from smcpn.smc.sampler import Sampler
from smcpn.smc.target import RecordTarget, finite_or_excluded
from smcpn.smc.trace import Trace

Array = NDArray[np.float64]


class Tempering(Sampler):
    """An adaptive path of exponents over the whole record.

    It is the bridge that takes IBIS across one informative sample, with the record for a sample.
    Fewer rejuvenations than the data path, each over the whole record; nothing is known until
    the end. A likelihood needs no ``advance``.

    It may begin at a density near the posterior, such as a Laplace approximation, in place of the
    prior: the path is then short, and the evidence is that of the prior all the same.

    References
    ----------
    Jasra, A. et al. (2011). Inference for Levy-driven stochastic volatility models via adaptive
    sequential Monte Carlo. Scandinavian Journal of Statistics 38.
    """

    takes_start: ClassVar[bool] = True

    def advance(self, last: int) -> None:
        """Weigh the record, then go on along the exponents, one at a time."""
        if self.exponent is None:
            self._weigh()
        if self._cross(self._target):
            self._assimilate_pending()

    def recomputed(self, index: Any) -> tuple[Array, Array, Array]:
        """See `Sampler.recomputed`."""
        values = self.prior.natural(self.system.theta[index])
        nothing = np.zeros(len(values))
        if self.exponent is None and self.sample == 0:
            return self.likelihood.start(values), nothing, nothing
        state, log_likelihood = self.likelihood.evaluate(values, self.likelihood.n_samples)
        if self.exponent is None:
            return state, finite_or_excluded(log_likelihood), nothing
        return state, nothing, self._target.parts(self.system.theta[index], log_likelihood)[1]

    @property
    def _target(self) -> RecordTarget:
        return RecordTarget(self.prior, self.likelihood, 0, 0.0, self.settings.start)

    def _weigh(self) -> None:
        values = self.prior.natural(self.system.theta)
        state, log_likelihood = self.likelihood.evaluate(values, self.likelihood.n_samples)
        begin, pending = self._target.parts(self.system.theta, log_likelihood)
        self.system = replace(self.system, log_prior=begin, pending=pending, state=state)
        self._begin_bridge()

    def _assimilate_pending(self) -> None:
        system, log_prior = self.system, self.system.log_prior
        log_likelihood = system.pending
        if self.settings.start is not None:
            log_prior = self.prior.log_density(system.theta)
            log_likelihood = log_likelihood + (system.log_prior - log_prior)
        self.system = replace(
            system,
            log_prior=log_prior,
            log_likelihood=log_likelihood,
            pending=np.zeros(len(system)),
        )
        self.sample = self.likelihood.n_samples
        self.trace = Trace.of_end(self.sample, self.system.ess, self.log_evidence)
