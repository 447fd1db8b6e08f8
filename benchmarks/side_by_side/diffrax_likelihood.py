# type: ignore - written as users write, against packages that need not be installed
"""Outputs and log-likelihood in diffrax: the classical Runge-Kutta method at fixed steps."""

from __future__ import annotations

# user code begins
from typing import ClassVar

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)


class RungeKutta4(diffrax.AbstractERK):
    """Not among the solvers of diffrax; its tableau is."""

    tableau: ClassVar = diffrax.ButcherTableau(
        c=np.array([0.5, 0.5, 1.0]),
        b_sol=np.array([1.0, 2.0, 2.0, 1.0]) / 6.0,
        b_error=np.zeros(4),
        a_lower=(np.array([0.5]), np.array([0.0, 0.5]), np.array([0.0, 0.0, 1.0])),
    )
    interpolation_cls: ClassVar = diffrax.ThirdOrderHermitePolynomialInterpolation.from_k

    def order(self, terms):
        """Order of convergence."""
        return 4


def outputs(theta, data):
    """Displacements at the samples, (T,), for log-parameters (4,)."""
    steps = data.u.shape[1] // 2
    u = jnp.append(data.u[:, :-1].ravel(), data.u[-1, -1])

    def rate(t, state, parameters):
        (x, v), (m, c, k, k3) = state, parameters
        force = u[jnp.round(2 * t).astype(int)]
        return data.h * v, data.h * (force - c * v - k * x - k3 * x**3) / m

    count = len(data.y) * steps
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(rate), RungeKutta4(), 0.0, float(count), 1.0, (0.0, 0.0), jnp.exp(theta),
        saveat=diffrax.SaveAt(ts=jnp.arange(1.0, len(data.y) + 1.0) * steps),
        stepsize_controller=diffrax.ConstantStepSize(), adjoint=diffrax.ForwardMode(),
        max_steps=count,
    )  # fmt: skip
    return solution.ys[0]


def log_likelihood(theta, data):
    """Log-likelihood of log-parameters (4,); a diverged solution has none."""
    value = -0.5 * jnp.sum(((data.y - outputs(theta, data)) / data.noise) ** 2)
    return jnp.where(jnp.isfinite(value), value, -1e300)


def log_prior(theta, data):
    """Log-density of log-parameters (4,)."""
    return -0.5 * jnp.sum(((theta - data.loc) / data.scale) ** 2)


# user code ends
