"""Records with a sample wherever an input that is late, or a dose, arrives.

A search follows states from sample to sample. An input that is held or linear between samples and
comes late jumps or bends where one of its samples arrives, and a dose lets a state jump: there the
record gets a sample without outputs. In every interval inputs are then as the record's hold says,
states begin with what has entered at its begin, and grow by what enters during it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.discovery.equations.system import CandidateSystem
from smcpn.estimate.path_search.linearisation import Entering
from smcpn.model.delay import (
    Delay,
    check_context,
    check_length,
    inputs_before,
    spacing_before,
    times_before,
)
from smcpn.model.dosing import TOGETHER, Dosing
from smcpn.model.record import BESIDE, InputFunction, Record
from smcpn.model.signal import BandLimited

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Records whose inputs are those that arrive, with samples where they and doses do.

    prepared: With numbers of the doses behind their inputs, see `smcpn.model.dosing.Dosing`.
    given: (T,), True for samples of the records themselves, all one after the other.
    dosing: None without doses.
    n_states: Of the system.
    """

    prepared: tuple[Record, ...]
    given: NDArray[np.bool_]
    dosing: Dosing | None = None
    n_states: int = 0

    @classmethod
    def of(
        cls, records: Sequence[Record], system: CandidateSystem, delay: Mapping[str, float]
    ) -> Arrivals:
        """Put the samples in, for dead times of inputs by their names."""
        dosed = any(record.doses for record in records)
        if not delay and not dosed:
            return cls(tuple(records), np.full(sum(map(len, records)), True))
        ode, made = system.equation(), list(records)
        late = Delay.of(delay, ode, {}, {})
        if late is not None:
            seconds = np.zeros(len(ode.inputs))
            seconds[list(late.inputs)] = late.sources
            made = [_late(record, seconds) for record in records]
        given = [np.isin(more.t, own.t) for more, own in zip(made, records, strict=True)]
        dosing = Dosing.of(made, ode, {}, {})
        if dosing is not None:
            made = [dosing.prepared(record) for record in made]
            given = [_before(known, more) for known, more in zip(given, made, strict=True)]
        return cls(tuple(made), np.concatenate(given), dosing, len(ode.states))

    @cached_property
    def records(self) -> list[Record]:
        """The records without doses."""
        return [_without_doses(record) for record in self.prepared]

    @cached_property
    def entering(self) -> Entering | None:
        """Amounts that enter the states in the intervals of all records; None without doses."""
        if self.dosing is None:
            return None
        each = [self._amounts(record) for record in self.prepared]
        jumps = [begun[1:] - ended[:-1] for begun, _, ended in each]
        return Entering(np.concatenate(jumps), np.concatenate([rate[1:] for _, rate, _ in each]))

    @cached_property
    def entered(self) -> Array | float:
        """Amounts that have entered each state since the first sample of its record, (T, n)."""
        if self.dosing is None:
            return 0.0
        ended = [self._amounts(record)[2] for record in self.prepared]
        return np.concatenate([one - one[0] for one in ended])

    def _amounts(self, record: Record) -> tuple[Array, Array, Array]:
        """Amounts (T, n) in every state at the begin of the intervals that end with the samples.

        And their rates in these intervals, and the amounts at their ends.
        """
        assert self.dosing is not None
        # The first two numbers of an interval are not of a route.
        numbers = record.u[:, self.dosing.n_inputs + 2 :]
        begun, rate = np.zeros((2, len(record), self.n_states))
        for k, route in enumerate(self.dosing.routes):
            state, fraction, _ = route.places
            begun[:, state] += fraction * numbers[:, 2 * k]
            rate[:, state] += fraction * numbers[:, 2 * k + 1]
        lasting = np.diff(record.t, prepend=record.t[0])[:, None]
        return begun, rate, begun + rate * lasting


@dataclass(frozen=True)
class LateInput:
    """An input that is a function of time, each column so late, (n_inputs,)."""

    function: InputFunction
    seconds: Array

    def __call__(self, t: Array) -> Array:
        """Inputs at times (m,), (m, n_inputs)."""
        shape = len(t), len(self.seconds)
        columns = [
            np.reshape(self.function(t - late), shape)[:, j]
            for j, late in enumerate(self.seconds.tolist())
        ]
        return np.column_stack(columns)


def _late(record: Record, seconds: Array) -> Record:
    """A record whose inputs are those that arrive, each so late, (n_inputs,)."""
    most = float(seconds.max())
    check_context(record, most)
    check_length(most, record.interval, record.t_unit)
    if record.smooth:
        given = record.u_function or BandLimited.of(record)
        even = record.dt is not None
        function = LateInput(given, seconds)
        return replace(
            record, u=None, u_function=function, hold="foh", t=None if even else record.t
        )
    number = ceil(most / spacing_before(record)) + 2
    t = np.append(times_before(record, number), record.t)
    u = np.concatenate([inputs_before(record, number), record.u])
    slack = TOGETHER * record.interval
    times = _with_times(record.t, np.concatenate([t + late for late in np.unique(seconds)]), slack)
    inputs = np.empty((len(times), len(seconds)))
    for j, late in enumerate(seconds.tolist()):
        if record.hold == "zoh":
            # Rounding must not have a sample arrive later than where it is.
            inputs[:, j] = u[np.searchsorted(t, times - late + slack, side="right") - 1, j]
        else:
            inputs[:, j] = np.interp(times - late, t, u[:, j])
    own, outputs = np.searchsorted(times, record.t), dict[str, Any]()
    for name in ("y", *BESIDE):
        values = getattr(record, name)
        if values is not None:
            outputs[name] = np.full((len(times), values.shape[1]), np.nan)
            outputs[name][own] = values
    cut = None if record.u_before is None else np.empty((0, record.n_inputs))
    return replace(
        record, u=inputs, t=times, dt=None, start=0.0, periodic=False, cut=None,
        t_before=None, u_before=cut, u_after=None, **outputs,
    )  # fmt: skip


def _before(known: NDArray[np.bool_], record: Record) -> NDArray[np.bool_]:
    """True where a sample that doses have not put in was known before, (T,)."""
    result = record.given.copy()
    result[record.given] = known
    return result


def _with_times(t: Array, more: Array, slack: float) -> Array:
    """Times (T,) and those of others between the first and the last that are not near to one."""
    more = np.sort(more[(more > t[0]) & (more < t[-1])])
    place = np.searchsorted(t, more)
    apart = np.minimum(more - t[place - 1], t[place] - more) > slack
    more = more[apart]
    return np.sort(np.append(t, more[np.diff(more, prepend=-np.inf) > slack]))


def _without_doses(record: Record) -> Record:
    """A record of which the inputs of the equation are left."""
    if not record.held:
        return record
    even = record.dt is not None
    return replace(
        record, u=record.u[:, : -record.held], held=0, doses=(), cut=None,
        t=None if even else record.t, t_before=None, u_before=None, u_after=None,
        hold="foh" if record.hold == "bandlimited" else record.hold,
    )  # fmt: skip
