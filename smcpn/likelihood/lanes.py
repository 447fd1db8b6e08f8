"""A likelihood whose recursion is a compiled lane kernel, over one or several records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from math import ceil
from typing import ClassVar, Self

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.codegen.kernel import CompiledKernel, LaneKernel, Rows
from smcpn.codegen.tangent import tangent
from smcpn.likelihood.contract import NO_KEYS, Batchable, Derivatives, Keys, Likelihood
from smcpn.likelihood.inputs import CHUNK, KernelInputs, KernelRows
from smcpn.model.delay import Delay, Span
from smcpn.model.measured import Beside
from smcpn.model.problem import Model
from smcpn.model.record import Record
from smcpn.model.solver import Solver

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Grid:
    """Properties of sampling and input that decide which steps a recursion takes at a sample.

    restarts: The input jumps or bends there, or where it arrives.
    rescales: The length of the steps changes.
    smooth: An input is smooth between samples: it is known by numbers of every step.
    delays: Samples of each delayed input that arrive about an interval.
    """

    restarts: bool
    rescales: bool
    smooth: bool = False
    delays: tuple[Span, ...] = ()

    @classmethod
    def of(cls, records: Sequence[Record], delay: Delay | None = None) -> Grid:
        """Look at all records of a problem."""
        return cls(
            restarts=delay is not None
            or not all(record.smooth and not record.held for record in records),
            # A stream takes doses between its samples, and has the bytes of a record; with dead
            # times, of which equal intervals are twice as fast, its numbers.
            rescales=not all(r.uniform and (delay is not None or not r.held) for r in records),
            smooth=any(record.smooth and record.n_inputs > record.held for record in records),
            delays=() if delay is None else delay.spans(records),
        )


@dataclass(frozen=True)
class SampleSymbols:
    """Shared values at a sample: input, time, what was measured, and what of it is known.

    measured, known: (m, 1), of every number of `measured_rows` itself, 0 where it is missing, and
        whether it is known.
    input: Input of the equations there: ``u`` but for dead times.
    """

    u: ca.SX
    t: ca.SX
    measured: ca.SX
    known: ca.SX
    model: Model
    input: ca.SX

    @classmethod
    def of(cls, model: Model, at_sample: Callable[[ca.SX], ca.SX] = lambda u: u) -> SampleSymbols:
        """Make fresh symbols of a model, whose inputs are those measured, or a graph of them."""
        m, u = model.measured, ca.SX.sym("u", model.u.numel(), 1)
        return cls(
            u,
            ca.SX.sym("t"),
            ca.SX.sym("y", m, 1),
            ca.SX.sym("present", m, 1),
            model,
            at_sample(u),
        )

    @property
    def row(self) -> ca.SX:
        """The symbols in the order of `smcpn.model.signal.Signal.sample`."""
        return ca.vertcat(self.u, self.t, self.measured, self.known)

    @property
    def y(self) -> ca.SX:
        """Measured values, (q, 1)."""
        return self.measured[-self.model.outputs.numel() :]

    @property
    def present(self) -> ca.SX:
        """1 where something is known of an output, its value or a limit, (q, 1)."""
        q = self.model.outputs.numel()
        measured = self.known[-q:]
        return measured if q == self.known.numel() else ca.fmax(measured, self._beside.limited)

    @property
    def _beside(self) -> Beside:
        """Symbols of what is known of the outputs beside their values."""
        if self.measured.numel() == self.model.outputs.numel():
            return Beside.of(0)
        sd, *limits = ca.vertsplit(self.measured, self.model.outputs.numel())[:-1]
        known, *flags = ca.vertsplit(self.known, self.model.outputs.numel())[:-1]
        # In place of one that is not known one that every density has.
        sd = ca.if_else(ca.fmax(known, ca.fmax(*flags)), sd, 1.0)
        return Beside(sd, *limits, *flags)

    def of_density(self, graph: ca.SX, outputs: ca.SX) -> ca.SX:
        """A graph of the model's density at the sample, for outputs (q, 1)."""
        density, model, q = self.model.density, self.model, self.model.outputs.numel()
        assert density is not None
        # In place of a missing value one that every density has.
        value = ca.if_else(self.known[-q:], self.y, 1.0)
        known = ca.vertcat(model.u, model.t), ca.vertcat(self.input, self.t)
        return density.at(graph, value, outputs, self._beside.column, known)

    def noise_variance(self, outputs: ca.SX) -> ca.SX:
        """Variance of the noise at the sample for outputs (q, 1); infinite where not Gaussian."""
        density = self.model.density
        if density is None or not density.variance.numel():
            return self.model.noise_variance
        return self.of_density(density.variance, outputs)


