"""Values that a kernel emits over a record, in chunks of time, and its rows in pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.kernel import LaneKernel, Rows
from smcpn.likelihood.rows import RecordPiece, RowWriter
from smcpn.model.record import Record

Array = NDArray[np.float64]

CHUNK = 250_000
"""Predicted numbers held at a time, whatever the length of the record: they stay in cache."""


PIECE = 100_000
"""Solver steps of a record whose rows are held at a time."""


def output_chunks(
    kernel: LaneKernel, theta: Array, pieces: Iterable[Rows], n_outputs: int
) -> Iterator[tuple[int, int, Array]]:
    """Yield (a, b, outputs (b - a, q, N)) over the rows of a record, for parameters (p, N).

    Parameters
    ----------
    pieces : iterable of Rows
        Of a record cut into pieces, each of which begins with the last sample of the one before.
    """
    length = max(1, CHUNK // (theta.shape[1] * n_outputs))
    state, begin = np.empty((0, 0)), 0
    for number, rows in enumerate(pieces):
        known = 0 if number == 0 else 1
        if not known:
            state = kernel.start(theta, rows)
        for first in range(known, len(rows), length):
            last = min(first + length, len(rows))
            state, emitted, _ = kernel.advance(theta, state, rows, first, last, store=True)
            yield begin + first, begin + last, emitted
        begin += len(rows) - 1


def row_pieces(writer: RowWriter, record: Record) -> Iterator[Rows]:
    """Write the rows of a record in pieces, as `output_chunks` takes them.

    An input that is known as a function, or interpolated through all of its period, stays whole.
    """
    whole = record.periodic or record.u_function is not None
    length = len(record) if whole else max(2, PIECE // writer.steps)
    if length >= len(record):
        yield writer.whole(record)
        return
    start, memory = writer.start(record), writer.memory
    for a in range(0, len(record) - 1, length):
        window = RecordPiece(record, writer.n_outputs, a, min(a + length + 1, len(record)))
        rows, memory = writer.rows(window, memory)
        yield writer.joined(start, rows)
