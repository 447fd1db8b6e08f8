"""Derivatives of a compiled likelihood: along directions, back over time, expected information.

They are machine code and rows where they are `detached`, so that workers can evaluate them. Results
have the points on their last axis.

For samples N(g, S), given those before, the expected information about parameters i and j is

    sum_t J_i' S^-1 J_j + tr(S^-1 dS_i S^-1 dS_j) / 2,    J_i = dg / dtheta_i, dS_i = dS / dtheta_i

(Gauss-Newton's matrix, and Fisher's). A lane knows one direction only, so it emits the factor of
its own: with S = L D L' and W = D^-1/2 L^-1, the rows W J_i and the lower triangle of W dS_i W',
its diagonal over the root of 2. The information is the sum of their products over samples and rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil, sqrt
from typing import Any, ClassVar

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.codegen.kernel import CompiledKernel, LaneKernel, Rows
from smcpn.codegen.lower import LaneProgram
from smcpn.codegen.sweep import CompiledSweep, SweepKernel
from smcpn.codegen.tangent import tangent
from smcpn.likelihood.contract import Arrays, Batch, Batchable
from smcpn.likelihood.lanes import CHUNK, CompiledLikelihood
from smcpn.likelihood.measurement import masked_covariance, where_present, whitening
from smcpn.likelihood.registry import Recursion, weighing_program

Array = NDArray[np.float64]

BLOCK = 128
"""Samples whose products are summed at once: so few that BLAS runs them on one thread, and sums
come in the same order for any number of threads."""


def tangent_program(recursion: Recursion) -> LaneProgram:
    """Program of (theta, direction) that emits the log density and its derivative."""
    return tangent(weighing_program(recursion))


def expansion_program(recursion: Recursion) -> LaneProgram:
    """Program of (theta, direction) that emits log density, its derivative, `information_rows`."""
    mean, covariance = recursion.expected().measured
    q = mean.numel()
    values = [recursion.log_density(), mean, ca.vec(ca.densify(covariance))]
    program = tangent(recursion.program(ca.vertcat(*values)))
    parts = ca.vertsplit(
        program.emitted, [0, 1, 1 + q, n := 1 + q + q * q, n + 1, n + 1 + q, 2 * n]
    )
    log_density, _, covariance, derivative, slopes, change = parts
    rows = information_rows(
        ca.reshape(covariance, q, q), slopes, ca.reshape(change, q, q), recursion.sample.present
    )
    return replace(program, emitted=ca.vertcat(log_density, derivative, *rows))


def information_rows(
    covariance: ca.SX, slopes: ca.SX, change: ca.SX, present: ca.SX
) -> list[ca.SX]:
    """Rows whose products with those of another direction sum to the expected information.

    covariance: (q, q), S.
    slopes, change: (q, 1) and (q, q), derivatives of g and S along the direction; rows that are
        zero throughout are left out.
    present: (q, 1), 1 where an output was measured.
    """
    q = slopes.numel()
    whiten = whitening(masked_covariance(covariance, present))
    mean = whiten @ where_present(slopes, present)
    spread = whiten @ where_present(change, present @ present.T) @ whiten.T
    rows = [*ca.vertsplit(mean), *(spread[i, i] / sqrt(2.0) for i in range(q))]
    rows += [spread[i, j] for i in range(q) for j in range(i)]
    return [row for row in map(ca.simplify, rows) if not row.is_zero()]


def products(rows: Array) -> Array:
    """Sum of the outer products of rows (m, n, d) over the m samples, (n, d, d)."""
    whole = len(rows) // BLOCK * BLOCK
    blocks = rows[:whole].reshape(-1, BLOCK, *rows.shape[1:])
    return _squares(blocks).sum(axis=0) + _squares(rows[None, whole:])[0]


def _squares(blocks: Array) -> Array:
    """Products of the blocks (b, m, n, d) with themselves, (b, n, d, d)."""
    return np.matmul(blocks.transpose(0, 2, 3, 1), blocks.transpose(0, 2, 1, 3))


MOST_BYTES = 2**25
"""Memory of the directions of a block of points, and of what a block of samples emits for them."""


class Tangents(Batchable):
    """Value and derivatives of the sum of what a kernel emits first, by a tangent kernel.

    likelihood: Of parameters and a direction, (N, 2 d); emits value, derivative, and
        `information_rows`.
    """

    batches: ClassVar = ("derivative", "gradient", "expansion", "scores")

    def __init__(self, likelihood: CompiledLikelihood) -> None:
        self.likelihood, self.lanes = likelihood, likelihood.lanes
        self.n_samples = likelihood.n_samples

    @override
    def detached(self) -> Tangents:
        return Tangents(self.likelihood.detached())

    @override
    def unit(self, batch: Batch) -> int:
        """Return how many points fill the lanes: one takes as many as it has parameters."""
        along = "directions" in batch.arguments
        return self.lanes if along else max(1, self.lanes // batch.arguments["values"].shape[1])

    def derivative(self, values: Array, directions: Array, share: float = 1.0) -> Arrays:
        """Values (N,) and derivatives (N,) along one direction each, (N, d)."""
        total = self.likelihood.total(np.hstack([values, directions]), share)
        return total[0], total[1]

    def gradient(self, values: Array, share: float = 1.0) -> Arrays:
        """Values (N,) and gradients (d, N), of a share of each record from its beginning."""
        d = values.shape[1]
        return _joined(self._gradient, values, share, most=MOST_BYTES // (16 * d * d))

    def expansion(self, values: Array, share: float = 1.0) -> Arrays:
        """Values (N,), gradients (d, N) and information (d, d, N), see `LogLikelihood.expansion`.

        Only what a block of samples emits is held at a time.
        """
        bytes_of_a_point = 8 * CHUNK * values.shape[1] * self.likelihood.n_emitted
        return _joined(self._expansion, values, share, most=MOST_BYTES // bytes_of_a_point)

    def scores(self, values: Array, share: float = 1.0) -> Arrays:
        """Values (N,), gradients (d, N), and sums of the squares of the samples' scores, (d, N)."""
        n, d = values.shape
        total, slope, squares = np.zeros(n * d), np.zeros(n * d), np.zeros(n * d)
        for emitted, sums in self.likelihood.blocks(np.hstack(_pairs(values)), share):
            squares += np.square(emitted[:, 1]).sum(axis=0)
            total, slope = total + sums[0], slope + sums[1]
        return total.reshape(n, d)[:, 0], slope.reshape(n, d).T, squares.reshape(n, d).T

    def _gradient(self, values: Array, share: float) -> Arrays:
        n, d = values.shape
        total = self.likelihood.total(np.hstack(_pairs(values)), share)
        return total[0].reshape(n, d)[:, 0], total[1].reshape(n, d).T

    def _expansion(self, values: Array, share: float) -> Arrays:
        n, d = values.shape
        sums, information = np.zeros((self.likelihood.n_emitted, n * d)), np.zeros((n, d, d))
        for emitted, added in self.likelihood.blocks(np.hstack(_pairs(values)), share):
            sums += added
            for row in range(2, len(sums)):
                information += products(emitted[:, row].reshape(-1, n, d))
            del emitted
        total, slope = sums[0].reshape(n, d)[:, 0], sums[1].reshape(n, d)
        return total, slope.T, information.transpose(1, 2, 0)


