"""What one step of the filter's loop writes to: made once per run, nothing is allocated after."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.library import allocating

if TYPE_CHECKING:
    from smcpn.pn.layout import Layout

Array = NDArray[np.float64]


class Work(NamedTuple):
    """Storage of one step."""

    predicted: Array
    x: Array
    u: Array
    rate: Array
    top_scale: Array
    coupling: Array
    residual: Array
    noise: Array
    error: Array
    local: Array
    whitened: Array
    rows: Array


@allocating
def workspace(layout: Layout, n_inputs: int):
    """Arrays for ``n_inputs`` inputs."""
    size, d, n = layout.order + 1, len(layout.top), len(layout.process)
    entries = size * layout.width
    return Work(
        np.empty((size, d)),
        np.empty(n),
        np.empty(n_inputs),
        np.empty(d),
        np.empty(d),
        np.zeros((d, n)),
        np.empty(d),
        np.empty(d),
        np.empty(d),
        np.empty((layout.width, entries)),
        np.empty(layout.width),
        np.empty((entries, 2 * entries)),
    )
