"""Inputs of a Runge-Kutta program, written out as numbers of every step and every sample.

Programs that cut, repeat or join steps read these in place of the samples of a record.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.kernel import Rows
from smcpn.likelihood.classical import PLACES
from smcpn.likelihood.inputs import KernelInputs
from smcpn.model.graphs import Model
from smcpn.model.record import Record
from smcpn.model.signal import RecordSamples, Signal

Array = NDArray[np.float64]


def explicit_rows(record: Record, model: Model, steps: int) -> Rows:
    """Rows of a record for `runge_kutta_program` without its ``shared`` graphs.

    Those of a step are inputs at its begin, middle and end, its time and its length; those of a
    sample are inputs, time, outputs (0 where missing), and whether each is present.
    """
    n, q, m = record.n_inputs, model.measured, len(record)
    samples, signal = RecordSamples(record, q), Signal(n, q, smooth=True, places=PLACES)
    columns = samples.columns(0, m)
    spacing = np.full(m - 1, record.interval) if record.uniform else np.diff(record.t)
    values = signal.values_of(samples, 0, m, steps)
    inputs = np.empty((m - 1, steps, 3 * n + 2))
    if values is not None:
        inputs[:, :, : 3 * n] = values
    inputs[:, :, 3 * n] = samples.times(0, m, steps)[:, :-1]
    inputs[:, :, 3 * n + 1] = (spacing / steps)[:, None]
    t, u, y = columns[:, :1], columns[:, 1 : 1 + n], columns[:, 1 + n :]
    return Rows(
        start=KernelInputs(signal, record, steps, n_initial=len(model.initial)).start(samples),
        samples=np.column_stack([u, t, np.nan_to_num(y), np.isfinite(y)]),
        steps=steps,
        inputs=inputs.reshape(-1, 3 * n + 2),
    )
