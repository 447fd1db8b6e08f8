"""Run a compiled program for a population of particles, on all cores."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.clock import compiling, count
from smcpn.codegen.emit import MAX_LANES, kernel_code
from smcpn.codegen.loops import ARGUMENTS, ROWS, START_ARGUMENTS, Plan
from smcpn.codegen.lower import LaneProgram
from smcpn.codegen.native import Code, native
from smcpn.codegen.threads import processors, thread_pool

Array = NDArray[np.float64]
_log = logging.getLogger(__name__)

INLINE_STEPS = 200_000
"""Particle steps that take less time than handing them to a thread."""
TASKS_PER_THREAD = 2
NOTABLE_SECONDS = 0.1
"""Time from which it is worth a line that a kernel was compiled, or read from disk."""
LINE = 64
"""Bytes of a cache line."""
ALIGNED = LINE // 8
_SHAPES = "theta, the state or the shared rows are not of the program's shape"


class KernelArrays(NamedTuple):
    """Arrays that a kernel reads and writes; where nothing is to be stored there is none."""

    theta: Array
    state: Array
    following: Array
    emitted: Array | None
    moments: Array | None
    totals: Array


class KernelArgumentError(ValueError):
    """Arrays that a kernel would read beyond: a fault of the caller, not of the user."""


@dataclass(frozen=True)
class Rows:
    """Samples of a record, which all particles share, and what these do not tell.

    start: (start_row,)
    samples: (before + T, width), times, inputs, outputs and other numbers of the samples, as
        `SharedGraphs` has them.
    steps: Solver steps of the sampling interval that has most.
    gains: (1 ... S, gain_row), of the steps; the last row stays in force.
    recur: Whether gains are read from the first row again in every interval.
    record: (o,), numbers of the record.
    inputs: (S, r), numbers of every step.
    intervals: (T - 1, q), numbers of every interval.
    counts: (T - 1,), solver steps of every interval, where they are not all ``steps``.
    before: Samples before the first one that counts.
    sample, steps_before: Number of the first sample in its record, and of the solver steps before
        it.
    """

    start: Array
    samples: Array
    steps: int
    gains: Array = field(default_factory=lambda: np.empty((1, 0)))
    recur: bool = False
    record: Array = field(default_factory=lambda: np.empty(0))
    inputs: Array | None = None
    intervals: Array | None = None
    counts: NDArray[np.int64] | None = None
    before: int = 0
    sample: int = 0
    steps_before: int = 0

    def __len__(self) -> int:
        return len(self.samples) - self.before

    def __reduce__(self) -> tuple[type[Rows], tuple[object, ...]]:
        # Addresses are those of this process.
        return Rows, tuple(getattr(self, one.name) for one in fields(self))

    @property
    def n_steps(self) -> int:
        """Solver steps of the record."""
        return int(self.begins[-1])

    def whole(self) -> Rows:
        """The rows themselves."""
        return self

    def pieces(self, a: int, b: int) -> Iterator[tuple[Rows, int, int]]:
        """Yield the rows, and which samples of them are [a, b): these are one piece."""
        if a < b:
            yield self, a, b

    def first(self, samples: int) -> Rows:
        """Rows of so many samples from the first on."""
        inputs, intervals, counts = self.inputs, self.intervals, self.counts
        return replace(
            self,
            samples=self.samples[: self.before + samples],
            inputs=None if inputs is None else inputs[: int(self.begins[samples - 1])],
            intervals=None if intervals is None else intervals[: samples - 1],
            counts=None if counts is None else counts[: samples - 1],
        )

    @cached_property
    def begins(self) -> NDArray[np.int64]:
        """Number of the first step after each sample, (T,); the last is that of all steps."""
        if self.counts is None:
            return np.arange(len(self), dtype=np.int64) * self.steps
        return np.append(0, np.cumsum(self.counts)).astype(np.int64)

    @cached_property
    def address(self) -> int:
        """Address of the numbers that `smcpn.codegen.loops.ROWS` names."""
        return self._numbers.__array_interface__["data"][0]

    @cached_property
    def _numbers(self) -> NDArray[np.int64]:
        arrays = {
            name: 0 if (array := getattr(self, name)) is None else address(array)
            for name in ("samples", "record", "inputs", "intervals", "gains")
        }
        integers = {
            "begins": self.begins.__array_interface__["data"][0], "n_gains": len(self.gains),
            "recur": self.recur, "sample": self.sample, "steps": self.steps_before,
        }  # fmt: skip
        numbers = arrays | integers
        return np.array([numbers[name] for name in ROWS], dtype=np.int64)


def address(array: Array) -> int:
    """Return where compiled code finds the numbers of an array."""
    if array.dtype.char != "d" or not array.flags.c_contiguous:
        raise TypeError(f"compiled code cannot read this array of {array.dtype}")
    return array.__array_interface__["data"][0]


class CompiledKernel:
    """Machine code of a recursion over time, and the arrays that it reads.

    sizes: See `KernelPlan.sizes`.
    constant_values: Of the program's constants.
    threads: Threads to use; by default all processors this process may use. Results do not depend
        on it: a particle's arithmetic is the same in every lane and on every thread.
    """

    def __init__(
        self,
        code: Code,
        sizes: Plan,
        constant_values: tuple[float, ...],
        threads: int | None = None,
    ) -> None:
        self.code, self.sizes, self.threads = code, sizes, threads
        self.constant_values = constant_values
        # The rows that were found to fit last: their arrays keep their shapes.
        self._fitting: Rows | None = None

    @property
    def lanes(self) -> int:
        """Particles of a block."""
        return self.sizes.lanes

    def with_constants(self, values: tuple[float, ...]) -> Self:
        """Copy of the compiled code with other values of the program's constants."""
        other = copy(self)
        other.constant_values = values
        return other

    def with_threads(self, threads: int | None) -> Self:
        """Copy of the compiled code on other threads."""
        other = copy(self)
        other.threads = threads
        return other

    def start(self, theta: Array, rows: Rows) -> Array:
        """Return the state (k, N) at the first sample for parameters (p, N)."""
        begin = time.perf_counter()
        self._check(theta, rows)
        state = np.empty((self.sizes.n_state, theta.shape[1]))
        theta = self._with_constants(theta)
        _, work = self.work_array()
        start = self.code.function("start", len(START_ARGUMENTS))
        start(address(theta), theta.shape[1], address(rows.start), address(state), work)
        count(time.perf_counter() - begin)
        return state

    def advance(
        self, theta: Array, state: Array, rows: Rows, first: int, last: int, store: bool
    ) -> tuple[Array, Array, Array]:
        """Run the samples ``[first, last)``, each preceded by its solver steps.

        theta: (p, N)
        state: (k, N), state at sample ``first - 1`` (at sample 0 where ``first`` is 0); not
            changed.
        store: Whether to return what each sample emits, or their sum only.

        Returns state (k, N): state at sample ``last - 1``; emitted (last - first, e, N), or
        (0, e, N) without ``store``; totals (e, N): sum over the samples.
        """
        state, emitted, _, totals = self._advance(theta, state, rows, (first, last), store, False)
        return state, emitted, totals

    def moments(
        self, theta: Array, state: Array, rows: Rows, first: int, last: int
    ) -> tuple[Array, Array]:
        """State and the program's moments, (last - first, m, N), arguments as of `advance`."""
        state, _, moments, _ = self._advance(theta, state, rows, (first, last), False, True)
        return state, moments

    def moments_at(self, columns: Array, state: Array, rows: Rows, sample: int) -> Array:
        """The program's moments at a sample, (m, N), from the state at that sample."""
        self.check_one(columns, state.shape, rows, sample)
        n = columns.shape[1]
        moments, totals = np.empty((self.sizes.n_moments, n)), np.empty((self.sizes.n_emitted, n))
        arrays = KernelArrays(columns, state, np.empty_like(state), None, moments, totals)
        here = replace(
            rows, samples=rows.samples[sample : sample + rows.before + 1], inputs=None,
            intervals=None, counts=None, sample=rows.sample + sample,
            steps_before=rows.steps_before + int(rows.begins[sample]),
        )  # fmt: skip
        self._run(arrays, here, (0, 1), (0, -(-n // self.lanes)))
        return moments

    def columns(self, theta: Array) -> Array:
        """Parameters (p, N) with the constants, as `moments_at` and `Update` take them."""
        return np.ascontiguousarray(self._with_constants(theta))

    def _advance(
        self,
        theta: Array,
        state: Array,
        rows: Rows,
        samples: tuple[int, int],
        store: bool,
        with_moments: bool,
    ) -> tuple[Array, Array, Array, Array]:
        begin = time.perf_counter()
        self._check(theta, rows)
        n, n_emitted, (first, last) = theta.shape[1], self.sizes.n_emitted, samples
        if state.shape != (self.sizes.n_state, n) or not 0 <= first <= last <= len(rows):
            raise KernelArgumentError(_SHAPES)
        emitted = np.empty((last - first if store else 0, n_emitted, n))
        moments = np.empty((last - first if with_moments else 0, self.sizes.n_moments, n))
        arrays = KernelArrays(
            self._with_constants(theta), state, np.empty_like(state),
            emitted if store else None, moments if with_moments else None, np.empty((n_emitted, n)),
        )  # fmt: skip
        blocks = -(-n // self.lanes)
        begins = rows.begins
        steps = int(begins[last - 1] - begins[max(first, 1) - 1]) if last > first else 0
        run_blocks(
            lambda part: self._run(arrays, rows, samples, part), blocks, steps * n, self.threads
        )
        count(time.perf_counter() - begin, max(steps, 0) * n)
        return arrays.following, emitted, moments, arrays.totals

    def _run(
        self, arrays: KernelArrays, rows: Rows, samples: tuple[int, int], blocks: tuple[int, int]
    ) -> None:
        """Run samples ``[first, last)`` of the blocks."""
        # The array is kept until the call ends.
        kept, work = self.work_array()
        theta, state, following, emitted, moments, totals = arrays
        self.code.function("advance", len(ARGUMENTS))(
            address(theta), theta.shape[1], address(state), address(following), rows.address,
            *samples,
            0 if emitted is None else address(emitted), 0 if moments is None else address(moments),
            address(totals), *blocks, work,
        )  # fmt: skip
        del kept

    def work_array(self) -> tuple[Array, int]:
        """An array for the lanes, and the address in it at which a cache line begins."""
        kept = np.empty(self.sizes.slots * self.sizes.lanes + ALIGNED)
        return kept, aligned(kept)

    def _check(self, theta: Array, rows: Rows) -> None:
        """Compiled code does not look where it reads: refuse arrays it would read beyond.

        The type of every array, and that it is contiguous, is checked where its address is taken.
        """
        if theta.ndim != 2 or len(theta) != self.sizes.n_theta - len(self.constant_values):
            raise KernelArgumentError(_SHAPES)
        if rows is not self._fitting:
            self._check_rows(rows)

    def check_one(
        self, columns: Array, state_shape: tuple[int, ...], rows: Rows, sample: int
    ) -> None:
        """Refuse arguments of a call for one sample that do not fit the program."""
        if (
            columns.ndim != 2
            or len(columns) != self.sizes.n_theta
            or state_shape != (self.sizes.n_state, columns.shape[1])
            or not 0 <= sample < len(rows)
        ):
            raise KernelArgumentError(_SHAPES)
        if rows is not self._fitting:
            self._check_rows(rows)

    def _check_rows(self, rows: Rows) -> None:
        if rows.start.shape != (self.sizes.n_start,) or not rows_fit(
            rows, self.sizes.widths, self.sizes.window
        ):
            raise KernelArgumentError(_SHAPES)
        self._fitting = rows

    def _with_constants(self, theta: Array) -> Array:
        constants = np.array(self.constant_values)
        if not len(constants):
            return theta
        return np.vstack(
            [theta, np.broadcast_to(constants[:, None], (len(constants), theta.shape[1]))]
        )


class LaneKernel(CompiledKernel):
    """The compiled form of a `LaneProgram`.

    most_lanes: Particles that a block has at most. A block that is not full costs as much as a full
        one.
    """

    def __init__(
        self, program: LaneProgram, threads: int | None = None, most_lanes: int = MAX_LANES
    ) -> None:
        begin = time.perf_counter()
        with compiling():
            plan = kernel_code(program, most_lanes)
            super().__init__(native(plan), plan.sizes, program.constant_values, threads)
        self.program = program
        seconds = time.perf_counter() - begin
        level = logging.INFO if seconds > NOTABLE_SECONDS else logging.DEBUG
        _log.log(level, "kernel of %d lanes ready after %.2f s", self.lanes, seconds)

    def with_constants(self, values: tuple[float, ...]) -> Self:
        """Copy of the compiled code with other values of the program's constants."""
        other = super().with_constants(values)
        other.program = replace(self.program, constant_values=values)
        return other

    def detached(self) -> CompiledKernel:
        """Copy on one thread, without the graphs, which can be pickled."""
        return CompiledKernel(self.code, self.sizes, self.constant_values, threads=1)


def rows_fit(rows: Rows, widths: Mapping[str, int], window: int) -> bool:
    """True if compiled code finds all in some rows that it reads, see `LaneProgram.widths`."""
    begins, n = rows.begins, len(rows)
    known = {"r": (rows.inputs, begins[-1] if n else 0), "q": (rows.intervals, n - 1)}
    return (
        n > 0
        and rows.before >= window - 2
        and begins.shape == (n,)
        and bool((np.diff(begins, prepend=0) >= 0).all())
        and rows.record.shape == (widths["o"],)
        and rows.gains.ndim == 2
        and rows.gains.shape[1] == widths["g"]
        and len(rows.gains) > 0
        and rows.samples.shape == (rows.before + n, widths["w"])
        and all(
            not widths[vector] or (array is not None and array.shape == (rows_of, widths[vector]))
            for vector, (array, rows_of) in known.items()
        )
    )


def aligned(array: Array) -> int:
    """Address at which a cache line begins in an array."""
    return -(-address(array) // LINE) * LINE


def run_blocks(
    run: Callable[[tuple[int, int]], None], blocks: int, work: int, threads: int | None
) -> None:
    """Run blocks [first, last) of a kernel on threads; on this one where the work is small."""
    threads = threads or processors()
    parts = block_parts(blocks, work, threads)
    if len(parts) == 1:
        run(parts[0])
    else:
        list(thread_pool(threads, os.getpid()).map(run, parts))


def block_parts(blocks: int, work: int, threads: int) -> list[tuple[int, int]]:
    """Cut the blocks of a kernel into tasks for threads; one where the work is small."""
    if threads == 1 or blocks == 1 or work < INLINE_STEPS:
        return [(0, blocks)]
    n_parts = min(blocks, threads * TASKS_PER_THREAD)
    edges = [blocks * k // n_parts for k in range(n_parts + 1)]
    return list(pairwise(edges))
