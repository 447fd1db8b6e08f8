"""The equation of the system. Change it to yours; config.toml says where the data are."""

import smcpn


@smcpn.ode
def oscillator(x, v, u, *, m, c, k, k3):
    """Mass on a hardening spring, pushed by a force: m x'' + c x' + k x + k3 x^3 = u.

    First come the states, then the inputs; after the star the unknown parameters. Return the
    derivative of each state. Use numpy functions: np.abs, np.sin, np.where in place of `if`.
    """
    return v, (u - c * v - k * x - k3 * x**3) / m
