# type: ignore - written as users write, against packages that need not be installed
"""Model, prior and problem as a user of this package writes them."""

from __future__ import annotations

# user code begins
from scipy import stats

import smcpn


@smcpn.ode
def duffing(x, v, u, *, m, c, k, k3):
    """Forced Duffing oscillator."""
    return v, (u - c * v - k * x - k3 * x**3) / m


def silverbox(record):
    """The record with what is to be learned from it."""
    prior = {
        "m": stats.lognorm(0.5, scale=5e-6),
        "c": stats.lognorm(0.5, scale=3e-4),
        "k": stats.lognorm(0.3, scale=1.0),
        "k3": stats.lognorm(0.5, scale=3.0),
    }
    return smcpn.Problem(duffing, record, observe="x", noise=1e-3, prior=prior, initial="rest")


# user code ends
