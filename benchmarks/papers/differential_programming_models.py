"""The systems of the differential programming papers, and the terms that are looked for in them."""

from __future__ import annotations

import numpy as np

import smcpn


@smcpn.ode
def spiral(x, y, *, a, b, c, e):
    """Damped oscillator of two cubic terms in each equation (20)."""
    return a * x**3 + b * y**3, c * x**3 + e * y**3


@smcpn.ode
def lotka_volterra(x, y, *, a, b, g, s):
    """Prey and predator (22)."""
    return a * x - b * x * y, -g * y + s * x * y


@smcpn.ode
def pendulum(x, v, *, a, b):
    """Damped pendulum (23)."""
    return v, -a * v - b * np.sin(x)


@smcpn.ode
def lorenz(x, y, z, *, sigma, rho, beta):
    """Lorenz's equations (26)."""
    return sigma * (y - x), x * (rho - z) - y, x * y - beta * z


@smcpn.ode
def glycolysis(
    S1, S2, S3, S4, N2, A3, S4ex, *, J0, k1, k2, k3, k4, k5, k6, k, ka, q, KI, phi, N, A
):
    """Glycolysis of yeast (29, 30), of 14 rates."""
    J = ka * (S4 - S4ex)
    v1 = k1 * S1 * A3 / (1 + (A3 / KI) ** q)
    v2 = k2 * S2 * (N - N2)
    v3 = k3 * S3 * (A - A3)
    v4, v5, v6, v7 = k4 * S4 * N2, k5 * A3, k6 * S2 * N2, k * S4ex
    return (
        J0 - v1,
        2 * v1 - v2 - v6,
        v2 - v3,
        v3 - v4 - J,
        v2 - v4 - v6,
        -2 * v1 + 2 * v3 - v5,
        phi * J - v7,
    )
