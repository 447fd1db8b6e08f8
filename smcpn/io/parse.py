"""Samples in lines of text: CSV or JSON, from a stream.

Bytes are cut into lines of bounded length (`LineSplitter`), and a `LineParser` makes a `Sample` of
each. `Channels` says which column is which input or output of a problem. A line that is no sample
is reported and skipped. Whole files are read by `table`.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from smcpn.columns import counted
from smcpn.errors import InputError, listed, shown
from smcpn.model.problem import Problem
from smcpn.units import conversion

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Inputs and outputs at one time.

    Attributes
    ----------
    line : int
        Its line in the source, from 1; its place among the samples where there are no lines.
    t : float, optional
        Time in the unit of the record, where the source states it.
    u : numpy.ndarray, shape (n_inputs,)
    y : numpy.ndarray, shape (n_outputs,)
        NaN marks a missing output.
    number : int, optional
        Sequence number, where the source states it: sampling intervals since the time zero.
    """

    line: int
    t: float | None
    u: Array
    y: Array
    number: int | None = None


Kind = Literal["t", "n", "u", "y"]
Slot = tuple[Kind, int]
Convert = Callable[[float], float]
_LARGEST_EXACT = 2**53


class BadLineError(ValueError):
    """A line that is no sample; the message says why."""


@dataclass(frozen=True, slots=True)
class Column:
    """The name and the unit in which lines have an input, an output or the time.

    Attributes
    ----------
    name : str
        The one that it goes by; "" where every word for it does.
    unit : str
        In which a configuration says that it is.
    to : str
        That of the model, to which it is converted; "" where none is known.
    usual : str
        In which it is where neither configuration nor header say so.
    """

    name: str = ""
    unit: str = ""
    to: str = ""
    usual: str = ""

    def conversion(self, noted: str = "") -> Convert | None:
        """Return the function that converts to the unit of the model; None where it is that.

        Parameters
        ----------
        noted : str
            Unit that a header states.

        Raises
        ------
        InputError
            If it contradicts the configuration, or is none that can be converted.
        """
        if self.unit and noted and noted != self.unit:
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

    Parameters
    ----------
    inputs, outputs : tuple of str
    columns : mapping of tuple to Column
        Names and units by channel, where they are known.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    columns: Mapping[Slot, Column] = field(default_factory=dict[Slot, Column], hash=False)
    slots: dict[str, Slot] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        slots: dict[str, Slot] = {"t": ("t", 0), "time": ("t", 0), "n": ("n", 0), "seq": ("n", 0)}
        channels: tuple[tuple[Kind, tuple[str, ...]], ...] = (
            ("y", self.outputs),
            ("u", self.inputs),
        )
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
        units = problem.records[0].y_unit.split(", ")
        columns: dict[Slot, Column] = {("t", 0): Column(to=problem.records[0].t_unit)}
        if len(units) == len(outputs):
            columns |= {("y", j): Column(to=unit) for j, unit in enumerate(units)}
        return cls(problem.ode.inputs, outputs, columns)

    def column(self, slot: Slot) -> Column:
        """Name and unit of a channel."""
        return self.columns.get(slot, Column(to="s" if slot[0] == "t" else ""))

    def conversions(self, noted: Mapping[Slot, str]) -> dict[Slot, Convert]:
        """Return what converts values to the units of the model, where a header states units.

        Raises
        ------
        InputError
            See `Column.conversion`.
        """
        known: set[Slot] = {("t", 0), *self.columns}
        found = {slot: self.column(slot).conversion(noted.get(slot, "")) for slot in known}
        return {slot: convert for slot, convert in found.items() if convert is not None}

    @property
    def in_order(self) -> tuple[Slot, ...]:
        """The columns of a line without names: inputs, then outputs."""
        inputs: list[Slot] = [("u", j) for j in range(len(self.inputs))]
        return (*inputs, *(("y", j) for j in range(len(self.outputs))))

    def missing_from(self, slots: set[Slot], whole: bool = False) -> str:
        """Name a channel that a line lacks, or "": it must have every input and one output.

        And the time, where a configuration names its column and no number takes its place.

        Parameters
        ----------
        whole : bool
            It must have every output that a configuration names a column for.
        """
        for j, name in enumerate(self.inputs):
            if ("u", j) not in slots:
                return f"no input '{self.column(('u', j)).name or name}'"
        outputs: dict[Slot, str] = {
            ("y", j): self.column(("y", j)).name or name for j, name in enumerate(self.outputs)
        }
        if not slots.intersection(outputs):
            return f"no output ({', '.join(outputs.values())})"
        for slot, name in outputs.items():
            if whole and self.column(slot).name and slot not in slots:
                return f"no output '{name}'"
        if self.column(("t", 0)).name and not slots.intersection({("t", 0), ("n", 0)}):
            return f"no time '{self.column(('t', 0)).name}'"
        return ""

    @property
    def configured(self) -> list[str]:
        """Columns that a configuration names."""
        return [one.name for one in self.columns.values() if one.name]

    @property
    def remedy(self) -> str:
        """What to do about a line that lacks a column."""
        if self.configured:
            return f"the configuration has the columns {listed(self.configured)}"
        return "name every column by its input, output or t"

    def sample(self, line: int, values: dict[Slot, float]) -> Sample:
        """Return the sample of these numbers, checked; an output that is not there is missing.

        Raises
        ------
        BadLineError
            For an unknown input, an infinite number, a time that is none.
        """
        u = self._column(values, "u", len(self.inputs))
        y = self._column(values, "y", len(self.outputs))
        for j, name in enumerate(self.inputs):
            if not np.isfinite(u[j]):
                raise BadLineError(f"input '{name}' is {u[j]}: an input must be known")
        for j, name in enumerate(self.outputs):
            if np.isinf(y[j]):
                raise BadLineError(f"output '{name}' is infinite")
        t = values.get(("t", 0))
        if t is not None and not np.isfinite(t):
            raise BadLineError(f"the time is {t}")
        number = values.get(("n", 0))
        if number is not None and not (number.is_integer() and abs(number) < _LARGEST_EXACT):
            raise BadLineError(f"the sequence number is {number}")
        return Sample(line, t, u, y, None if number is None else int(number))

    @staticmethod
    def _column(values: dict[Slot, float], kind: Kind, size: int) -> NDArray[np.float64]:
        return np.array([values.get((kind, j), np.nan) for j in range(size)])


