"""A record that grows, and the likelihood of a stream.

A batch is a stream that has ended: `KernelRows` makes the rows of both, and `CompiledLikelihood`
runs over them. A kernel reads the samples where the stream keeps them (`History`). What it reads
besides, of smooth inputs and shared gains, depends on a sample and those before it, never on the
end of the record, so that a stream and a record give the same numbers.

Only a band-limited input needs the samples to come: a sample then counts ``lookahead`` later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.codegen.kernel import LaneKernel, Rows
from smcpn.codegen.lower import LaneProgram
from smcpn.codegen.stream_step import Update
from smcpn.errors import InputError
from smcpn.likelihood.contract import NO_KEYS, Keys
from smcpn.likelihood.history import History
from smcpn.likelihood.inputs import KernelInputs, KernelRows
from smcpn.likelihood.lanes import CompiledLikelihood, Grid
from smcpn.likelihood.registry import (
    Recursion,
    number_of_steps,
    require_exact,
    suitable_likelihood,
    weighing_program,
)
from smcpn.model.problem import Problem
from smcpn.model.record import CONTEXT, InputFunction, Record, given_among
from smcpn.model.signal import BandLimited, Samples, band_limited, stream_intervals
from smcpn.model.solver import Solver

Array = NDArray[np.float64]


def samples_ahead(template: Record, lookahead: int | None) -> int:
    """Samples known beyond one before it counts; by default what the hold of a record needs."""
    if lookahead is not None:
        return lookahead
    return CONTEXT if band_limited(template) else 0


def stream_grid(problem: Problem) -> Grid:
    """Grid of the samples of a stream, which are as those of the problem's first record."""
    template, delay = problem.records[0], problem.model.delay
    grid = Grid.of([template], delay)
    checked = stream_intervals(template, delay) is not None
    regular = not (grid.rescales or template.held)
    if regular and (template.dt is not None or checked):
        return grid
    spans = () if delay is None else delay.spans_between(template)
    return replace(grid, rescales=True, delays=spans)


