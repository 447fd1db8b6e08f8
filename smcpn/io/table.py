"""Columns of numbers in text files: CSV, and what oscilloscopes and data loggers write.

Separator, decimal mark, encoding and the line of names are guessed from the first lines and told in
one line of the log; a file that can be read in two ways is refused.
"""

from __future__ import annotations

import codecs
import csv
import logging
from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError, counted, listed, shown, visible
from smcpn.io.dialect import (
    DECIMALS,
    DELIMITERS,
    LOOKED_AT,
    LOOKED_AT_CHARACTERS,
    ColumnQuery,
    Dialect,
    Marks,
    TextLine,
    best_reading,
    fits,
    header_fields,
    split_line,
)
from smcpn.io.fields import (
    COMMENT,
    DATES,
    DAY,
    LONGEST,
    MINUTES,
    MISSING,
    BadLineError,
    is_missing,
    is_number,
    is_value,
    kind_of,
    read_date,
    read_number,
    split_unit,
)

_log = logging.getLogger(__name__)

Array = NDArray[np.float64]

CHUNK = 1 << 20
"""Characters that are read at once."""
TEXTS = (".csv", ".txt", ".tsv", ".dat")
"""Suffixes of text files."""


@dataclass(frozen=True)
class TextTable:
    """The columns of a text file.

    stated: Whether the decimal mark was stated, and not guessed.
    """

    path: Path
    dialect: Dialect
    stated: bool = False

    @classmethod
    def open(
        cls,
        path: Path,
        known: Collection[str],
        *,
        header: Sequence[str] | None = None,
        delimiter: str | None = None,
        decimal: str | None = None,
        labels: Collection[str] = (),
    ) -> TextTable:
        """Find out how a file is written.

        The line that names most of the columns asked for, ``known``, is the header, where
        ``header`` has no names; ``delimiter`` and ``decimal`` take the place of a guess; ``labels``
        are columns that hold no numbers: dates, or names of experiments. A file that is empty, or
        can be read in two ways, is refused.
        """
        encoding, lines = _beginning(path)
        if not any(not line.comment for line in lines):
            raise InputError(f"{path} is empty: it has no line of numbers")
        given = None if header is None else tuple(header)
        asked = ColumnQuery(tuple(known), frozenset(labels), given)
        best = best_reading(
            lines,
            asked,
            DELIMITERS if delimiter is None else (delimiter,),
            DECIMALS if decimal is None else (decimal,),
        )
        return cls(
            path,
            Dialect(
                best.delimiter,
                best.decimal,
                encoding,
                best.names,
                best.units,
                best.header,
                best.first,
                plain=best.plain
                and encoding == "utf-8"
                and (delimiter is not None or best.delimiter == ",")
                and (decimal is not None or best.decimal == "."),
            ),
            stated=decimal is not None,
        )

    @property
    def holds_gaps(self) -> bool:
        """True if an empty line is a missing sample: where there is one column, without times."""
        return len(self.dialect.names) == 1

    @property
    def begins_with_numbers(self) -> bool:
        """True if the first line taken for a sample holds nothing but numbers."""
        for first, lines in self._chunks():
            line = next((line for line in lines if self._holds(line)), "")
            fields = self._split(line)
            return (
                first >= 1
                and any(fields)
                and all(is_value(one, self.dialect.decimal) for one in fields)
            )
        return False

    def tell(self) -> None:
        """Log how the file is written: as a warning, which Python prints, where it was guessed."""
        level = logging.INFO if self.dialect.plain else logging.WARNING
        _log.log(level, "%s", visible(f"{self.path.name}: {self.dialect.told()}"))

    def read(
        self, numbers: Sequence[str], time: str | None = None, label: str | None = None
    ) -> dict[str, Any]:
        """Return columns by name, (T,): numbers, times or dates, and labels as texts.

        Raises `InputError` if a line has other columns, or a field is no number: the line is named.
        If numbers can be read in two ways, or samples without times have empty lines between them.
        """
        parsers: dict[str, Parser] = dict.fromkeys(numbers, self.numbers)
        clock, marks, gaps = _Clock(self, time), Marks(self.dialect.decimal), _Gaps(self)
        if time is not None:
            parsers[time] = clock.times
        if label is not None:
            parsers[label] = _labels
        pieces: dict[str, list[Any]] = {name: [] for name in parsers}
        for first, lines in self._chunks():
            if time is None:
                gaps.see(first, lines)
            for name, values in self._parsed(first, lines, parsers, marks).items():
                pieces[name].append(values)
        self._refuse_thousands(marks)
        clock.tell()
        found: dict[str, Any] = {}
        for name in list(pieces):
            # One at a time: a column is held twice, never the whole file.
            found[name] = clock.joined(pieces.pop(name))[: gaps.kept]
        return found

    def rows(self) -> Generator[tuple[int, dict[str, str]]]:
        """Yield the number of every line and its fields by column, without those that are missing.

        Decimals have points.

        Raises `InputError` if a line has other columns; it is named.
        """
        for first, lines in self._chunks():
            for number, line in enumerate(lines, start=first):
                if not self._holds(line):
                    continue
                try:
                    named = zip(self.dialect.names, self._fields(line), strict=False)
                except BadLineError as error:
                    raise InputError(f"{self.path}, line {number}: {error}") from None
                mark = self.dialect.decimal
                yield (
                    number,
                    {
                        name: one.replace(mark, ".") if is_number(one, mark) else one
                        for name, one in named
                        if not is_missing(one)
                    },
                )

    def _refuse_thousands(self, marks: Marks) -> None:
        """Refuse numbers that may have decimals or thousands behind their mark, where all may."""
        doubtful, mark = marks.doubtful(self.dialect.delimiter), self.dialect.decimal
        if doubtful and not self.stated:
            raise InputError(
                f"{self.path}: {shown(doubtful)} may be a decimal number or a number of thousands, "
                f'and so may all others: state decimal = "{mark}" (--decimal {mark}) for decimals, '
                "or write the thousands without a mark",
                argument="decimal",
            )

    def line_of(self, sample: int) -> int:
        """Return the line of a sample."""
        before = 0
        for first, lines in self._chunks():
            for number, line in enumerate(lines, start=first):
                before += self._holds(line)
                if before > sample:
                    return number
        return self.dialect.first

    def _holds(self, line: str) -> bool:
        """True if a line holds a sample: it is no comment, and no header of a file strung on."""
        text = line.strip()
        if not text or text.startswith(COMMENT):
            return not text and self.holds_gaps
        if text[0].isdigit() or text[0] in "+-.,;\t":
            return True
        fields = header_fields(line, self.dialect.delimiter)
        names = [split_unit(name)[0] for name in fields]
        return not any(self.dialect.names) or names[: len(self.dialect.names)] != list(
            self.dialect.names
        )

    def _chunks(self) -> Generator[tuple[int, list[str]]]:
        """Yield whole lines of some megabyte, and the number of the first."""
        number, rest = 1, ""
        with _opened(self.path, self.dialect.encoding) as file:
            while True:
                text = file.read(CHUNK)
                *lines, rest = (rest + text).split("\n")
                if not text and rest:
                    lines, rest = [*lines, rest], ""
                if len(rest) > LONGEST:
                    raise InputError(
                        f"{self.path}, line {number + len(lines)} has more than {LONGEST} "
                        "characters: save one sample a line"
                    )
                if not lines and not text:
                    return
                skipped = min(max(self.dialect.first - number, 0), len(lines))
                yield number + skipped, lines[skipped:]
                number += len(lines)

    def _parsed(
        self, first: int, lines: list[str], parsers: dict[str, Parser], marks: Marks
    ) -> dict[str, Any]:
        """Values of lines by column, all at once where no line is out of the ordinary."""
        places = {name: self.dialect.names.index(name) for name in parsers}
        try:
            columns = self._columns(lines, sorted(set(places.values())))
            values = {name: parse(columns[places[name]]) for name, parse in parsers.items()}
            for name in values:
                marks.see(name, columns[places[name]])
            return values
        except (ValueError, TypeError):
            pass
        found: dict[str, list[Any]] = {name: [] for name in parsers}
        for number, line in enumerate(lines, start=first):
            if not self._holds(line):
                continue
            try:
                fields = self._fields(line)
                for name, parse in parsers.items():
                    found[name].append(_one(name, fields[places[name]], parse))
                    marks.see(name, [fields[places[name]]])
            except BadLineError as error:
                raise InputError(f"{self.path}, line {number}: {error}") from None
        return {name: _joined(values) for name, values in found.items() if values}

    def _columns(self, lines: list[str], places: list[int]) -> dict[int, Sequence[str]]:
        """Fields of lines by column; ValueError where lines lack one that is named."""
        content = [
            line
            for line in lines
            if (line and line[0] != COMMENT and not line.isspace())
            or (self.holds_gaps and not line.strip())
        ]
        mark, least = self.dialect.delimiter, len(self.dialect.names)
        quoted = any('"' in line for line in content)
        if mark == " " or quoted:
            rows = _quoted(content, mark) if quoted else list(map(str.split, content))
            widths = {len(row) for row in rows}
            if len(rows) != len(content) or widths - {least}:
                raise ValueError
            return {j: [row[j] for row in rows] for j in places}
        width = (content[0].count(mark) + 1) if content else least
        if {line.count(mark) for line in content} - {width - 1} or width not in (least, least + 1):
            raise ValueError
        fields = mark.join(content).split(mark) if content else []
        if width > least and any(map(str.strip, fields[least::width])):
            raise ValueError
        return {j: fields[j::width] for j in places}

    def _fields(self, line: str) -> list[str]:
        names = [name or "(no name)" for name in self.dialect.names]
        fields = self._split(line)
        if not fits(fields, names):
            both = self.dialect.delimiter == "," and "." not in line and len(fields) > len(names)
            raise BadLineError(
                f"{counted(len(fields), 'column')} instead of {len(names)} ({listed(names)}): "
                + (
                    "complete the line, or, where commas are decimal marks too, put numbers in "
                    "quotes or another delimiter between them"
                    if both
                    else "complete the line or remove it"
                )
            )
        return fields

    def _split(self, line: str) -> list[str]:
        return split_line(line, self.dialect.delimiter) or [""]

    def numbers(self, column: Sequence[str]) -> Array:
        """Numbers of a column.

        Raises `ValueError` if one is none.
        """
        joined = "\n".join(column)
        if self.dialect.decimal == ",":
            if "." in joined:
                return np.array([read_number(text, ",") for text in column])
            column = joined.replace(",", ".").split("\n") if column else column
        # float() would read underscores and digits of other scripts.
        if "_" in joined or not joined.isascii():
            return np.array([read_number(text, ".") for text in column])
        try:
            return np.array(list(map(float, column)))
        except ValueError:
            missing = MISSING
            return np.array(
                [
                    np.nan if (text := one.strip()).lower() in missing else float(text)
                    for one in column
                ]
            )


