"""What a likelihood expects of every sample, and the local error of the step before it; compiled.

One kernel serves both: the local error of a step is known from the mean alone. Under a local
diffusion of its own the standard deviation D_n of a residual is the size of that residual, so the
local error h D_n is h |z| (Bosch, Hennig, Tronarp 2021, (21) and (27)).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.kernel import LaneKernel, Rows
from smcpn.codegen.program import LaneProgram
from smcpn.likelihood.lanes import chunks
from smcpn.model.record import Record

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Expected:
    """Graphs of what is expected at a sample.

    Attributes
    ----------
    outputs : casadi.SX, (q, 1)
        Mean of the noise-free outputs.
    covariance : casadi.SX, (q, q)
        What the solver is uncertain of.
    states : casadi.SX, (n, 1)
    """

    outputs: ca.SX
    covariance: ca.SX
    states: ca.SX


class Averages(NamedTuple):
    """Averages over the samples, for each of N parameters; not finite where a solution diverges.

    Attributes
    ----------
    outputs, output_squares : ndarray, (q, N)
    states, state_squares, error_squares : ndarray, (n, N)
    """

    outputs: Array
    output_squares: Array
    states: Array
    state_squares: Array
    error_squares: Array


@dataclass(frozen=True)
class Prediction:
    """The recursion of a likelihood over one record, for any parameters and number of steps.

    Attributes
    ----------
    kernel : LaneKernel
    rows : callable
        ``rows(record, steps)``: what all parameters share.
    sizes : tuple of int
        Of the parts of what the kernel emits.
    local_order : int
        Power of the step with which the local error falls.
    """

    kernel: LaneKernel
    rows: Callable[[Record, int], Rows]
    sizes: tuple[int, ...]
    local_order: int

    @classmethod
    def of(
        cls,
        program: Callable[[ca.SX], LaneProgram],
        expected: Expected,
        local_error: ca.SX,
        local_order: int,
        rows: Callable[[Record, int], Rows],
    ) -> Prediction:
        """Compile a likelihood's ``program``, given what it shall emit.

        Parameters
        ----------
        local_error : casadi.SX, (n, 1)
            Of a step, over what a step of the program is made of.
        """
        error = ca.SX.sym("error", expected.states.numel(), 1)
        parts = [
            expected.outputs,
            ca.vec(expected.covariance),
            expected.states,
            error,
        ]
        plain = program(ca.vertcat(*parts))
        longer = replace(
            plain,
            state=ca.vertcat(plain.state, error),
            start=ca.vertcat(plain.start, ca.SX.zeros(error.numel(), 1)),
            interval=None if plain.interval is None else ca.vertcat(plain.interval, error),
            step=ca.vertcat(plain.step, local_error),
        )
        return cls(LaneKernel(longer), rows, tuple(p.numel() for p in parts), local_order)

    def moments(self, theta: Array, record: Record, steps: int) -> tuple[Array, Array]:
        """Mean (T, q) and covariance (T, q, q) at each sample for parameters (d, 1)."""
        rows = self.rows(record, steps)
        start = self.kernel.start(theta, rows)
        _, emitted, _ = self.kernel.advance(theta, start, rows, 0, len(rows), True)
        outputs, covariance, *_ = self._parts(emitted[:, :, 0])
        return outputs, covariance.reshape(len(rows), *outputs.shape[1:], -1)

    def averages(self, theta: Array, record: Record, steps: int) -> Averages:
        """Averages over the samples for parameters (d, N)."""
        rows = self.rows(record, steps)
        state, sums = self.kernel.start(theta, rows), []
        for first, last in chunks(0, len(rows)):
            state, emitted, _ = self.kernel.advance(theta, state, rows, first, last, True)
            outputs, _, states, error = self._parts(emitted)
            terms = (outputs, outputs**2, states, states**2, error**2)
            sums.append([term.sum(axis=0) for term in terms])
        totals = (np.sum(parts, axis=0) for parts in zip(*sums, strict=True))
        return Averages(*(total / len(rows) for total in totals))

    def _parts(self, emitted: Array) -> list[Array]:
        """Outputs, covariance, states and error, along the second axis."""
        return np.split(emitted, np.cumsum(self.sizes)[:-1], axis=1)
