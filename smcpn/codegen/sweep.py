"""Gradient of the sum of what a `LaneProgram` emits first, at a cost that no parameter adds to.

Reverse differentiation over time (Griewank and Walther, Evaluating Derivatives, 2008, ch. 12): the
states of a segment of samples are kept on a tape, from which the derivatives by the state are taken
back, step by step; those of the parameters add up on the way. Of a record that is longer than a
tape the states at the ends of the segments are kept, and each is run through once more.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.adjoint import HoistedRecursion, hoisted, transposed
from smcpn.codegen.arrays import RowFunction
from smcpn.codegen.clock import CLOCK, count
from smcpn.codegen.kernel import ALIGNED, LINE, CompiledKernel, Rows, address, block_parts
from smcpn.codegen.lower import LaneProgram
from smcpn.codegen.native import NativeSweep, native_sweep
from smcpn.codegen.sweep_loops import SweepPlan
from smcpn.codegen.sweep_plan import sweep_plan
from smcpn.codegen.threads import processors, thread_pool

Array = NDArray[np.float64]

TAPE = 2**25
"""Bytes of a tape, of which every thread has one; one interval may need more."""
FORWARD_STEPS = 4
"""Steps of a forward pass that take as long as one of a reverse pass, about."""


@dataclass(frozen=True)
class SweepSizes:
    """Sizes of a `SweepPlan` that its machine code is run with, see there."""

    begun: int
    lanes: int
    n_state: int
    n_kept: int
    n_slopes: int
    slots: int

    @classmethod
    def of(cls, plan: SweepPlan) -> SweepSizes:
        """Sizes of a plan."""
        return cls(**{field.name: getattr(plan, field.name) for field in fields(cls)})


@dataclass(frozen=True)
class CompiledSweep:
    """The machine code of a reverse pass over the samples, which can be pickled."""

    native: NativeSweep
    sizes: SweepSizes

    @property
    def lanes(self) -> int:
        """Particles of a block."""
        return self.sizes.lanes

    def run(
        self,
        forward: CompiledKernel,
        theta: Array,
        numbers: Array,
        rows: Sequence[Rows],
        size: int | None = None,
    ) -> tuple[Array, Array, Array]:
        """Sum (N,) of what is emitted first over records, and its derivatives.

        Parameters
        ----------
        forward : CompiledKernel
            Of the same program; runs to the ends of the segments, with its constants and threads.
        theta : ndarray, (p, N)
        numbers : ndarray, (w, N)
            What the particles compute once, and the constants.
        rows : sequence of Rows
            Of R records.
        size : int, optional
            States on a tape at most, by default as many as `TAPE` holds.

        Returns
        -------
        totals : ndarray, (N,)
        slopes : ndarray, (s, N)
            Derivatives by the numbers, without the constants.
        adjoints : ndarray, (R, k, N)
            By the first state of each record.
        """
        n = theta.shape[1]
        totals, slopes = np.zeros(n), np.zeros((self.sizes.n_slopes, n))
        adjoints = np.zeros((len(rows), self.sizes.n_state, n))
        for record, adjoint in zip(rows, adjoints, strict=True):
            for state, first, last in reversed(self._segments(forward, theta, record, size)):
                arrays = (numbers, state, adjoint, slopes, totals)
                self._sweep(arrays, record, (first, last), forward.threads)
        return totals, slopes, adjoints

    def _segments(
        self, forward: CompiledKernel, theta: Array, rows: Rows, size: int | None
    ) -> list[tuple[Array, int, int]]:
        """State before each segment of samples [first, last)."""
        size = size or TAPE // (8 * self.sizes.n_kept * self.sizes.lanes)
        state, found, first = forward.start(theta, rows), [], 0
        while True:
            last = self._end(rows, first, size)
            found.append((state, first, last))
            if last == len(rows):
                return found
            state, _, _ = forward.advance(theta, state, rows, first, last, False)
            first = last

    def _end(self, rows: Rows, first: int, size: int) -> int:
        """End of the segment from a sample on, of at least one, whose states a tape holds."""
        origin = max(first, 1) - 1
        needed = self._states(rows, origin, np.arange(origin, len(rows)))
        return max(first + 1, origin + int(np.searchsorted(needed, size, side="right")))

    def _states(self, rows: Rows, origin: int, samples: Any) -> Any:
        """States on the tape from a sample on up to others."""
        begun = self.sizes.begun * (samples - origin)
        return 1 + rows.begins[samples] - rows.begins[origin] + begun

    def _sweep(
        self,
        arrays: tuple[Array, ...],
        rows: Rows,
        samples: tuple[int, int],
        threads: int | None,
    ) -> None:
        """Run a segment forward and back; ``adjoint``, ``slopes`` and ``totals`` change."""
        begin, sizes = time.perf_counter(), self.sizes
        n, blocks = arrays[0].shape[1], -(-arrays[0].shape[1] // sizes.lanes)
        states = int(self._states(rows, max(samples[0], 1) - 1, samples[1] - 1))
        threads = threads or processors()
        parts = block_parts(blocks, FORWARD_STEPS * states * n, threads)
        size = states * sizes.n_kept * sizes.lanes

        def run(part: tuple[int, int]) -> None:
            work = np.empty(sizes.slots * sizes.lanes + ALIGNED)
            tape = _memory(size + ALIGNED)
            numbers, *others = map(address, arrays)
            self.native.run(
                numbers, n, *others, rows.address, *samples, *part, _aligned(work), _aligned(tape)
            )

        if len(parts) == 1:
            run(parts[0])
        else:
            list(thread_pool(threads, os.getpid()).map(run, parts))
        steps = int(rows.begins[samples[1] - 1] - rows.begins[max(samples[0], 1) - 1])
        count(time.perf_counter() - begin, steps * n)


class SweepKernel:
    """The compiled reverse pass of a program, with what is computed before and after it.

    Parameters
    ----------
    program : LaneProgram
        Without ``left`` and ``control``: all particles take the same steps.

    Attributes
    ----------
    compiled : CompiledSweep
    cost : float
        See `SweepPlan.cost`.
    """

    def __init__(self, program: LaneProgram) -> None:
        begin = time.perf_counter()
        of_particle = hoisted(program)
        plan = sweep_plan(of_particle.program)
        self.cost = plan.cost
        self.compiled = CompiledSweep(native_sweep(plan), SweepSizes.of(plan))
        self._ends = _Ends(of_particle)
        CLOCK.compile_seconds += time.perf_counter() - begin

    def value_and_gradient(
        self, forward: CompiledKernel, theta: Array, rows: Sequence[Rows], size: int | None = None
    ) -> tuple[Array, Array]:
        """Sum (N,) of what is emitted first over records, and its gradient (p, N).

        The arguments are those of `CompiledSweep.run`.
        """
        numbers = self.numbers(forward, theta)
        totals, *slopes = self.compiled.run(forward, theta, numbers, rows, size)
        return totals, self.gradient(forward, theta, rows, *slopes)

    def numbers(self, forward: CompiledKernel, theta: Array) -> Array:
        """Numbers that the particles compute once, and the constants, (w, N)."""
        return self._ends.numbers(theta, np.array(forward.constant_values))

    def gradient(
        self, forward: CompiledKernel, theta: Array, rows: Sequence[Rows], slopes: Array,
        adjoints: Array,
    ) -> Array:  # fmt: skip
        """Derivatives (p, N) by the parameters, of those that `CompiledSweep.run` returns."""
        constants = np.array(forward.constant_values)
        gradient = np.zeros_like(theta)
        for record, adjoint in zip(rows, adjoints, strict=True):
            gradient += self._ends.start(theta, constants, record.start, adjoint)
        return gradient + self._ends.gradient(theta, constants, slopes)


_KEPT = threading.local()


def _memory(size: int) -> Array:
    """Memory of so many numbers; every thread keeps that of a tape, for fresh pages take time."""
    kept: Array = getattr(_KEPT, "tape", np.empty(0))
    if len(kept) < size:
        kept = np.empty(size)
        if 8 * size <= TAPE + LINE:
            _KEPT.tape = kept
    return kept


def _aligned(array: Array) -> int:
    """Address at which a cache line begins in an array."""
    return -(-address(array) // LINE) * LINE


@dataclass
class _Ends:
    """Values that are computed once for a particle, or once for a record of it."""

    hoisted: HoistedRecursion

    def __post_init__(self) -> None:
        program, parameters = self.hoisted.program, self.hoisted.parameters
        known = ca.vertcat(parameters, program.constants)
        slopes = ca.SX.sym("slopes", program.theta.numel(), 1)
        adjoint = ca.SX.sym("adjoint", program.state.numel(), 1)
        (by_numbers,) = transposed(self.hoisted.numbers, [parameters], slopes)
        (by_start,) = transposed(program.start, [parameters], adjoint)
        self._numbers = RowFunction(known, ca.vertcat(self.hoisted.numbers, program.constants))
        self._gradient = RowFunction(ca.vertcat(known, slopes), by_numbers)
        self._start = RowFunction(ca.vertcat(known, program.start_row, adjoint), by_start)

    def numbers(self, theta: Array, constants: Array) -> Array:
        """The numbers (w, N), and the constants below them."""
        return self._numbers(theta, _repeated(constants, theta))

    def gradient(self, theta: Array, constants: Array, slopes: Array) -> Array:
        """Derivatives (p, N) of those by the numbers."""
        return self._gradient(theta, _repeated(constants, theta), slopes)

    def start(self, theta: Array, constants: Array, row: Array, adjoint: Array) -> Array:
        """Derivatives (p, N) of those by the first state."""
        return self._start(theta, _repeated(np.append(constants, row), theta), adjoint)


def _repeated(numbers: Array, like: Array) -> Array:
    """Numbers as rows of as many columns as others have."""
    return np.broadcast_to(numbers[:, None], (len(numbers), like.shape[1]))