Parser = Callable[[Sequence[str]], Any]
"""From the fields of a column to its values; a `ValueError` where one is none."""


class _Clock:
    """Reads times, which are all numbers, or all dates of one kind."""

    def __init__(self, table: TextTable, column: str | None) -> None:
        self._table, self._column = table, column
        unit = table.dialect.units.get(column or "", "")
        self._minutes = unit.lower() in MINUTES
        self._kinds: dict[str, str] = {}
        self._without_seconds = ""

    def times(self, column: Sequence[str]) -> NDArray[Any]:
        """Return numbers, or dates to the microsecond; NaN, or no date, where one is missing."""
        try:
            values = self._table.numbers(column)
        except ValueError:
            return np.array([self._date(one) for one in column], dtype="datetime64[us]")
        if not np.isnan(values).all():
            self._kinds.setdefault("a number", column[0])
        return values

    def _date(self, text: str) -> datetime | None:
        text = text.strip()
        if text.lower() in MISSING:
            return None
        if self._minutes:
            minutes, _, seconds = text.partition(":")
            self._kinds.setdefault("minutes and seconds", text)
            return datetime(*DAY.timetuple()[:3]) + timedelta(
                minutes=read_number(minutes), seconds=read_number(seconds)
            )
        moment = read_date(text)
        self._kinds.setdefault(kind_of(moment), text)
        if text.count(":") == 1 and len(text) <= len("00:00"):
            self._without_seconds = self._without_seconds or text
        return moment.replace(tzinfo=None)

    def joined(self, parts: list[Any]) -> Any:
        """Return a column of its pieces.

        Raises `InputError` if some times are numbers and others dates, or only some name a zone:
        nobody knows the time between.
        """
        if len(self._kinds) > 1:
            kinds = " and ".join(f"{kind} ({shown(text)})" for kind, text in self._kinds.items())
            raise InputError(
                f"{self._table.path}: time '{self._column}' is {kinds}: write all times alike"
            )
        return _joined(parts) if parts else np.empty(0)

    def tell(self) -> None:
        """Log which unit was read where times have two parts."""
        if self._without_seconds:
            _log.warning(
                "%s",
                visible(
                    f"{self._table.path.name}: times such as {shown(self._without_seconds)} are "
                    "read as hours and minutes; where they are minutes and seconds, say so in the "
                    f"header, as '{self._column} [mm:ss]'"
                ),
            )


