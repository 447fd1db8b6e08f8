"""A likelihood whose record grows: shared rows are appended as the samples come.

The rows of a sample depend on it and on the samples before it, never on the end of the record, so
that a stream and a record give the same rows to the bit. They are kept in chunks of equal size,
which are written once and not moved; chunks of long ago are kept in a file as samples, and
their rows are written again while a browse passes over them (`smcpn.likelihood.history`).

Only a band-limited input needs the samples to come: the rows then lag behind by ``lookahead``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.kernel import LaneKernel, Rows
from smcpn.likelihood.history import Chunk, History
from smcpn.record import CONTEXT

Array = NDArray[np.float64]


class Inputs(Protocol):
    """The samples that rows may depend on."""

    def __len__(self) -> int: ...

    def samples(self, a: int, b: int) -> tuple[Array, Array, Array]:
        """Times, inputs and outputs of the samples [a, b)."""
        ...


class RowWriter(Protocol):
    """Writes the shared rows of a kernel, for a range of samples at a time."""

    def empty(self, chunk: Chunk) -> Rows:
        """Return rows for a chunk, still to be written."""
        ...

    def write(self, history: Inputs, chunk: Chunk, rows: Rows, a: int, b: int) -> None:
        """Write the rows of the chunk's samples [a, b), and of the interval before each."""
        ...


class Place(NamedTuple):
    """Where a sample is.

    Attributes
    ----------
    rows : Rows
    local : int
        Its number in these.
    y : ndarray, (q,)
        Its outputs, NaN where missing.
    """

    rows: Rows
    local: int
    y: Array


