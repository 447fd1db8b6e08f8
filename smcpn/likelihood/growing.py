"""A likelihood whose record grows.

A kernel reads the samples where the stream keeps them (`History`). What it reads besides, of smooth
inputs and shared gains, depends on a sample and those before it, never on the end of the record, so
that a stream and a record give the same numbers.

Only a band-limited input needs the samples to come: a sample then counts ``lookahead`` later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.codegen.kernel import LaneKernel, Rows
from smcpn.codegen.stream_step import Update
from smcpn.errors import InputError
from smcpn.likelihood.contract import NO_KEYS, Keys, Likelihood
from smcpn.likelihood.history import Chunk, History
from smcpn.likelihood.inputs import KernelInputs
from smcpn.likelihood.lanes import Grid
from smcpn.likelihood.registry import Recursion, number_of_steps, require_exact, suitable_likelihood
from smcpn.model.problem import Problem
from smcpn.model.record import CONTEXT, Record
from smcpn.model.signal import Samples
from smcpn.solver import Solver

Array = NDArray[np.float64]


def samples_ahead(template: Record, lookahead: int | None) -> int:
    """Samples known beyond one before it counts; by default what the hold of a record needs."""
    if lookahead is not None:
        return lookahead
    interpolated = template.n_inputs > 0 and template.u_function is None
    return CONTEXT if interpolated and template.hold == "bandlimited" else 0


def stream_grid(problem: Problem) -> Grid:
    """Grid of the samples of a stream, which are as those of the problem's first record.

    Raises
    ------
    InputError
        For delayed inputs at irregular times: how many arrive in an interval is not known before.
    """
    template, delay = problem.records[0], problem.model.delay
    if delay is not None and not template.uniform:
        raise InputError(
            f"{template.name}: delay in a stream needs samples at equal intervals, of which it is "
            "known how many inputs arrive between two: give the record dt, and outputs as NaN "
            "where they are missing",
            argument="delay",
        )
    return Grid.of([template], delay)


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
    recursion = kind.made(problem, solver, stream_grid(problem))
    compiled = GrowingRecursion(recursion, template, number_of_steps(solver), threads)
    return GrowingLikelihood(compiled, history, samples_ahead(template, lookahead))


class GrowingRecursion:
    """A recursion for a stream, compiled: its log-density, and what it expects.

    Attributes
    ----------
    recursion : Recursion
    inputs : KernelInputs
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
        self.inputs = recursion.inputs(template, steps)


class StreamSamples(Samples):
    """The samples of a stream, which may go on with samples to come.

    Parameters
    ----------
    template : Record
        Tells how the stream is sampled.
    history : History
    """

    def __init__(self, template: Record, history: History) -> None:
        super().__init__(template, history.n_outputs)
        self._history = history

    def __len__(self) -> int:
        return len(self._history)

    @override
    def _known(self, a: int, b: int) -> Array:
        return np.column_stack(self._history.samples(a, b))

    @override
    def first_rates(self, order: int) -> Array:
        # A linear input has a slope at the first sample that is not known yet, and nothing
        # depends on it: where the input bends the derivatives restart at every sample.
        if not self.template.smooth:
            return np.zeros((order, self.template.n_inputs))
        return super().first_rates(order)


class ComingSamples(StreamSamples):
    """The first ``n`` samples of a stream with samples to come behind them, (m,) and (m, n_u)."""

    def __init__(self, known: StreamSamples, n: int, t: Array, u: Array) -> None:
        super().__init__(known.template, known._history)
        self._n = n
        missing = np.full((len(t), self.n_outputs), np.nan)
        self._coming = np.column_stack([t, u, missing])

    def __len__(self) -> int:
        return self._n + len(self._coming)

    @override
    def _known(self, a: int, b: int) -> Array:
        before = super()._known(a, min(b, self._n))
        return np.concatenate([before, self._coming[max(a - self._n, 0) : max(b - self._n, 0)]])


