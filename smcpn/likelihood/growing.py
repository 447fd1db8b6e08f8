"""A likelihood whose record grows: shared rows are appended as the samples come.

The rows of a sample depend on it and on the samples before it, never on the end of the record, so
that a stream and a record give the same rows. They are kept as long as their samples are in memory;
those of samples in the file (`History`) are written again while an evaluation passes over them.

Only a band-limited input needs the samples to come: the rows then lag behind by ``lookahead``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.codegen.kernel import LaneKernel, Rows
from smcpn.codegen.lower import LaneProgram
from smcpn.codegen.row_code import RowCode
from smcpn.codegen.stream_step import Update
from smcpn.errors import InputError
from smcpn.likelihood.contract import NO_KEYS, Keys, Likelihood
from smcpn.likelihood.history import Chunk, History
from smcpn.likelihood.lanes import Grid
from smcpn.likelihood.registry import Recursion, number_of_steps, require_exact, suitable_likelihood
from smcpn.likelihood.rows import NO_INTERVALS, NOTHING, RowWriter
from smcpn.likelihood.stream_window import StreamWindow, head_record, samples_ahead
from smcpn.model.problem import Problem
from smcpn.model.record import CONTEXT, Record
from smcpn.solver import Solver

Array = NDArray[np.float64]


def growing_likelihood(
    problem: Problem,
    solver: Solver,
    history: History,
    threads: int | None = None,
    lookahead: int | None = None,
    likelihood: str | None = None,
) -> GrowingLikelihood:
    """Build the likelihood of samples to come, which are sampled as the problem's first record is.

    Parameters
    ----------
    history : History
        Empty.
    lookahead : int, optional
        Samples known beyond one before it counts; by default what the hold needs.
    likelihood : str, optional
        As of `build_likelihood`.

    Raises
    ------
    InputError
        As `build_likelihood`, where the steps are still to be chosen, for an estimate, and where
        intervals should take steps in proportion to their lengths.
    """
    number_of_steps(solver)
    if solver.interval is not None:
        raise InputError(
            f"interval is {solver.interval}: a stream takes as many steps in every sampling "
            "interval, leave it out",
            argument="interval",
        )
    template = problem.records[0]
    kind = suitable_likelihood(problem, solver, likelihood)
    require_exact(kind.name)
    recursion = kind(problem, solver, Grid.of([template], problem.model.delay))
    compiled = GrowingRecursion(recursion, template, number_of_steps(solver), threads)
    return GrowingLikelihood(compiled, history, samples_ahead(template, lookahead))


@dataclass(frozen=True)
class RowWidths:
    """Numbers in each of the rows that a kernel reads; ``interval`` is None where it has none."""

    start: int
    step: int
    gain: int
    sample: int
    interval: int | None = None

    @classmethod
    def of(cls, program: LaneProgram) -> RowWidths:
        """Widths of the rows of a program."""
        return cls(
            program.start_row.numel(),
            program.step_row.numel(),
            program.gain_row.numel(),
            program.sample_row.numel(),
            None if program.interval is None else program.interval_row.numel(),
        )


class StreamRows:
    """Writer of the rows of a stream, sample by sample; compiled where the likelihood allows it.

    Attributes
    ----------
    template : Record
        Tells how the stream is sampled.
    writer : RowWriter
    widths : RowWidths
    row_code : RowCode, optional
        Writes the rows of one sample, where that is compiled.
    """

    def __init__(self, template: Record, writer: RowWriter, widths: RowWidths) -> None:
        self.template, self.writer, self.widths = template, writer, widths
        graph = writer.graph()
        self.row_code = None if graph is None else RowCode(graph)


class GrowingRecursion:
    """A recursion for a stream, compiled: its log-density, and what it expects.

    Attributes
    ----------
    recursion : Recursion
    rows : StreamRows
    kernel : LaneKernel
        It emits the log-density of a sample; its moments are mean and variance of the outputs,
        noise included, and those of the states (`Recursion.states`).
    """

    def __init__(
        self, recursion: Recursion, template: Record, steps: int, threads: int | None
    ) -> None:
        self.recursion = recursion
        expected = recursion.expected()
        mean = expected.outputs + expected.noise_mean
        variance = ca.diag(expected.covariance) + expected.noise_variance
        program = replace(
            recursion.program(recursion.log_density()),
            moments=ca.vertcat(mean, variance, *recursion.states()),
            n_outputs=mean.numel(),
        )
        self.kernel = LaneKernel(program, threads)
        writer = recursion.writer(template, steps)
        self.rows = StreamRows(template, writer, RowWidths.of(program))


class GrowingRows:
    """The rows of the samples that were appended so far.

    Parameters
    ----------
    stream : StreamRows
    history : History
        Empty.
    lookahead : int
        Samples that must be known after one before it counts.

    Attributes
    ----------
    n_samples : int
        Those that count.
    """

    def __init__(self, stream: StreamRows, history: History, lookahead: int = 0) -> None:
        self._stream, self._writer, self._template = stream, stream.writer, stream.template
        self.steps, self.history, self.lookahead = stream.writer.steps, history, lookahead
        self._rows: dict[int, Rows] = {}
        # What the rows need of those before, at the first sample of each chunk and at the last one.
        self._memory: dict[int, Array] = {0: self._writer.memory}
        self._latest = self._writer.memory.copy()
        self._frame: tuple[Chunk, NDArray[np.int64], int] | None = None
        self.n_samples = 0

    def append(self, t: Array, u: Array, y: Array) -> None:
        """Take in samples: times (m,), inputs (m, n) and outputs (m, q), NaN where missing."""
        self.history.append(t, u, y)
        self._release(len(self.history) - self.lookahead)

    def append_sample(self, sample: Sequence[float]) -> None:
        """Take in one sample: time, inputs and outputs, NaN where missing."""
        chunk, local = self.history.append_sample(sample)
        frame, code = self._frame, self._stream.row_code
        if frame is None or frame[0] is not chunk or local == chunk.intervals or self.lookahead:
            self._release(len(self.history) - self.lookahead)
            return
        assert code is not None
        code.write(frame[2], local, self.n_samples)
        self.n_samples += 1

    def finish(self) -> None:
        """Have the last ``lookahead`` samples count: the input beyond them is held."""
        self._release(len(self.history))

    def ahead(self, n: int, t: Array, u: Array, block: int) -> Iterator[tuple[Rows, int, int]]:
        """Rows of samples to come, (m,) and (m, n_inputs), after the first ``n``; none is kept.

        They come in parts of at most ``block`` samples.
        """
        coming, memory = _Coming(self.history, n, t, u), self._memory_at(n - 1)
        for a in range(n, n + len(t), block):
            b = min(a + block, n + len(t))
            window = StreamWindow(self._template, coming, a - 1, coming.columns(a - 1, b))
            rows, memory = self._writer.rows(window, memory)
            gains = self._writer.gains_from(a - 1)
            start = np.zeros(self._stream.widths.start)
            rows = rows if gains is None else rows._replace(gains=gains)
            yield self._writer.joined(start, rows), 1, len(rows.samples)

    def pieces(self, a: int, b: int) -> Iterator[tuple[Rows, int, int]]:
        """Rows, and local numbers of the samples [a, b) in them, chunk by chunk."""
        for _, rows, first, last in self.chunks(a, b):
            yield rows, first, last

    def chunks(self, a: int, b: int) -> Iterator[tuple[Chunk, Rows, int, int]]:
        """Chunks with their rows and the numbers of samples before them."""
        for chunk, first, last in self.history.pieces(a, b):
            yield chunk, self._rows_of(chunk), first, last

    def at(self, sample: int) -> tuple[Chunk, Rows, int]:
        """Chunk and rows of a sample, and its number there."""
        chunk, local = self.history.place(sample)
        return chunk, self._rows_of(chunk), local

    def _release(self, end: int) -> None:
        """Write the rows of the samples before ``end``, after which they count."""
        for chunk, first, last in self.history.pieces(self.n_samples, end):
            rows = self._rows_of(chunk)
            code = self._stream.row_code
            if code is not None and last - first == 1 and first > 1:
                code.write(self._framed(code, chunk, rows), first, self.n_samples)
            else:
                self._latest[:] = self._write(chunk, rows, max(first - 1, 0), last, self._latest)
            self.n_samples = chunk.begin + last
            if last == chunk.intervals + 1:
                self._memory[chunk.number + 1] = self._latest.copy()
                for number in self.history.spill(chunk.number + 1):
                    self._rows.pop(number, None)

    def _write(self, chunk: Chunk, rows: Rows, a: int, b: int, memory: Array) -> Array:
        """Write the rows of a chunk's samples [a, b); memory at the first and at the last."""
        samples = chunk.samples[a:b]
        window = StreamWindow(self._template, self.history, chunk.begin + a, samples)
        part, memory = self._writer.rows(window, memory)
        steps = self.steps
        rows.samples[a:b] = part.samples
        if b - a > 1:
            between = slice(a * steps, (b - 1) * steps)
            rows.inputs[between] = part.inputs
            if self._writer.gains is None:
                rows.gains[between] = part.gains
            if rows.intervals.size:
                rows.intervals[a : b - 1] = part.intervals
        return memory

    def _framed(self, code: RowCode, chunk: Chunk, rows: Rows) -> int:
        """Address of what the compiled writer is told of a chunk in memory."""
        known = self._frame
        if known is None or known[0] is not chunk:
            frame = code.frame(chunk.samples, rows, self._latest)
            known = self._frame = chunk, frame, frame.ctypes.data
        return known[2]

    def _rows_of(self, chunk: Chunk) -> Rows:
        rows = self._rows.get(chunk.number)
        if rows is None:
            rows = self._empty(chunk)
            known = min(chunk.count, self.n_samples - chunk.begin)
            if known > 0:
                self._write(chunk, rows, 0, known, self._memory[chunk.number])
            if chunk.kept:
                self._rows[chunk.number] = rows
        return rows

    def _empty(self, chunk: Chunk) -> Rows:
        """Rows of a chunk, still to be written; those of the first hold the start."""
        widths, size, steps = self._stream.widths, chunk.intervals, self.steps
        gains = self._writer.gains_from(chunk.begin)
        first = chunk.number == 0
        start = self._writer.start(head_record(self._template, self.history)) if first else NOTHING
        return Rows(
            start=start if first else np.zeros(widths.start),
            inputs=np.empty((size * steps, widths.step)),
            gains=np.empty((size * steps, widths.gain)) if gains is None else gains,
            samples=np.zeros((size + 1, widths.sample)),
            steps=steps,
            recur=self._writer.recur,
            intervals=NO_INTERVALS
            if widths.interval is None
            else np.empty((size, widths.interval)),
        )

    def _memory_at(self, sample: int) -> Array:
        """State of the row writer after a sample, from which the rows of later ones follow."""
        if sample == self.n_samples - 1:
            return self._latest
        chunk, local = self.history.place(sample)
        window = StreamWindow(self._template, self.history, chunk.begin, chunk.samples[: local + 1])
        return self._writer.rows(window, self._memory[chunk.number])[1]


