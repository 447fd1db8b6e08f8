"""The equations of the benchmarks, each written once."""

from __future__ import annotations

import numpy as np

from smcpn.ode import ode


@ode
def duffing(x, v, u, *, m, c, k, k3):
    """Forced Duffing oscillator: m x'' + c x' + k x + k3 x^3 = u."""
    return v, (u - c * v - k * x - k3 * x**3) / m


@ode
def duffing_offset(x, v, u, *, m, c, k, k3, u0):
    """Duffing oscillator whose input is measured with an offset ``u0``."""
    return v, (u - u0 - c * v - k * x - k3 * x**3) / m


@ode
def bouc_wen(x, v, z, u, *, m, c, k, alpha, beta, gamma, delta):
    """Bouc-Wen hysteresis with nu = 1 (PN-SMC eq. 26).

    m x'' + c x' + k x + z = u,  z' = alpha x' - beta (gamma |x'| z + delta x' |z|).
    """
    hysteresis = gamma * np.abs(v) * z + delta * v * np.abs(z)
    return v, (u - c * v - k * x - z) / m, alpha * v - beta * hysteresis
