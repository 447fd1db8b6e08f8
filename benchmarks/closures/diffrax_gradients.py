# type: ignore - written as users write, against packages that need not be installed
"""Log-likelihood of a network pendulum and its gradient in JAX: diffrax, and a bare scan.

All take the steps of the classical Runge-Kutta method, in double precision, and the weights of one
particle as a row, side by side by ``vmap``.
"""

from __future__ import annotations

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.side_by_side.diffrax_likelihood import RungeKutta4

jax.config.update("jax_enable_x64", True)

ADJOINTS = {
    "RecursiveCheckpointAdjoint": diffrax.RecursiveCheckpointAdjoint,
    "DirectAdjoint": diffrax.DirectAdjoint,
    "BacksolveAdjoint": lambda: diffrax.BacksolveAdjoint(
        solver=RungeKutta4(), stepsize_controller=diffrax.ConstantStepSize()
    ),
}


def layers(weights, hidden):
    """Matrices and biases from a row of weights, matrices by columns."""
    found, k, before = [], 0, 1
    for width in (*hidden, 1):
        matrix = weights[k : k + width * before].reshape(before, width).T
        k += width * before
        found.append((matrix, weights[k : k + width]))
        k, before = k + width, width
    return found


def rate(t, state, network):
    """Derivative of angle and speed."""
    value = state[:1]
    for matrix, bias in network[:-1]:
        value = jnp.tanh(matrix @ value + bias)
    matrix, bias = network[-1]
    return jnp.stack([state[1], (matrix @ value + bias)[0] - 0.2 * state[1]])


def gradients(y, start, dt, steps, noise, hidden, few):
    """Value and gradient by each method, functions of weights (N, d); compiled at first use.

    With ``few`` diffrax has its default adjoint only.
    """
    y, start, h = jnp.asarray(y), jnp.asarray(start), dt / steps
    count = (len(y) - 1) * steps

    def log_density(path):
        return jnp.sum(-(((y - path) / noise) ** 2) / 2 - jnp.log(noise * np.sqrt(2 * np.pi)))

    def by_diffrax(adjoint):
        times = jnp.arange(len(y)) * dt

        def likelihood(weights):
            solution = diffrax.diffeqsolve(
                diffrax.ODETerm(rate), RungeKutta4(), 0.0, count * h, h, start,
                layers(weights, hidden), saveat=diffrax.SaveAt(ts=times), adjoint=adjoint(),
                stepsize_controller=diffrax.ConstantStepSize(), max_steps=count + 1,
            )  # fmt: skip
            return log_density(solution.ys)

        return likelihood

    def by_scan(weights):
        network = layers(weights, hidden)

        def step(state, _):
            k1 = rate(0.0, state, network)
            k2 = rate(0.0, state + h / 2 * k1, network)
            k3 = rate(0.0, state + h / 2 * k2, network)
            k4 = rate(0.0, state + h * k3, network)
            return state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

        def interval(state, _):
            state, _ = jax.lax.scan(step, state, length=steps)
            return state, state

        _, path = jax.lax.scan(interval, start, length=len(y) - 1)
        return log_density(jnp.concatenate([start[None], path]))

    names = list(ADJOINTS)[: 1 if few else None]
    methods = {f"diffrax {name}": by_diffrax(ADJOINTS[name]) for name in names}
    methods["JAX scan"] = by_scan
    return {name: _compiled(likelihood) for name, likelihood in methods.items()}


def _compiled(likelihood):
    function = jax.jit(jax.vmap(jax.value_and_grad(likelihood)))

    def evaluate(weights):
        value, gradient = function(jnp.asarray(weights))
        return np.asarray(value), np.asarray(gradient)

    return evaluate