class _Gaps:
    """Empty lines among samples whose times are counted.

    Of one column they are missing samples but for those at its end. Of several they are refused:
    they may be a way to write the file.
    """

    def __init__(self, table: TextTable) -> None:
        self._table = table
        self._filled = self._between = self._open = self._first = 0

    def see(self, first: int, lines: Sequence[str]) -> None:
        """Take note of lines.

        Raises `InputError` if a sample of several columns follows an empty line.
        """
        for number, line in enumerate(lines, start=first):
            if not line or line.isspace():
                self._open += 1
                self._first = self._first or number
                continue
            if line[0] == COMMENT:
                continue
            self._filled += 1
            if self._open:
                if not self._table.holds_gaps:
                    raise InputError(
                        f"{self._table.path}, line {self._first} is empty, and samples are counted "
                        "to know their times: remove it, or write the marks of a missing sample"
                    )
                self._between, self._open = self._between + 1, 0

    @property
    def kept(self) -> int | None:
        """Index behind the last sample, negative, None where no empty lines are at the end.

        Raises `InputError` if there are empty lines between all samples, as programs write that end
        lines twice.
        """
        if 1 < self._filled == self._between + 1:
            raise InputError(
                f"{self._table.path} has an empty line between all samples: remove these lines, or "
                "write 'nan' where a sample is missing"
            )
        return -self._open if self._open and self._table.holds_gaps else None


