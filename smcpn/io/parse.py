"""Samples in lines of text: columns or JSON, from a stream.

Bytes are cut into lines of bounded length (`LineSplitter`), and a `LineParser` makes a `Sample` of
each. A line that is no sample is reported and skipped. Whole files are read by `table`.

How columns are written shows with the first sample (`CsvLines`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from smcpn.errors import InputError, counted, listed, shown
from smcpn.io.channels import Channels, Convert, Kind, Moment, Sample, Slot, converted
from smcpn.io.dialect import (
    DECIMALS,
    DELIMITERS,
    LOOKED_AT,
    ColumnQuery,
    Dialect,
    Marks,
    Reading,
    TextLine,
    best_reading,
    fits,
    split_line,
)
from smcpn.io.doses import FIELDS, NO_DOSES, NOT_READ, amounts_among, field_of
from smcpn.io.fields import (
    COMMENT,
    LONGEST,
    MINUTES,
    MISSING,
    BadLineError,
    is_date,
    is_missing,
    is_number,
    is_value,
    read_number,
    split_unit,
)
from smcpn.io.unmeasured import is_flagged, told_of
from smcpn.model.record import BESIDE

LONGEST_NAMES = 1 << 14
"""Characters of a line of names with the words above it; each such line is read in every way."""


@dataclass(frozen=True)
class Form:
    """Form of lines of columns, once it is known.

    names: Of the columns; empty where no line names them.
    layout: What is in each column, None for what is passed over.
    conversions: To the units of the model.
    flags: Columns that say where nothing was measured.
    """

    delimiter: str
    names: tuple[str, ...]
    layout: tuple[Slot | None, ...]
    conversions: Mapping[Slot, Convert]
    flags: tuple[str, ...] = ()

    def fields(self, text: str) -> list[str]:
        """Return the fields of a line.

        Raises `BadLineError` if it has other columns.
        """
        fields = split_line(text, self.delimiter)
        # Without names an empty field at the end is the one that is missing.
        if fits(fields, self.layout) if any(self.names) else len(fields) == len(self.layout):
            return fields
        names = f" ({listed(self.names)})" if any(self.names) else ""
        raise BadLineError(f"{counted(len(fields), 'column')} instead of {len(self.layout)}{names}")


class CsvLines:
    """Reads samples from lines of numbers in columns.

    Lines of words before the first sample may name the columns and state their units, in brackets
    or in a line below; values are converted to the units of the model. How columns are separated
    and decimals marked is guessed from the first sample and what is above it. Later a line of words
    is believed where it repeats what is known: files may be strung together. Other columns are
    passed over. Where no line names them the columns are the inputs and then the outputs in the
    problem's order, with the time before them where there is one column more.

    columns: Names instead of a header.
    delimiter, decimal: Separator of columns, and decimal mark of numbers, instead of a guess.

    Raises
    ------
    InputError
        If ``columns`` lacks an input.

    told: Kinds and messages of events: how lines are written, where it was guessed, and units that
        the problem does not know.
    believes: Whether a line of words may name the columns.
    """

    def __init__(
        self,
        channels: Channels,
        columns: list[str] | None = None,
        delimiter: str | None = None,
        decimal: str | None = None,
    ) -> None:
        self._channels, self._decimal = channels, decimal
        self._delimiters = tuple(DELIMITERS) if delimiter is None else (delimiter,)
        self._decimals = tuple(DECIMALS) if decimal is None else (decimal,)
        self._columns: tuple[str, ...] | None = None
        self._units: dict[str, str] = {}
        self._form: Form | None = None
        self._above: list[TextLine] = []
        self._marks = {mark: Marks(mark) for mark in DECIMALS}
        self.believes, self.told = True, list[tuple[str, str]]()
        if columns is not None:
            self._columns, self._units = _apart([name.strip() for name in columns])
            self._named(",", self._columns, self._units, "columns")

    def parse(self, number: int, text: str) -> Sample | None:
        """Return the sample of a line, or None for one that may name the columns.

        Raises `BadLineError` for anything else. Raises `InputError` if the line that names the
        columns lacks an input.
        """
        line = TextLine(number, text, comment=False)
        if self._is_words(text):
            self._take_words(line)
            return None
        form, told = (self._form, []) if self._form and not self._above else self._found(line)
        sample = self._sample(form, line)
        self._form, self._above, self.believes = form, [], False
        self.told += told
        return sample

    def comment(self, number: int, text: str) -> None:
        """Take note of a comment: one above the first sample may name the columns."""
        if self.believes and self._columns is None and self._form is None:
            self._keep(TextLine(number, text, comment=True))

    def begin(self, believed: bool) -> None:
        """Say whether words that come next may name the columns anew."""
        self.believes, self._above = believed, []

    def _is_words(self, text: str) -> bool:
        """True if a line has as many columns as a sample at least, and words in them."""
        marks = [mark for mark in self._delimiters if mark in text and mark != " "]
        if self._form is not None and not self.believes:
            marks = [self._form.delimiter]
        fields = split_line(text, next(iter(marks), self._delimiters[-1]))
        words = [one for one in fields if one.lower() not in MISSING]
        return (
            len(fields) > len(self._channels.inputs)
            and bool(words)
            and not any(is_value(one, mark) for one in words for mark in self._decimals)
        )

    def _take_words(self, line: TextLine) -> None:
        """Keep words that may name the columns, or their units."""
        if self._columns is not None or not self.believes:
            self._repeat(line.text)
            return
        if len(line.text) > LONGEST_NAMES:
            raise BadLineError(
                f"words of more than {LONGEST_NAMES} characters: state --columns where they name "
                "the columns"
            )
        self._keep(line)
        reading = self._reading(self._above)
        if reading.header == line.number and reading.found:
            # Told now: the first sample may be long in coming.
            units = self._of_values(reading.names, reading.units)
            self._named(reading.delimiter, reading.names, units, "the header")

    def _of_values(self, names: Sequence[str], units: Mapping[str, str]) -> dict[str, str]:
        """Units without that of the time, in whose place dates may have ``UTC``."""
        times = {name for name in names if self._channels.slots.get(name) == ("t", 0)}
        for name in times:
            if units.get(name, "").lower() in MINUTES:
                raise InputError(
                    f"the header says '{name} [{units[name]}]': send seconds, or times as 00:12:34"
                )
        return {name: unit for name, unit in units.items() if name not in times}

    def _repeat(self, text: str) -> None:
        """Take a header again, of the next file, whose units may be others."""
        for mark in self._delimiters if self._form is None else (self._form.delimiter,):
            try:
                form = self._named(mark, *_apart(split_line(text, mark)), "the header")
            except InputError:
                continue
            if self._form is not None and form.layout == self._form.layout:
                self._form = form
                return
            if self._form is None and form.names == self._columns:
                return
        # Noise that looks like a header would give the columns other names.
        raise BadLineError("words instead of numbers")

    def _keep(self, line: TextLine) -> None:
        self._above = [*self._above[1 - LOOKED_AT :], line]
        while sum(len(one.text) for one in self._above) > LONGEST_NAMES:
            self._above = self._above[1:]

    def _reading(
        self, lines: Sequence[TextLine], delimiters: Sequence[str] | None = None
    ) -> Reading:
        labels = frozenset(w for w, (kind, _) in self._channels.slots.items() if kind == "dose")
        asked = ColumnQuery(tuple(self._channels.slots), labels, self._columns)
        return best_reading(lines, asked, delimiters or self._delimiters, self._decimals)

    def _found(self, line: TextLine) -> tuple[Form, list[tuple[str, str]]]:
        """Find out how lines are written, by one with numbers and the words above it."""
        reading = self._named_reading(line)
        if reading is None:
            reading = self._reading([line], self._separating(line.text))
            form = self._in_order(split_line(line.text, reading.delimiter), reading.delimiter)
        else:
            names = self._columns or reading.names
            units = self._units or reading.units
            if any(map(is_date, split_line(line.text, reading.delimiter))):
                units = self._of_values(names, units)
            form = self._named(reading.delimiter, names, units, "the header")
        return form, self._remarks(reading, form, line)

    def _named_reading(self, line: TextLine) -> Reading | None:
        """Return the reading in which words above a line name its columns; None without any."""
        words = [one for one in self._above if not one.comment]
        readings = [self._reading([*self._above, line]), self._reading([*words, line])]
        for reading in readings:
            named = reading.header is not None or self._columns is not None
            enough = len(reading.names) > len(self._channels.inputs)
            if named and enough and line.number in reading.samples:
                return reading
        if self._columns is not None or readings[1].found:
            return readings[1]
        slots = self._channels.slots
        comment = {slots[name] for name in readings[0].names if name in slots}
        if not self._channels.missing_from(comment):
            raise BadLineError(
                f"a comment names the columns {listed(readings[0].names)}, and the numbers are "
                "separated otherwise: state --columns"
            )
        return None

    def _separating(self, text: str) -> list[str]:
        """Separators that make as many columns of a line as a sample has; else the busiest one."""
        n = len(self._channels.in_order)
        counts = {mark: len(split_line(text, mark)) for mark in self._delimiters}
        fitting = [mark for mark, count in counts.items() if count in (n, n + 1)]
        return fitting or [max(counts, key=lambda mark: counts[mark])]

    def _in_order(self, fields: Sequence[str], delimiter: str) -> Form:
        """Return the form of lines without names, by the first one."""
        slots = self._channels.in_order
        if "" in fields:
            raise BadLineError(
                "a column is empty, and without names the first line tells the columns apart: "
                "name them in a header, or state --columns"
            )
        timed: tuple[Slot, ...] = (("t", 0), *slots) if len(fields) == len(slots) + 1 else slots
        return Form(delimiter, (), timed, self._channels.conversions({}))

    def _named(
        self, delimiter: str, names: Sequence[str], units: Mapping[str, str], where: str
    ) -> Form:
        """Return the form of lines whose columns have these names."""
        layout = tuple(self._channels.slots.get(name) for name in names)
        known = [slot for slot in layout if slot is not None]
        missing = self._channels.missing_from(set(known), whole=True)
        if missing:
            raise InputError(
                f"{where} ({shown(','.join(names))}) names {missing}: {self._channels.remedy}"
            )
        if len(set(known)) < len(known):
            raise InputError(f"{where} ({shown(','.join(names))}) names a column twice")
        noted = {
            slot: units.get(name, "")
            for slot, name in zip(layout, names, strict=True)
            if slot is not None
        }
        flags = tuple(self._channels.flags(names))
        return Form(delimiter, tuple(names), layout, self._channels.conversions(noted), flags)

    def _sample(self, form: Form, line: TextLine) -> Sample:
        values: dict[Slot, float] = {}
        doses: dict[str, str] = {}
        moment = None
        decimal = self._decimal or self._marked(form, line.text)
        fields = form.fields(line.text)
        flags = [fields[form.names.index(one)] for one in form.flags]
        flagged = is_flagged(read_number(one, decimal or ".") for one in flags)
        for slot, text in zip(form.layout, fields, strict=False):
            if slot == ("t", 0) and not is_number(text, decimal or "."):
                moment = self._channels.moment(text)
            elif slot is not None and slot[0] == "dose":
                doses[FIELDS[slot[1]]] = text.replace(",", ".") if decimal == "," else text
            elif slot is not None:
                values[slot] = read_number(text, decimal or ".")
        time = form.conversions.get(("t", 0), float)
        values = converted(values, form.conversions)
        given = [doses] if doses else []
        sample = self._channels.sample(line.number, values, moment, given, time, flagged)
        if self._form is not None and decimal == "," != self._decimal:
            self.told.append(("format", DECIMALS[","]))
        self._decimal = decimal
        return sample

    def _marked(self, form: Form, text: str) -> str | None:
        """Return the decimal mark in the numbers of a line; None where they have none."""
        named = zip(form.layout, form.fields(text), strict=False)
        fields = {slot: one for slot, one in named if slot is not None}
        given = [one for slot, one in fields.items() if slot[0] != "dose" and not is_missing(one)]
        found = [
            mark for mark in DECIMALS if any(mark in one and is_number(one, mark) for one in given)
        ]
        for slot, field in fields.items():
            for marks in self._marks.values():
                marks.see(slot, [field])
        doubtful = self._marks[found[0]].doubtful(form.delimiter) if len(found) == 1 else ""
        if doubtful:
            raise BadLineError(
                f"{shown(doubtful)} may be a decimal number or a number of thousands: state "
                f"--decimal {found[0]} for decimals, or write thousands without a mark"
            )
        return found[0] if found else None

    def _remarks(self, reading: Reading, form: Form, line: TextLine) -> list[tuple[str, str]]:
        """Kinds and messages of events: what was guessed, and units that are taken as they are."""
        told: list[tuple[str, str]] = []
        columns = form.names or tuple(self._channels.word(slot) for slot in form.layout if slot)
        mark = self._decimal or self._marked(form, line.text)
        words = [one.number for one in self._above if not one.comment]
        guessed = (
            words != ([] if reading.header is None else [reading.header]),
            len(self._delimiters) > 1 and form.delimiter != ",",
            len(self._decimals) > 1 and mark == ",",
        )
        if any(guessed):
            dialect = Dialect(
                form.delimiter, mark or ".", "utf-8", columns, reading.units,
                reading.header, reading.first, plain=False,
            )  # fmt: skip
            told.append(("format", dialect.told()))
        if form.flags:
            told.append(("format", told_of(form.flags)))
        if form.names and None in form.layout and not {("t", 0), ("n", 0)} & {*form.layout}:
            message = f"no column of {listed(form.names)} is called t, time, n or seq: samples are "
            told.append(("untimed", message + "counted one interval after another"))
        used = [name for name, slot in zip(form.names, form.layout, strict=False) if slot]
        if amounts := amounts_among(form.names, used):
            told.append(("doses", f"the lines have doses in column {amounts}: {NOT_READ}"))
        unchecked = [
            f"{name} [{reading.units[name]}]"
            for slot, name in zip(form.layout, form.names, strict=False)
            if slot is not None and name in reading.units and not self._channels.column(slot).to
        ]
        if unchecked:
            message = "the problem states no unit for {}: values are taken as they are"
            told.append(("units", message.format(", ".join(unchecked))))
        return told


def _apart(fields: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Names of columns, and their units."""
    parts = [split_unit(one) for one in fields]
    return tuple(name for name, _ in parts), {name: unit for name, unit in parts if unit}


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its end.

    number: From 1, over the whole life of the source.
    too_long: Only its beginning is here.
    cut: Its source ended, or its connection was lost, before a newline came.
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


