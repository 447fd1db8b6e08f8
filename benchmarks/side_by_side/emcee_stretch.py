# type: ignore - written as users write, against packages that need not be installed
"""The ensemble sampler emcee, started about the maximum that Nelder-Mead finds from the prior."""

from __future__ import annotations

# user code begins
import emcee
import numpy as np
from scipy.optimize import minimize

WALKERS = 128
BURN_IN = 100
SPREAD = 1e-3


def identify(data, seed, log_likelihood, size):
    """Return log-parameters (N, 4) and equal weights (N,)."""

    def log_posterior(theta):
        log_prior = -0.5 * np.sum(((theta - data.loc) / data.scale) ** 2, axis=1)
        value = log_prior + log_likelihood(theta, np.zeros((len(theta), 2)), *data[:4])
        return np.where(np.isfinite(value), value, -np.inf)

    rng = np.random.default_rng(seed)
    mode = minimize(
        lambda theta: -log_posterior(theta[None])[0],
        data.loc,
        method="Nelder-Mead",
        options={"xatol": 1e-5, "fatol": 1e-2, "maxiter": 4000},
    ).x
    start = mode + SPREAD * rng.normal(size=(WALKERS, 4))
    sampler = emcee.EnsembleSampler(WALKERS, 4, log_posterior, vectorize=True)
    sampler.random_state = np.random.RandomState(seed).get_state()
    sampler.run_mcmc(start, BURN_IN + size // WALKERS)
    draws = sampler.get_chain(discard=BURN_IN, flat=True)
    return draws, np.full(len(draws), 1.0 / len(draws))


# user code ends
