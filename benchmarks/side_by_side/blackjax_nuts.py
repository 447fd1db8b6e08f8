# type: ignore - written as users write, against packages that need not be installed
"""NUTS of blackjax: chains side by side, begun about the maximum, scaled by its curvature."""

from __future__ import annotations

# user code begins
import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import least_squares

from benchmarks.side_by_side.diffrax_likelihood import outputs

CHAINS = 32
BURN_IN = 3
STEP = 0.9


def identify(data, seed, size):
    """Return log-parameters (N, 4) and equal weights (N,)."""

    def residuals(theta):
        misfit = (data.y - outputs(theta, data)) / data.noise
        return jnp.append(misfit, (theta - data.loc) / data.scale)

    # Four tangents forward through a long recursion cost less than one pass back.
    jacobian = jax.jacfwd(lambda theta: (residuals(theta),) * 2, has_aux=True)

    @jax.custom_vjp
    def log_posterior(theta):
        return -0.5 * jnp.sum(residuals(theta) ** 2)

    def forward(theta):
        slopes, r = jacobian(theta)
        return -0.5 * r @ r, -r @ slopes

    log_posterior.defvjp(forward, lambda gradient, cotangent: (cotangent * gradient,))
    slopes = jax.jit(jax.jacfwd(residuals))
    mode = least_squares(jax.jit(residuals), data.loc, slopes, x_scale=data.scale)
    covariance = jnp.linalg.inv(mode.jac.T @ mode.jac)
    sampler = blackjax.nuts(log_posterior, step_size=STEP, inverse_mass_matrix=covariance)
    key, first = jax.random.split(jax.random.key(seed))
    factor = jnp.linalg.cholesky(covariance)
    start = mode.x + jax.random.normal(first, (CHAINS, 4)) @ factor.T

    def advance(states, key):
        states, _ = jax.vmap(sampler.step)(jax.random.split(key, CHAINS), states)
        return states, states.position

    keys = jax.random.split(key, BURN_IN + size // CHAINS)
    _, draws = jax.jit(lambda s, k: jax.lax.scan(advance, s, k))(
        jax.vmap(sampler.init)(start), keys
    )
    draws = np.asarray(draws[BURN_IN:]).reshape(-1, 4)
    return draws, np.full(len(draws), 1.0 / len(draws))


# user code ends
