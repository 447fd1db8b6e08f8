"""Values that a kernel emits over a record, in chunks of time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.kernel import LaneKernel, Rows
from smcpn.likelihood.inputs import RecordRows
from smcpn.likelihood.lanes import chunks

Array = NDArray[np.float64]

CHUNK = 250_000
"""Predicted numbers held at a time, whatever the length of the record: they stay in cache."""


def output_chunks(
    kernel: LaneKernel, theta: Array, rows: Rows | RecordRows, n_outputs: int
) -> Iterator[tuple[int, int, Array]]:
    """Yield (a, b, outputs (b - a, q, N)) over the rows of a record, for parameters (p, N)."""
    length = max(1, CHUNK // (theta.shape[1] * n_outputs))
    state = kernel.start(theta, rows.around(0, 1)[0])
    for begin, end in chunks(0, len(rows), rows.length):
        for first in range(begin, end, length):
            last = min(first + length, end)
            there = rows.around(first, last)
            state, emitted, _ = kernel.advance(theta, state, *there, store=True)
            yield first, last, emitted