class GrowingLikelihood:
    """The `Likelihood` contract over the samples that were appended so far.

    Parameters
    ----------
    kernel : LaneKernel
        It emits the log-density of a sample.
    predictive : callable
        Makes a kernel of the same recursion that emits mean and variance of the outputs.
    writer : RowWriter
    history : History
        Empty.
    lookahead : int
        Samples that must be known after one before it counts.
    places : slice
        Where the solver's state holds the values of the states.
    """

    def __init__(
        self,
        kernel: LaneKernel,
        predictive: Callable[[], LaneKernel],
        writer: RowWriter,
        history: History,
        lookahead: int = 0,
        places: slice = slice(None),
    ) -> None:
        self.kernel, self._make_predictive, self._writer = kernel, predictive, writer
        self.history, self.lookahead, self.places = history, lookahead, places
        self._rows: dict[int, Rows] = {}
        self.n_samples = 0

    @cached_property
    def predictive(self) -> LaneKernel:
        """The recursion that emits mean and variance of the outputs."""
        return self._make_predictive()

    def emptied(self) -> GrowingLikelihood:
        """Return the same without samples, compiled already."""
        history = History(self.history.n_inputs, self.history.n_outputs)
        return GrowingLikelihood(
            self.kernel, lambda: self.predictive, self._writer, history, self.lookahead, self.places
        )

    def append(self, t: Array, u: Array, y: Array) -> None:
        """Take in samples: times (m,), inputs (m, n) and outputs (m, q), NaN where missing."""
        self.history.append(t, u, y)
        self._release(len(self.history) - self.lookahead)

    def finish(self) -> None:
        """Have the last ``lookahead`` samples count: the input beyond them is held."""
        self._release(len(self.history))

    def start(self, values: Array) -> Array:
        """See `Likelihood.start`; not known, hence zero, while there is no sample."""
        if self.n_samples == 0:
            return np.zeros((self.kernel.program.state.numel(), len(values)))
        rows = self._rows_of(self.history.chunk(0))
        return self.kernel.start(np.ascontiguousarray(values.T), rows)

    def advance(self, values: Array, state: Array, a: int, b: int) -> tuple[Array, Array]:
        """See `Likelihood.advance`."""
        theta = np.ascontiguousarray(values.T)
        parts = []
        for rows, first, last in self.pieces(a, b):
            state, emitted, _ = self.kernel.advance(theta, state, rows, first, last, True)
            parts.append(emitted[:, 0])
        return state, parts[0] if len(parts) == 1 else np.concatenate(parts)

    def browse(self, values: Array, b: int) -> tuple[Array, Array]:
        """See `Likelihood.browse`."""
        return self.total(values, self.start(values), 0, b)

    def total(self, values: Array, state: Array, a: int, b: int) -> tuple[Array, Array]:
        """State after sample b - 1 and the sum of the increments of samples [a, b), (N,)."""
        theta, total = np.ascontiguousarray(values.T), np.zeros(len(values))
        for rows, first, last in self.pieces(a, b):
            state, _, sums = self.kernel.advance(theta, state, rows, first, last, False)
            total += sums[0]
        return state, total

    def columns(self, values: Array) -> Array:
        """Parameters as `weigh` and `predicted` take them."""
        return self.kernel.columns(np.ascontiguousarray(values.T))

    def place(self, sample: int) -> Place:
        """Where the rows of a sample are, for the methods that take one sample."""
        chunk, local, _ = next(self.history.pieces(sample, sample + 1))
        return Place(self._rows_of(chunk), local, chunk.samples[local, 1 + self.history.n_inputs :])

    def weigh(self, columns: Array, state: Array, place: Place) -> tuple[Array, Array]:
        """State (k, N) and increment (N,) of one sample: `advance` at the least cost."""
        state, emitted = self.kernel.sample(columns, state, place.rows, place.local)
        return state, emitted[0]

    def predicted(self, columns: Array, state: Array, place: Place) -> Array:
        """Mean and variance of the outputs at a sample, noise included, (2 q, N).

        Parameters
        ----------
        state : ndarray, (k, N)
            At that sample.
        """
        return self.predictive.emit(columns, state, place.rows, place.local)

    def ahead(self, n: int, t: Array, u: Array, block: int) -> Iterator[tuple[Rows, int, int]]:
        """Rows of samples to come, (m,) and (m, n_inputs), after the first ``n``; none is kept.

        They come in parts of at most ``block`` samples.
        """
        coming, place = _Coming(self.history, n, t, u), self.place(n - 1)
        total = float(place.rows.samples[place.local, -2])
        for a in range(n, n + len(t), block):
            samples = coming.rows(a - 1, min(a + block, n + len(t)))
            size = len(samples)
            chunk = Chunk(1, a - 1, size - 1, samples, size, total, total, kept=False)
            rows = self._writer.empty(chunk)
            self._writer.write(coming, chunk, rows, 1, size)
            total = chunk.total
            yield rows, 1, size

    def pieces(self, a: int, b: int) -> Iterator[tuple[Rows, int, int]]:
        """Rows, and local numbers of the samples [a, b) in them, chunk by chunk."""
        for chunk, first, last in self.history.pieces(a, b):
            yield self._rows_of(chunk), first, last

    def _release(self, end: int) -> None:
        """Write the rows of the samples before ``end``, after which they count."""
        for chunk, first, last in self.history.pieces(self.n_samples, end):
            rows = self._rows_of(chunk)
            self._writer.write(self.history, chunk, rows, first, last)
            self.n_samples = chunk.begin + last
            if last == chunk.intervals + 1:
                self.history.carry(chunk.number + 1, chunk.total)
                for number in self.history.spill(chunk.number + 1):
                    self._rows.pop(number, None)

    def _rows_of(self, chunk: Chunk) -> Rows:
        rows = self._rows.get(chunk.number)
        if rows is None:
            rows = self._writer.empty(chunk)
            known = min(chunk.count, self.n_samples - chunk.begin)
            if known > 0:
                self._writer.write(self.history, chunk, rows, 0, known)
            if chunk.kept:
                self._rows[chunk.number] = rows
        return rows


class _Coming:
    """A stretch of history with samples to come behind it."""

    def __init__(self, history: History, n: int, t: Array, u: Array) -> None:
        self._begin = max(0, n - 1 - CONTEXT)
        known = history.samples(self._begin, n)
        self._parts = (
            np.concatenate([known[0], t]),
            np.concatenate([known[1], u]),
            np.concatenate([known[2], np.full((len(t), history.n_outputs), np.nan)]),
        )

    def __len__(self) -> int:
        return self._begin + len(self._parts[0])

    def samples(self, a: int, b: int) -> tuple[Array, Array, Array]:
        """See `Inputs.samples`; the ones before the stretch are not known."""
        t, u, y = (part[max(0, a - self._begin) : b - self._begin] for part in self._parts)
        missing = max(0, self._begin - a)
        return np.pad(t, (missing, 0)), np.pad(u, ((missing, 0), (0, 0)), mode="edge"), y

    def rows(self, a: int, b: int) -> Array:
        """Samples [a, b) as a chunk has them, (b - a, 1 + n + q)."""
        t, u, y = self.samples(a, b)
        return np.column_stack([t, u, y])
