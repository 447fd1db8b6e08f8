"""DALTON: log p(y, z) - log p(z), each by a filter of its own (Wu and Lysy, Algorithm 1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smcpn.pn.likelihoods.forward import forward
from smcpn.pn.likelihoods.statespace import StateSpace

Array = NDArray[np.float64]


def dalton(space: StateSpace) -> Array:
    """Increments of log p(y, z) - log p(z) from sample to sample, (T,).

    An output that is not linear in the state is linearised once z is seen, not before.
    """
    joint, alone = forward(space, data=True), forward(space, data=False)
    return joint.ode + joint.data - alone.ode
