"""Doses in a table of their own, or among the samples of a data set as NONMEM has it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from smcpn.base.arguments import FileName, checked
from smcpn.base.units import conversion, is_unit, model_time, time_unit
from smcpn.errors import InputError, listed, shown
from smcpn.io.fields import BadLineError, is_missing, is_number
from smcpn.io.table import TEXTS, TextTable
from smcpn.model.dose import MOST, Dose
from smcpn.model.dosing import Dosing
from smcpn.model.problem import Problem
from smcpn.model.units_and_times import stated_unit

FIELDS = ("amount", "state", "duration", "rate", "lag", "fraction", "addl", "ii", "evid", "ss")
"""What a line says of a dose beside its time."""
_NONMEM = {"amt": "amount", "cmt": "state", "dur": "duration", "f1": "fraction", "alag1": "lag"}
"""Columns of NONMEM by the arguments of a dose."""
WORDS = {
    form: field
    for word, field in ({one: one for one in FIELDS} | _NONMEM).items()
    for form in (word, word.upper(), word.capitalize())
}
"""Names of columns by the fields that they hold."""
_BESIDE_AMOUNTS = frozenset({"EVID", "CMT", "MDV", "DOSE", "RATE", "ADDL", "II"})
"""Columns by one of which a file of samples with a column AMT is one of NONMEM."""
TIMES = ("time", "TIME", "Time", "t")
COLUMNS = (*TIMES, "id", "ID", *WORDS)
"""Names of all columns of a table of doses."""
_MOST_FRACTION = 10.0
"""Above it a fraction is a percentage; above 1 the amount that is known is less than what comes."""
NO_DOSES = (
    "doses are given, and the problem's record has none: give it one of each kind, whose amounts "
    "do not count"
)
NOT_READ = "nothing reads them, as the problem's record has none: give it one of each kind"
"""What becomes of doses in lines of a stream."""
OfState = float | str | Mapping[str, float | str]
"""A lag or a fraction: of all doses, or by the state that they enter."""
Convert = Callable[[float], float]
Given = Callable[[str], Mapping[str, Any]]
"""From a state to the lag and the fraction of doses for which lines have none."""


@checked
def read_doses(
    path: FileName,
    *,
    states: str | Sequence[str] = (),
    subject: str | None = None,
    lag: OfState = 0.0,
    fraction: OfState = 1.0,
    t_unit: str | None = None,
    to: str | None = None,
) -> list[Dose]:
    """Return the doses in a file of comma-, semicolon- or tab-separated text.

    Parameters
    ----------
    path : str or path
        Its header names columns: ``time`` (or ``t``), ``amount`` (``AMT``), ``state`` (``CMT``),
        and where they are wanted ``duration`` (``DUR``) or ``RATE``, ``lag`` and ``fraction``,
        ``ADDL`` more doses every ``II``, and ``ID``; case does not count, other columns are left
        out. A ``RATE`` says the duration of the whole amount; a fraction keeps that, where NONMEM
        keeps the rate. A line without an amount, or whose ``EVID`` is 0 or 2, is no dose. Times
        count from where those of the record do. How it is written is guessed as by `read_record`.
    states : str or sequence of str
        Names of compartments 1, 2, ... where the file has numbers; of the only one where it has no
        such column.
    subject : str, optional
        Value of ``ID`` whose doses are read, needed where several have some; without such a column
        they are those of all.
    lag, fraction : float, str or mapping of str to these
        Of doses for which the file has none, see `Dose`; of those into some states only,
        ``{"gut": "tlag"}``. A lag given here is in the unit of the record, not of the file.
    t_unit : str, optional
        Unit of the times in the file, durations and intervals among them, where its header, as
        ``TIME [min]``, states none.
    to : str, optional
        That of the record, to which they are converted, and in which they are where nothing states
        another one. Without it they stay, but parts of a second become seconds.

    Raises
    ------
    InputError
        If the file cannot be read, or a line is no dose; it names the line.
    """
    names = [states] if isinstance(states, str) else list(states)
    usual = {"lag": lag, "fraction": fraction}
    table = _Table.of(Path(path))
    time, doses = table.conversion(t_unit, to), list[Dose]()
    subjects, dosed, entered = set[str](), set[str](), {*names}
    for line, row in table.rows():
        own = row.get("id", "") if "id" in table.found else subject
        subjects.add(own or "")
        entered |= {one for one in (row.get("state"),) if one and not is_number(one, ".")}
        if subject not in (None, own):
            continue
        try:
            found = _doses(row, names, partial(_of_state, usual), time)
        except InputError as error:
            raise InputError(f"{path}, line {line}: {error}", argument="path") from error
        doses += found
        dosed |= {own or ""} if found else set()
        if len(doses) > MOST:
            raise InputError(f"{path} has more than {MOST} doses: give fewer", argument="path")
    if subject is not None:
        _check_known("subject", {subject}, subjects, path)
    elif len(dosed) > 1:
        raise InputError(
            f"{path} has doses of the subjects {listed(sorted(dosed))}: name one as subject",
            argument="subject",
        )
    for name, one in usual.items():
        _check_known(name, set(one) if isinstance(one, Mapping) else set(), entered, path)
    return doses


def _check_known(argument: str, given: set[str], known: set[str], path: FileName) -> None:
    """Refuse subjects, or states that doses enter, which no line of a file names."""
    if not given <= known:
        raise InputError(
            f"{argument} names {listed(sorted(given - known))}, and the lines of {path} "
            f"{listed(sorted(known - {''})) or 'none'}: name one of these, or add a line of the "
            "amount 0",
            argument=argument,
        )


def _of_state(usual: Mapping[str, OfState], state: str) -> dict[str, float | str]:
    """Lag and fraction of doses into a state, as far as they are given."""
    return {
        name: one[state] if isinstance(one, Mapping) else one
        for name, one in usual.items()
        if not isinstance(one, Mapping) or state in one
    }


@dataclass(frozen=True)
class _Table:
    """A text file of doses, and the fields that are in its columns."""

    text: TextTable
    fields: Mapping[str, str]

    @property
    def found(self) -> list[str]:
        """Fields that it has."""
        return [self.fields[one] for one in self.text.dialect.names if one in self.fields]

    @classmethod
    def of(cls, path: Path, columns: Mapping[str, str] | None = None) -> _Table:
        """Open a file.

        ``columns`` has the field of every column that counts; by default each that has the name of
        a field.
        """
        known = COLUMNS if columns is None else tuple(columns)
        times = TIMES if columns is None else [one for one in known if columns[one] == "time"]
        text = TextTable.open(path, known, labels={*known} - {*times})
        names = [one for one in text.dialect.names if one]
        table = cls(text, {one: field_of(one) for one in names} if columns is None else columns)
        if not {"time", "amount"} <= {*table.found}:
            raise InputError(
                f"{path}: the header names {listed(names) or 'nothing'}: name time and amount (or "
                "AMT) there",
                argument="path",
            )
        for field in ("time", "id", *FIELDS):
            if table.found.count(field) > 1:
                both = [one for one in names if table.fields.get(one) == field]
                raise InputError(
                    f"{path}: columns {listed(both)} both say the {field} of a dose: rename one",
                    argument="path",
                )
        text.tell()
        return table

    def rows(self) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield the fields of every line, and its number."""
        fields = self.fields
        for number, row in self.text.rows():
            yield number, {fields[name]: one for name, one in row.items() if name in fields}

    def conversion(self, unit: str | None, to: str | None) -> Convert:
        """Return what converts times of ``unit``, or that which the header states, to another."""
        clock = next(name for name, field in self.fields.items() if field == "time")
        noted = self.text.dialect.units.get(clock, "")
        known = ""
        if unit or noted:
            known = stated_unit(unit, noted, f"{self.text.path}, column '{clock}',")
        for name, field in self.fields.items():
            other = self.text.dialect.units.get(name, "")
            # A rate is in amounts a time.
            clocked = other.rpartition("/")[2].strip() if field == "rate" else other
            timed = field in ("duration", "lag", "ii", "rate")
            if timed and other and time_unit(clocked) != known:
                raise InputError(
                    f"{self.text.path}: column '{name}' is in {other}, and times are in "
                    f"{known or 'no unit'}: write both in one unit",
                    argument="path",
                )
            if field == "fraction" and other not in ("", "1", "-"):
                raise InputError(
                    f"{self.text.path}: column '{name}' is in {other}: write 0.5 for a half",
                    argument="path",
                )
        if to and is_unit(to):
            conversion(to, "s")
        if not known:
            return float
        wanted = time_unit(to or model_time(known))
        return float if wanted == known else conversion(known, wanted)


