"""Compiled predictions: mean and solver covariance of every sample, and local error of its step.

One kernel serves both: the local error of a step is known from the mean alone. Under a local
diffusion of its own the standard deviation D_n of a residual is the size of that residual, so the
local error h D_n is h |z| (Bosch, Hennig, Tronarp 2021, (21) and (27)).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.kernel import LaneKernel, Rows
from smcpn.codegen.target import target
from smcpn.likelihood.inputs import KernelRows
from smcpn.likelihood.lanes import Grid, chunks, started
from smcpn.likelihood.registry import LIKELIHOODS, Recursion, suitable_likelihood
from smcpn.model.problem import Problem
from smcpn.model.record import Record
from smcpn.model.solver import Solver

Array = NDArray[np.float64]


class Averages(NamedTuple):
    """Averages over the samples, for each of N parameters; not finite where a solution diverges.

    outputs, output_squares: (q, N)
    states, state_squares, error_squares: (n, N)
    """

    outputs: Array
    output_squares: Array
    states: Array
    state_squares: Array
    error_squares: Array


class Stretch(NamedTuple):
    """Consecutive samples: measured outputs (m, q), their mean (m, q) and covariance (m, q, q).

    ``begin`` is the number of the first one in its record.
    """

    y: Array
    mean: Array
    covariance: Array
    record: Record
    begin: int


class CompiledPrediction:
    """A recursion compiled to emit the predicted outputs, and the local error of the last step.

    sizes: Of the parts of what the kernel emits: outputs, covariance, states, error, mean and
        variance of the noise.
    """

    def __init__(self, recursion: Recursion) -> None:
        self.recursion, expected = recursion, recursion.expected()
        error = ca.SX.sym("error", expected.states.numel(), 1)
        noise = expected.noise_mean, expected.noise_variance
        parts = [expected.outputs, ca.vec(expected.covariance), expected.states, error, *noise]
        plain = recursion.program(ca.vertcat(*parts))
        none = ca.SX.zeros(error.numel(), 1)
        longer = plain.with_state(error, none, step=recursion.local_error())
        self.kernel, self.sizes = LaneKernel(longer), tuple(part.numel() for part in parts)

    def under(self, solver: Solver) -> CompiledPrediction:
        """Copy of the kernel with the constants of a solver."""
        other = copy(self)
        other.kernel = self.kernel.with_constants(self.recursion.constant_values(solver))
        return other


def compiled_prediction(
    problem: Problem, solver: Solver, likelihood: str, record: Record
) -> CompiledPrediction:
    """The kernel of a problem's model for a record, whatever the number of steps.

    It is compiled once and used by the search for the number of steps and by the error budget.
    """
    grid = Grid.of([record], problem.model.delay)
    known = problem.model.kernels
    key = ("prediction", likelihood, solver.unresolved(), grid, target())
    if key not in known:
        recursion = LIKELIHOODS[likelihood].predicting(problem, solver, grid)
        known[key] = CompiledPrediction(recursion)
    return known[key].under(solver)


@dataclass(frozen=True)
class Prediction:
    """Predictions of one record by a likelihood, for any parameters and number of steps.

    number: Which of the model's initial states the record starts from.
    interval: Its sampling interval in units of that of the problem's first record.
    divided: See `Solver.interval`.
    """

    compiled: CompiledPrediction
    record: Record
    number: int
    interval: float
    divided: float | None = None

    @property
    def local_order(self) -> int:
        """Power of the step with which the local error falls."""
        return self.compiled.recursion.local_order

    def stretches(self, values: Array, steps: int) -> Iterator[Stretch]:
        """Yield the `moments` of the samples as they come, of a short record all at once."""
        begin, q = 0, self.record.n_outputs
        for emitted in self._emitted(values, steps):
            mean, covariance, *_ = self._parts(emitted)
            y = self.record.y[begin : begin + len(mean)]
            yield Stretch(y, mean, covariance.reshape(-1, q, q), self.record, begin)
            begin += len(mean)

    def moments(self, values: Array, steps: int) -> tuple[Array, Array]:
        """Mean (T, q) and covariance (T, q, q) at each sample for parameters (d,).

        ``steps`` are counted per sampling interval of the first record.
        """
        return self.with_noise(values, steps)[:2]

    def with_noise(self, values: Array, steps: int) -> tuple[Array, Array, Array, Array]:
        """`moments`, and mean and variance of the noise given the samples before, (T, q) each.

        Of white noise they are 0 and its variance.
        """
        outputs, covariance, *_, mean, variance = self._along(values, steps)
        return outputs, covariance.reshape(*outputs.shape, -1), mean, variance

    def states(self, values: Array, steps: int) -> Array:
        """Mean of the states given the samples before, where they correct it, (T, n)."""
        return self._along(values, steps)[2]

    def averages(self, theta: Array, steps: int) -> Averages:
        """Averages over the samples for parameters (d, N)."""
        rows, kernel = self._rows(steps), self.compiled.kernel
        state, sums = started(kernel, theta, rows), []
        for piece in chunks(rows, 0, len(rows)):
            state, emitted, _ = kernel.advance(theta, state, *piece, True)
            outputs, _, states, error, *_ = self._parts(emitted)
            terms = (outputs, outputs**2, states, states**2, error**2)
            sums.append([term.sum(axis=0) for term in terms])
        totals = (np.sum(parts, axis=0) for parts in zip(*sums, strict=True))
        return Averages(*(total / len(rows) for total in totals))

    def _along(self, values: Array, steps: int) -> list[Array]:
        """Values that the samples emit for parameters (d,), part by part."""
        emitted, begin = np.empty((len(self.record), sum(self.compiled.sizes))), 0
        for part in self._emitted(values, steps):
            emitted[begin : begin + len(part)] = part
            begin += len(part)
        return self._parts(emitted)

    def _emitted(self, values: Array, steps: int) -> Iterator[Array]:
        """Yield what the samples emit for parameters (d,), in pieces (m, e)."""
        theta, rows = np.asarray(values, dtype=float)[:, None], self._rows(steps)
        kernel = self.compiled.kernel
        state = started(kernel, theta, rows)
        whole = rows.pieces(0, len(rows)) if isinstance(rows, Rows) else None
        for piece in whole or chunks(rows, 0, len(rows)):
            state, emitted, _ = kernel.advance(theta, state, *piece, True)
            yield emitted[:, :, 0]

    def _rows(self, steps: int) -> Rows | KernelRows:
        own = steps if self.divided is not None else own_steps(steps, self.interval)
        inputs = self.compiled.recursion.inputs(self.record, own, self.number, self.divided)
        return inputs.written(self.record)

    def _parts(self, emitted: Array) -> list[Array]:
        """Outputs, covariance, states, error and noise, along the second axis."""
        return np.split(emitted, np.cumsum(self.compiled.sizes)[:-1], axis=1)


def own_steps(steps: int, interval: float) -> int:
    """Steps per sample of a record whose sampling interval is so many times as long.

    Those of a record that is sampled more coarsely are not longer.
    """
    return max(1, int(np.ceil(steps * interval - 1e-6)))


def written_rows(
    recursion: Recursion, problem: Problem, solver: Solver, record: Record, number: int
) -> Rows:
    """Rows of a record that starts from the ``number``-th initial state of the problem.

    The steps of the solver are counted per sampling interval of the problem's first record.
    """
    steps = steps_of(problem, solver, record)
    return recursion.inputs(record, steps, number, solver.interval).whole(record)


def steps_of(problem: Problem, solver: Solver, record: Record) -> int:
    """Steps per sample of a record under a solver, counted as those of `written_rows`."""
    if solver.interval is not None:
        return int(solver.steps)
    interval = _mean_interval(record) / _mean_interval(problem.records[0])
    return own_steps(int(solver.steps), interval)


def predictions(
    problem: Problem,
    solver: Solver,
    records: Iterable[tuple[int, Record]],
    likelihood: str | None = None,
) -> list[Prediction]:
    """Compile the likelihood's own recursion; arguments as of `predictive_moments`."""
    name = suitable_likelihood(problem, solver, likelihood).name
    learned = _mean_interval(problem.records[0])
    return [
        Prediction(
            compiled_prediction(problem, solver, name, record),
            record,
            number,
            _mean_interval(record) / learned,
            solver.interval,
        )
        for number, record in records
    ]


def predictive_moments(
    problem: Problem,
    solver: Solver,
    values: Array,
    records: Iterable[tuple[int, Record]],
    likelihood: str | None = None,
) -> list[tuple[Array, Array]]:
    """Run the likelihood's own recursion and return the mean and the solver's covariance.

    solver: With a number of steps, counted per sampling interval of the problem's first record.
    records: Each with the number of the initial state it starts from.

    The mean (T, q) is of outputs without noise, the covariance (T, q, q) of the solver's error:
    of the marginal likelihood J Sigma J' (PN-SMC eq. 20); zero of the classical one, which claims
    no error. Of those that see the data, both are given the samples before: the covariance is what
    the solver is uncertain of one sample ahead.
    """
    found = predictions(problem, solver, records, likelihood)
    return [one.moments(values, int(solver.steps)) for one in found]


def _mean_interval(record: Record) -> float:
    return float(record.t[-1] - record.t[0]) / (len(record.t) - 1)
