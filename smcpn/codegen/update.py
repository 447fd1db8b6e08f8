"""Advance and weigh a population by one sample, in one compiled call: when microseconds count."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.kernel import KernelArgumentError, LaneKernel, Rows, address
from smcpn.codegen.weights import FRAME, WEIGHT_ROWS, weigh

Array = NDArray[np.float64]


class Update:
    """The samples of some rows, assimilated one by one by the particles of some parameters.

    A population is one array, (k + 4 + m, N): state, log-weights, log-likelihoods, weights, and
    the increments and the program's moments of its last sample.

    Parameters
    ----------
    kernel : LaneKernel
        Of a program with moments of ``n_outputs`` outputs.
    columns : ndarray
        Parameters, of `LaneKernel.columns`.
    rows : Rows
    measured : ndarray, (T, c)
        Of every sample, the outputs last, NaN where missing.
    begin : int
        Number of the first of the rows in its stream.

    Attributes
    ----------
    samples : range
        Numbers of those that it knows. The first of the rows is one that the rows before end with,
        unless the stream begins with it.
    """

    def __init__(
        self, kernel: LaneKernel, columns: Array, rows: Rows, measured: Array, begin: int = 0
    ) -> None:
        program, n = kernel.program, columns.shape[1]
        self._n_state, self._n_outputs = program.state.numel(), program.n_outputs
        kernel.check_one(columns, (self._n_state, n), rows, 0)
        if len(measured) != len(rows) or measured.shape[1] < self._n_outputs:
            raise KernelArgumentError("there are not as many measured values as rows")
        self.shape = self._n_state + WEIGHT_ROWS + program.moments.numel(), n
        self._update, self._begin = kernel.native.update, begin
        self.samples = range(begin + (begin > 0), begin + len(rows))
        intervals, inputs, gains, samples, begins = rows.addresses
        work, work_address = kernel.work_array()
        before_outputs = measured.shape[1] - self._n_outputs
        numbers = {
            "theta": address(columns), "particles": n, "intervals": intervals, "inputs": inputs,
            "gains": gains, "n_gains": len(rows.gains), "samples": samples, "begins": begins,
            "recur": rows.recur, "blocks": -(-n // kernel.lanes), "work": work_address,
            "measured": address(measured) + 8 * before_outputs,
            "measured_width": measured.shape[1],
        }  # fmt: skip
        self._frame = np.array([numbers[name] for name in FRAME], dtype=np.int64)
        self._frame_address = self._frame.ctypes.data
        # What the frame points to.
        self._kept = columns, rows, measured, work

    def population(self, state: Array, log_weights: Array, log_likelihood: Array) -> Array:
        """Return a population, of states (k, N) and of what each particle has, (N,)."""
        made = np.zeros(self.shape)
        rows = made[self._n_state : self._n_state + WEIGHT_ROWS]
        made[: self._n_state], rows[0], rows[1] = state, log_weights, log_likelihood
        weigh(log_weights[None], rows[2:3])
        return made

    def __call__(self, before: Array, sample: int) -> tuple[Array, Array]:
        """Assimilate a sample.

        Returns
        -------
        after : ndarray, (k + 4 + m, N)
        summary : ndarray, (2 + q,)
            Effective sample size, log of the mean weight, and what was measured minus what was
            predicted, in predictive standard deviations; nan where missing.
        """
        if before.shape != self.shape or sample not in self.samples:
            raise KernelArgumentError("the population or the sample is not of these rows")
        after, summary = np.empty(self.shape), np.empty(2 + self._n_outputs)
        self._update(
            self._frame_address, sample - self._begin,
            address(before), address(after), address(summary),
        )  # fmt: skip
        return after, summary

    def state(self, population: Array) -> Array:
        """States of the solver, (k, N)."""
        return population[: self._n_state]

    def log_weights(self, population: Array) -> Array:
        """Log-weights, (N,)."""
        return population[self._n_state]

    def log_likelihood(self, population: Array) -> Array:
        """Log-likelihoods of all samples, (N,)."""
        return population[self._n_state + 1]

    def weights(self, population: Array) -> Array:
        """Weights, the largest of which is one, (N,)."""
        return population[self._n_state + 2]

    def moments(self, population: Array) -> Array:
        """The program's moments of the last sample, (m, N)."""
        return population[self._n_state + WEIGHT_ROWS :]
