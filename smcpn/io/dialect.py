"""Form of lines of text: separator, decimal mark, and the line that names the columns.

They are guessed from the first lines, of a file as of a stream; lines that can be read in two ways
are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from smcpn.base.units import is_unit
from smcpn.errors import InputError, counted, listed, shown
from smcpn.io.fields import (
    LONGEST_NAME,
    MISSING,
    BadLineError,
    is_missing,
    is_number,
    is_value,
    spaced_names,
    split_fields,
    split_unit,
)

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}
"""Separators of columns that are tried, by the word for them; " " is any white space."""
DECIMALS = {".": "decimal point", ",": "decimal comma"}
LOOKED_AT = 300
"""Lines at the beginning that are looked at."""
LOOKED_AT_CHARACTERS = 1 << 17
"""Characters of these lines from which on no more are looked at."""
LONGEST_UNIT = 12
"""Characters of a word in a line of units."""
_COMMENT_MARKS = "#%!"


@dataclass(frozen=True)
class Dialect:
    """Separator, decimal sign, encoding and header of a text file.

    names: Of the columns, without their units; empty where no line names them.
    units: Units in the header, by column.
    header: Line of the names, from 1.
    first: Line from which on there are samples.
    plain: Whether nothing was guessed but what every CSV file has.
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
        """Form of the file in words: ``semicolons, decimal comma, header in line 3``."""
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
class TextLine:
    """A line that holds something, without its end."""

    number: int
    text: str
    comment: bool


@dataclass(frozen=True)
class ColumnQuery:
    """Columns that are looked for, those of them without numbers, and names that are given."""

    known: tuple[str, ...]
    labels: frozenset[str]
    header: tuple[str, ...] | None


@dataclass(frozen=True)
class Reading:
    """The first lines, read with one separator and one decimal mark.

    plain: Whether the names are in the first line, and the samples follow at once.
    score: Names that are found, share of the lines below that are samples, and share of times and
        labels in these that are numbers or dates.
    samples: Fields in the columns asked for, by line.
    """

    delimiter: str
    decimal: str
    names: tuple[str, ...]
    units: dict[str, str]
    header: int | None
    first: int
    plain: bool
    score: tuple[int, float, float]
    samples: dict[int, list[str]] = field(repr=False)

    @property
    def found(self) -> int:
        """Columns asked for that are named."""
        return self.score[0]

    @classmethod
    def of(
        cls, lines: Sequence[TextLine], asked: ColumnQuery, delimiter: str, decimal: str
    ) -> Reading:
        """Read the first lines so."""
        at = None if asked.header is not None else _header(lines, asked, delimiter, decimal)
        below = lines[0 if at is None else at + 1 :]
        rows = [(one.number, split_line(one.text, delimiter)) for one in below if not one.comment]
        names, units = list(asked.header or ()), dict[str, str]()
        if at is not None:
            names, units = _names(header_fields(lines[at].text, delimiter), asked.known)
            asked_for = (
                [one for name, one in zip(names, rows[0][1], strict=False) if name in asked.known]
                if rows
                else []
            )
            below_it = rows[0][1] if rows else []
            if fits(below_it, names) and _are_units(asked_for or below_it, below_it, decimal):
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
            if fits(row, names) and all(is_value(row[j], decimal) for j in wanted)
        }
        first = rows[0][0] if rows else lines[-1].number + 1
        if asked.header is not None and samples:
            first = min(samples)
        counted_rows = sum(number >= first for number, _ in rows)
        others = [j for j, name in enumerate(names) if name in asked.labels]
        labels = [row[j] for number, row in rows if number in samples for j in others]
        valued = sum(is_value(one, decimal) for one in labels)
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
            (found, len(samples) / max(counted_rows, 1), valued / max(len(labels), 1)),
            samples,
        )


def _header(
    lines: Sequence[TextLine], asked: ColumnQuery, delimiter: str, decimal: str
) -> int | None:
    """Index of the line that names most of the columns asked for, the first of them.

    Where none names any: the last line of words with as many numbers below it.
    """
    best, most, structural = None, 0, None
    for index, line in enumerate(lines):
        fields = header_fields(line.text, delimiter)
        named = any(fields) and max(map(len, fields)) <= LONGEST_NAME
        if not named or any(is_value(one, decimal) for one in fields if one):
            continue
        found = len(set(_names(fields, asked.known)[0]) & set(asked.known))
        instead = best is not None and lines[best].comment and not line.comment
        if found > most or (found == most > 0 and instead):
            best, most = index, found
        below = next((one for one in lines[index + 1 :] if not one.comment), None)
        if not line.comment and below is not None:
            values = split_line(below.text, delimiter)
            if len(values) == len(fields) and any(is_value(one, decimal) for one in values if one):
                structural = index
    return structural if best is None else best