class CompiledSweeps(Batchable):
    """The pass back over the samples of records, as machine code and rows."""

    batches: ClassVar = ("swept",)

    def __init__(self, kernel: CompiledKernel, sweep: CompiledSweep, rows: Sequence[Rows]) -> None:
        self._kernel, self._sweep, self._rows = kernel, sweep, rows
        self.lanes, self.n_samples = sweep.lanes, sum(map(len, rows))

    def swept(self, values: Array, numbers: Array, share: float = 1.0) -> Arrays:
        """Results of `CompiledSweep.run`, of a share of each record from its beginning."""
        rows = self._rows
        if share < 1.0:
            rows = [record.first(ceil(share * len(record))) for record in rows]
        theta = np.ascontiguousarray(values.T)
        return self._sweep.run(self._kernel, theta, numbers, rows)


class Sweeps(CompiledSweeps):
    """Value and gradient of what a kernel emits first, by a pass back over the samples."""

    _kernel: LaneKernel

    def __init__(self, kernel: LaneKernel, sweep: SweepKernel, rows: Sequence[Rows]) -> None:
        super().__init__(kernel, sweep.compiled, rows)
        self._whole = sweep

    @override
    def detached(self) -> CompiledSweeps:
        """The pass alone, on one thread, of machine code and rows only: it can be pickled."""
        return CompiledSweeps(self._kernel.detached(), self._sweep, self._rows)

    def numbers(self, values: Array) -> Array:
        """Numbers that the points compute once, (w, N)."""
        return self._whole.numbers(self._kernel, np.ascontiguousarray(values.T))

    def gradient(self, values: Array, slopes: Array, adjoints: Array) -> Array:
        """Gradients (d, N) of what `swept` returns."""
        theta = np.ascontiguousarray(values.T)
        return self._whole.gradient(self._kernel, theta, self._rows, slopes, adjoints)


def _joined(
    work: Callable[[Array, float], Arrays], values: Array, share: float, most: int
) -> Arrays:
    """Results at all points, of which so many are computed together at most."""
    size = max(1, most)
    parts = [work(values[k : k + size], share) for k in range(0, max(len(values), 1), size)]
    return tuple(np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))


def _pairs(values: Array) -> tuple[Array, Array]:
    """Every row of values with every unit direction, (N d, d) each."""
    n, d = values.shape
    return np.repeat(values, d, axis=0), np.tile(np.eye(d), (n, 1))


def at_home(likelihood: Any) -> Any:
    """Return what is evaluated by the threads of this process, as it is."""
    return likelihood
