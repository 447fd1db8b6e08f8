# type: ignore - written as users write, against packages that need not be installed
"""The package by its defaults: searches, and tempering from the modes that they find."""

from __future__ import annotations

# user code begins
import smcpn
from benchmarks.side_by_side.smcpn_problem import silverbox


def identify(record, seed, solver, size):
    """Return the posterior."""
    return smcpn.identify(silverbox(record), solver=solver, particles=size, seed=seed)


# user code ends