@dataclass(frozen=True)
class StartSymbols:
    """Shared values at the first sample: input, its derivatives, time, and which record it is."""

    u: ca.SX
    t: ca.SX
    derivatives: tuple[ca.SX, ...]
    record: ca.SX

    @classmethod
    def of(cls, model: Model, derivatives: list[ca.SX]) -> StartSymbols:
        """Make the symbols; ``derivatives`` are those of the input, lowest first."""
        size = len(model.initial) if len(model.initial) > 1 else 0
        return cls(model.u, model.t, tuple(derivatives), ca.SX.sym("record", size, 1))

    @property
    def row(self) -> ca.SX:
        """The symbols in the order of `smcpn.likelihood.inputs.KernelInputs.start`."""
        return ca.vertcat(self.u, self.t, *self.derivatives, self.record)

    def initial(self, model: Model) -> ca.SX:
        """Initial state of the record at hand."""
        weights = ca.vertsplit(self.record) if self.record.numel() else [ca.SX(1.0)]
        pairs = zip(weights, model.initial, strict=True)
        return model.smooth_part(sum((one * state for one, state in pairs), ca.SX(0.0)))


TANGENT_LANES = 16
"""Lanes of a derivative: at one point they are a handful, and 8 cost nearly as much as 16."""


class CompiledLikelihood(Batchable, Likelihood):
    """The `Likelihood` contract on a kernel that emits the log-density of each sample first.

    It is machine code and the rows of the records, no more: it can be pickled where its kernel can.
    Several records follow each other: at the first sample of each the state starts anew. The last
    one may be a stream, of which those samples count that there are.

    rows: Of each record.
    """

    batches: ClassVar = ("advance", "accumulate", "evaluate", "total")

    def __init__(self, kernel: CompiledKernel, rows: Sequence[Rows | KernelRows]) -> None:
        self._kernel, self._rows = kernel, rows

    @property
    def n_samples(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Samples of all records."""
        return sum(map(len, self._rows))

    @property
    def lanes(self) -> int:
        """Particles that are computed together."""
        return self._kernel.lanes

    @property
    def n_emitted(self) -> int:
        """Numbers that a sample emits."""
        return self._kernel.sizes.n_emitted

    @property
    def rows(self) -> list[Rows]:
        """Rows of each record, whole."""
        return [rows.whole() for rows in self._rows]

    @property
    def n_steps(self) -> int:
        """Solver steps over all records, of one parameter vector."""
        return sum(rows.n_steps for rows in self._rows)

    def start(self, values: Array) -> Array:
        """State before the first sample, (k, N); zero while there is no sample."""
        if not len(self._rows[0]):
            return np.zeros((self._kernel.sizes.n_state, len(values)))
        return started(self._kernel, np.ascontiguousarray(values.T), self._rows[0])

    @override
    def advance(
        self, values: Array, state: Array, a: int, b: int, keys: Keys = NO_KEYS
    ) -> tuple[Array, Array]:
        state, emitted = self.emitted(values, state, a, b)
        return state, emitted[:, 0]

    @override
    def accumulate(
        self, values: Array, state: Array | None, a: int, b: int, keys: Keys = NO_KEYS
    ) -> tuple[Array, Array]:
        begun = self.start(values) if state is None else state
        state, _, total = self._run(values, begun, a, b, store=False)
        return state, total[0]

    def total(self, values: Array, share: float = 1.0) -> Array:
        """Sum of all that the samples emit, (e, N), of a share of each record as of `blocks`."""
        total = np.zeros((self.n_emitted, len(values)))
        for _, sums in self.blocks(values, share, store=False):
            total += sums
        return total

    def with_derivatives(self, derivatives: Callable[[], Derivatives]) -> Self:
        """Copy that has a gradient, which is made where it is first asked for."""
        other = copy(self)
        other.derivatives = derivatives
        return other

    def emitted(self, values: Array, state: Array, a: int, b: int) -> tuple[Array, Array]:
        """State after sample b - 1 and all that the samples [a, b) emit, (b - a, e, N)."""
        state, parts, _ = self._run(values, state, a, b, store=True)
        return state, parts[0] if len(parts) == 1 else np.concatenate(parts)

    def blocks(
        self, values: Array, share: float = 1.0, store: bool = True
    ) -> Iterator[tuple[Array, Array]]:
        """Yield what at most `CHUNK` samples emit at a time, (m, e, N), and its sum, (e, N).

        Of each record it is the given share from its beginning; without ``store`` the sum alone.
        """
        theta = np.ascontiguousarray(values.T)
        for rows in self._rows:
            state = started(self._kernel, theta, rows)
            for piece in chunks(rows, 0, ceil(share * len(rows))):
                state, emitted, sums = self._kernel.advance(theta, state, *piece, store)
                yield emitted, sums
                # Before the next one is made, as whoever took it does.
                del emitted

    def _run(
        self, values: Array, state: Array, a: int, b: int, store: bool
    ) -> tuple[Array, list[Array], Array]:
        theta = np.ascontiguousarray(values.T)
        total, parts, begin = np.zeros((self.n_emitted, theta.shape[1])), [], 0
        for rows in self._rows:
            first, last = max(a - begin, 0), min(b - begin, len(rows))
            if first == 0 < begin and last > 0:
                state = started(self._kernel, theta, rows)
            for piece in chunks(rows, first, last):
                state, emitted, sums = self._kernel.advance(theta, state, *piece, store)
                parts.append(emitted)
                total += sums
            begin += len(rows)
        return state, parts, total


class LaneLikelihood(CompiledLikelihood):
    """A compiled likelihood with what it is made of: kernel, records, solver and inputs."""

    _kernel: LaneKernel

    def __init__(
        self,
        kernel: LaneKernel,
        records: Sequence[Record],
        solver: Solver,
        inputs: Callable[[Record, int], KernelInputs],
    ) -> None:
        self.solver, self._inputs, self._records = solver, inputs, records
        super().__init__(kernel, self._written(records))

    def _written(self, records: Sequence[Record]) -> list[Rows | KernelRows]:
        return [self._inputs(record, k).written(record) for k, record in enumerate(records)]

    def with_records(self, records: Sequence[Record]) -> LaneLikelihood:
        """Likelihood of other records on the same grid: nothing is traced or compiled."""
        other = copy(self)
        other._records, other._rows = records, self._written(records)
        return other

    @override
    def detached(self) -> CompiledLikelihood:
        return CompiledLikelihood(self._kernel.detached(), self._rows)

    @property
    def kernel(self) -> LaneKernel:
        """The compiled recursion."""
        return self._kernel

    @property
    def reverses(self) -> bool:
        """True if a reverse pass can be made of the recursion."""
        return self._kernel.program.reverses

    def tangent(self) -> LaneLikelihood:
        """Likelihood with its derivative: `values` hold a direction after the parameters, (N, 2 d).

        `total` and `emitted` then have two rows, log-density and derivative. Compiles.
        """
        program = tangent(self._kernel.program)
        return self.running(LaneKernel(program, self._kernel.threads, TANGENT_LANES))

    def running(self, kernel: LaneKernel) -> LaneLikelihood:
        """Copy of records and rows with another kernel, such as a derivative's."""
        other = copy(self)
        other._kernel = kernel
        return other


def started(kernel: CompiledKernel, theta: Array, rows: Rows | KernelRows) -> Array:
    """State (k, N) at the first sample of a record, for parameters (p, N)."""
    first, *_ = next(rows.pieces(0, 1))
    return kernel.start(theta, first)


def chunks(rows: Rows | KernelRows, a: int, b: int) -> Iterator[tuple[Rows, int, int]]:
    """Cut the samples [a, b) of a record where a stream cuts them, so that both add up alike."""
    for piece, first, last in rows.pieces(a, b):
        while first < last:
            end = min(last, (max(first - 1, 0) // CHUNK + 1) * CHUNK + 1)
            yield piece, first, end
            first = end


OUTPUT_CHUNK = 250_000
"""Predicted numbers held at a time, whatever the length of the record: they stay in cache."""


def output_chunks(
    kernel: LaneKernel, theta: Array, rows: Rows | KernelRows, n_outputs: int
) -> Iterator[tuple[int, int, Array]]:
    """Yield (a, b, outputs (b - a, q, N)) over the rows of a record, for parameters (p, N)."""
    length = max(1, OUTPUT_CHUNK // (theta.shape[1] * n_outputs))
    state, begin = started(kernel, theta, rows), 0
    for piece, a, b in rows.pieces(0, len(rows)):
        for first in range(a, b, length):
            last = min(first + length, b)
            state, emitted, _ = kernel.advance(theta, state, piece, first, last, store=True)
            yield begin, begin + last - first, emitted
            begin += last - first
