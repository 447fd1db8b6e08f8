"""All samples of a stream, in chunks of equal size, which are written once and not moved.

Chunks of long ago are kept in a file.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from smcpn.likelihood.inputs import CHUNK

Array = NDArray[np.float64]

KEPT_CHUNKS = 64
"""Chunks in memory, a quarter of a million samples."""


@dataclass
class Chunk:
    """Consecutive samples; the first one is the last of the chunk before.

    begin: Number of its first sample in the stream.
    intervals: Capacity.
    samples: (intervals + 1, 1 + n + q), time, inputs, outputs.
    count: Samples known.
    """

    number: int
    begin: int
    intervals: int
    samples: Array
    count: int


class History:
    """All samples of a stream.

    folder: Where the file of old samples goes, which is removed at the end; the system's folder of
        temporary files by default.
    kept: Chunks in memory.
    intervals: Sampling intervals of a chunk.
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
        self._folder, self._most, self.intervals = folder, max(2, kept), intervals
        self._chunks: dict[int, Chunk] = {}
        self._length, self._last = 0, 0.0
        self._file: _SpilledSamples | None = None
        self._open(0)

    def __len__(self) -> int:
        return self._length

    @property
    def width(self) -> int:
        """Numbers of a sample: time, inputs and outputs."""
        return 1 + self.n_inputs + self.n_outputs

    @property
    def in_memory(self) -> bool:
        """True if no samples are in the file."""
        return self._file is None

    def append(self, t: Array, u: Array, y: Array) -> None:
        """Store samples: times (m,), inputs (m, n), outputs (m, q)."""
        begin, end, n = self._length, self._length + len(t), 1 + self.n_inputs
        while begin < end:
            number, first = self._place(begin)
            if number not in self._chunks:
                self._open(number)
            chunk = self._chunks[number]
            last = min(end - chunk.begin, self.intervals + 1)
            taken = slice(begin - self._length, begin - self._length + last - first)
            chunk.samples[first:last, 0] = t[taken]
            chunk.samples[first:last, 1:n] = u[taken]
            chunk.samples[first:last, n:] = y[taken]
            chunk.count = last
            begin = chunk.begin + last
        if len(t):
            self._length, self._last = end, float(t[-1])

    def append_sample(self, sample: Sequence[float]) -> tuple[Chunk, int]:
        """Store one sample, time, inputs and outputs; return its chunk, and its number there."""
        chunk = self._newest
        if chunk.count > chunk.intervals:
            self._open(chunk.number + 1)
            chunk = self._newest
        local = chunk.count
        chunk.samples[local] = sample
        chunk.count = local + 1
        self._length += 1
        self._last = sample[0]
        return chunk, local

    def spill(self, newest: int) -> list[int]:
        """Move chunks long before the ``newest`` in use to the file; return their numbers."""
        old = [number for number in self._chunks if number <= newest - self._most]
        for number in old:
            if self._file is None:
                self._file = _SpilledSamples(self._folder, self.width)
            chunk = self._chunks[number]
            self._file.write(chunk.begin, chunk.samples)
            del self._chunks[number]
        return old

    def kept(self, number: int) -> Chunk | None:
        """Return a chunk that is in memory."""
        return self._chunks.get(number)

    def chunk(self, number: int) -> Chunk:
        """Return a chunk, from memory or from the file."""
        known = self.kept(number)
        if known is not None:
            return known
        assert self._file is not None
        begin = number * self.intervals
        samples = self._file.read(begin, begin + self.intervals + 1)
        return Chunk(number, begin, self.intervals, samples, len(samples))

    def pieces(self, a: int, b: int) -> Iterator[tuple[Chunk, int, int]]:
        """Chunks that hold the samples [a, b), with the local range of each."""
        while a < b:
            number, first = self._place(a)
            last = min(b - number * self.intervals, self.intervals + 1)
            yield self.chunk(number), first, last
            a = number * self.intervals + last

    def time(self, sample: int) -> float:
        """Time of a sample."""
        if sample == self._length - 1:
            return self._last
        chunk, local = self.place(sample)
        return float(chunk.samples[local, 0])

    def place(self, sample: int) -> tuple[Chunk, int]:
        """Chunk of a sample, and its number there."""
        number, local = self._place(sample)
        return self.chunk(number), local

    def samples(self, a: int, b: int) -> tuple[Array, Array, Array]:
        """Times (n,), inputs (n, n_inputs) and outputs (n, n_outputs) of the samples [a, b)."""
        parts = [chunk.samples[first:last] for chunk, first, last in self.pieces(a, b)]
        columns = np.concatenate(parts) if parts else np.empty((0, self.width))
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
        number = (sample - 1) // self.intervals
        return number, sample - number * self.intervals

    def _open(self, number: int) -> None:
        samples = np.empty((self.intervals + 1, self.width))
        count = 0
        if number > 0:
            samples[0] = self._chunks[number - 1].samples[self.intervals]
            count = 1
        begin = number * self.intervals
        chunk = Chunk(number, begin, self.intervals, samples, count)
        self._chunks[number] = self._newest = chunk


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
