"""The rows of numbers that all particles share, written for a range of samples at a time.

A kernel reads the input, the time and the gains of every solver step, and the measured outputs of
every sample, from rows (`smcpn.codegen.kernel.Rows`). Each likelihood has one `RowWriter`. A record
is a history that has ended: its rows are written at once. A stream writes those of each sample as
it comes. Rows depend on a sample and those before it, never on the end of a record, so that both
are the same numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.codegen.kernel import Rows
from smcpn.codegen.row_code import RowGraph
from smcpn.model.delay import inputs_before
from smcpn.model.expression import applied
from smcpn.model.hold import interval_derivatives, start_derivatives, substep_inputs, substep_times
from smcpn.model.measured import measured_rows
from smcpn.model.record import Record

Array = NDArray[np.float64]

NOTHING = np.empty(0)
NO_INTERVALS = np.empty((0, 0))


class Window(Protocol):
    """Consecutive samples, m of them, and the input between them.

    Attributes
    ----------
    begin : int
        Number of the first one in its record.
    t, u, y : ndarray, (m,), (m, n), (m, q)
        Times, inputs and outputs, NaN where missing.
    spacing : ndarray, (m - 1,)
        Length of the intervals.
    """

    begin: int
    t: Array
    u: Array
    y: Array
    spacing: Array

    def inputs(self, parts: int) -> Array:
        """Input at both ends and within each interval, (m - 1, parts + 1, n)."""
        ...

    def times(self, parts: int) -> Array:
        """Times of `inputs`, (m - 1, parts + 1)."""
        ...

    def derivatives(self, order: int) -> Array:
        """Time derivatives 1..order of the input after each sample, (m - 1, order, n)."""
        ...

    def inputs_before(self, number: int) -> Array:
        """The last inputs before the first sample of the whole, (number, n)."""
        ...


class RecordWindow:
    """A whole record as a `Window`."""

    def __init__(self, record: Record, n_outputs: int) -> None:
        self._record, self._whole, self.begin = record, record, 0
        self.t, self.u, self.spacing = record.t, record.u, np.diff(record.t)
        self.y = measured_rows(record, n_outputs)

    def inputs(self, parts: int) -> Array:
        """Input at both ends and within each interval, (m - 1, parts + 1, n)."""
        return substep_inputs(self._record, parts)

    def times(self, parts: int) -> Array:
        """Times of `inputs`, (m - 1, parts + 1)."""
        return substep_times(self._record, parts)

    def derivatives(self, order: int) -> Array:
        """Time derivatives 1..order of the input after each sample, (m - 1, order, n)."""
        return interval_derivatives(self._record, order)

    def inputs_before(self, number: int) -> Array:
        """The last inputs before the first sample of the whole, (number, n)."""
        return inputs_before(self._whole, number)


class RecordPiece(RecordWindow):
    """The samples ``[a, b)`` of a record as a `Window`; its input is known by its samples."""

    def __init__(self, record: Record, n_outputs: int, a: int, b: int) -> None:
        super().__init__(record[a:b], n_outputs)
        self._whole = record
        # A record of its own counts time from its first sample, which rounds otherwise.
        self.begin, self.t, self.spacing = a, record.t[a:b], np.diff(record.t[a:b])

    @override
    def times(self, parts: int) -> Array:
        return self.t[:-1, None] + self.spacing[:, None] * (np.arange(parts + 1) / parts)

    @override
    def derivatives(self, order: int) -> Array:
        return interval_derivatives(self._record, order, self.spacing)


class WindowRows(NamedTuple):
    """Rows of a window's samples and of the intervals between them, arrays as of `Rows`."""

    inputs: Array
    gains: Array
    samples: Array
    intervals: Array = NO_INTERVALS
    counts: NDArray[np.int64] | None = None


def numbers_of_steps(spacing: Array, steps: int, interval: float | None) -> NDArray[np.int64]:
    """Solver steps of intervals of these lengths, (m,).

    Parameters
    ----------
    interval : float or None
        Length of an interval that takes ``steps``. Others take as many in proportion, rounded up
        to an eighth of an octave, so that no step is longer. None: all take ``steps``.
    """
    if interval is None:
        return np.full(len(spacing), steps, dtype=np.int64)
    levels = np.ceil(LEVELS * np.log2(spacing / interval) - TOUCHING)
    wanted = np.ceil(steps * 2.0 ** (levels / LEVELS) - TOUCHING)
    return np.maximum(wanted, 1.0).astype(np.int64)


LEVELS = 8
"""Numbers of steps in an octave: few, since those of equal number are written together."""
TOUCHING = 1e-9
"""What rounding may add to the length of an interval before it gets a step more."""


