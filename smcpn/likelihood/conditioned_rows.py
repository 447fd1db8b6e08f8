"""What all particles share in the likelihoods of `conditioned`: inputs, samples, and gains."""

from __future__ import annotations

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.kernel import Rows
from smcpn.hold import interval_derivatives, substep_inputs, substep_times
from smcpn.likelihood.conditioned import ConditionedSymbols
from smcpn.likelihood.covariance import SharedRun
from smcpn.likelihood.lanes import sample_rows, start_row
from smcpn.record import Record

Array = NDArray[np.float64]


def conditioned_rows(
    symbols: ConditionedSymbols, record: Record, steps: int, number: int = 0, factor: float = 1.0
) -> Rows:
    """Build the rows of `ConditionedSymbols.program` for a record, the ``number``-th.

    ``factor`` raises the diffusion, where it is a number that gains depend on.
    """
    model, n_intervals = symbols.model, len(record) - 1
    lengths = _step_lengths(symbols, record, steps)
    before = np.append(lengths[:1], lengths)
    inputs = _step_rows(record, steps, lengths, symbols.order)
    samples = sample_rows(record, model.outputs.numel())
    constants = np.array(symbols.constant_values(factor))
    shared = np.column_stack([_present(symbols, samples), np.append(lengths, lengths[-1]), before])
    step_gains, sample_gains = _gains(symbols, inputs[:, -2:-1], shared, constants, steps)
    parts = [samples[:-1]]
    if symbols.grid.restarts:
        parts.append(interval_derivatives(record, symbols.order - 1).reshape(n_intervals, -1))
    parts += [lengths[:, None], before[:-1, None], sample_gains[:-1]]
    start = start_row(record, number, len(model.initial), symbols.order)
    return Rows(
        start=np.append(start, lengths[0]),
        inputs=inputs,
        gains=step_gains,
        samples=np.column_stack([samples, before, sample_gains]),
        steps=steps,
        intervals=np.ascontiguousarray(np.column_stack(parts)),
    )


def _step_lengths(symbols: ConditionedSymbols, record: Record, steps: int) -> Array:
    """Length of the steps of each interval; one and the same where the coordinates stay."""
    if symbols.grid.rescales:
        return np.diff(record.t) / steps
    count = len(record) - 1
    return np.full(count, float(record.t[-1] - record.t[0]) / (count * steps))


def _step_rows(record: Record, steps: int, lengths: Array, order: int) -> Array:
    """Input, time and length of each step, what it does to the noise, and its number."""
    n = record.n_inputs
    rows = np.empty((len(lengths), steps, n + 4))
    rows[..., :n] = substep_inputs(record, steps)[:, 1:]
    rows[..., n] = substep_times(record, steps)[:, 1:]
    rows[..., n + 1] = lengths[:, None]
    rows[..., n + 2] = lengths[:, None] ** (2 * order + 1)
    rows[..., n + 3] = np.arange(1, len(lengths) * steps + 1).reshape(-1, steps)
    return rows.reshape(-1, n + 4)


def _present(symbols: ConditionedSymbols, samples: Array) -> Array:
    return samples[:, -symbols.model.outputs.numel() :]


def _gains(
    symbols: ConditionedSymbols, scales: Array, samples: Array, constants: Array, steps: int
) -> tuple[Array, Array]:
    """Gains of the covariances that no particle holds, per step and per sample."""
    row = ca.vertcat(symbols.sample.present, symbols.h, symbols.h_before)
    by_step, by_sample = [np.empty((len(scales), 0))], [np.empty((len(samples), 0))]
    for covariance in symbols.shared:
        run = SharedRun(covariance, symbols.scale, row, symbols.constants)
        gains = run(scales, samples, constants, steps)
        by_step.append(gains[0])
        by_sample.append(gains[1])
    return np.column_stack(by_step), np.column_stack(by_sample)
