"""A sample of a stream, and which column of a line is which input or output of a problem."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from smcpn.base.units import conversion, time_unit
from smcpn.errors import InputError, listed, shown
from smcpn.io.doses import FIELDS, TIMES, WORDS, Convert, LineDose, LineDoses
from smcpn.io.fields import DATES, BadLineError, kind_of, read_date
from smcpn.io.unmeasured import flags_among
from smcpn.model.problem import Problem
from smcpn.model.record import BESIDE, faults_beside

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Moment:
    """A date that a line states for its sample.

    date: In universal time where the line names a zone.
    convert: Converts seconds to the model's unit of time.
    """

    date: datetime
    convert: Convert = float

    @property
    def kind(self) -> str:
        """Kind of a time, as of `kind_of`."""
        return kind_of(self.date)

    def since(self, first: datetime) -> float:
        """Time since another date."""
        return self.convert((self.date - first).total_seconds())


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Inputs and outputs at one time.

    line: Its line in the source, from 1; its place among the samples where there are no lines.
    t: Time in the unit of the record, where the source states it.
    u: (n_inputs,)
    y: (n_outputs,), NaN marks a missing output.
    number: Sequence number, where the source states it: sampling intervals since the time zero.
    moment: Date, where the source states one in place of a time.
    beside: Of y_sd, y_lower and y_upper those that are known, (n_outputs,) each.
    doses: That the line states.
    flagged: Whether the line says that nothing was measured.
    """

    line: int
    t: float | None
    u: Array
    y: Array
    number: int | None = None
    moment: Moment | None = None
    beside: Mapping[str, Array] = field(default_factory=dict[str, Array])
    doses: tuple[LineDose, ...] = ()
    flagged: bool = False

    @property
    def timed(self) -> bool:
        """True if the source states when it was."""
        return not (self.t is None and self.number is None and self.moment is None)

    @property
    def is_dose(self) -> bool:
        """True if it states doses and their time alone, and is no sample."""
        known = (self.y, *self.beside.values(), self.u)
        return bool(self.doses) and self.timed and bool(np.isnan(np.concatenate(known)).all())


Kind = Literal["t", "n", "u", "y", "y_sd", "y_lower", "y_upper", "dose"]
Slot = tuple[Kind, int]
_LARGEST_EXACT = 2**53


@dataclass(frozen=True, slots=True)
class Column:
    """The name and the unit in which lines have an input, an output or the time.

    name: The one that it goes by; "" where every word for it does.
    unit: In which a configuration says that it is.
    to: That of the model, to which it is converted; "" where none is known.
    usual: In which it is where neither configuration nor header say so.
    """

    name: str = ""
    unit: str = ""
    to: str = ""
    usual: str = ""

    def conversion(self, noted: str = "") -> Convert | None:
        """Return the function that converts to the unit of the model; None where it is that.

        ``noted`` is the unit that a header states; one that contradicts the configuration, or
        cannot be converted, is refused.
        """
        if self.unit and noted and time_unit(noted) != time_unit(self.unit):
            raise InputError(
                f"column '{self.name}' is in '{noted}', but the configuration says that its unit "
                f"is '{self.unit}': correct one of them"
            )
        unit = noted or self.unit or self.usual
        return conversion(unit, self.to) if self.to and unit not in ("", self.to) else None


