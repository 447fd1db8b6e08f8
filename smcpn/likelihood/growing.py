"""A likelihood whose record grows: shared rows are appended as the samples come.

The rows of a sample depend on it and on the samples before it, never on the end of the record, so
that a stream and a record give the same rows to the bit. They are kept in chunks of equal size,
which are written once and not moved; chunks of long ago are kept in a file as samples, and
their rows are written again while a browse passes over them (`smcpn.likelihood.growing`).

Only a band-limited input needs the samples to come: the rows then lag behind by ``lookahead``.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Protocol

import h5py
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.kernel import LaneKernel, Rows
from smcpn.likelihood.lanes import CHUNK
from smcpn.model.record import CONTEXT

# ---- The samples of a stream, in chunks: the recent ones in memory, the rest in a file.

Array = NDArray[np.float64]

KEPT_CHUNKS = 64
"""Chunks in memory, a quarter of a million samples."""


@dataclass
class Chunk:
    """Consecutive samples; the first one is the last of the chunk before.

    Attributes
    ----------
    number : int
    begin : int
        Number of its first sample in the stream.
    intervals : int
        Capacity.
    samples : ndarray, (intervals + 1, 1 + n + q)
        Time, inputs, outputs.
    count : int
        Samples known.
    carried : float
        What the rows of this chunk need of those before: a sum over intervals up to ``begin``.
    total : float
        The same sum up to the last sample whose rows are written.
    kept : bool
        Whether it is in memory.
    """

    number: int
    begin: int
    intervals: int
    samples: Array
    count: int
    carried: float
    total: float
    kept: bool = True


class History:
    """All samples of a stream.

    Parameters
    ----------
    n_inputs, n_outputs : int
    folder : path-like, optional
        Where the file of old samples goes, which is removed at the end; the system's folder of
        temporary files by default.
    kept : int
        Chunks in memory.
    intervals : int
        Sampling intervals of a chunk.
    """

    def __init__(
        self,
        n_inputs: int,
        n_outputs: int,
        folder: str | os.PathLike[str] | None = None,
        kept: int = KEPT_CHUNKS,
        intervals: int = CHUNK,
    ) -> None:
        self.n_inputs, self.n_outputs = n_inputs, n_outputs
        self._folder, self._kept, self._intervals = folder, max(2, kept), intervals
        self._chunks: dict[int, Chunk] = {}
        self._carried: dict[int, float] = {0: 0.0}
        self._length = 0
        self._file: _SpilledSamples | None = None
        self._open(0)

    def __len__(self) -> int:
        return self._length

    def append(self, t: Array, u: Array, y: Array) -> None:
        """Store samples: times (m,), inputs (m, n), outputs (m, q)."""
        begin, end, n = self._length, self._length + len(t), 1 + self.n_inputs
        while begin < end:
            number, first = self._place(begin)
            if number not in self._chunks:
                self._open(number)
            chunk = self._chunks[number]
            last = min(end - chunk.begin, self._intervals + 1)
            taken = slice(begin - self._length, begin - self._length + last - first)
            chunk.samples[first:last, 0] = t[taken]
            chunk.samples[first:last, 1:n] = u[taken]
            chunk.samples[first:last, n:] = y[taken]
            chunk.count = last
            begin = chunk.begin + last
        self._length = end

    def spill(self, newest: int) -> list[int]:
        """Move chunks long before the ``newest`` in use to the file; return their numbers."""
        old = [number for number in self._chunks if number <= newest - self._kept]
        for number in old:
            if self._file is None:
                self._file = _SpilledSamples(self._folder, 1 + self.n_inputs + self.n_outputs)
            chunk = self._chunks[number]
            self._file.write(chunk.begin, chunk.samples)
            chunk.kept = False
            del self._chunks[number]
        return old

    def chunk(self, number: int) -> Chunk:
        """Return a chunk, from memory or from the file."""
        known = self._chunks.get(number)
        if known is not None:
            return known
        assert self._file is not None
        begin = number * self._intervals
        samples = self._file.read(begin, begin + self._intervals + 1)
        carried = self._carried[number]
        return Chunk(
            number, begin, self._intervals, samples, len(samples), carried, carried, kept=False
        )

    def pieces(self, a: int, b: int) -> Iterator[tuple[Chunk, int, int]]:
        """Chunks that hold the samples [a, b), with the local range of each."""
        while a < b:
            number, first = self._place(a)
            last = min(b - number * self._intervals, self._intervals + 1)
            yield self.chunk(number), first, last
            a = number * self._intervals + last

    def time(self, sample: int) -> float:
        """Time of a sample."""
        chunk, local, _ = next(self.pieces(sample, sample + 1))
        return float(chunk.samples[local, 0])

    def samples(self, a: int, b: int) -> tuple[Array, Array, Array]:
        """Times (n,), inputs (n, n_inputs) and outputs (n, n_outputs) of the samples [a, b)."""
        parts = [chunk.samples[first:last] for chunk, first, last in self.pieces(a, b)]
        width = 1 + self.n_inputs + self.n_outputs
        columns = np.concatenate(parts) if parts else np.empty((0, width))
        n = 1 + self.n_inputs
        return columns[:, 0].copy(), columns[:, 1:n].copy(), columns[:, n:].copy()

    def close(self) -> None:
        """Remove the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _place(self, sample: int) -> tuple[int, int]:
        """Chunk and local number of a sample; the first of a chunk belongs to the one before."""
        if sample == 0:
            return 0, 0
        number = (sample - 1) // self._intervals
        return number, sample - number * self._intervals

    def _open(self, number: int) -> None:
        width = 1 + self.n_inputs + self.n_outputs
        samples = np.empty((self._intervals + 1, width))
        count = 0
        if number > 0:
            samples[0] = self._chunks[number - 1].samples[self._intervals]
            count = 1
        begin = number * self._intervals
        carried = self._carried.get(number, 0.0)
        self._chunks[number] = Chunk(
            number, begin, self._intervals, samples, count, carried, carried
        )

    def carry(self, number: int, total: float) -> None:
        """Note what the rows of chunk ``number`` need of those before."""
        self._carried[number] = total
        if number in self._chunks:
            self._chunks[number].carried = self._chunks[number].total = total


class _SpilledSamples:
    """Rows of numbers in an HDF5 file of its own, removed when closed."""

    def __init__(self, folder: str | os.PathLike[str] | None, width: int) -> None:
        handle, name = tempfile.mkstemp(".h5", "smcpn-stream-", folder)
        os.close(handle)
        self._path = Path(name)
        self._file = h5py.File(name, "w")
        self._rows = self._file.create_dataset(
            "samples", (0, width), maxshape=(None, width), chunks=(CHUNK, width), dtype="f8"
        )

    def write(self, begin: int, rows: Array) -> None:
        """Store rows from number ``begin`` on."""
        self._rows.resize(begin + len(rows), axis=0)
        self._rows[begin:] = rows

    def read(self, a: int, b: int) -> Array:
        """Rows [a, b), as far as they are known."""
        return np.asarray(self._rows[a:b])

    def close(self) -> None:
        """Close and remove the file."""
        self._file.close()
        with contextlib.suppress(OSError):
            self._path.unlink()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


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

    def evaluate(self, values: Array, b: int) -> tuple[Array, Array]:
        """See `Likelihood.evaluate`."""
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
