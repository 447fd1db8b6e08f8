"""Run the compiled filters of many thetas over a record, on all cores."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.clock import compiling, count
from smcpn.codegen.kernel import KernelArgumentError, Rows, address, rows_fit
from smcpn.codegen.native import Code, code
from smcpn.codegen.routine import sources
from smcpn.codegen.threads import processors, thread_pool
from smcpn.likelihood.contract import Keys
from smcpn.likelihood.particle.blocks import Blocks, particle_blocks
from smcpn.likelihood.particle.guide import Guide
from smcpn.likelihood.particle.machine import (
    BEGIN_ARGUMENTS,
    FILTER_ARGUMENTS,
    KEY_SAMPLES,
    PASS_ARGUMENTS,
    THETAS,
    write_filter,
)
from smcpn.likelihood.particle.normals import GROUP

Array = NDArray[np.float64]

SWEEPS = 2
"""Backward passes: about the path of the extended Kalman filter, and about the smoothed one."""
RESOLVED = 1e4
"""Factor by which a solver step that follows the model may multiply a state. Beyond it the step is
unstable, and look-ahead functions, which a step changes by its square, lose all digits."""


@dataclass(frozen=True)
class Piece:
    """Consecutive samples of a record that filters run over.

    rows: Of the record.
    first, last: Samples ``[first, last)`` of the record.
    sample_offset, step_offset: Samples and solver steps of the records before, by which random
        numbers are counted.
    """

    rows: Rows
    first: int
    last: int
    sample_offset: int
    step_offset: int

    @property
    def steps(self) -> int:
        """Solver steps that lead to its samples."""
        if self.last <= self.first:
            return 0
        begins = self.rows.begins
        return int(begins[self.last - 1] - begins[max(self.first - 1, 0)])


@dataclass(frozen=True)
class Kept:
    """State particles, weights and ancestors of a filter at every sample, before it resamples.

    states: (T, n + 1, N_x), states of the particles, and their log weights.
    ancestors: (T, N_x), particle of the sample that each one of the next descends from.
    """

    states: Array
    ancestors: NDArray[np.int64]


_ARGUMENTS = {"begin": BEGIN_ARGUMENTS, "run": FILTER_ARGUMENTS} | dict.fromkeys(
    ("forward", "backward", "again", "alone"), PASS_ARGUMENTS
)


class CompiledFilters:
    """Compiled filters, see `smcpn.likelihood.particle.machine`; they can be pickled."""

    def __init__(self, code: Code, sizes: Blocks) -> None:
        self.code, self.sizes = code, sizes

    def call(self, name: str, *numbers: Any) -> None:
        """Call one of the functions of `smcpn.likelihood.particle.machine`."""
        self.code.function(name, len(_ARGUMENTS[name]))(*numbers)

    def growth(self, rows: Array) -> Array:
        """Largest factor (lanes,) by which a step multiplies a state; rows (S, w, lanes)."""
        diagonal = np.abs(rows[:, list(self.sizes.jacobian)])
        return diagonal.max(axis=(0, 1), initial=0.0)

    def _check(self, theta: Array, keys: Keys, piece: Piece, particles: int, state: Array) -> None:
        """Compiled code does not look where it reads: refuse arrays it would read beyond."""
        samples, rows, widths = len(piece.rows), piece.rows, self.sizes.widths
        blocks = -(-(piece.sample_offset + piece.last) // KEY_SAMPLES)
        fits = (
            particles > 0
            and particles % GROUP == 0
            and 0 <= piece.first <= piece.last <= samples
            and theta.shape == (len(theta), self.sizes.n_theta)
            and keys.ndim == 2
            and keys.dtype == np.uint64
            and len(keys) == len(theta)
            and keys.shape[1] >= blocks
            and state.shape == (len(theta), self.state_size(particles))
            and rows.start.shape == (widths["f"],)
            and rows_fit(rows, widths, self.sizes.window)
        )
        if not fits:
            raise KernelArgumentError("theta, keys, state or rows are not of the filter's shape")

    def state_size(self, particles: int) -> int:
        """Numbers that a filter holds between samples: states, log weights, and their sum."""
        return (self.sizes.n + 1) * particles + 1

    def run(
        self,
        theta: Array,
        keys: Keys,
        piece: Piece,
        particles: int,
        *,
        fresh: bool,
        look_ahead: bool,
        state: Array | None = None,
        threads: int | None = None,
        kept: Kept | None = None,
        urgent: bool = False,
    ) -> tuple[Array, Array, NDArray[np.bool_]]:
        """Run the filters of N thetas over a piece.

        theta: (N, p), with the constants.
        keys: (N, B)
        particles: A multiple of `GROUP`.
        fresh: Whether the filters begin with the first state of the record, or with ``state``.
        look_ahead: Whether they are twisted by the samples of the piece.
        state: (N, `state_size`), changed.
        kept: Filled with what the filter of a single theta does.
        urgent: Whether it waits for no other call that is under way.

        Returns state (N, `state_size`); increments (m, N): of the log of the estimate; guided (N,):
        which looked ahead: those whose guide is a number, of steps that are `RESOLVED`.
        """
        begin = time.perf_counter()
        n = len(theta)
        if state is None:
            state = np.empty((n, self.state_size(particles)))
        self._check(theta, keys, piece, particles, state)
        call = _Call(
            self, theta, np.ascontiguousarray(keys), piece, particles, fresh, look_ahead, state,
            np.empty((piece.last - piece.first, n)), np.zeros(n, dtype=bool), kept,
        )  # fmt: skip
        firsts = range(0, n, THETAS)
        threads = threads or processors()
        if threads == 1 or len(firsts) == 1:
            for first in firsts:
                call.block(first)
        else:
            list(thread_pool(threads, os.getpid(), urgent).map(call.block, firsts))
        count(time.perf_counter() - begin, piece.steps * n * particles)
        return state, call.increments, call.guided


class ParticleKernel(CompiledFilters):
    """The compiled filters of a model, and what they were compiled from."""

    def __init__(self, guide: Guide) -> None:
        with compiling():
            self.guide, blocks = guide, particle_blocks(guide)
            compiled = code(
                f"particle filter {sources(write_filter)}\n{blocks.text}",
                lambda module: write_filter(module, blocks),
            )
            super().__init__(compiled, blocks.sizes)


@dataclass(frozen=True)
class _Call:
    """A run of `ParticleKernel`, block by block of thetas."""

    kernel: CompiledFilters
    theta: Array
    keys: Keys
    piece: Piece
    particles: int
    fresh: bool
    look_ahead: bool
    state: Array
    increments: Array
    guided: NDArray[np.bool_]
    kept: Kept | None

    def block(self, first: int) -> None:
        """Run the filters of thetas from ``first`` on, `THETAS` at most."""
        sizes, piece, call = self.kernel.sizes, self.piece, self.kernel.call
        live = min(THETAS, len(self.theta) - first)
        samples = piece.last - piece.first
        own = np.zeros((sizes.own, THETAS))
        chosen = np.minimum(np.arange(first, first + THETAS), first + live - 1)
        own[: sizes.n_theta] = self.theta[chosen].T
        step = np.empty((piece.steps, sizes.step, THETAS))
        path = np.empty((piece.steps, sizes.n, THETAS))
        look = np.empty((samples, sizes.sample, THETAS))
        call("begin", address(own), address(piece.rows.start))
        arrays = [address(array) for array in (own, step, path, look)]
        waiting: NDArray[np.bool_] = np.less(np.arange(THETAS), live)
        if self.look_ahead:
            call("forward", *self._rows(), *arrays)
            for sweep in range(SWEEPS):
                if sweep:
                    call("again", *self._rows(), *arrays)
                call("backward", *self._rows(), *arrays)
            carried = own[sizes.look : sizes.look + sizes.n_look]
            here: NDArray[np.bool_] = np.logical_and.reduce(np.isfinite(carried))
            here &= self.kernel.growth(step) <= RESOLVED
            self.guided[first : first + live] = here[:live]
            if (waiting & here).any():
                self._run(first, waiting & here, own, step, look, True)
            waiting &= ~here
        if waiting.any():
            call("alone", *self._rows(), *arrays)
            self._run(first, waiting, own, step, look, False)

    def _rows(self) -> tuple[int, ...]:
        return self.piece.rows.address, self.piece.first, self.piece.last

    def _run(
        self,
        first: int,
        chosen: NDArray[np.bool_],
        own: Array,
        step: Array,
        look: Array,
        guided: bool,
    ) -> None:
        sizes, n = self.kernel.sizes, self.particles
        active = np.where(chosen, np.arange(first, first + THETAS), -1)
        work = np.empty((sizes.free + 1) * n)
        ancestors = np.empty(n + 1, dtype=np.int64)
        kept = self.kept
        self.kernel.call(
            "run",
            *self._rows(), address(own), address(step), address(look), _integers(active), n,
            _integers(self.keys), self.keys.shape[1], self.piece.sample_offset,
            self.piece.step_offset, self.fresh, guided, address(self.state),
            address(self.increments), len(self.theta), 0 if kept is None else address(kept.states),
            0 if kept is None else _integers(kept.ancestors), address(work), _integers(ancestors),
        )  # fmt: skip


def _integers(array: NDArray[Any]) -> int:
    """Address of an array of 64-bit integers, for compiled code."""
    assert array.dtype.char in "lLqQ"
    assert array.flags.c_contiguous
    return array.__array_interface__["data"][0]
