# type: ignore - written as users write, against packages that need not be installed
"""NUTS of blackjax: parallel chains, started about the maximum, scaled by its curvature."""

from __future__ import annotations

# user code begins
from functools import partial

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import least_squares

from benchmarks.side_by_side.diffrax_likelihood import outputs

CHAINS = 32
BURN_IN = 3
STEP = 0.9


@jax.jit
def residuals(theta, data):
    """Misfit and prior, both in standard deviations."""
    misfit = (data.y - outputs(theta, data)) / data.noise
    return jnp.append(misfit, (theta - data.loc) / data.scale)


@jax.jit
def slopes(theta, data):
    """Four tangents forward through a long recursion cost less than one pass back."""
    return jax.jacfwd(lambda theta: (residuals(theta, data),) * 2, has_aux=True)(theta)


@partial(jax.jit, static_argnames="length")
def chains(data, key, start, covariance, length):
    """Draws, (length, CHAINS, 4)."""

    @jax.custom_vjp
    def log_posterior(theta):
        return -0.5 * jnp.sum(residuals(theta, data) ** 2)

    def forward(theta):
        jacobian, r = slopes(theta, data)
        return -0.5 * r @ r, -r @ jacobian

    log_posterior.defvjp(forward, lambda gradient, cotangent: (cotangent * gradient,))
    sampler = blackjax.nuts(log_posterior, step_size=STEP, inverse_mass_matrix=covariance)

    def advance(states, key):
        states, _ = jax.vmap(sampler.step)(jax.random.split(key, CHAINS), states)
        return states, states.position

    states = jax.vmap(sampler.init)(start)
    return jax.lax.scan(advance, states, jax.random.split(key, length))[1]


def identify(data, seed, size):
    """Return log-parameters (N, 4) and equal weights (N,)."""
    mode = least_squares(
        lambda theta: np.asarray(residuals(theta, data)),
        data.loc,
        lambda theta: np.asarray(slopes(theta, data)[0]),
        x_scale=data.scale,
    )
    covariance = np.linalg.inv(mode.jac.T @ mode.jac)
    key, first = jax.random.split(jax.random.key(seed))
    start = mode.x + jax.random.normal(first, (CHAINS, 4)) @ np.linalg.cholesky(covariance).T
    draws = chains(data, key, start, covariance, BURN_IN + size // CHAINS)[BURN_IN:]
    found = np.asarray(draws).reshape(-1, 4)
    return found, np.full(len(found), 1.0 / len(found))


# user code ends
