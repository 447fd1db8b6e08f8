"""First derivatives of a compiled likelihood: along directions, and back over time.

They are machine code and rows where they are `detached`, so that workers can evaluate them.
Results have the points on their last axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.codegen.kernel import CompiledKernel, LaneKernel, Rows
from smcpn.codegen.sweep import CompiledSweep, SweepKernel
from smcpn.likelihood.batches import Arrays, Batch, Batchable
from smcpn.likelihood.expansion import products
from smcpn.likelihood.lanes import CHUNK, CompiledLikelihood

Array = NDArray[np.float64]

MOST_BYTES = 2**26
"""Memory of the directions of a block of points, and of what a block of samples emits for them."""


class Tangents(Batchable):
    """Value and derivatives of the sum of what a kernel emits first, by a tangent kernel.

    Parameters
    ----------
    likelihood : CompiledLikelihood
        Of parameters and a direction, (N, 2 d); emits value, derivative, and `information_rows`.
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
        total, slope = sums[0].reshape(n, d)[:, 0], sums[1].reshape(n, d)
        return total, slope.T, information.transpose(1, 2, 0)


class CompiledSweeps(Batchable):
    """The pass back over the samples of records, as machine code and rows.

    Parameters
    ----------
    kernel : CompiledKernel
    sweep : CompiledSweep
        Of the program of the kernel.
    rows : sequence of Rows
    """

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
    """Value and gradient of what a kernel emits first, by a pass back over the samples.

    Parameters
    ----------
    kernel : LaneKernel
    sweep : SweepKernel
        Of the program of the kernel.
    rows : sequence of Rows
    """

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