def doses_left_out(path: Path, used: Collection[str]) -> str:
    """Return a sentence on doses, as NONMEM has them, in a text file of samples; "" without any.

    ``used`` are the columns that are read for what they are.
    """
    if path.suffix.lower() not in TEXTS:
        return ""
    names = TextTable.open(path, (*used, *COLUMNS), labels=COLUMNS).dialect.names
    amounts = amounts_among(names, used)
    return f"{path} has doses in its column {amounts}, which nothing reads" if amounts else ""


def amounts_among(names: Sequence[str], used: Collection[str]) -> str:
    """Return the column of amounts of NONMEM that is not used; "" without any."""
    # Alone it may be an ambient temperature.
    beside = _BESIDE_AMOUNTS.intersection(map(str.upper, names))
    return next((one for one in names if beside and one.upper() == "AMT" and one not in used), "")


def field_of(column: str) -> str:
    """Return the field that a column holds, by its name in either case."""
    name = column.strip().lower()
    return "time" if name == "t" else _NONMEM.get(name, name)


def _doses(
    row: Mapping[str, str], states: Sequence[str], given: Given, time: Convert = float
) -> list[Dose]:
    """Doses of a line, whose times ``time`` converts: of arrival, durations, intervals and lags."""
    event = _number(row, "evid", 1.0)
    amount = _number(row, "amount", 0.0)
    if event not in (0.0, 1.0, 2.0):
        raise InputError(
            f"EVID is {row['evid']}: doses (1), samples (0) and other lines (2) are read, and no "
            "resets (3, 4)"
        )
    if event != 1.0 or amount == 0.0:
        return []
    if _number(row, "ss", 0.0):
        raise InputError(
            f"SS is {row['ss']}: doses at steady state are not read: give those before, as by "
            "ADDL and II"
        )
    rate, duration = _number(row, "rate", 0.0), _number(row, "duration", 0.0)
    for name, value in (("rate", rate), ("duration", duration)):
        if value < 0.0:
            raise InputError(f"{name} is {row[name]}: give a duration (DUR) that is not negative")
    found = {name: _word(row[name]) for name in ("lag", "fraction") if name in row}
    if isinstance(lag := found.get("lag"), float):
        found["lag"] = time(lag)
    if isinstance(fraction := found.get("fraction"), float) and fraction > _MOST_FRACTION:
        raise InputError(f"fraction is {row['fraction']}: write 0.5 for a half, and no percentages")
    if rate and duration:
        raise InputError(f"rate is {row['rate']} and duration {row['duration']}: give one of them")
    more, every = _number(row, "addl", 0.0), _number(row, "ii", 0.0)
    if more % 1.0:
        raise InputError(f"ADDL is {row['addl']}: give a whole number of doses")
    if not 0.0 <= more <= MOST or (more and every <= 0.0):
        raise InputError(f"ADDL is {row['addl']} and II {row.get('ii')}: give II above 0")
    state = _state(row, states)
    return [
        Dose(
            time(_number(row, "time", None) + k * every),
            state,
            amount,
            time(amount / rate if rate else duration),
            **{**given(state), **found},
        )
        for k in range(1 + int(more))
    ]


