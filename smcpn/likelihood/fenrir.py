"""Fenrir: the solution of the ODE as a Gauss-Markov process, conditioned on the data afterwards.

Tronarp et al. (2022) solve the ODE forward and condition the smoothed process on the outputs going
backward. That process is the linear Gaussian model the data-free filter has made, given the
residuals z of the ODE, so p(y | z) = p(y, z) / p(z) of the same model, which two filters compute
going forward: the conditioned one takes the data-free one's linearisation. So Fenrir has
increments, and needs no smoother.
"""

from __future__ import annotations

from functools import partial

from smcpn.likelihood.conditioned import Scheme
from smcpn.likelihood.conditioned_lanes import Conditioned
from smcpn.likelihood.diffusion import known_diffusion

fenrir = Conditioned(
    Scheme(joint=True, linearise_free=True), partial(known_diffusion, likelihood="fenrir")
)
"""Builds log p(y | z); a diffusion that is calibrated is refused."""
