"""Columns of numbers in text files: CSV, and what oscilloscopes and data loggers write.

Separator, decimal mark, encoding and the line of names are guessed from the first lines and told in
one line of the log; a file that can be read in two ways is refused.
"""

from __future__ import annotations

import codecs
import csv
import logging
import re
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.columns import counted
from smcpn.errors import InputError, listed, shown, visible
from smcpn.io.parse import (
    COMMENT,
    LONGEST,
    MISSING,
    BadLineError,
    is_number,
    read_number,
    split_fields,
    split_unit,
)

_log = logging.getLogger(__name__)

Array = NDArray[np.float64]

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}
"""Separators of columns that are tried, by the word for them; " " is any white space."""
DECIMALS = {".": "decimal point", ",": "decimal comma"}
LOOKED_AT = 300
"""Lines at the beginning of a file that are looked at."""
LONGEST_UNIT = 12
"""Characters of a word in a line of units."""
CHUNK = 1 << 20
"""Characters that are read at once."""

_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")
_SPACED_NAME = re.compile(r"[^\s\[(]+(?:\s*[\[(][^\])]*[\])])?")
_COMMENT_MARKS = "#%!"
_DATES = "seconds, or dates as 2026-01-31 12:00:00.5"


@dataclass(frozen=True)
class Dialect:
    """How a text file is written.

    Attributes
    ----------
    delimiter, decimal, encoding : str
    names : tuple of str
        Of the columns, without their units; empty where no line names them.
    units : dict of str to str
        Units in the header, by column.
    header : int or None
        Line of the names, from 1.
    first : int
        Line from which on there are samples.
    plain : bool
        Whether nothing was guessed but what every CSV file has.
    """

    delimiter: str
    decimal: str
    encoding: str
    names: tuple[str, ...]
    units: dict[str, str]
    header: int | None
    first: int
    plain: bool

    @property
    def form(self) -> str:
        """How the file is written: ``semicolons, decimal comma, header in line 3``."""
        header = "no header" if self.header is None else f"header in line {self.header}"
        parts = [DELIMITERS.get(self.delimiter, f"columns separated by {self.delimiter!r}")]
        parts += [DECIMALS[self.decimal], header]
        return ", ".join(parts + ([self.encoding] if self.encoding != "utf-8" else []))

    def told(self) -> str:
        """Say how the file is written, and which columns it has."""
        columns = [
            f"{name} [{self.units[name]}]" if name in self.units else name or "(no name)"
            for name in self.names
        ]
        return f"{self.form}, {counted(len(columns), 'column')}: {listed(columns)}"


