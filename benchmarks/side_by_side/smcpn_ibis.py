# type: ignore - written as users write, against packages that need not be installed
"""IBIS of this package."""

from __future__ import annotations

# user code begins
import smcpn
from benchmarks.side_by_side.smcpn_problem import silverbox


def identify(record, seed, solver, size):
    """Return the posterior."""
    problem = silverbox(record)
    return smcpn.identify(problem, solver=solver, method="ibis", particles=size, seed=seed)


# user code ends
