"""The likelihood of the data-conditioned solver: product of p(y_t | y_<t, z_<=t)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smcpn.pn.likelihoods.forward import forward
from smcpn.pn.likelihoods.statespace import StateSpace

Array = NDArray[np.float64]


def filtering(space: StateSpace) -> Array:
    """Increments log p(y_t | y_<t, z_<=t), (T,)."""
    return forward(space, data=True).data
