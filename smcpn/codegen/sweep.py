"""Gradient of the sum of what a `LaneProgram` emits first, at a cost that no parameter adds to.

Reverse differentiation over time (Griewank and Walther, Evaluating Derivatives, 2008, ch. 12): the
states of a segment of samples are kept on a tape, from which the derivatives by the state are taken
back, step by step; those of the parameters add up on the way. Of a record that is longer than a
tape the states at the ends of the segments are kept, and each is run through once more.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.adjoint import Hoisted, hoisted, transposed
from smcpn.codegen.arrays import ArrayFunction
from smcpn.codegen.clock import CLOCK, count
from smcpn.codegen.kernel import (
    ALIGNED,
    LINE,
    LaneKernel,
    Rows,
    address,
    block_parts,
    processors,
    thread_pool,
)
from smcpn.codegen.lower import LaneProgram
from smcpn.codegen.native import native_sweep
from smcpn.codegen.sweep_plan import sweep_plan

Array = NDArray[np.float64]

TAPE = 2**25
"""Bytes of a tape, of which every thread has one; one interval may need more."""
FORWARD_STEPS = 4
"""Steps of a forward pass that take as long as one of a reverse pass, about."""


class SweepKernel:
    """The compiled reverse pass of a program.

    Parameters
    ----------
    program : LaneProgram
        Without ``left`` and ``control``: all particles take the same steps.
    """

    def __init__(self, program: LaneProgram) -> None:
        begin = time.perf_counter()
        self._hoisted = hoisted(program)
        self._plan = sweep_plan(self._hoisted.program)
        self._native = native_sweep(self._plan)
        self._ends = _Ends(self._hoisted)
        CLOCK.compile_seconds += time.perf_counter() - begin

    @property
    def cost(self) -> float:
        """See `SweepPlan.cost`."""
        return self._plan.cost

    def value_and_gradient(
        self, forward: LaneKernel, theta: Array, rows: list[Rows], size: int | None = None
    ) -> tuple[Array, Array]:
        """Sum (N,) of what is emitted first over records, and its gradient (p, N).

        Parameters
        ----------
        forward : LaneKernel
            Of the same program; runs to the ends of the segments, with its constants and threads.
        theta : ndarray, (p, N)
        rows : list of Rows
            Of each record.
        size : int, optional
            States on a tape at most, by default as many as `TAPE` holds.
        """
        constants = np.array(forward.program.constant_values)
        numbers = self._ends.numbers(theta, constants)
        totals, slopes = np.zeros(theta.shape[1]), np.zeros((self._plan.n_slopes, theta.shape[1]))
        gradient = np.zeros_like(theta)
        for record in rows:
            adjoint = np.zeros((self._plan.n_state, theta.shape[1]))
            for state, first, last in reversed(self._segments(forward, theta, record, size)):
                arrays = (numbers, state, adjoint, slopes, totals)
                self._sweep(arrays, record, (first, last), forward.threads)
            gradient += self._ends.start(theta, constants, record.start, adjoint)
        return totals, gradient + self._ends.gradient(theta, constants, slopes)

    def _segments(
        self, forward: LaneKernel, theta: Array, rows: Rows, size: int | None
    ) -> list[tuple[Array, int, int]]:
        """State before each segment of samples [first, last)."""
        size = size or TAPE // (8 * self._plan.n_kept * self._plan.lanes)
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
        begun = self._plan.begun * (samples - origin)
        return 1 + rows.begins[samples] - rows.begins[origin] + begun

    def _sweep(
        self,
        arrays: tuple[Array, ...],
        rows: Rows,
        samples: tuple[int, int],
        threads: int | None,
    ) -> None:
        """Run a segment forward and back; ``adjoint``, ``slopes`` and ``totals`` change."""
        begin, plan = time.perf_counter(), self._plan
        n, blocks = arrays[0].shape[1], -(-arrays[0].shape[1] // plan.lanes)
        states = int(self._states(rows, max(samples[0], 1) - 1, samples[1] - 1))
        threads = threads or processors()
        parts = block_parts(blocks, FORWARD_STEPS * states * n, threads)
        size = states * plan.n_kept * plan.lanes

        def run(part: tuple[int, int]) -> None:
            work, tape = np.empty(plan.slots * plan.lanes + ALIGNED), np.empty(size + ALIGNED)
            numbers, *others = map(address, arrays)
            intervals, inputs, gains, row_samples, begins = rows.addresses
            self._native.run(
                numbers, n, *others, intervals, inputs, gains, len(rows.gains), row_samples,
                begins, rows.recur, *samples, *part, _aligned(work), _aligned(tape),
            )  # fmt: skip

        if len(parts) == 1:
            run(parts[0])
        else:
            list(thread_pool(threads, os.getpid()).map(run, parts))
        steps = int(rows.begins[samples[1] - 1] - rows.begins[max(samples[0], 1) - 1])
        count(time.perf_counter() - begin, steps * n)


def _aligned(array: Array) -> int:
    """Address at which a cache line begins in an array."""
    return -(-address(array) // LINE) * LINE


@dataclass
class _Ends:
    """What is computed once for a particle, or once for a record of it."""

    hoisted: Hoisted

    def __post_init__(self) -> None:
        program, parameters = self.hoisted.program, self.hoisted.parameters
        known = ca.vertcat(parameters, program.constants)
        slopes = ca.SX.sym("slopes", program.theta.numel(), 1)
        adjoint = ca.SX.sym("adjoint", program.state.numel(), 1)
        (by_numbers,) = transposed(self.hoisted.numbers, [parameters], slopes)
        (by_start,) = transposed(program.start, [parameters], adjoint)
        self._numbers = ArrayFunction(known, self.hoisted.numbers)
        self._gradient = ArrayFunction(ca.vertcat(known, slopes), by_numbers)
        self._start = ArrayFunction(ca.vertcat(known, program.start_row, adjoint), by_start)

    def numbers(self, theta: Array, constants: Array) -> Array:
        """The numbers (w, N), and the constants below them."""
        found = [*self._numbers([*theta, *constants]), *constants]
        return _stacked(found, theta.shape[1])

    def gradient(self, theta: Array, constants: Array, slopes: Array) -> Array:
        """Derivatives (p, N) of those by the numbers."""
        return _stacked(self._gradient([*theta, *constants, *slopes]), theta.shape[1])

    def start(self, theta: Array, constants: Array, row: Array, adjoint: Array) -> Array:
        """Derivatives (p, N) of those by the first state."""
        return _stacked(self._start([*theta, *constants, *row, *adjoint]), theta.shape[1])


def _stacked(rows: list[Any], n: int) -> Array:
    array = np.empty((len(rows), n))
    for target, row in zip(array, rows, strict=True):
        target[:] = row
    return array