def rows_by_number(
    counts: NDArray[np.int64], rows: Callable[[int], Array]
) -> tuple[Array, NDArray[np.int64] | None]:
    """Rows of all steps, and the numbers of steps where they differ.

    Parameters
    ----------
    counts : ndarray of int, (m,)
        Steps of each interval.
    rows : callable
        From a number of steps to the rows of all intervals, (m, number, r), if they had as many.
    """
    numbers = np.unique(counts)
    if len(numbers) <= 1:
        whole = rows(int(numbers[0]) if len(numbers) else 1)
        return whole.reshape(-1, whole.shape[-1]), None
    begins = np.cumsum(counts) - counts
    result: Array | None = None
    for number in numbers.tolist():
        chosen = counts == number
        part = rows(number)[chosen]
        if result is None:
            result = np.empty((int(counts.sum()), part.shape[-1]))
        result[begins[chosen][:, None] + np.arange(number)] = part
    assert result is not None
    return result, counts


class RowWriter(ABC):
    """Writes the rows of one recursion over one record, or over a stream sampled like it.

    Attributes
    ----------
    steps : int
        Solver steps of the sampling interval that has most.
    n_outputs : int
    memory : ndarray
        What the rows at the first sample need of those before: the initial value of a recursion
        that `rows` continues.
    gains : ndarray, (G, gain_row), optional
        Of the first steps, of which the last ones stay in force; None where every window brings
        the gains of its own steps.
    recur : bool
        Whether ``gains`` recur in every interval.
    portable : bool
        Whether it can be pickled.
    """

    steps: int
    n_outputs: int
    memory: Array = NOTHING
    gains: Array | None = None
    recur: bool = False
    portable: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        if "rows" in cls.__dict__ and "graph" not in cls.__dict__:
            # What a parent's graph says is not what is written.
            cls.graph = RowWriter.graph

    @abstractmethod
    def start(self, head: Record) -> Array:
        """Row of the first sample, of a record that begins with it."""

    @abstractmethod
    def rows(self, window: Window, memory: Array) -> tuple[WindowRows, Array]:
        """Rows of a window's samples and of the intervals between them.

        Parameters
        ----------
        memory : ndarray
            At the window's first sample.

        Returns
        -------
        rows : WindowRows
        memory : ndarray
            At the window's last sample.
        """

    def graph(self) -> RowGraph | None:
        """The rows of one more sample as graphs, with the bytes of `rows`; by default none."""
        return None

    def whole(self, record: Record) -> Rows:
        """Rows of a record that has ended."""
        rows, _ = self.rows(RecordWindow(record, self.n_outputs), self.memory)
        return self.joined(self.start(record), rows)

    def written(self, record: Record) -> Rows | LongRows:
        """Rows of a record that has ended; of a long one they are written where they are read."""
        return LongRows(self, record) if LongRows.suits(record) else self.whole(record)

    def joined(self, start: Array, rows: WindowRows) -> Rows:
        """Rows for a kernel, of the row of the start and those of a window."""
        return Rows(
            start=start,
            inputs=rows.inputs,
            gains=rows.gains,
            samples=rows.samples,
            steps=self.steps,
            recur=self.recur,
            intervals=rows.intervals,
            counts=rows.counts,
        )

    def gains_from(self, begin: int) -> Array | None:
        """The part of ``gains`` for the steps after sample ``begin``, of equal intervals."""
        if self.gains is None or self.recur:
            return self.gains
        return self.gains[min(begin * self.steps, len(self.gains) - 1) :]


LONG = 2**18
"""Samples from which the rows of a record are not kept."""
PIECE = 16
"""Chunks of samples whose rows are written together."""
CHUNK = 4096
"""Sampling intervals whose log-likelihood is summed before it is added to the rest."""