class JsonLines:
    """Reads samples from lines like ``{"t": 0.1, "u": 1.5, "y": [0.2, null]}``.

    ``u`` and ``y`` are a number where there is one channel, else a list; or every channel goes by
    its own name, or by its column of a configuration. ``null`` and ``NaN`` mark a missing output.
    ``doses`` is a list of objects, ``[{"state": "gut", "amount": 320}]``, at the line's time where
    they have none of their own. Other names are passed over.
    """

    def __init__(self, channels: Channels) -> None:
        self._channels, self._conversions = channels, channels.conversions({})
        sizes: dict[Kind, int] = {"u": len(channels.inputs)}
        sizes |= dict.fromkeys(("y", *BESIDE), len(channels.outputs))
        named = {kind for (kind, _), one in channels.columns.items() if one.name}
        self._sizes = {kind: size for kind, size in sizes.items() if kind not in named}
        self._begun = self._told = False
        self.told: list[tuple[str, str]] = []

    def parse(self, number: int, text: str) -> Sample:
        """Return the sample of a line.

        Raises `BadLineError` for anything that is no sample. Raises `InputError` if the first line
        with a name that a configuration gives lacks another one.
        """
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadLineError(f"not JSON: {error}") from None
        if not isinstance(content, dict):
            raise BadLineError("not a JSON object")
        values: dict[Slot, float] = {}
        times: list[Moment] = []
        doses = self._doses(content)
        for name, value in content.items():
            if isinstance(value, str) and self._channels.slots.get(name) == ("t", 0):
                times.append(self._channels.moment(value))
            else:
                self._take(values, name, value)
        stated: set[Slot] = {*values, *([("t", 0)] if times else [])}
        stated |= {("dose", 0)} if doses else set()
        missing = self._channels.missing_from(stated)
        if missing and stated and not self._begun and self._channels.configured:
            raise InputError(
                f"the first line ({shown(text)}) names {missing}: {self._channels.remedy}"
            )
        if missing:
            raise BadLineError(missing)
        self._begun = True
        return self._channels.sample(
            number,
            converted(values, self._conversions),
            times[-1] if times else None,
            doses,
            self._conversions.get(("t", 0), float),
            self._flagged(content),
        )

    def _flagged(self, content: Mapping[str, Any]) -> bool:
        """True if a line says that nothing was measured; the first one is told."""
        flags = {name: content[name] for name in self._channels.flags(content)}
        numbers = (int(one) if isinstance(one, bool) else one for one in flags.values())
        flagged = is_flagged(read_number(str(one)) for one in numbers)
        if flagged and not self._told:
            self.told, self._told = [("format", told_of(flags))], True
        return flagged

    def _doses(self, content: Mapping[str, Any]) -> list[dict[str, str]]:
        """Fields of the doses of a line: those listed, and one that the line itself states."""
        slots, listed_there = self._channels.slots, content.get("doses")
        named = {
            name: value for name, value in content.items() if slots.get(name, "")[:1] == ("dose",)
        }
        given = listed_there if "doses" not in slots and listed_there is not None else []
        if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
            raise BadLineError(f"'doses' is {shown(given)}, not a list of objects")
        if given and self._channels.doses is None:
            raise InputError(NO_DOSES, argument="doses")
        return [_dose_fields(one) for one in (*given, *([named] if named else []))]

    def _take(self, values: dict[Slot, float], name: str, value: Any) -> None:
        size = self._sizes.get(name)
        if size is not None and isinstance(value, list):
            if len(value) != size:
                raise BadLineError(f"'{name}' has {len(value)} entries instead of {size}")
            kind = cast("Kind", name)
            values |= {(kind, j): _json_number(name, entry) for j, entry in enumerate(value)}
            return
        slot = self._channels.slots.get(name)
        if slot is None or slot[0] == "dose":
            return
        if value is None and slot[0] in "tn":
            return
        values[slot] = _json_number(name, value)