@dataclass(frozen=True)
class Channels:
    """Names of the inputs and outputs, and the words that stand for them in a line.

    Besides its own name an input is called ``u`` or ``u0``, ``u1``..., an output ``y`` or ``y0``,
    ``y1``...; time is ``t`` or ``time``, a sequence number ``n`` or ``seq``. A name of the problem
    wins over such a word, and a column that a configuration names is the only one for its channel.
    ``y_lower``, ``y_upper`` and, where the problem has it, ``y_sd`` are what `Record` has beside y,
    also called ``y_lower0``, or ``x_lower`` of an output x. Doses are in the columns of
    `smcpn.read_doses`, at the time of their line.

    Parameters
    ----------
    inputs, outputs : tuple of str
    columns : mapping of tuple to Column
        Names and units by channel, where they are known.
    doses : LineDoses, optional
        How lines state doses, where the problem has any.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    columns: Mapping[Slot, Column] = field(default_factory=dict[Slot, Column], hash=False)
    doses: LineDoses | None = field(default=None, hash=False)
    slots: dict[str, Slot] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        slots: dict[str, Slot] = {"n": ("n", 0), "seq": ("n", 0)}
        slots.update(dict.fromkeys(TIMES, ("t", 0)))
        if self.doses is not None:
            slots |= {word: ("dose", FIELDS.index(name)) for word, name in WORDS.items()}
        channels: list[tuple[Kind, tuple[str, ...]]] = [("y", self.outputs), ("u", self.inputs)]
        has_sd = any(kind == "y_sd" for kind, _ in self.columns)
        for kind in ("y_sd",) * has_sd + ("y_lower", "y_upper"):
            channels.insert(0, (kind, tuple(one + kind[1:] for one in self.outputs)))
        for kind, names in channels:
            if len(names) == 1:
                slots[kind] = (kind, 0)
            slots.update({f"{kind}{j}": (kind, j) for j in range(len(names))})
        for kind, names in channels:
            slots.update({name: (kind, j) for j, name in enumerate(names)})
        named = {slot: one.name for slot, one in self.columns.items() if one.name}
        slots = {word: slot for word, slot in slots.items() if slot not in named}
        slots.update({name: slot for slot, name in named.items()})
        object.__setattr__(self, "slots", slots)

    @classmethod
    def of(cls, problem: Problem) -> Channels:
        """Name the channels of a problem: outputs by what they observe, where that is a name."""
        outputs = tuple(
            what if isinstance(what, str) else f"y{j}" for j, what in enumerate(problem.observe)
        )
        first = problem.records[0]
        columns: dict[Slot, Column] = {("t", 0): Column(to=first.t_unit)}
        of_sd = np.flatnonzero(problem.model.takes_y_sd).tolist()
        kinds: dict[Kind, Sequence[int]] = {"y": range(len(outputs)), "y_sd": of_sd}
        columns |= {(k, j): Column(to=first.unit_of(j)) for k, some in kinds.items() for j in some}
        return cls(problem.ode.inputs, outputs, columns, LineDoses.of(problem))

    def column(self, slot: Slot) -> Column:
        """Name and unit of a channel; what is beside an output is in its unit."""
        if slot in self.columns:
            return self.columns[slot]
        if slot[0] in BESIDE:
            return replace(self.column(("y", slot[1])), name="")
        return Column(to="s" if slot[0] == "t" else "")

    def conversions(self, noted: Mapping[Slot, str]) -> dict[Slot, Convert]:
        """Return what converts values to the units of the model, where a header states units.

        Raises
        ------
        InputError
            See `Column.conversion`.
        """
        known: list[Slot] = [("t", 0), *self.columns, *self.slots.values()]
        found: dict[Slot, Convert] = {}
        for slot in dict.fromkeys(known):
            kind, j = slot
            unit = noted.get(slot) or (noted.get(("y", j), "") if kind in BESIDE else "")
            convert = self.column(slot).conversion(unit)
            if convert is not None:
                found[slot] = _of_difference(convert) if kind == "y_sd" else convert
        return found

    def flags(self, names: Iterable[str]) -> list[str]:
        """Return the columns among these that say where nothing was measured."""
        return flags_among(names, {one for one, (kind, _) in self.slots.items() if kind != "dose"})

    def word(self, slot: Slot) -> str:
        """Name of a channel in a message."""
        kind, j = slot
        named = {"u": self.inputs, "y": self.outputs, "dose": FIELDS}.get(kind)
        return self.column(slot).name or (kind if named is None else named[j])

    def moment(self, text: str) -> Moment:
        """Return the date that a line states in place of a time.

        Raises
        ------
        BadLineError
            If it is none.
        """
        try:
            date = read_date(text)
        except ValueError:
            raise BadLineError(f"the time is {shown(text)}: write {DATES}") from None
        to = self.column(("t", 0)).to
        return Moment(date, conversion("s", to) if to not in ("", "s") else float)

    @property
    def in_order(self) -> tuple[Slot, ...]:
        """The columns of a line without names: inputs, then outputs."""
        inputs: list[Slot] = [("u", j) for j in range(len(self.inputs))]
        return (*inputs, *(("y", j) for j in range(len(self.outputs))))

    def missing_from(self, slots: set[Slot], whole: bool = False) -> str:
        """Name a channel that a line lacks, or "": it must have every input and one output.

        And the time, where a configuration names its column and no number takes its place.

        With ``whole`` it must have every output that a configuration names a column for.
        """
        kinds = {kind for kind, _ in slots}
        alone = "dose" in kinds and not kinds & {"u", "y", *BESIDE} and not whole
        for j, name in enumerate(self.inputs):
            if ("u", j) not in slots and not alone:
                return f"no input '{self.column(('u', j)).name or name}'"
        outputs: dict[Slot, str] = {
            ("y", j): self.column(("y", j)).name or name for j, name in enumerate(self.outputs)
        }
        if not kinds & {"y", *BESIDE[1:]} and not alone:
            return f"no output ({', '.join(outputs.values())})"
        for slot, one in self.columns.items():
            if whole and one.name and slot[0] in ("y", *BESIDE) and slot not in slots:
                return f"no output '{one.name}'"
        if self.column(("t", 0)).name and not slots.intersection({("t", 0), ("n", 0)}):
            return f"no time '{self.column(('t', 0)).name}'"
        return ""

    @property
    def configured(self) -> list[str]:
        """Columns that a configuration names."""
        return [one.name for one in self.columns.values() if one.name]

    @property
    def remedy(self) -> str:
        """Advice on a line that lacks a column."""
        if self.configured:
            return f"the configuration has the columns {listed(self.configured)}"
        return "name every column by its input, output or t"

    def sample(
        self,
        line: int,
        values: Mapping[Slot, float],
        moment: Moment | None = None,
        doses: Sequence[Mapping[str, str]] = (),
        time: Convert = float,
        flagged: bool = False,
    ) -> Sample:
        """Return the sample of these numbers, checked; an output that is not there is missing.

        ``moment`` is a date in place of a time, ``doses`` have the fields of those that the line
        states, whose times ``time`` converts to the unit of the model, and ``flagged`` says that
        nothing was measured: outputs do not count. An unknown input, an infinite number, a time, a
        limit or a dose that is none raises `BadLineError`.
        """
        if flagged:
            values = {slot: one for slot, one in values.items() if slot[0] not in ("y", *BESIDE)}
        u = self._column(values, "u", len(self.inputs))
        y = self._column(values, "y", len(self.outputs))
        beside = self._beside(values, y)
        t = values.get(("t", 0))
        if t is not None and not np.isfinite(t):
            raise BadLineError(f"the time is {t}")
        number = values.get(("n", 0))
        if number is not None and not (number.is_integer() and abs(number) < _LARGEST_EXACT):
            raise BadLineError(f"the sequence number is {number}")
        integer = None if number is None else int(number)
        entered = () if self.doses is None else self.doses.read(doses, time)
        sample = Sample(line, t, u, y, integer, moment, beside, entered, flagged)
        for j, name in enumerate(() if sample.is_dose else self.inputs):
            if not np.isfinite(u[j]):
                raise BadLineError(f"input '{name}' is {u[j]}: an input must be known")
        for j, name in enumerate(self.outputs):
            if np.isinf(y[j]):
                raise BadLineError(f"output '{name}' is infinite")
        return sample

    def _beside(self, values: Mapping[Slot, float], y: Array) -> dict[str, Array]:
        """Deviations and limits of a line, checked, of those that it or the problem has."""
        wanted = {kind for kind, _ in values} | {kind for kind, _ in self.columns}
        kinds: list[Kind] = [kind for kind in ("y_sd", "y_lower", "y_upper") if kind in wanted]
        if not kinds:
            return {}
        all_of = {kind: self._column(values, kind, len(y)) for kind in BESIDE}
        has_sd = np.array([("y_sd", j) in {*values, *self.columns} for j in range(len(y))])
        for name, where, why in faults_beside(y, *all_of.values(), has_sd=has_sd):
            if name in kinds and where.any():
                raise BadLineError(f"{name} is {all_of[name][np.argmax(where)]}: {why}")
        return {kind: all_of[kind] for kind in kinds if not np.isnan(all_of[kind]).all()}

    @staticmethod
    def _column(values: Mapping[Slot, float], kind: Kind, size: int) -> NDArray[np.float64]:
        return np.array([values.get((kind, j), np.nan) for j in range(size)])


def _of_difference(convert: Convert) -> Convert:
    """Conversion of a deviation, which has no zero: that of a temperature is not moved."""
    return lambda value: convert(value) - convert(0.0)


def converted(
    values: Mapping[Slot, float], conversions: Mapping[Slot, Convert]
) -> dict[Slot, float]:
    """Return values in the units of the model."""
    stated = {slot: convert for slot, convert in conversions.items() if slot in values}
    return {**values, **{slot: convert(values[slot]) for slot, convert in stated.items()}}