def fits(row: Sequence[str], names: Sequence[object]) -> bool:
    """True if a line has the columns that are named, but for empty ones at its end."""
    return len(row) >= len(names) and not any(row[len(names) :])


def _names(fields: Sequence[str], known: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """Names of columns and their units; a column may be asked for with its unit in the name."""
    known = frozenset(known)
    filled = max((k for k, one in enumerate(fields, 1) if one), default=0)
    parts = [(whole, *split_unit(whole)) for whole in fields[:filled]]
    named = [(whole if whole in known else name, unit) for whole, name, unit in parts]
    return [name for name, _ in named], {name: unit for name, unit in named if unit}


def header_fields(text: str, delimiter: str) -> list[str]:
    """Names of columns in a line, with their units."""
    text = text.strip(" ")
    if text[:1] in _COMMENT_MARKS:
        text = text.lstrip(_COMMENT_MARKS).strip(" ")
    if delimiter == " ":
        return spaced_names(text) if '"' not in text else split_line(text, delimiter)
    return split_line(text, delimiter)


def _are_units(fields: Sequence[str], line: Sequence[str], decimal: str) -> bool:
    """True if fields below names are units: short words in a line that has a unit or brackets.

    Other words may be the first samples, of which the user is to know that they are no numbers.
    """
    given = [one for one in fields if one.lower() not in MISSING]
    words = bool(given) and all(
        not is_value(one, decimal) and (one[:1] in "[(" or len(one) <= LONGEST_UNIT)
        for one in given
    )
    return words and any(one[:1] in "[(" or is_unit(one) for one in line if one)


def _unit(text: str, decimal: str) -> str:
    return "" if is_value(text, decimal) else text.strip("[]() ")


def split_line(text: str, delimiter: str) -> list[str]:
    """Fields of a line; of one whose quotes do not close, as if there were none."""
    if delimiter == " " and '"' not in text:
        return text.split()
    try:
        return split_fields(text.strip(" "), delimiter)
    except BadLineError:
        return [one.strip() for one in text.split(delimiter)]


def best_reading(
    lines: Sequence[TextLine],
    asked: ColumnQuery,
    delimiters: Iterable[str] = DELIMITERS,
    decimals: Iterable[str] = DECIMALS,
) -> Reading:
    """Return the reading of the first lines that finds most names, and most samples below them."""
    readings = [
        Reading.of(lines, asked, delimiter, decimal)
        for delimiter in delimiters
        for decimal in decimals
    ]
    return max(readings, key=lambda reading: reading.score)


class Marks:
    """Meaning of a mark in numbers: of decimals, or maybe of thousands.

    ``1,234`` may be either, ``0,25`` only the former, and with it all others of the same source. A
    point is suspected only where a column has numbers below a thousand without one, as ``998``,
    ``999``, ``1.000``, or columns are separated as where commas mark decimals.

    mark: A comma or a point.
    """

    def __init__(self, mark: str) -> None:
        self._mark, self._settled = mark, False
        self._doubtful: dict[object, str] = {}
        self._short: set[object] = set()
        self._long: set[object] = set()

    def see(self, column: object, fields: Iterable[str]) -> None:
        """Take note of fields of a column; those that are no numbers say nothing."""
        if self._settled:
            return
        texts = [one for field in fields if not is_missing(one := field.strip())]
        if self._mark not in "".join(texts):
            # All are as short as the longest.
            texts = [*texts[:1], max(texts, key=len, default="")]
        for text in texts:
            digits = text[1:] if text[:1] in ("+", "-") else text
            whole, found, rest = digits.partition(self._mark)
            short = len(whole) <= 3 and whole.isdecimal()
            if found and short and whole[0] != "0" and len(rest) == 3 and rest.isdecimal():
                self._doubtful.setdefault(column, text)
            elif found and is_number(text, self._mark):
                self._settled = True
                return
            elif not found and digits:
                (self._short if short else self._long).add(column)

    def doubtful(self, delimiter: str) -> str:
        """Return a number that can be read in two ways, "" where there is none."""
        suspected = self._mark == "," or delimiter not in ", "
        for column, text in () if self._settled else self._doubtful.items():
            # Who marks thousands marks all of a column.
            if column not in self._long and (suspected or column in self._short):
                return text
        return ""


def check_marks(delimiter: str | None, decimal: str | None) -> None:
    """Refuse a separator of columns that is not one character, and an unknown decimal mark."""
    usual = delimiter is None or delimiter == "\t" or delimiter.isprintable()
    if delimiter is not None and (len(delimiter) != 1 or not usual or delimiter in '"'):
        raise InputError(
            f"delimiter is {shown(delimiter)}: give one character, ',' ';' '\\t' '|' or ' '",
            argument="delimiter",
        )
    if decimal is not None and decimal not in DECIMALS:
        raise InputError(f"decimal is {shown(decimal)}: give '.' or ','", argument="decimal")
