# type: ignore - written as users write, against packages that need not be installed
"""IBIS of the package particles, taught to carry the state of each particle.

Without that every sample would integrate the record from its beginning. The first samples come
one by one: more at a time leave a single particle, and the package fails. Later ones count in
blocks as one observation, which spares most of its overhead.
"""

from __future__ import annotations

# user code begins
from collections import OrderedDict

import numpy as np
import particles
from particles import distributions, smc_samplers

from benchmarks.side_by_side.data import NAMES

SINGLE, BLOCK = 256, 16
MOVES = 3


class CarriedIBIS(smc_samplers.IBIS):
    """Particles with a field ``state`` besides ``theta``."""

    def __init__(self, data, log_likelihood, **options):
        super().__init__(**options)
        self.data, self.log_likelihood = data, log_likelihood
        blocks = np.arange(SINGLE, len(data.y), BLOCK)
        self.edges = np.concatenate([np.arange(SINGLE), blocks, [len(data.y)]])

    @property
    def T(self):  # noqa: N802
        """Number of blocks."""
        return len(self.edges) - 1

    def increment(self, x, first, last):
        """Log-likelihood of some blocks, which moves the state on."""
        part, theta = slice(*self.edges[[first, last]]), smc_samplers.view_2d_array(x.theta)
        u, y, h, noise = self.data[:4]
        value = self.log_likelihood(
            np.ascontiguousarray(theta), x.state, u[part], y[part], h, noise
        )
        return np.where(np.isfinite(value), value, -1e300)

    def logG(self, t, xp, x):  # noqa: N802
        """Log-likelihood of a block."""
        increment = self.increment(x, t, t + 1)
        x.lpost = x.lpost + increment
        return increment

    def current_target(self, t):
        """Posterior after block ``t``, from the beginning."""

        def evaluate(x):
            x.state = np.zeros((len(x.theta), 2))
            x.lpost = self.model.prior.logpdf(x.theta) + self.increment(x, 0, t + 1)

        return evaluate


def identify(data, seed, log_likelihood, size):
    """Return log-parameters (N, 4) and weights (N,)."""
    np.random.seed(seed)  # noqa: NPY002
    prior = distributions.StructDist(
        OrderedDict(
            (name, distributions.Normal(loc=loc, scale=scale))
            for name, loc, scale in zip(NAMES, data.loc, data.scale, strict=True)
        )
    )
    move = smc_samplers.AdaptiveMCMCSequence(
        mcmc=smc_samplers.ArrayIndependentMetropolis(scale=1.1), len_chain=1 + MOVES
    )
    model = smc_samplers.StaticModel(data=data.y, prior=prior)
    feynman_kac = CarriedIBIS(data, log_likelihood, model=model, wastefree=False, move=move)
    sampler = particles.SMC(fk=feynman_kac, N=size, ESSrmin=0.5)
    sampler.run()
    return smc_samplers.view_2d_array(sampler.X.theta), sampler.W


# user code ends
