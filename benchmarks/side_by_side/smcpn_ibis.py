# type: ignore - written as users write, against packages that need not be installed
"""IBIS of this package."""

from __future__ import annotations

# user code begins
from scipy import stats

import smcpn


@smcpn.ode
def duffing(x, v, u, *, m, c, k, k3):
    """Forced Duffing oscillator."""
    return v, (u - c * v - k * x - k3 * x**3) / m


def identify(record, seed, solver, size):
    """Return the posterior."""
    prior = {
        "m": stats.lognorm(0.5, scale=5e-6),
        "c": stats.lognorm(0.5, scale=3e-4),
        "k": stats.lognorm(0.3, scale=1.0),
        "k3": stats.lognorm(0.5, scale=3.0),
    }
    problem = smcpn.Problem(duffing, record, observe="x", noise=1e-3, prior=prior, initial="rest")
    return smcpn.ibis(problem, solver=solver, particles=size, seed=seed)


# user code ends
