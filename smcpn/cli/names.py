"""Words and defaults of options that help lists; what is behind them is imported when it runs.

`tests/cli/test_imports.py` holds them against the registries.
"""

from __future__ import annotations

LIKELIHOODS = (
    "marginal",
    "filtering",
    "dalton",
    "fenrir",
    "adaptive",
    "classical",
    "kalman",
    "kalman-iterated",
    "particle",
    "particle-bootstrap",
)
METHODS = ("auto", "ibis", "tempering", "diffusion-tempering")
HOLDS = ("zoh", "foh", "bandlimited")
FORMATS = ("csv", "json")
STARTS = ("auto",)
CPUS = ("native", "portable")
PARTICLES = 1000
LEAST = {"particles": 10, "replicates": 1, "seed": 0, "threads": 1}
"""Least whole numbers."""
DISCOVERY_PRIORS = ("spike-and-slab", "laplace", "horseshoe")
STANDARD = "-"
EVERY_SECONDS = 60.0
