# type: ignore - written as users write, against packages that need not be installed
"""NUTS of blackjax on a likelihood by diffrax: jitted, in double precision, chains by vmap.

It is given the mode and the covariance, and needs neither search nor tuning.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import blackjax
import diffrax
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.side_by_side.diffrax_likelihood import RungeKutta4

jax.config.update("jax_enable_x64", True)

BURN_IN = 3
STEP = 0.9


class Data(NamedTuple):
    """Samples, NaN where not seen, at equal times, and what is known."""

    y: np.ndarray
    interval: float
    noise: np.ndarray
    start: np.ndarray


def residuals(theta, data, steps):
    """Misfit and prior, both in standard deviations, for log-parameters (4,)."""

    def rate(t, state, values):
        (x, y), (a, b, g, s) = state, values
        return a * x - b * x * y, s * x * y - g * y

    samples = len(data.y)
    count = (samples - 1) * steps
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(rate), RungeKutta4(), 0.0, (samples - 1) * data.interval,
        data.interval / steps, tuple(data.start), jnp.exp(theta),
        saveat=diffrax.SaveAt(ts=data.interval * jnp.arange(samples)),
        stepsize_controller=diffrax.ConstantStepSize(), adjoint=diffrax.ForwardMode(),
        max_steps=count + 1,
    )  # fmt: skip
    misfit = (data.y - jnp.stack(solution.ys, axis=1)) / data.noise
    return jnp.append(jnp.where(jnp.isnan(misfit), 0.0, misfit).ravel(), theta)


@partial(jax.jit, static_argnames=("steps", "length"))
def chains(data, key, start, covariance, steps, length):
    """Draws of log-parameters, (length, C, 4), and steps of each trajectory."""

    @jax.custom_vjp
    def log_posterior(theta):
        return -0.5 * jnp.sum(residuals(theta, data, steps) ** 2)

    def forward(theta):
        """Four tangents forward through a long recursion cost less than one pass back."""
        jacobian, r = jax.jacfwd(lambda t: (residuals(t, data, steps),) * 2, has_aux=True)(theta)
        return -0.5 * r @ r, -r @ jacobian

    log_posterior.defvjp(forward, lambda gradient, cotangent: (cotangent * gradient,))
    sampler = blackjax.nuts(log_posterior, step_size=STEP, inverse_mass_matrix=covariance)

    def advance(states, key):
        states, info = jax.vmap(sampler.step)(jax.random.split(key, len(start)), states)
        return states, (states.position, info.num_integration_steps)

    states = jax.vmap(sampler.init)(start)
    return jax.lax.scan(advance, states, jax.random.split(key, length))[1]


def draws(data, seed, mode, covariance, count, length, steps):
    """Log-parameters of ``count`` chains, (count, length, 4), from the mode and covariance."""
    key, first = jax.random.split(jax.random.key(seed))
    spread = np.linalg.cholesky(covariance)
    start = mode + jax.random.normal(first, (count, len(mode))) @ spread.T
    found, _ = chains(data, key, start, covariance, steps, BURN_IN + length)
    return np.asarray(found[BURN_IN:]).transpose(1, 0, 2)
