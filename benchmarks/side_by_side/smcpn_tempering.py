# type: ignore - written as users write, against packages that need not be installed
"""Tempering of this package: the whole record at once, at rising exponents."""

from __future__ import annotations

# user code begins
import smcpn
from benchmarks.side_by_side.smcpn_problem import silverbox


def identify(record, seed, solver, size):
    """Return the posterior."""
    return smcpn.identify(
        silverbox(record), solver=solver, method="tempering", particles=size, seed=seed
    )


# user code ends
