"""The equations of the benchmarks, each written once."""

# Models are written as users write them, without types.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false

from __future__ import annotations

import numpy as np

from smcpn.model.ode import ode


@ode
def duffing(x, v, u, *, m, c, k, k3):
    """Forced Duffing oscillator: m x'' + c x' + k x + k3 x^3 = u."""
    return v, (u - c * v - k * x - k3 * x**3) / m


@ode
def duffing_offset(x, v, u, *, m, c, k, k3, u0):
    """Duffing oscillator whose input is measured with an offset ``u0``."""
    return v, (u - u0 - c * v - k * x - k3 * x**3) / m


@ode
def duffing_damping(x, v, u, *, m, c, c2, k, k3, u0):
    """Duffing oscillator with an offset ``u0`` and a damping that grows with the displacement.

    m x'' + (c + c2 x^2) x' + k x + k3 x^3 = u - u0.
    """
    return v, (u - u0 - (c + c2 * x**2) * v - k * x - k3 * x**3) / m


@ode
def bouc_wen(x, v, z, u, *, m, c, k, alpha, beta, gamma, delta):
    """Bouc-Wen hysteresis with nu = 1 (PN-SMC eq. 26).

    m x'' + c x' + k x + z = u,  z' = alpha x' - beta (gamma |x'| z + delta x' |z|).
    """
    hysteresis = gamma * np.abs(v) * z + delta * v * np.abs(z)
    return v, (u - c * v - k * x - z) / m, alpha * v - beta * hysteresis


EMPS_WIDTH = 1e-3
"""Width of the smoothed sign of `emps`, m/s; the joint moves at up to 0.13 m/s."""


@ode
def emps(q, v, force, *, M, Fv, Fc, offset, width=EMPS_WIDTH):
    """Prismatic joint with viscous and Coulomb friction (PN-SMC eq. 28).

    M q'' + Fv q' + Fc sign(q') + offset = force, in newtons, metres and seconds.

    Stiction: sign(v) is smoothed to v / sqrt(v^2 + width^2), so that sticking becomes creeping
    at a velocity below ``width``. The friction then relaxes at the rate Fc / (M width), a quarter
    per millisecond at the default, which a solver resolves at two steps per millisecond.
    ``python -m benchmarks.case_studies`` prints what identifying with a tenth of the width
    changes.
    """
    friction = Fv * v + Fc * v / np.sqrt(v * v + width * width)
    return v, (force - friction - offset) / M