@dataclass(frozen=True)
class TextTable:
    """The columns of a text file.

    Attributes
    ----------
    path : Path
    dialect : Dialect
    """

    path: Path
    dialect: Dialect

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

        Parameters
        ----------
        path : Path
        known : collection of str
            Columns that are asked for: the line that names most of them is the header.
        header : sequence of str, optional
            Names of the columns, where no line of the file names them.
        delimiter, decimal : str, optional
            As they are, instead of guessed.
        labels : collection of str
            Columns that hold no numbers: dates, or names of experiments.

        Raises
        ------
        InputError
            If the file cannot be read, is empty, or can be read in two ways.
        """
        encoding, lines = _beginning(path)
        if not any(not line.comment for line in lines):
            raise InputError(f"{path} is empty: it has no line of numbers")
        given = None if header is None else tuple(header)
        asked = _Asked(tuple(known), frozenset(labels), given)
        delimiters = DELIMITERS if delimiter is None else (delimiter,)
        readings = [
            _Reading.of(lines, asked, mark, point)
            for mark in delimiters
            for point in (DECIMALS if decimal is None else (decimal,))
        ]
        best = max(readings, key=lambda reading: reading.score)
        if decimal is None and best.decimal == ",":
            _refuse_thousands(path, best)
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
        )

    @property
    def begins_with_numbers(self) -> bool:
        """Whether the first line taken for a sample holds nothing but numbers."""
        for first, lines in self._chunks():
            line = next((line for line in lines if self._holds(line)), "")
            fields = self._split(line)
            return (
                first >= 1
                and any(fields)
                and all(_is_value(one, self.dialect.decimal) for one in fields)
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

        Raises
        ------
        InputError
            If a line has other columns, or a field is no number: the line is named.
        """
        parsers: dict[str, Callable[[Sequence[str]], Any]] = dict.fromkeys(numbers, self._numbers)
        if time is not None:
            parsers[time] = self._times
        if label is not None:
            parsers[label] = _labels
        pieces: dict[str, list[Any]] = {name: [] for name in parsers}
        for first, lines in self._chunks():
            for name, values in self._parsed(first, lines, parsers).items():
                pieces[name].append(values)
        found: dict[str, Any] = {}
        for name in list(pieces):
            # One at a time: a column is held twice, never the whole file.
            parts = pieces.pop(name)
            found[name] = np.concatenate(parts) if parts else np.empty(0)
        return found

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
        """Whether a line holds a sample: it is no comment, and no header of a file strung on."""
        text = line.strip()
        if not text or text.startswith(COMMENT):
            return False
        if text[0].isdigit() or text[0] in "+-.,;\t":
            return True
        names = [split_unit(name)[0] for name in self._split(line)]
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
        self, first: int, lines: list[str], parsers: dict[str, Callable[[Sequence[str]], Any]]
    ) -> dict[str, Any]:
        """Values of lines by column, all at once where no line is out of the ordinary."""
        places = {name: self.dialect.names.index(name) for name in parsers}
        try:
            columns = self._columns(lines, sorted(set(places.values())))
            return {name: parse(columns[places[name]]) for name, parse in parsers.items()}
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
            except BadLineError as error:
                raise InputError(f"{self.path}, line {number}: {error}") from None
        return {name: np.concatenate(values) for name, values in found.items() if values}

    def _columns(self, lines: list[str], places: list[int]) -> dict[int, Sequence[str]]:
        """Fields of lines by column.

        Raises
        ------
        ValueError
            If the lines do not all have the columns that are named.
        """
        content = [line for line in lines if line and line[0] != COMMENT and not line.isspace()]
        mark, least = self.dialect.delimiter, len(self.dialect.names)
        quoted = any('"' in line for line in content)
        if mark == " " or quoted:
            rows = list(csv.reader(content, delimiter=mark) if quoted else map(str.split, content))
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
        if not _fits(fields, names):
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
        return _split(line, self.dialect.delimiter)

    def _numbers(self, column: Sequence[str]) -> Array:
        """Numbers of a column.

        Raises
        ------
        ValueError
            If one is none.
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

    def _times(self, column: Sequence[str]) -> NDArray[Any]:
        """Times of a column: seconds, or dates to the microsecond."""
        try:
            return self._numbers(column)
        except ValueError:
            return np.array([_date(one) for one in column], dtype="datetime64[us]")


def _labels(column: Sequence[str]) -> NDArray[np.str_]:
    """Labels of a column.

    Raises
    ------
    ValueError
        If one is empty.
    """
    labels = [one.strip().strip('"') for one in column]
    if not all(labels):
        raise ValueError
    return np.array(labels, dtype=np.str_)


def _date(text: str) -> datetime:
    """Return a date, or a time of the day, as universal time where it names a zone."""
    text = text.strip()
    moment = datetime.fromisoformat(f"1970-01-01 {text}" if text[2:3] == ":" else text)
    zone = moment.utcoffset()
    return moment if zone is None else (moment - zone).replace(tzinfo=None)


def _one(name: str, text: str, parse: Callable[[Sequence[str]], Any]) -> Any:
    """Parse one field.

    Raises
    ------
    BadLineError
        Naming the column, the value and the cure.
    """
    try:
        return parse([text])
    except (ValueError, TypeError):
        pass
    if parse is _labels:
        raise BadLineError(f"'{name}' is empty, and tells experiments apart: fill in its label")
    if getattr(parse, "__name__", "") == "_times":
        raise BadLineError(f"'{name}' is {shown(text)}, no time: write {_DATES}")
    if re.fullmatch(r"[+-]?\d[\d.,' ]*\d", text):
        remedy = "write numbers without marks of thousands, or state the decimal mark (decimal)"
        raise BadLineError(f"'{name}' is {shown(text)}, no number: {remedy}")
    raise BadLineError(
        f"'{name}' is {shown(text)}, no number: correct it, or leave the field empty where the "
        "sample is missing"
    )


@dataclass(frozen=True)
class _Line:
    number: int
    text: str
    comment: bool


@dataclass(frozen=True)
class _Asked:
    """Columns that are looked for, those of them without numbers, and names that are given."""

    known: tuple[str, ...]
    labels: frozenset[str]
    header: tuple[str, ...] | None


@dataclass(frozen=True)
class _Reading:
    """The first lines, read with one separator and one decimal mark.

    Attributes
    ----------
    plain : bool
        Whether the names are in the first line, and the samples follow at once.
    score : tuple
        Names that are found, and share of the lines below that are samples.
    samples : list of list of str
        Their fields in the columns asked for.
    """

    delimiter: str
    decimal: str
    names: tuple[str, ...]
    units: dict[str, str]
    header: int | None
    first: int
    plain: bool
    score: tuple[int, float]
    samples: list[list[str]] = field(repr=False)

    @classmethod
    def of(cls, lines: Sequence[_Line], asked: _Asked, delimiter: str, decimal: str) -> _Reading:
        """Read the first lines so."""
        at = None if asked.header is not None else _header(lines, asked, delimiter, decimal)
        below = lines[0 if at is None else at + 1 :]
        rows = [(one.number, _split(one.text, delimiter)) for one in below if not one.comment]
        names, units = list(asked.header or ()), dict[str, str]()
        if at is not None:
            names, units = _names(_header_fields(lines[at], delimiter), asked.known)
            asked_for = (
                [one for name, one in zip(names, rows[0][1], strict=False) if name in asked.known]
                if rows
                else []
            )
            if _are_units(asked_for or (rows[0][1] if rows else []), decimal):
                given = zip(names, rows.pop(0)[1], strict=False)
                units |= {name: unit for name, one in given if (unit := _unit(one, decimal))}
        elif asked.header is None:
            names = [""] * len(rows[0][1])
        wanted = [
            j for j, name in enumerate(names) if name in asked.known and name not in asked.labels
        ] or list(range(len(names)))
        samples = {
            number: [row[j] for j in wanted]
            for number, row in rows
            if _fits(row, names) and all(_is_value(row[j], decimal) for j in wanted)
        }
        first = rows[0][0] if rows else lines[-1].number + 1
        if asked.header is not None and samples:
            first = min(samples)
        counted_rows = sum(number >= first for number, _ in rows)
        found = len(set(names) & set(asked.known))
        number = None if at is None else lines[at].number
        above = lines[0].number if at is None else number
        return cls(
            delimiter,
            decimal,
            tuple(names),
            units,
            number,
            first,
            above == lines[0].number and all(one.number >= first for one in below[:1]),
            (found, len(samples) / max(counted_rows, 1)),
            list(samples.values()),
        )


def _header(lines: Sequence[_Line], asked: _Asked, delimiter: str, decimal: str) -> int | None:
    """Index of the line that names most of the columns asked for, the first of them.

    Where none names any: the last line of words with as many numbers below it.
    """
    best, most, structural = None, 0, None
    for index, line in enumerate(lines):
        fields = _header_fields(line, delimiter)
        if not any(fields) or any(_is_value(one, decimal) for one in fields if one):
            continue
        found = len(set(_names(fields, asked.known)[0]) & set(asked.known))
        instead = best is not None and lines[best].comment and not line.comment
        if found > most or (found == most > 0 and instead):
            best, most = index, found
        below = next((one for one in lines[index + 1 :] if not one.comment), None)
        if not line.comment and below is not None:
            values = _split(below.text, delimiter)
            if len(values) == len(fields) and any(_is_value(one, decimal) for one in values if one):
                structural = index
    return structural if best is None else best


def _fits(row: Sequence[str], names: Sequence[str]) -> bool:
    """Whether a line has the columns that are named, but for empty ones at its end."""
    return len(row) >= len(names) and not any(row[len(names) :])


def _names(fields: Sequence[str], known: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """Names of columns and their units; a column may be asked for with its unit in the name."""
    known = frozenset(known)
    while fields and not fields[-1]:
        fields = fields[:-1]
    parts = [(whole, *split_unit(whole)) for whole in fields]
    named = [(whole if whole in known else name, unit) for whole, name, unit in parts]
    return [name for name, _ in named], {name: unit for name, unit in named if unit}


def _header_fields(line: _Line, delimiter: str) -> list[str]:
    text = line.text.strip(" ")
    if text[:1] in _COMMENT_MARKS:
        text = text.lstrip(_COMMENT_MARKS).strip(" ")
    if delimiter == " ":
        return _SPACED_NAME.findall(text) if '"' not in text else _split(text, delimiter)
    return _split(text, delimiter)


def _are_units(fields: Sequence[str], decimal: str) -> bool:
    """Whether fields below names are units: short words, or words in brackets."""
    given = [one for one in fields if one]
    return bool(given) and all(
        not _is_value(one, decimal) and (one[:1] in "[(" or len(one) <= LONGEST_UNIT)
        for one in given
    )


def _unit(text: str, decimal: str) -> str:
    return "" if _is_value(text, decimal) else text.strip("[]() ")


def _is_value(text: str, decimal: str) -> bool:
    return is_number(text, decimal) or _is_date(text)


def _is_date(text: str) -> bool:
    try:
        return text[:1].isdigit() and bool(_date(text))
    except ValueError:
        return False


def _split(text: str, delimiter: str) -> list[str]:
    """Fields of a line; of one whose quotes do not close, as if there were none."""
    if delimiter == " " and '"' not in text:
        return text.split()
    try:
        return split_fields(text.strip(" "), delimiter)
    except BadLineError:
        return [one.strip() for one in text.split(delimiter)]


def _refuse_thousands(path: Path, reading: _Reading) -> None:
    """Refuse numbers that may have decimals or thousands behind the comma, where all may."""
    doubtful = [one for row in reading.samples for one in row if "," in one]
    if doubtful and all(map(_THOUSANDS.fullmatch, doubtful)):
        raise InputError(
            f"{path}: {shown(doubtful[0])} may be a decimal number or a number of thousands, and "
            'so may all others: state decimal = "," (--decimal ,) for decimals, or write the '
            "thousands without a mark",
            argument="decimal",
        )


def _beginning(path: Path) -> tuple[str, list[_Line]]:
    """Encoding of a file, and its first lines that hold something."""
    try:
        with path.open("rb") as file:
            head = file.read(CHUNK)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    encoding = _encoding(path, head)
    lines: list[_Line] = []
    with _opened(path, encoding) as file:
        for number in range(1, LOOKED_AT + 1):
            text = file.readline(LONGEST + 1)
            if not text:
                break
            if len(text) > LONGEST:
                raise InputError(
                    f"{path}, line {number} has more than {LONGEST} characters: save one sample a "
                    "line"
                )
            content = text.strip()
            if content:
                lines.append(_Line(number, text.rstrip("\n"), content.startswith(COMMENT)))
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