class GrowingLikelihood(GrowingRows, Likelihood):
    """The `Likelihood` contract over the samples that were appended so far.

    Parameters
    ----------
    compiled : GrowingRecursion
    history : History
        Empty.
    lookahead : int
        Samples that must be known after one before it counts.
    """

    def __init__(self, compiled: GrowingRecursion, history: History, lookahead: int = 0) -> None:
        super().__init__(compiled.rows, history, lookahead)
        self._compiled, self.kernel = compiled, compiled.kernel

    @property
    def n_outputs(self) -> int:
        """Outputs of the model."""
        return self._compiled.recursion.model.outputs.numel()

    @property
    def n_states(self) -> int:
        """States of the model."""
        return self._compiled.recursion.model.x.numel()

    def emptied(self) -> GrowingLikelihood:
        """Return the same without samples, compiled already."""
        history = History(self.history.n_inputs, self.history.n_outputs)
        return GrowingLikelihood(self._compiled, history, self.lookahead)

    def start(self, values: Array) -> Array:
        """State before the first sample, (k, N); zero while there is no sample."""
        if self.n_samples == 0:
            return np.zeros((self.kernel.program.state.numel(), len(values)))
        return self.kernel.start(np.ascontiguousarray(values.T), self.at(0)[1])

    @override
    def advance(
        self, values: Array, state: Array, a: int, b: int, keys: Keys = NO_KEYS
    ) -> tuple[Array, Array]:
        theta = np.ascontiguousarray(values.T)
        parts = []
        for rows, first, last in self.pieces(a, b):
            state, emitted, _ = self.kernel.advance(theta, state, rows, first, last, True)
            parts.append(emitted[:, 0])
        return state, parts[0] if len(parts) == 1 else np.concatenate(parts)

    @override
    def accumulate(
        self, values: Array, state: Array | None, a: int, b: int, keys: Keys = NO_KEYS
    ) -> tuple[Array, Array]:
        state = self.start(values) if state is None else state
        theta, total = np.ascontiguousarray(values.T), np.zeros(len(values))
        for rows, first, last in self.pieces(a, b):
            state, _, sums = self.kernel.advance(theta, state, rows, first, last, False)
            total += sums[0]
        return state, total

    def columns(self, values: Array) -> Array:
        """Parameters as `update` and `moments` take them."""
        return self.kernel.columns(np.ascontiguousarray(values.T))

    def update(self, columns: Array, sample: int, keys: Keys = NO_KEYS) -> Update:
        """Kernel that assimilates a sample, and those after it in the same chunk, one by one."""
        chunk, rows, _ = self.at(sample)
        return Update(self.kernel, columns, rows, chunk.samples, chunk.begin)

    def moments(self, columns: Array, state: Array, sample: int) -> Array:
        """Moments of the kernel at a sample, (m, N), from the state (k, N) of the solver there."""
        _, rows, local = self.at(sample)
        return self.kernel.moments_at(columns, state, rows, local)

    def moments_ahead(
        self,
        values: Array,
        state: Array,
        n: int,
        t: Array,
        u: Array,
        block: int,
        keys: Keys = NO_KEYS,
    ) -> Iterator[Array]:
        """Moments at samples to come, (m, N) of each, in blocks; arguments as of `ahead`."""
        theta = np.ascontiguousarray(values.T)
        for rows, first, last in self.ahead(n, t, u, block):
            state, moments = self.kernel.moments(theta, state, rows, first, last)
            yield moments


class _Coming:
    """The last samples of a history with samples to come behind them."""

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
        """Times, inputs and outputs; the ones before the first are not known."""
        t, u, y = (part[max(0, a - self._begin) : b - self._begin] for part in self._parts)
        missing = max(0, self._begin - a)
        return np.pad(t, (missing, 0)), np.pad(u, ((missing, 0), (0, 0)), mode="edge"), y

    def columns(self, a: int, b: int) -> Array:
        """Samples [a, b) as a chunk has them, (b - a, 1 + n + q)."""
        t, u, y = self.samples(a, b)
        return np.column_stack([t, u, y])
