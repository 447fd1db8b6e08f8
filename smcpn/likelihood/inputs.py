"""Inputs of kernels: samples of a record or a stream, and what these do not tell.

It reads the samples themselves, and evaluates input, time and step lengths in statements that all
particles share (`smcpn.model.signal.Signal`). A record is a stream that has ended: both are read by
the same code from the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.kernel import Rows
from smcpn.model.record import Record
from smcpn.model.signal import RecordSamples, Samples, Signal

Array = NDArray[np.float64]

CHUNK = 4096
"""Sampling intervals whose log-likelihood is summed before it is added to the rest."""
LONG = 2**18
"""Samples from which what is read of a record is not kept."""
PIECE = 16
"""Chunks of samples that are then read together."""
LEVELS = 8
"""Numbers of steps in an octave: few, since those of equal number are written together."""
TOUCHING = 1e-9
"""What rounding may add to the length of an interval before it gets a step more."""


def numbers_of_steps(spacing: Array, steps: int, interval: float | None) -> NDArray[np.int64]:
    """Solver steps of intervals of these lengths, (m,).

    interval: Length of an interval that takes ``steps``. Others take as many in proportion, rounded
        up to an eighth of an octave, so that no step is longer. None: all take ``steps``.
    """
    if interval is None:
        return np.full(len(spacing), steps, dtype=np.int64)
    levels = np.ceil(LEVELS * np.log2(spacing / interval) - TOUCHING)
    wanted = np.ceil(steps * 2.0 ** (levels / LEVELS) - TOUCHING)
    return np.maximum(wanted, 1.0).astype(np.int64)


class SharedPass(Protocol):
    """A recursion over the samples whose results all particles share, such as gains.

    memory: At the first sample.
    n_gains: Numbers of the gains of a step; with none those of the record stay.
    """

    memory: Array
    n_gains: int

    def __call__(
        self, samples: Samples, a: int, b: int, memory: Array
    ) -> tuple[Array | None, Array, Array]:
        """Gains of the steps between the samples [a, b), numbers of these, memory at the last."""
        ...


@dataclass(frozen=True)
class KernelInputs:
    """Inputs of a kernel for one record, or for a stream sampled like it.

    signal: Of the program.
    steps: Solver steps of a sampling interval, or of one of length ``interval`` (`most_steps` of
        that which has most).
    start_order: Derivatives of the input that the row of the start has.
    start_more: Numbers of this row behind those of `StartSymbols`, which may depend on the samples.
    number, n_initial: Which of how many initial states the record starts from.
    numbers: Of the record, as `Signal.constant` names them.
    gains: Rows of gains of the steps, of which the last one stays in force.
    recur: Whether they are those of every interval.
    interval: See `numbers_of_steps`.
    shared: Makes the gains of every step, and the numbers of a sample behind its outputs.
    """

    signal: Signal
    template: Record
    steps: int
    start_order: int = 0
    start_more: Array | Callable[[Samples], Array] = field(default_factory=lambda: np.empty(0))
    number: int = 0
    n_initial: int = 1
    numbers: tuple[float, ...] = ()
    gains: Array = field(default_factory=lambda: np.empty((1, 0)))
    recur: bool = False
    interval: float | None = None
    shared: SharedPass | None = None

    @property
    def divides(self) -> bool:
        """True if intervals have different numbers of steps."""
        return self.interval is not None and not self.template.uniform

    @cached_property
    def most_steps(self) -> int:
        """Solver steps of the sampling interval that has most."""
        if self.interval is None:
            return self.steps
        spacing = np.diff(self.template.t)
        return int(numbers_of_steps(spacing, self.steps, self.interval).max(initial=1))

    def in_parts(self) -> KernelInputs:
        """Copy in which every part of an interval takes the steps of the longest interval."""
        parts = self.signal.parts
        return self if parts == 1 else replace(self, steps=self.most_steps * parts, interval=None)

    @property
    def memory(self) -> Array:
        """Memory of the shared pass before the first sample."""
        return np.empty(0) if self.shared is None else self.shared.memory

    @property
    def direct(self) -> bool:
        """True if a kernel reads samples alone, as they come."""
        signal = self.signal
        return not (signal.smooth or signal.before or signal.more) and self.shared is None

    @property
    def n_gains(self) -> int:
        """Numbers of the gains of a step, where every step has its own."""
        return 0 if self.shared is None else self.shared.n_gains

    def start(self, samples: Samples) -> Array:
        """Row of the first sample."""
        first = samples.columns(0, 1)[0]
        rates = samples.first_rates(self.start_order) if self.start_order else np.empty(0)
        indicator = np.zeros(self.n_initial if self.n_initial > 1 else 0)
        if len(indicator):
            indicator[self.number % self.n_initial] = 1.0
        more = self.start_more(samples) if callable(self.start_more) else self.start_more
        u = first[1 : 1 + self.template.n_inputs]
        return np.concatenate([u, first[:1], rates.ravel(), indicator, more])

    def rows(self, samples: Samples, a: int, b: int, memory: Array) -> tuple[Rows, Array]:
        """Rows of the samples [a, b), but for the start, and what is remembered at the last one.

        memory: At sample ``a``.
        """
        signal, before = self.signal, self.signal.before
        columns, gains = samples.columns(a - before, b), None
        if self.shared is not None:
            gains, more, memory = self.shared(samples, a, b, memory)
            padded = np.concatenate([np.zeros((before, more.shape[1])), more])
            columns = np.column_stack([columns, padded])
        if signal.curves is not None:
            curves = samples.curves(a - before, b, signal.curves, 0.0)
            columns = np.column_stack([columns, curves.reshape(len(curves), -1)])
        counts = None
        if self.divides:
            counts = numbers_of_steps(np.diff(columns[before:, 0]), self.steps, self.interval)
        return Rows(
            start=np.empty(0),
            samples=columns,
            steps=self.most_steps,
            gains=self._gains_from(a) if gains is None else gains,
            recur=self.recur,
            record=signal.numbers_of(self.template, *self.numbers),
            inputs=self._values(samples, a, b, counts),
            intervals=signal.rates_of(samples, a, b),
            counts=counts,
            before=before,
            sample=a,
            steps_before=a * self.most_steps,
        ), memory

    def blank(self, size: int, a: int, start: Array, columns: Array | None) -> Rows:
        """Rows of so many samples from sample ``a`` on, still to be written but for these columns.

        Of inputs that are `direct` the columns are all.
        """
        signal, steps = self.signal, (size - 1) * self.most_steps
        values, rates = signal.widths
        return Rows(
            start=start,
            samples=np.zeros((signal.before + size, signal.width)) if columns is None else columns,
            steps=self.most_steps,
            gains=np.empty((steps, self.n_gains)) if self.n_gains else self._gains_from(a),
            recur=self.recur,
            record=signal.numbers_of(self.template, *self.numbers),
            inputs=np.empty((steps, values)) if values else None,
            intervals=np.empty((size - 1, rates)) if rates else None,
            before=signal.before,
            sample=a,
            steps_before=a * self.most_steps,
        )

    def _gains_from(self, a: int) -> Array:
        """Gains of the steps after sample ``a``."""
        if self.recur:
            return self.gains
        return self.gains[min(a * self.most_steps, len(self.gains) - 1) :]

    def _values(
        self, samples: Samples, a: int, b: int, counts: NDArray[np.int64] | None
    ) -> Array | None:
        """Numbers of all steps, (S, r)."""
        if not self.signal.smooth:
            return None
        if counts is None:
            values = self.signal.values_of(samples, a, b, self.most_steps)
            assert values is not None
            return np.ascontiguousarray(values.reshape(-1, values.shape[-1]))
        begins, result = np.cumsum(counts) - counts, np.empty((0, 0))
        for number in np.unique(counts).tolist():
            values = self.signal.values_of(samples, a, b, number)
            assert values is not None
            if not result.size:
                result = np.empty((int(counts.sum()), values.shape[-1]))
            chosen = counts == number
            result[begins[chosen][:, None] + np.arange(number)] = values[chosen]
        return result

    def whole(self, record: Record) -> Rows:
        """Rows of a record that has ended."""
        return KernelRows(self, RecordSamples(record, self.signal.n_outputs)).whole()

    def written(self, record: Record) -> Rows | KernelRows:
        """Rows of a record that has ended; of a long one they are made where they are read."""
        made = KernelRows(self, RecordSamples(record, self.signal.n_outputs))
        pieces = len(record) > LONG and not record.periodic and not self.divides
        return made if pieces else made.whole()


class KernelRows:
    """Rows of samples, made where they are read, a piece at a time, of which the latest is kept.

    It takes the place of `smcpn.codegen.kernel.Rows`. Pieces share their ends: the first sample of
    one is the last of that before.

    length: Sampling intervals of a piece.
    """

    def __init__(self, inputs: KernelInputs, samples: Samples, length: int | None = None) -> None:
        self.inputs, self._samples, self.length = inputs, samples, length or PIECE * CHUNK
        # What is remembered at the begin of every piece that was reached.
        self._memory = {0: inputs.memory}
        self._latest: tuple[int, Rows] | None = None

    def __len__(self) -> int:
        return len(self._samples)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.whole().__reduce__()

    @cached_property
    def start(self) -> Array:
        """Row of the first sample."""
        return self.inputs.start(self._samples)

    @property
    def n_steps(self) -> int:
        """Solver steps to the last sample."""
        return max(len(self) - 1, 0) * self.inputs.most_steps

    def whole(self) -> Rows:
        """All rows at once."""
        rows, _ = self.inputs.rows(self._samples, 0, len(self), self.inputs.memory)
        return replace(rows, start=self.start)

    def pieces(self, a: int, b: int) -> Iterator[tuple[Rows, int, int]]:
        """Yield the rows of each piece, and which samples of it are among [a, b)."""
        while a < b:
            rows, first = self.at(a)
            last = min(b - rows.sample, self.length + 1)
            yield rows, first, last
            a = rows.sample + last

    def at(self, sample: int) -> tuple[Rows, int]:
        """Rows of the piece of a sample, and its number there."""
        number, local = self._place(sample)
        return self._piece(number), local

    def _place(self, sample: int) -> tuple[int, int]:
        number = max(sample - 1, 0) // self.length
        return number, sample - number * self.length

    def _piece(self, number: int) -> Rows:
        """Rows of a piece."""
        latest = self._latest
        if latest is None or latest[0] != number:
            for reached in range(number):
                if reached + 1 not in self._memory:
                    self._written(reached)
            self._latest = latest = number, self._written(number)
        return latest[1]

    def _written(self, number: int) -> Rows:
        begin = number * self.length
        rows, self._memory[number + 1] = self.inputs.rows(
            self._samples, begin, min(begin + self.length + 1, len(self)), self._memory[number]
        )
        return replace(rows, start=self.start)
