# type: ignore - written as users write, against packages that need not be installed
"""Particles from the Laplace approximation, corrected by tempering: this package's short way."""

from __future__ import annotations

# user code begins
import smcpn
from benchmarks.side_by_side.smcpn_problem import silverbox


def identify(record, seed, solver, size):
    """Return the posterior."""
    problem = silverbox(record)
    start = smcpn.laplace(problem, solver=solver, seed=seed)
    return smcpn.identify(problem, start=start, particles=size, seed=seed)


# user code ends