def _dose_fields(given: Mapping[str, Any]) -> dict[str, str]:
    """Fields of a dose as a line of text has them."""
    for name, value in given.items():
        if isinstance(value, (bool, list, dict)):
            raise BadLineError(f"'{name}' of a dose is {shown(value)}: give a number or a name")
    return {field_of(name): str(value) for name, value in given.items() if value is not None}


def _json_number(name: str, value: Any) -> float:
    if value is None:
        return float("nan")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadLineError(f"'{name}' is {shown(value)}, not a number")
    try:
        return float(value)
    except OverflowError:
        raise BadLineError(f"'{name}' is too large") from None


_BYTE_ORDER_MARK = "\ufeff"

FORMATS = ("csv", "json")


@dataclass(frozen=True)
class StreamFormat:
    """Configuration of the form of a stream's lines.

    columns: Names of the columns of CSV, instead of a line of names.
    delimiter, decimal: Separator of columns of CSV, and decimal mark of its numbers; guessed if
        left out.
    compartments: States that doses call 1, 2, ...
    """

    channels: Channels
    columns: list[str] | None = None
    delimiter: str | None = None
    decimal: str | None = None
    compartments: tuple[str, ...] = ()


class LineParser:
    """Reads samples from lines of either format.

    Without ``format`` a line that begins with a brace is JSON, any other one CSV. Empty lines and
    comments (``#``) hold nothing.

    format: {"csv", "json"}, optional
    columns: Names of the columns of CSV, instead of a header.
    delimiter, decimal: Separator of columns of CSV, and decimal mark of its numbers; guessed if
        left out.

    Raises `InputError` for an unknown format, or columns that lack an input.
    """

    def __init__(
        self,
        channels: Channels,
        format: str | None = None,
        columns: list[str] | None = None,
        delimiter: str | None = None,
        decimal: str | None = None,
    ) -> None:
        if format not in (None, *FORMATS):
            raise InputError(f"format is '{format}': choose one of {', '.join(FORMATS)}")
        self._format = format
        self._csv = CsvLines(channels, columns, delimiter, decimal)
        self._json = JsonLines(channels)
        self._stated = ""

    def told(self) -> list[tuple[str, str]]:
        """Kinds and messages of events since the last call: how lines are written."""
        found = self._csv.told + self._json.told
        self._csv.told, self._json.told = [], []
        return found

    def parse(self, line: Line) -> Sample | None:
        """Return the sample of a line, or None where it holds none.

        Raises `BadLineError` for a line that is no sample. Raises `InputError` for a CSV header
        that lacks an input.
        """
        if line.too_long:
            raise BadLineError(f"longer than {LONGEST} bytes")
        text = self._decoded(line.text)
        if not text.strip() or text.strip().startswith(COMMENT):
            self._csv.comment(line.number, text.strip())
            return None
        as_json = text.lstrip().startswith("{") if self._format is None else self._format == "json"
        if line.cut and not as_json:
            # A number that lost its last digits is still a number; an object closes with a brace.
            raise BadLineError("cut off: no newline at its end")
        sample = (self._json if as_json else self._csv).parse(line.number, text)
        if as_json:
            self._csv.begin(believed=False)
        self._check_kind(sample)
        return sample

    def _decoded(self, line: bytes) -> str:
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            if not self._csv.believes:
                raise BadLineError(f"byte {error.start + 1} is not UTF-8") from None
            # A unit in the header, as of files: numbers are the same in both.
            text = line.decode("latin-1")
        return text.removeprefix(_BYTE_ORDER_MARK).strip(" \r")

    def _check_kind(self, sample: Sample | None) -> None:
        """Refuse a time that is not stated as those before: nobody knows the time between."""
        if sample is None or (sample.t is None and sample.moment is None):
            return
        stated = "a number" if sample.moment is None else sample.moment.kind
        if self._stated not in ("", stated):
            raise BadLineError(f"the time is {stated}, where lines before have {self._stated}")
        self._stated = stated

    def begin(self) -> None:
        """Believe a header that comes next: another file begins."""
        self._csv.begin(believed=True)
