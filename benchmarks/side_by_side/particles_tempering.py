# type: ignore - written as users write, against packages that need not be installed
"""Adaptive tempering of the package particles: waste-free, with independent moves."""

from __future__ import annotations

# user code begins
from collections import OrderedDict

import numpy as np
import particles
from particles import distributions, smc_samplers

from benchmarks.side_by_side.data import NAMES

CHAIN = 5


def identify(data, seed, log_likelihood, size):
    """Return log-parameters (N, 4) and weights (N,)."""
    np.random.seed(seed)  # noqa: NPY002
    prior = distributions.StructDist(
        OrderedDict(
            (name, distributions.Normal(loc=loc, scale=scale))
            for name, loc, scale in zip(NAMES, data.loc, data.scale, strict=True)
        )
    )

    class Duffing(smc_samplers.StaticModel):
        def loglik(self, theta, t=None):
            values = np.ascontiguousarray(smc_samplers.view_2d_array(theta))
            value = log_likelihood(values, np.zeros((len(theta), 2)), *data[:4])
            return np.where(np.isfinite(value), value, -1e300)

    move = smc_samplers.MCMCSequenceWF(
        mcmc=smc_samplers.ArrayIndependentMetropolis(scale=1.1), len_chain=CHAIN
    )
    model = Duffing(data=data.y, prior=prior)
    feynman_kac = smc_samplers.AdaptiveTempering(model=model, len_chain=CHAIN, move=move)
    sampler = particles.SMC(fk=feynman_kac, N=size // CHAIN)
    sampler.run()
    return smc_samplers.view_2d_array(sampler.X.theta), sampler.W


# user code ends
