"""A likelihood to a power, the learning rate of a generalised posterior prior x p(y | theta)^power.

References
----------
Bissiri, P. G., Holmes, C. C., Walker, S. G. (2016). A general framework for updating belief
distributions. JRSS B 78.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from smcpn.likelihood.contract import Likelihood, LikelihoodView
from smcpn.model.prior import Prior
from smcpn.smc.particles import normalise
from smcpn.smc.proposals import StudentMixture
from smcpn.smc.replicates import Populations, combine
from smcpn.smc.sampler import Settings
from smcpn.smc.tempering import Tempering

Array = NDArray[np.float64]


def at_power(
    prior: Prior,
    likelihood: Likelihood,
    power: float,
    theta: Array,
    log_weights: Array,
    rng: np.random.Generator,
) -> Populations:
    """Sample prior x likelihood^power from particles of the posterior, at power one.

    They give where to begin: a t mixture fitted to them, wider by one over the root of the power.
    From there tempering leads to the target, exactly.

    Parameters
    ----------
    theta : ndarray, (N, d)
        Unconstrained coordinates.
    log_weights : ndarray, (N,)

    Returns
    -------
    Populations
        As many particles; ``log_likelihood`` is that of the likelihood itself, ``log_evidence``
        that of its power.
    """
    fitted = StudentMixture.fit(theta, normalise(log_weights))
    start = replace(fitted, factors=fitted.factors / np.sqrt(power))
    settings = Settings(particles=len(theta), start=start)
    sampler = Tempering(prior, LikelihoodView(likelihood, power=power), settings, rng)
    sampler.run()
    found = combine([sampler])
    return replace(found, log_likelihood=found.log_likelihood / power)