def growing_likelihood(
    problem: Problem,
    solver: Solver,
    history: History,
    threads: int | None = None,
    lookahead: int | None = None,
    likelihood: str | None = None,
) -> StreamLikelihood:
    """Build the likelihood of samples to come, which are sampled as the problem's first record is.

    history: Empty.
    lookahead: Samples known beyond one before it counts; by default what the hold needs.
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
    inputs = recursion.inputs(template, number_of_steps(solver))
    stream = GrowingRows(inputs, history, samples_ahead(template, lookahead))
    kernel = LaneKernel(stream_program(recursion), threads)
    return StreamLikelihood(kernel, stream, problem.model.x.numel())


def stream_program(recursion: Recursion) -> LaneProgram:
    """Program that emits the log density of each sample, and has moments.

    These are mean and variance of the outputs, noise included, and those of `Recursion.states`.
    """
    expected = recursion.expected()
    mean = expected.outputs + expected.noise_mean
    variance = ca.diag(expected.covariance) + expected.noise_variance
    return replace(
        weighing_program(recursion),
        moments=ca.vertcat(mean, variance, *recursion.states()),
        n_outputs=mean.numel(),
    )


def place_before(given: NDArray[np.bool_], number: int) -> int:
    """Return how many of the samples come before the last ``number`` of those that are given.

    given: (m,), False for a sample that was inserted where a dose arrives.
    """
    if not number:
        return len(given)
    places = np.flatnonzero(given)
    return int(places[-number]) if number <= len(places) else 0


class StreamSamples(Samples):
    """The samples of a stream, which may go on with samples to come.

    template: Tells how the stream is sampled.
    """

    def __init__(self, template: Record, history: History) -> None:
        super().__init__(template, history.n_outputs)
        self._history = history

    def __len__(self) -> int:
        return len(self._history)

    @override
    def _known(self, a: int, b: int) -> Array:
        columns, function = self._measured(a, b), self._function(a, b)
        if function is not None and function is not self.template.u_function:
            # Where a dose arrived the input was not known yet.
            n, held = 1 + self.template.n_inputs, self.template.held
            put_in = ~given_among(columns[:, 1:n], held)
            columns[put_in, 1 : n - held] = function(columns[put_in, 0])
        return columns

    def _measured(self, a: int, b: int) -> Array:
        """Samples as they were taken in."""
        return np.column_stack(self._history.samples(a, b))

    @override
    def _function(self, a: int, b: int) -> InputFunction | None:
        whole = self.template.u_function
        if not isinstance(whole, BandLimited):
            return whole
        n, held, reach = 1 + self.template.n_inputs, self.template.held, CONTEXT
        # Of how many samples others were put in is not known.
        while True:
            first, last = max(a - reach, 0), min(b + reach, len(self))
            around = self._measured(first, last)
            own = given_among(around[:, 1:n], held)
            before, after = own[: max(a - first, 0)].sum(), own[max(b - first, 0) :].sum()
            if (first == 0 or before >= CONTEXT) and (last == len(self) or after >= CONTEXT):
                break
            reach *= 2
        some = around[own]
        return BandLimited(float(some[0, 0]), whole.interval, some[:, 1 : n - held], False)

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
    def _measured(self, a: int, b: int) -> Array:
        before = super()._measured(a, min(b, self._n))
        return np.concatenate([before, self._coming[max(a - self._n, 0) : max(b - self._n, 0)]])


class GrowingRows(KernelRows):
    """Rows of the samples of a stream: those that were appended so far, and more to come.

    Pieces are the chunks of the history; rows are kept as long as it has them in memory.

    history: Empty.
    lookahead: Samples that must be known after one before it counts.
    n_samples: Those that count.
    """

    def __init__(self, inputs: KernelInputs, history: History, lookahead: int = 0) -> None:
        super().__init__(inputs, StreamSamples(inputs.template, history), history.intervals)
        self.history, self.lookahead, self.n_samples = history, lookahead, 0
        self._kept: dict[int, Rows] = {}
        # Places of the last ones given, of which as many are known beyond all that count.
        self._given = deque[int](maxlen=lookahead)
        self._direct = inputs.direct
        # What is remembered at the last sample.
        self._remembered = inputs.memory

    def __len__(self) -> int:
        return self.n_samples

    def emptied(self) -> GrowingRows:
        """Return the same without samples."""
        history = History(self.history.n_inputs, self.history.n_outputs)
        return GrowingRows(self.inputs, history, self.lookahead)

    def append(self, t: Array, u: Array, y: Array) -> None:
        """Take in samples: times (m,), inputs (m, n) and outputs (m, q), NaN where missing."""
        begin = len(self.history)
        self.history.append(t, u, y)
        self._look_ahead(begin, u)

    def append_sample(self, sample: Sequence[float]) -> None:
        """Take in one sample: time, inputs and outputs, NaN where missing."""
        chunk, local = self.history.append_sample(sample)
        if self._direct and local < chunk.intervals and not self.lookahead:
            self.n_samples += 1
        else:
            u = chunk.samples[local : local + 1, 1 : 1 + self.history.n_inputs]
            self._look_ahead(len(self.history) - 1, u)

    def _look_ahead(self, begin: int, u: Array) -> None:
        """Have the samples count beyond which ``lookahead`` more are given.

        The last ones of the history, from ``begin`` on, have inputs (m, n).
        """
        if not self.lookahead:
            self._release(begin + len(u))
            return
        given = given_among(u, self._samples.template.held)
        self._given.extend((begin + np.flatnonzero(given)).tolist())
        if len(self._given) == self.lookahead:
            self._release(self._given[0])

    def finish(self) -> None:
        """Have the last ``lookahead`` samples count: the input beyond them is held."""
        self._release(len(self.history))

    def ahead(self, n: int, t: Array, u: Array, block: int) -> Iterator[tuple[Rows, int, int]]:
        """Rows of samples to come, (m,) and (m, n_inputs), after the first ``n``; none is kept.

        They come in parts of at most ``block`` samples.
        """
        known = StreamSamples(self.inputs.template, self.history)
        coming, memory = ComingSamples(known, n, t, u), self._memory_at(n - 1)
        for a in range(n, n + len(t), block):
            b = min(a + block, n + len(t))
            rows, memory = self.inputs.rows(coming, a - 1, b, memory)
            yield replace(rows, start=self.start), 1, len(rows)

    def _release(self, end: int) -> None:
        """Have the samples before ``end`` count."""
        while self.n_samples < end:
            number, first = self._place(self.n_samples)
            last = min(end - number * self.length, self.length + 1)
            if not self._direct:
                rows = self._piece(number)
                self._remembered = self._extend(rows, max(first - 1, 0), last, self._remembered)
            self.n_samples = number * self.length + last
            if last > self.length:
                self._memory[number + 1] = self._remembered
                for old in self.history.spill(number + 1):
                    self._kept.pop(old, None)

    def _extend(self, rows: Rows, a: int, b: int, memory: Array) -> Array:
        """Write the samples [a, b) of a piece into its rows; return the memory at the last one."""
        steps, begin = self.inputs.most_steps, rows.sample
        part, memory = self.inputs.rows(self._samples, begin + a, begin + b, memory)
        first = 0 if a == 0 else rows.before
        rows.samples[a + first : b + rows.before] = part.samples[first:]
        between = slice(a * steps, (b - 1) * steps)
        if rows.inputs is not None:
            rows.inputs[between] = part.inputs
        if rows.intervals is not None:
            rows.intervals[a : b - 1] = part.intervals
        if self.inputs.n_gains:
            rows.gains[between] = part.gains
        return memory

    def _memory_at(self, sample: int) -> Array:
        """Memory at a sample, from which the rows of later ones follow."""
        if sample == self.n_samples - 1 or not len(self._remembered):
            return self._remembered
        number, _ = self._place(sample)
        begin = number * self.length
        return self.inputs.rows(self._samples, begin, sample + 1, self._memory[number])[1]

    @override
    def _piece(self, number: int) -> Rows:
        rows = self._kept.get(number)
        if rows is not None:
            return rows
        chunk = self.history.kept(number)
        if chunk is None:
            return super()._piece(number)
        given = chunk.samples if self._direct else None
        rows = self.inputs.blank(self.length + 1, number * self.length, self.start, given)
        known = min(self.n_samples - rows.sample, self.length + 1)
        if known > 0 and not self._direct:
            self._extend(rows, 0, known, self._memory[number])
        self._kept[number] = rows
        return rows


class StreamLikelihood(CompiledLikelihood):
    """A compiled likelihood that follows a stream, sample by sample.

    kernel: Of a `stream_program`.
    """

    def __init__(self, kernel: LaneKernel, stream: GrowingRows, n_states: int) -> None:
        super().__init__(kernel, [stream])
        self.kernel, self.stream, self.n_states = kernel, stream, n_states
        self.n_outputs = kernel.program.n_outputs

    def emptied(self) -> StreamLikelihood:
        """Return the same without samples, compiled already."""
        return StreamLikelihood(self.kernel, self.stream.emptied(), self.n_states)

    def columns(self, values: Array) -> Array:
        """Parameters as `update` and `moments` take them."""
        return self.kernel.columns(np.ascontiguousarray(values.T))

    def update(self, columns: Array, sample: int, keys: Keys = NO_KEYS) -> Update:
        """Kernel that assimilates a sample, and those after it in the same piece, one by one."""
        rows, _ = self.stream.at(sample)
        return Update(self.kernel, columns, rows, self.stream.history.width)

    def moments(self, columns: Array, state: Array, sample: int) -> Array:
        """Moments of the kernel at a sample, (m, N), from the state (k, N) of the solver there."""
        return self.kernel.moments_at(columns, state, *self.stream.at(sample))

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
        for rows, first, last in self.stream.ahead(n, t, u, block):
            state, moments = self.kernel.moments(theta, state, rows, first, last)
            yield moments