def _quoted(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """Fields of lines with quotes; ValueError where one is not closed, or goes on behind."""
    try:
        lines = [line.strip(" ") for line in lines]
        spaced = delimiter == " "
        reader = csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=spaced)
        return list(reader)
    except csv.Error as error:
        raise ValueError(str(error)) from None


def _joined(parts: list[Any]) -> Any:
    """Return a column of its pieces; of dates a piece without any has NaN."""
    if {part.dtype.kind for part in parts} == {"f", "M"}:
        parts = [part if part.dtype.kind == "M" else np.full(len(part), _NO_DATE) for part in parts]
    return np.concatenate(parts)


_NO_DATE = np.datetime64("NaT", "us")


def _labels(column: Sequence[str]) -> NDArray[np.str_]:
    """Labels of a column; ValueError where one is empty."""
    labels = [one.strip().strip('"') for one in column]
    if not all(labels):
        raise ValueError
    return np.array(labels, dtype=np.str_)


def _one(name: str, text: str, parse: Callable[[Sequence[str]], Any]) -> Any:
    """Parse one field."""
    try:
        return parse([text])
    except (ValueError, TypeError):
        pass
    if parse is _labels:
        raise BadLineError(f"'{name}' is empty, and tells experiments apart: fill in its label")
    marked = "write numbers without marks of thousands, or state the decimal mark (decimal)"
    numeric = text[-1:].isdigit() and set(text) <= _MARKED
    if getattr(parse, "__name__", "") == "times":
        remedy = marked if numeric else f"write {DATES}"
        raise BadLineError(f"'{name}' is {shown(text)}, no time: {remedy}")
    if numeric:
        raise BadLineError(f"'{name}' is {shown(text)}, no number: {marked}")
    if text.strip()[:1] in ("<", ">"):
        raise BadLineError(
            f"'{name}' is {shown(text)}, a limit: leave the field empty, and write the limit in a "
            "column of its own, y_upper or y_lower"
        )
    raise BadLineError(
        f"'{name}' is {shown(text)}, no number: correct it, or leave the field empty where the "
        "sample is missing"
    )


_MARKED = frozenset("0123456789+-.,' ")
"""Characters of numbers with marks of decimals and thousands."""


def _beginning(path: Path) -> tuple[str, list[TextLine]]:
    """Encoding of a file, and its first lines that hold something."""
    try:
        with path.open("rb") as file:
            head = file.read(CHUNK)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    encoding = _encoding(path, head)
    lines: list[TextLine] = []
    left = LOOKED_AT_CHARACTERS
    with _opened(path, encoding) as file:
        for number in range(1, LOOKED_AT + 1):
            text = file.readline(LONGEST + 1)
            if not text or left <= 0:
                break
            left -= len(text)
            if len(text) > LONGEST:
                raise InputError(
                    f"{path}, line {number} has more than {LONGEST} characters: save one sample a "
                    "line"
                )
            content = text.strip()
            if content:
                lines.append(TextLine(number, text.rstrip("\n"), content.startswith(COMMENT)))
    return encoding, lines


def _encoding(path: Path, head: bytes) -> str:
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" in head:
        raise InputError(f"{path} cannot be read: it is no text; save it as CSV")
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"


def _opened(path: Path, encoding: str) -> Any:
    """Open a text; what cannot be decoded is no number, and refused as such."""
    named = "utf-8-sig" if encoding == "utf-8" else encoding
    return path.open(encoding=named, errors="replace", newline=None)