def _state(row: Mapping[str, str], states: Sequence[str]) -> str:
    """State that a dose enters."""
    if "state" not in row:
        if len(states) != 1:
            raise InputError("it has no state: give a column state, or states one name")
        return states[0]
    name = row["state"]
    number = _word(name)
    if isinstance(number, str):
        return name
    if number not in range(1, len(states) + 1):
        raise InputError(
            f"compartment {name} has no name: write the name of its state, or give states the "
            "names of compartments 1, 2, ..."
        )
    return states[int(number) - 1]


def _number(row: Mapping[str, str], name: str, default: float | None) -> float:
    if name not in row and default is not None:
        return default
    value = _word(row.get(name, ""))
    if isinstance(value, str):
        date = ", since the time zero of the record" if name == "time" else ""
        raise InputError(f"{name} is {shown(value)}: give a number{date}")
    return value


def _word(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


@dataclass(frozen=True, slots=True)
class LineDose:
    """A dose that a line of a stream states.

    dose: Its time is that since the time of the line, unless it has one of its own.
    timed: Whether it has.
    """

    dose: Dose
    timed: bool

    def at(self, t: float) -> Dose:
        """Return the dose of a line of time ``t``."""
        return self.dose if self.timed else replace(self.dose, time=t + self.dose.time)


@dataclass(frozen=True)
class LineDoses:
    """Reads doses in lines of a stream, of the kinds that a problem's records have.

    dosing: Of the problem.
    usual: Fraction and lag of the doses into a state, where the records have one of each.
    compartments: States that lines call 1, 2, ...
    """

    dosing: Dosing
    usual: Mapping[str, Mapping[str, float | str]]
    compartments: tuple[str, ...] = ()

    @classmethod
    def of(cls, problem: Problem, compartments: Sequence[str] = ()) -> LineDoses | None:
        """Take the kinds of the records of a problem; None where these have no doses."""
        dosing = problem.model.dosing
        if dosing is None:
            return None
        doses = [one for record in problem.records for one in record.doses]
        found = {(one.state, one.fraction, one.lag) for one in doses}
        alone = [one for one in found if sum(other[0] == one[0] for other in found) == 1]
        usual = {state: {"fraction": fraction, "lag": lag} for state, fraction, lag in alone}
        return cls(dosing, usual, tuple(compartments))

    def read(
        self, lines: Sequence[Mapping[str, str]], time: Convert = float
    ) -> tuple[LineDose, ...]:
        """Return the doses of the fields of lines.

        ``time`` converts all times in them to the unit of the model. Lines that state no dose, or
        one of another kind, raise `BadLineError`.
        """
        found: list[LineDose] = []
        states = self._states
        for line in lines:
            row = {name: one.strip() for name, one in line.items() if not is_missing(one.strip())}
            row = {"state": states[0]} | row if len(states) == 1 else row
            try:
                given = partial(self._of, row)
                doses = _doses({"time": "0"} | row, self.compartments, given, time)
                self.dosing.check_kinds(doses, "the line")
            except InputError as error:
                raise BadLineError(str(error)) from error
            found += [LineDose(dose, "time" in row) for dose in doses]
        return tuple(found)

    @property
    def _states(self) -> tuple[str, ...]:
        """States that doses enter."""
        return tuple(dict.fromkeys(one.state for one in self.dosing.routes))

    def read_file(
        self, path: Path, columns: Mapping[str, str], time: Convert = float
    ) -> list[Dose]:
        """Return the doses in a text file of samples.

        ``columns`` has the field of a dose, or its time, by column; ``time`` is as of `read`. A
        line that states no dose, or one of another kind, is named.
        """
        found: list[Dose] = []
        for number, row in _Table.of(path, columns).rows():
            try:
                found += [one.dose for one in self.read([row], time)]
            except BadLineError as error:
                raise InputError(f"{path}, line {number}: {error}") from error
        return found

    def _of(self, row: Mapping[str, str], state: str) -> Mapping[str, float | str]:
        """Fraction and lag of a dose that does not state both."""
        known = state not in self._states or {"lag", "fraction"} <= set(row)
        if state not in self.usual and not known:
            raise InputError(f"doses into '{state}' have several lags or fractions: state both")
        return self.usual.get(state, {})
