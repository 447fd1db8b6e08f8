"""The models of the Fenrir paper, appendix C."""

from __future__ import annotations

import numpy as np

import smcpn

GRAVITY = 9.81


@smcpn.ode
def lotka_volterra(x, y, *, alpha, beta, gamma, delta):
    """Prey and predator (55); M11 of the model selection."""
    return alpha * x - beta * x * y, -gamma * y + delta * x * y


@smcpn.ode
def wrong_prey(x, y, *, alpha, beta, gamma, delta):
    """M01: (57a) with (55b)."""
    return alpha * x**2 - beta * y, -gamma * y + delta * x * y


@smcpn.ode
def wrong_predator(x, y, *, alpha, beta, gamma):
    """M10: (55a) with (57b)."""
    return alpha * x - beta * x * y, -gamma * y


@smcpn.ode
def wrong_both(x, y, *, alpha, beta, gamma):
    """M00: (57)."""
    return alpha * x**2 - beta * y, -gamma * y


@smcpn.ode
def fitzhugh_nagumo(V, R, *, a, b, c):
    """Spiking neuron (56), with the sign of b that the code has."""
    return c * (V - V**3 / 3 + R), -(V - a + b * R) / c


@smcpn.ode
def seir(exposed, infected, recovered, *, beta, gamma, decay):
    """Epidemic (58) with beta_I = 0, and S from the sum of all four, which is one."""
    infections = beta * (1 - exposed - infected - recovered) * exposed
    return infections - gamma * exposed, gamma * exposed - decay * infected, decay * infected


@smcpn.ode
def pendulum(angle, rate, *, length):
    """Pendulum (61)."""
    return rate, -GRAVITY / length * np.sin(angle)