LONGEST = 65536
"""Bytes of the longest line that is read; a garbled source may never send a newline."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its end.

    Attributes
    ----------
    number : int
        From 1, over the whole life of the source.
    text : bytes
    too_long : bool
        Only its beginning is here.
    cut : bool
        Its source ended, or its connection was lost, before a newline came.
    """

    number: int
    text: bytes
    too_long: bool = False
    cut: bool = False


class LineSplitter:
    """Cuts chunks of bytes into lines at LF or CR LF, and numbers them."""

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest = longest
        self._rest = b""
        self._too_long = False
        self._number = 0

    def feed(self, chunk: bytes) -> Iterator[Line]:
        """Yield the lines that a chunk completes."""
        *complete, self._rest = (self._rest + chunk).split(b"\n")
        for text in complete:
            yield self._line(text)
        if len(self._rest) > self._longest:
            # Only the beginning is kept, so memory stays bounded however long it goes on.
            self._too_long, self._rest = True, self._rest[: self._longest]

    def cut(self) -> Line | None:
        """Return the incomplete last line, if any."""
        if not self._rest and not self._too_long:
            return None
        text, self._rest = self._rest, b""
        return self._line(text, cut=True)

    def _line(self, text: bytes, cut: bool = False) -> Line:
        self._number += 1
        too_long = self._too_long or len(text) > self._longest
        self._too_long = False
        return Line(self._number, text[: self._longest].removesuffix(b"\r"), too_long, cut)