class LongRows:
    """Rows of a long record, which are written anew whenever they are read, a piece at a time.

    They take many times the memory of the record, and a small part of the time of a likelihood.
    It takes the place of `smcpn.codegen.kernel.Rows` where samples are read in chunks.

    Parameters
    ----------
    writer : RowWriter
    record : Record
        `LongRows.suits` tells which.
    """

    def __init__(self, writer: RowWriter, record: Record) -> None:
        self._writer, self._record = writer, record
        self.start = writer.start(record[:CHUNK])
        # What the rows need of those before, at the begin of every piece that was reached.
        self._memory = {0: writer.memory}
        self._latest: tuple[int, Rows] | None = None

    @staticmethod
    def suits(record: Record) -> bool:
        """True if a record is so long, and its input is known piece by piece."""
        known = record.u_function is None and record.hold in ("zoh", "foh")
        return len(record) > LONG and record.uniform and (known or record.n_inputs == 0)

    def __len__(self) -> int:
        return len(self._record)

    def __reduce__(self) -> tuple[Any, ...]:
        if not self._writer.portable:
            return self.whole().__reduce__()
        return LongRows, (self._writer, self._record)

    @property
    def n_steps(self) -> int:
        """Solver steps of the record."""
        return (len(self) - 1) * self._writer.steps

    def whole(self) -> Rows:
        """All rows at once."""
        return self._writer.whole(self._record)

    def around(self, first: int, last: int) -> tuple[Rows, int, int]:
        """Rows with the samples [first, last) of one chunk, and where these are in them."""
        length = PIECE * CHUNK
        number = max(first - 1, 0) // length
        latest = self._latest
        if latest is None or latest[0] != number:
            self._latest = latest = number, self._piece(number)
        begin = number * length
        return latest[1], first - begin, last - begin

    def _piece(self, number: int) -> Rows:
        """Rows of a piece, which begins with the last sample of the one before."""
        for reached in range(number):
            if reached + 1 not in self._memory:
                self._memory[reached + 1] = self._written(reached)[1]
        rows, self._memory[number + 1] = self._written(number)
        gains = self._writer.gains_from(number * PIECE * CHUNK)
        return self._writer.joined(
            self.start, rows if gains is None else rows._replace(gains=gains)
        )

    def _written(self, number: int) -> tuple[WindowRows, Array]:
        length = PIECE * CHUNK
        end = min((number + 1) * length + 1, len(self))
        window = RecordPiece(self._record, self._writer.n_outputs, number * length, end)
        return self._writer.rows(window, self._memory[number])


WriteRows = Callable[[Record, int], Rows | LongRows]
"""From a record and its number among the problem's to the rows of the whole of it."""


def sample_rows(window: Window, more: int = 0) -> Array:
    """Input, time, outputs (0 where missing), and whether each is present, (m, n + 1 + 2 q).

    Parameters
    ----------
    more : int
        Columns behind these, which are the caller's to fill.
    """
    n, q = window.u.shape[1], window.y.shape[1]
    rows, present = np.zeros((len(window.t), n + 1 + 2 * q + more)), np.isfinite(window.y)
    rows[:, :n] = window.u
    rows[:, n] = window.t
    np.copyto(rows[:, n + 1 : n + 1 + q], window.y, where=present)
    rows[:, n + 1 + q : n + 1 + 2 * q] = present
    return rows


class Between:
    """Two consecutive samples as symbols, and the input between them where that is linear.

    The arithmetic is that of `smcpn.model.hold`, operation by operation.

    Parameters
    ----------
    record : Record
        Tells the number of inputs and their hold.
    n_outputs : int

    Attributes
    ----------
    before, after : casadi.SX, (1 + n + q, 1)
        As of `RowGraph`.
    spacing : casadi.SX
        Time between them.
    """

    def __init__(self, record: Record, n_outputs: int) -> None:
        n = record.n_inputs
        self._holds = record.hold == "zoh"
        self.before = ca.SX.sym("before", 1 + n + n_outputs)
        self.after = ca.SX.sym("after", 1 + n + n_outputs)
        self._u, self._following = self.before[1 : 1 + n], self.after[1 : 1 + n]
        self._y = self.after[1 + n :]
        self.spacing = self.after[0] - self.before[0]

    @staticmethod
    def is_linear(record: Record) -> bool:
        """True if the input between two samples is known from these."""
        known = record.u_function is None and record.hold in ("zoh", "foh")
        return record.n_inputs == 0 or known

    def inputs(self, rising: ca.SX) -> ca.SX:
        """Input at a part of the way, (n, 1)."""
        if self._holds:
            return self._u
        return self._u * (1.0 - rising) + self._following * rising

    def time(self, part: ca.SX) -> ca.SX:
        """Time at a part of the way."""
        return self.before[0] + self.spacing * part

    def derivatives(self, order: int) -> list[ca.SX]:
        """Time derivatives 1..order of the input, (n, 1) each."""
        rates = [ca.SX.zeros(self._u.numel(), 1) for _ in range(order)]
        if rates and not self._holds:
            rates[0] = (self._following - self._u) / self.spacing
        return rates

    @property
    def sample_row(self) -> ca.SX:
        """Row that `sample_rows` writes of the later sample."""
        # A NaN is not less than anything.
        present = [y < np.inf for y in ca.vertsplit(self._y)] if self._y.numel() else []
        pairs = zip(present, ca.vertsplit(self._y), strict=True) if present else ()
        known = [applied("if_else_zero", [here, y]) for here, y in pairs]
        return ca.vertcat(self._following, self.after[0], *known, *present)


def start_row(record: Record, number: int, n_initial: int, order: int) -> Array:
    """Values of `StartSymbols.row` for a record, ``order - 1`` derivatives of the input."""
    indicator = np.zeros(n_initial if n_initial > 1 else 0)
    if len(indicator):
        indicator[number % n_initial] = 1.0
    derivatives = start_derivatives(record, order - 1) if order > 1 else np.empty((0, 0))
    return np.concatenate([record.u[0], record.t[:1], derivatives.ravel(), indicator])
