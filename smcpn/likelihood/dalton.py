"""DALTON with Gaussian noise: log p(y, z) - log p(z), each linearised where its own filter is.

Wu and Lysy (2024), algorithm 1: one filter sees the outputs y and the residuals z of the ODE, the
other the residuals alone. The difference is taken sample by sample, so that it has increments.
"""

from __future__ import annotations

from functools import partial

from smcpn.likelihood.conditioned import Scheme
from smcpn.likelihood.conditioned_lanes import Conditioned
from smcpn.likelihood.diffusion import known_diffusion

dalton = Conditioned(Scheme(joint=True), partial(known_diffusion, likelihood="dalton"))
"""Builds log p(y, z) - log p(z); a diffusion that is calibrated is refused."""
