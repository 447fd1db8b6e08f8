"""Advance and weigh a population by one sample, in one compiled call: when microseconds count."""

from __future__ import annotations

import ctypes
import time
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.kernel import KernelArgumentError, LaneKernel, Rows, address
from smcpn.codegen.native import code
from smcpn.codegen.target import Target, target
from smcpn.codegen.weights import FRAME, WEIGHT_ROWS, write_weigh

Array = NDArray[np.float64]

BRIEF = 1e-4
"""Seconds of a call below which other threads wait for it: one that reads a source takes Python's
lock whenever it is given up, and holds it for longer than that."""


_first_byte: Any = ctypes.c_char.from_buffer
_address = ctypes.addressof


@cache
def _weigh(_: Target) -> Any:
    return code("weights", write_weigh).function("weigh", 4)


def weigh(log_weights: Array, weights: Array | None = None) -> tuple[Array, Array]:
    """Effective sample size, and log of the mean weight, of rows of log-weights (m, N); (m,).

    weights: (m, N), becomes the weights, relative to the largest of each row.
    """
    weigh = _weigh(target())
    rows = np.ascontiguousarray(log_weights, dtype=float)
    (m, n), kept = rows.shape, weights is not None
    sums, weights = np.empty((m, 2)), np.empty((1, n)) if weights is None else weights
    source, into, to = (array.ctypes.data for array in (rows, weights, sums))
    for k in range(m):
        weigh(source + 8 * n * k, n, into + 8 * n * k * kept, to + 16 * k)
    return sums[:, 0].copy(), sums[:, 1].copy()


class Population:
    """Weighted particles as compiled code reads and writes them: one array.

    sizes: Numbers of the solver's state, of outputs, and of particles.
    address: Of the numbers in memory.
    """

    __slots__ = ("_numbers", "address", "sizes")

    def __init__(self, sizes: tuple[int, int, int]) -> None:
        self.sizes, (n_state, n_outputs, n) = sizes, sizes
        self._numbers = numbers = np.empty((n_state + WEIGHT_ROWS) * n + 2 + 3 * n_outputs)
        self.address: int = _address(_first_byte(numbers))

    def _rows(self, first: int, last: int) -> Array:
        n = self.sizes[2]
        return self._numbers[first * n : last * n].reshape(last - first, n)

    @property
    def state(self) -> Array:
        """State of the solver, (k, N)."""
        return self._rows(0, self.sizes[0])

    @property
    def log_weights(self) -> Array:
        """Log-weights, (N,)."""
        return self._rows(self.sizes[0], self.sizes[0] + 1)[0]

    @property
    def log_likelihood(self) -> Array:
        """Log-likelihoods of all samples, (N,)."""
        return self._rows(self.sizes[0] + 1, self.sizes[0] + 2)[0]

    @property
    def weights(self) -> Array:
        """Weights, the largest of which is one, (N,)."""
        return self._rows(self.sizes[0] + 2, self.sizes[0] + 3)[0]

    @property
    def summary(self) -> tuple[float, float]:
        """Effective sample size, and log of the mean weight."""
        numbers, end = self._numbers, -3 * self.sizes[1]
        return numbers.item(end - 2), numbers.item(end - 1)

    @property
    def innovation(self) -> Array:
        """Measured values less their prediction, in predictive standard deviations, (q,).

        Of the last sample, predicted with the weights before it; nan where missing.
        """
        return self._numbers[-3 * self.sizes[1] : -2 * self.sizes[1]]

    @property
    def prediction(self) -> Array:
        """Predicted mean and standard deviation of the outputs, (2, q)."""
        return self._numbers[-2 * self.sizes[1] :].reshape(2, -1)


class Update:
    """The samples of some rows, assimilated one by one by the particles of some parameters.

    kernel: Of a program with moments of ``n_outputs`` outputs.
    columns: Parameters, of `LaneKernel.columns`.
    measured: Columns of the samples of which the outputs are the last ones, NaN where missing.
    samples: Numbers of those that it knows. The first of the rows is one that the rows before end
        with, unless the stream begins with it.
    moments: (m, N), the program's moments of the sample that was assimilated last.
    latest: That after this sample.
    """

    def __init__(self, kernel: LaneKernel, columns: Array, rows: Rows, measured: int) -> None:
        program, n = kernel.program, columns.shape[1]
        n_state, n_outputs = program.state.numel(), program.n_outputs
        kernel.check_one(columns, (n_state, n), rows, 0)
        width = rows.samples.shape[1]
        if not n_outputs <= measured <= width:
            raise KernelArgumentError("the samples do not have as many columns")
        self._sizes = n_state, n_outputs, n
        self.moments = np.empty((program.moments.numel(), n))
        self.latest: Population | None = None
        increments = np.empty(n)
        self._code, self._call, self._begin = kernel.code, self._timed, rows.sample
        self.samples = range(rows.sample + (rows.sample > 0), rows.sample + len(rows))
        work, work_address = kernel.work_array()
        numbers = {
            "theta": address(columns), "particles": n, "rows": rows.address,
            "blocks": -(-n // kernel.lanes), "work": work_address,
            "measured": address(rows.samples) + 8 * (rows.before * width + measured - n_outputs),
            "measured_width": width, "increments": address(increments),
            "moments": address(self.moments),
        }  # fmt: skip
        self._frame = np.array([numbers[name] for name in FRAME], dtype=np.int64)
        self._frame_address = self._frame.ctypes.data
        # What the frame points to.
        self._kept = columns, rows, work, increments

    def population(self, state: Array, log_weights: Array, log_likelihood: Array) -> Population:
        """Return a population, of states (k, N) and of what each particle has, (N,)."""
        made = Population(self._sizes)
        made.state[:], made.log_weights[:] = state, log_weights
        made.log_likelihood[:] = log_likelihood
        weigh(log_weights[None], made.weights[None])
        return made

    def __call__(self, before: Population, sample: int) -> Population:
        """Assimilate a sample."""
        if before.sizes != self._sizes or sample not in self.samples:
            raise KernelArgumentError("the population or the sample is not of these rows")
        after = Population(self._sizes)
        self._call(self._frame_address, sample - self._begin, before.address, after.address)
        self.latest = after
        return after

    def _timed(self, *numbers: int) -> None:
        """Assimilate the first sample, and find out whether other threads are let run meanwhile."""
        update, begin = self._code.function("update", 4, brief=True), time.perf_counter()
        update(*numbers)
        brief = time.perf_counter() - begin < BRIEF
        self._call = update if brief else self._code.function("update", 4)
