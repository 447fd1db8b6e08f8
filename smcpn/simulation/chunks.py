"""What a kernel emits over a record, in chunks of time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.kernel import LaneKernel, Rows

Array = NDArray[np.float64]

CHUNK = 250_000
"""Predicted numbers held at a time, whatever the length of the record: they stay in cache."""


def output_chunks(
    kernel: LaneKernel, theta: Array, rows: Rows, n_outputs: int
) -> Iterator[tuple[int, int, Array]]:
    """Yield (a, b, outputs (b - a, q, N)) over the rows of a record, for parameters (p, N)."""
    length = max(1, CHUNK // (theta.shape[1] * n_outputs))
    state = kernel.start(theta, rows)
    for a in range(0, len(rows), length):
        b = min(a + length, len(rows))
        state, emitted, _ = kernel.advance(theta, state, rows, a, b, store=True)
        yield a, b, emitted