class GrowingRows:
    """Inputs of a kernel, of the samples that were appended so far.

    Parameters
    ----------
    inputs : KernelInputs
    history : History
        Empty.
    lookahead : int
        Samples that must be known after one before it counts.

    Attributes
    ----------
    n_samples : int
        Those that count.
    """

    def __init__(self, inputs: KernelInputs, history: History, lookahead: int = 0) -> None:
        self._inputs, self._samples = inputs, StreamSamples(inputs.template, history)
        self.steps, self.history, self.lookahead = inputs.most_steps, history, lookahead
        self._rows: dict[int, Rows] = {}
        # What is remembered at the first sample of each chunk, and at the last one of all.
        self._memory: dict[int, Array] = {0: inputs.memory}
        self._latest = inputs.memory
        self._direct = inputs.direct
        self._start = np.empty(0)
        self.n_samples = 0

    def append(self, t: Array, u: Array, y: Array) -> None:
        """Take in samples: times (m,), inputs (m, n) and outputs (m, q), NaN where missing."""
        self.history.append(t, u, y)
        self._release(len(self.history) - self.lookahead)

    def append_sample(self, sample: Sequence[float]) -> None:
        """Take in one sample: time, inputs and outputs, NaN where missing."""
        chunk, local = self.history.append_sample(sample)
        if self._direct and local < chunk.intervals and not self.lookahead:
            self.n_samples += 1
        else:
            self._release(len(self.history) - self.lookahead)

    def finish(self) -> None:
        """Have the last ``lookahead`` samples count: the input beyond them is held."""
        self._release(len(self.history))

    def ahead(self, n: int, t: Array, u: Array, block: int) -> Iterator[tuple[Rows, int, int]]:
        """Rows of samples to come, (m,) and (m, n_inputs), after the first ``n``; none is kept.

        They come in parts of at most ``block`` samples.
        """
        coming, memory = ComingSamples(self._samples, n, t, u), self._memory_at(n - 1)
        for a in range(n, n + len(t), block):
            b = min(a + block, n + len(t))
            rows, memory = self._inputs.rows(coming, a - 1, b, memory)
            yield replace(rows, start=self._start), 1, len(rows)

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
        """Have the samples before ``end`` count."""
        for chunk, first, last in self.history.pieces(self.n_samples, end):
            if not self._direct:
                rows = self._rows_of(chunk)
                self._latest = self._write(chunk, rows, max(first - 1, 0), last, self._latest)
            self.n_samples = chunk.begin + last
            if last == chunk.intervals + 1:
                self._memory[chunk.number + 1] = self._latest
                for number in self.history.spill(chunk.number + 1):
                    self._rows.pop(number, None)

    def _write(self, chunk: Chunk, rows: Rows, a: int, b: int, memory: Array) -> Array:
        """Write rows of a chunk's samples [a, b); return the memory at the last one."""
        part, memory = self._inputs.rows(self._samples, chunk.begin + a, chunk.begin + b, memory)
        first = 0 if a == 0 else rows.before
        rows.samples[a + first : b + rows.before] = part.samples[first:]
        between = slice(a * self.steps, (b - 1) * self.steps)
        if rows.inputs is not None:
            rows.inputs[between] = part.inputs
        if rows.intervals is not None:
            rows.intervals[a : b - 1] = part.intervals
        if self._inputs.n_gains:
            rows.gains[between] = part.gains
        return memory

    def _memory_at(self, sample: int) -> Array:
        """Memory at a sample, from which the rows of later ones follow."""
        if sample == self.n_samples - 1 or not len(self._latest):
            return self._latest
        chunk, _ = self.history.place(sample)
        memory = self._memory[chunk.number]
        return self._inputs.rows(self._samples, chunk.begin, sample + 1, memory)[1]

    def _rows_of(self, chunk: Chunk) -> Rows:
        rows = self._rows.get(chunk.number)
        if rows is None:
            if not self._start.size:
                self._start = self._inputs.start(self._samples)
            given = chunk.samples if self._direct else None
            rows = self._inputs.blank(chunk.intervals + 1, chunk.begin, self._start, given)
            known = min(chunk.count, self.n_samples - chunk.begin)
            if known > 0 and not self._direct:
                self._write(chunk, rows, 0, known, self._memory[chunk.number])
            if chunk.kept:
                self._rows[chunk.number] = rows
        return rows


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
        super().__init__(compiled.inputs, history, lookahead)
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
