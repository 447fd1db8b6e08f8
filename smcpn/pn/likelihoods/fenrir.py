"""Fenrir: the data weigh the solution of the ODE backwards in time (Tronarp et al., appendix B)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smcpn.pn.likelihoods.forward import forward
from smcpn.pn.likelihoods.measurement import weighed
from smcpn.pn.likelihoods.statespace import StateSpace

Array = NDArray[np.float64]


def fenrir(space: StateSpace) -> Array:
    """Log p(y_t | y_>t, z), (T,); their sum is the log-likelihood (eq. 50).

    The solution given z alone is a Markov process that runs backwards (eq. 13). Its kernels are
    affine, so a Kalman filter from the last sample to the first weighs the data.
    """
    solution = forward(space, data=False)
    state = solution.filtered[-1]
    log_densities = np.zeros(len(space.record))
    for sample in reversed(range(len(space.record))):
        if sample < len(space.record) - 1:
            for kernel in reversed(solution.backward[sample]):
                state = state.through(kernel)
        state, log_densities[sample] = weighed(space, sample, state)
    return log_densities
