"""Sampling intervals whose inputs come late, by dead times that may be parameters.

An interval is cut where samples of an input arrive, as those of a likelihood are
(`smcpn.likelihood.delayed`). In a part the input is a polynomial, and time runs at a speed of its
own: both are functions of the parameters, with their derivatives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.codegen.arrays import ArrayFunction
from smcpn.codegen.tangent import jacobian
from smcpn.estimate.path_search.linearisation import Field, Intervals, stacked
from smcpn.likelihood.delayed import DeadTimes
from smcpn.likelihood.inputs import KernelInputs
from smcpn.likelihood.lanes import Grid
from smcpn.model.graphs import Model
from smcpn.model.record import Record
from smcpn.model.signal import RecordSamples

Array = NDArray[np.float64]


class LateInputs(NamedTuple):
    """Numbers (S, K, r) that the steps of a part read, and derivatives by the values, (..., d)."""

    numbers: Array
    slopes: Array


class LateField(Field):
    """A `Field` of a model in a part of an interval, whose inputs are `LateInputs`."""

    def __init__(self, model: Model, graph: ca.SX) -> None:
        super().__init__(model, graph, by_inputs=True)

    @override
    def value(self, x: Array, u: Any, t: Array, values: Array) -> Array:
        return super().value(x, u.numbers, t, values)

    @override
    def with_derivatives(self, x: Array, u: Any, t: Array, values: Array) -> tuple[Array, Array]:
        found, by = super().with_derivatives(x, u.numbers, t, values)
        n, own = x.shape[2], x.shape[2] + values.shape[1]
        by[..., n:own] += by[..., own:] @ u.slopes
        return found, by[..., :own]


class LateIntervals(Intervals):
    """Sampling intervals of records for a model with dead times."""

    def __init__(self, model: Model, records: Sequence[Record]) -> None:
        grid = Grid.of(records, model.delay)
        dead_times = DeadTimes(model, grid)
        self.parts, moving = dead_times.parts, dead_times.moving
        moved = replace(dead_times.model, u=moving)
        super().__init__(LateField(moved, moved.rhs), records)
        signal = dead_times.signal(grid.smooth, not grid.rescales)
        shared, picked = signal.graphs(), dead_times.stateless(signal)[: moving.numel()]
        symbols = ca.vertcat(shared.window, signal.part, shared.record, model.theta)
        slopes = ca.densify(jacobian(picked, model.theta))
        self._picked, self._size = ArrayFunction(symbols, ca.veccat(picked, slopes)), picked.numel()
        self._samples = [_samples(KernelInputs(signal, one, 1), model.measured) for one in records]
        self._latest: tuple[bytes, list[LateInputs]] = b"", []

    @override
    def _inputs(self, values: Array, part: slice) -> Iterator[Sequence[tuple[Any, Array]]]:
        for late in self._late(values):
            inputs = LateInputs(late.numbers[:, part], late.slopes[:, part])
            for step in range(self.steps):
                yield [(inputs, (step + share) * self._h[part]) for share in (0.0, 0.5, 1.0)]

    def _late(self, values: Array) -> list[LateInputs]:
        """Numbers of all parts for values (S, d)."""
        if self._latest[0] != values.tobytes():
            self._latest = values.tobytes(), [self._of_part(k, values) for k in range(self.parts)]
        return self._latest[1]

    def _of_part(self, part: int, values: Array) -> LateInputs:
        columns, (searches, d) = [one[:, None] for one in values.T], values.shape
        each: list[Array] = []
        for samples, numbers in self._samples:
            found = self._picked([*samples, float(part), *numbers, *columns])
            each.append(stacked(found, (searches, len(samples[0]))))
        found = np.concatenate(each, axis=1)
        numbers, slopes = found[..., : self._size], found[..., self._size :]
        return LateInputs(numbers, slopes.reshape(*slopes.shape[:2], d, -1).swapaxes(2, 3))


def _samples(inputs: KernelInputs, n_outputs: int) -> tuple[list[Array], list[float]]:
    """Numbers of the samples about each interval of a record, (K,) each, and of the record."""
    record, back = inputs.template, 2 + inputs.signal.before
    rows = inputs.rows(RecordSamples(record, n_outputs), 0, len(record), inputs.memory)[0]
    columns = [rows.samples[k : k + len(record) - 1] for k in range(back)]
    return [column for one in columns for column in one.T], rows.record.tolist()