MISSING = frozenset(
    {"", "-", "--", "---", "nan", "-nan", "na", "n/a", "#n/a", "null", "none", "missing"}
)
"""Texts of a missing number, in either case."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_WORD = re.compile(r"[A-Za-z_]\w*'?( *[\[(].*[\])])?", re.ASCII)
_UNIT = re.compile(r"\s*[\[(](?P<unit>.*)[\])]$")


class CsvLines:
    """Reads samples from lines of comma-separated numbers.

    A line of words that names the columns says which is which. It is believed before the first
    sample, and where it repeats what is known: files may be strung together. Other columns are
    passed over. Without such a line the columns are the inputs and
    then the outputs in the problem's order, with the time before them where there is one column
    more. Units in brackets are converted to those of the model.

    Parameters
    ----------
    channels : Channels
    columns : sequence of str, optional
        Names instead of a header.
    delimiter, decimal : str
        Separator of columns, and decimal mark of numbers.

    Raises
    ------
    InputError
        If ``columns`` lacks an input.

    Attributes
    ----------
    unchecked : str
        Columns of the header whose unit the problem does not know.
    """

    def __init__(
        self,
        channels: Channels,
        columns: list[str] | None = None,
        delimiter: str = ",",
        decimal: str = ".",
    ) -> None:
        self._channels, self._delimiter, self._decimal = channels, delimiter, decimal
        self._layout: list[Slot | None] | None = None
        self._conversions = channels.conversions({})
        self._begun = False
        self.unchecked = ""
        if columns is not None:
            self._layout = self._named([name.strip() for name in columns], "columns")

    def parse(self, number: int, text: str) -> Sample | None:
        """Return the sample of a line, or None for a line that names the columns.

        Raises
        ------
        BadLineError
            For anything else.
        InputError
            If the first line names columns but lacks an input.
        """
        fields = split_fields(text, self._delimiter)
        if self._names_columns(fields):
            self._believe(fields)
            return None
        layout = self._layout or self._in_order(fields)
        if len(fields) != len(layout):
            raise BadLineError(f"{counted(len(fields), 'column')} instead of {len(layout)}")
        values = {
            slot: read_number(field, self._decimal)
            for slot, field in zip(layout, fields, strict=True)
            if slot is not None
        }
        sample = self._channels.sample(number, _converted(values, self._conversions))
        self._layout, self._begun = layout, True
        return sample

    def _names_columns(self, fields: list[str]) -> bool:
        least = len(self._channels.inputs) + 1
        words = all(_WORD.fullmatch(field) for field in fields)
        return len(fields) >= least and words and not all(f.lower() in MISSING for f in fields)

    def _believe(self, fields: list[str]) -> None:
        try:
            layout = self._named(fields, "the header")
        except InputError:
            if not self._begun:
                # Read by order, columns of other names would be taken for those of the problem.
                raise
            layout = None
        if self._begun and (layout is None or layout != self._layout):
            # Noise that looks like a header would give the columns other names.
            raise BadLineError("words instead of numbers")
        self._layout = layout

    def begin(self, believed: bool) -> None:
        """Say whether a header that comes next may name the columns anew."""
        self._begun = not believed

    def _named(self, fields: list[str], where: str) -> list[Slot | None]:
        layout = [self._channels.slots.get(split_unit(field)[0]) for field in fields]
        known = [slot for slot in layout if slot is not None]
        missing = self._channels.missing_from(set(known), whole=True)
        if missing:
            raise InputError(
                f"{where} ({shown(','.join(fields))}) names {missing}: {self._channels.remedy}"
            )
        if len(set(known)) < len(known):
            raise InputError(f"{where} ({shown(','.join(fields))}) names a column twice")
        noted = {
            slot: split_unit(field)[1]
            for slot, field in zip(layout, fields, strict=True)
            if slot is not None
        }
        self._conversions = self._channels.conversions(noted)
        self.unchecked = ", ".join(
            field
            for slot, field in zip(layout, fields, strict=True)
            if slot is not None and noted[slot] and not self._channels.column(slot).to
        )
        return layout

    def _in_order(self, fields: list[str]) -> list[Slot | None]:
        layout: list[Slot | None] = list(self._channels.in_order)
        return [("t", 0), *layout] if len(fields) == len(layout) + 1 else layout


def split_fields(text: str, delimiter: str = ",") -> list[str]:
    """Split a line into its columns; quotes may hold a delimiter.

    Raises
    ------
    BadLineError
        For quotes that do not close.
    """
    if '"' not in text:
        return [field.strip() for field in text.split(delimiter)]
    try:
        rows = csv.reader([text], strict=True, delimiter=delimiter)
        return [field.strip() for field in next(rows)]
    except csv.Error as error:
        raise BadLineError(f"not CSV: {error}") from None


def split_unit(field: str) -> tuple[str, str]:
    """Split ``"x [mm]"`` into a name and a unit, which may be ""."""
    match = _UNIT.search(field)
    return (field, "") if match is None else (field[: match.start()], match["unit"].strip())


def is_number(field: str, decimal: str = ".") -> bool:
    """Whether a column holds a number, or the mark of a missing one."""
    return field.lower() in MISSING or bool(_NUMBER.fullmatch(_pointed(field, decimal)))


def read_number(field: str, decimal: str = ".") -> float:
    """Return the number that a column holds, NaN for the mark of a missing one.

    Raises
    ------
    BadLineError
        If it holds anything else.
    """
    field = field.strip()
    if field.lower() in MISSING:
        return float("nan")
    point = _pointed(field, decimal)
    # float() would read underscores and digits of other scripts.
    if not _NUMBER.fullmatch(point):
        raise BadLineError(f"{shown(field)} is not a number")
    return float(point)


def _pointed(field: str, decimal: str) -> str:
    """A number with a decimal point; one that has a point beside another decimal mark is none."""
    return field if decimal == "." else field.replace(".", "?").replace(decimal, ".")


def _converted(values: dict[Slot, float], conversions: dict[Slot, Convert]) -> dict[Slot, float]:
    return values | {slot: convert(values[slot]) for slot, convert in conversions.items()
                     if slot in values}  # fmt: skip


class JsonLines:
    """Reads samples from lines like ``{"t": 0.1, "u": 1.5, "y": [0.2, null]}``.

    ``u`` and ``y`` are a number where there is one channel, else a list; or every channel goes by
    its own name, or by its column of a configuration. ``null`` and ``NaN`` mark a missing output.
    Other names are passed over.
    """

    def __init__(self, channels: Channels) -> None:
        self._channels, self._conversions = channels, channels.conversions({})
        sizes = {"u": len(channels.inputs), "y": len(channels.outputs)}
        named = {kind for (kind, _), one in channels.columns.items() if one.name}
        self._sizes = {kind: size for kind, size in sizes.items() if kind not in named}
        self._begun = False

    def parse(self, number: int, text: str) -> Sample:
        """Return the sample of a line.

        Raises
        ------
        BadLineError
            For anything that is no sample.
        InputError
            If the first line with a name that a configuration gives lacks another one.
        """
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadLineError(f"not JSON: {error}") from None
        if not isinstance(content, dict):
            raise BadLineError("not a JSON object")
        values: dict[Slot, float] = {}
        for name, value in content.items():
            self._take(values, name, value)
        missing = self._channels.missing_from(set(values))
        if missing and values and not self._begun and self._channels.configured:
            raise InputError(
                f"the first line ({shown(text)}) names {missing}: {self._channels.remedy}"
            )
        if missing:
            raise BadLineError(missing)
        self._begun = True
        return self._channels.sample(number, _converted(values, self._conversions))

    def _take(self, values: dict[Slot, float], name: str, value: Any) -> None:
        size = self._sizes.get(name)
        if size is not None and isinstance(value, list):
            if len(value) != size:
                raise BadLineError(f"'{name}' has {len(value)} entries instead of {size}")
            kind: Kind = "u" if name == "u" else "y"
            values |= {(kind, j): _json_number(name, entry) for j, entry in enumerate(value)}
            return
        slot = self._channels.slots.get(name)
        if slot is None:
            return
        if value is None and slot[0] in "tn":
            return
        values[slot] = _json_number(name, value)


def _json_number(name: str, value: Any) -> float:
    if value is None:
        return float("nan")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadLineError(f"'{name}' is {shown(value)}, not a number")
    try:
        return float(value)
    except OverflowError:
        raise BadLineError(f"'{name}' is too large") from None


COMMENT = "#"
_BYTE_ORDER_MARK = "\ufeff"

FORMATS = ("csv", "json")


@dataclass(frozen=True)
class StreamFormat:
    """How a configuration says that the lines of a stream are written.

    Attributes
    ----------
    channels : Channels
    columns : list of str, optional
        Names of the columns of CSV, instead of a line of names.
    delimiter, decimal : str
        Separator of columns of CSV, and decimal mark of its numbers.
    """

    channels: Channels
    columns: list[str] | None = None
    delimiter: str = ","
    decimal: str = "."


class LineParser:
    """Reads samples from lines of either format.

    Without ``format`` a line that begins with a brace is JSON, any other one CSV. Empty lines and
    comments (``#``) hold nothing.

    Parameters
    ----------
    channels : Channels
    format : {"csv", "json"}, optional
    columns : sequence of str, optional
        Names of the columns of CSV, instead of a header.
    delimiter, decimal : str
        Separator of columns of CSV, and decimal mark of its numbers.

    Raises
    ------
    InputError
        For an unknown format, or columns that lack an input.
    """

    def __init__(
        self,
        channels: Channels,
        format: str | None = None,
        columns: list[str] | None = None,
        delimiter: str = ",",
        decimal: str = ".",
    ) -> None:
        if format not in (None, *FORMATS):
            raise InputError(f"format is '{format}': choose one of {', '.join(FORMATS)}")
        self._format = format
        self._csv = CsvLines(channels, columns, delimiter, decimal)
        self._json = JsonLines(channels)

    def unchecked(self) -> str:
        """Columns of a header since the last call whose unit the problem does not know, or ""."""
        found, self._csv.unchecked = self._csv.unchecked, ""
        return found

    def parse(self, line: Line) -> Sample | None:
        """Return the sample of a line, or None where it holds none.

        Raises
        ------
        BadLineError
            For a line that is no sample.
        InputError
            For a CSV header that lacks an input.
        """
        if line.too_long:
            raise BadLineError(f"longer than {LONGEST} bytes")
        try:
            text = line.text.decode("utf-8").removeprefix(_BYTE_ORDER_MARK).strip()
        except UnicodeDecodeError as error:
            raise BadLineError(f"byte {error.start + 1} is not UTF-8") from None
        if not text or text.startswith(COMMENT):
            return None
        as_json = text.startswith("{") if self._format is None else self._format == "json"
        if line.cut and not as_json:
            # A number that lost its last digits is still a number; an object closes with a brace.
            raise BadLineError("cut off: no newline at its end")
        if not as_json:
            return self._csv.parse(line.number, text)
        sample = self._json.parse(line.number, text)
        self._csv.begin(believed=False)
        return sample

    def begin(self) -> None:
        """Believe a header that comes next: another file begins."""
        self._csv.begin(believed=True)
