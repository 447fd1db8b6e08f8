# type: ignore - written as users write, against packages that need not be installed
"""Adaptive tempered SMC of blackjax with independent moves fitted to the particles."""

from __future__ import annotations

# user code begins
import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.mcmc.random_walk import build_irmh, init
from blackjax.smc import resampling
from blackjax.smc.tuning.from_particles import particles_covariance_matrix, particles_means

from benchmarks.side_by_side.diffrax_likelihood import log_likelihood, log_prior

MOVES = 4


def move(key, state, log_density, mean, factor):
    """Independent Metropolis-Hastings from a normal distribution."""

    def draw(key):
        return mean + factor @ jax.random.normal(key, mean.shape)

    def transition(begin, end):
        z = jax.scipy.linalg.solve_triangular(factor, end.position - mean, lower=True)
        return -0.5 * z @ z

    return build_irmh()(key, state, log_density, draw, transition)


def fitted(key, state, info):
    """Mean and widened covariance of the particles."""
    covariance = 1.2 * particles_covariance_matrix(state.particles)
    mean = particles_means(state.particles)
    return {"mean": mean[None], "factor": jnp.linalg.cholesky(covariance)[None]}


def algorithm(data):
    """Sampler of a record."""
    return blackjax.inner_kernel_tuning(
        smc_algorithm=blackjax.adaptive_tempered_smc,
        logprior_fn=lambda theta: log_prior(theta, data),
        loglikelihood_fn=lambda theta: log_likelihood(theta, data),
        mcmc_step_fn=move,
        mcmc_init_fn=init,
        resampling_fn=resampling.systematic,
        mcmc_parameter_update_fn=fitted,
        initial_parameter_value={
            "mean": jnp.asarray(data.loc)[None],
            "factor": jnp.diag(data.scale)[None],
        },
        target_ess=0.5,
        num_mcmc_steps=MOVES,
    )


@jax.jit
def advance(data, key, state):
    """One exponent."""
    return algorithm(data).step(key, state)[0]


def identify(data, seed, size):
    """Return log-parameters (N, 4) and weights (N,)."""
    key, first = jax.random.split(jax.random.key(seed))
    state = algorithm(data).init(data.loc + data.scale * jax.random.normal(first, (size, 4)))
    while state.sampler_state.tempering_param < 1.0:
        key, now = jax.random.split(key)
        state = advance(data, now, state)
    draws = np.asarray(state.sampler_state.particles)
    return draws, np.asarray(state.sampler_state.weights)


# user code ends
