"""Fields of a line of text: numbers, dates, names with units."""

from __future__ import annotations

import csv
from datetime import UTC, date, datetime

from smcpn.errors import shown

LONGEST = 65536
"""Bytes of the longest line that is read; a garbled source may never send a newline."""
COMMENT = "#"
MISSING = frozenset(
    {"", ".", "-", "--", "---", "nan", "-nan", "na", "n/a", "#n/a", "null", "none", "missing"}
)
"""Texts of a missing number, in either case."""
_LONGEST_MARK = max(map(len, MISSING))
LONGEST_NAME = 256
"""Characters of the name of a column with its unit; a longer field of a header is no name."""
_NUMERALS = frozenset("0123456789+-.eE")
_LONGEST_NUMBER = 1100
"""Characters of a number; the smallest one has 1074 decimals."""
_OPENING, _CLOSING = "[(", "])"
DAY = date(1970, 1, 1)
"""Of a time of the day."""
DATES = "seconds, or dates as 2026-01-31 12:00:00.5 or 31.01.2026 12:00:00"
"""Forms of a time, for messages."""
_LONGEST_DATE = 40
MINUTES = frozenset({"mm:ss", "m:ss", "min:s", "min:sec"})
"""Units of a column that has minutes and seconds in place of hours and minutes."""


class BadLineError(ValueError):
    """A line that is no sample; the message says why."""


def split_fields(text: str, delimiter: str = ",") -> list[str]:
    """Split a line into its columns; quotes may hold a delimiter.

    Raises `BadLineError` for quotes that do not close.
    """
    if '"' not in text:
        return [field.strip() for field in text.split(delimiter)]
    try:
        spaced = delimiter == " "
        rows = csv.reader([text], strict=True, delimiter=delimiter, skipinitialspace=spaced)
        return [field.strip() for field in next(rows)]
    except csv.Error as error:
        raise BadLineError(f"not CSV: {error}") from None


def split_unit(field: str) -> tuple[str, str]:
    """Split ``"x [mm]"`` into a name and a unit, which may be ""."""
    begin = _first_of(field, _OPENING)
    if begin < 0 or field[-1] not in _CLOSING:
        return field, ""
    return field[:begin].rstrip(), field[begin + 1 : -1].strip()


def _first_of(text: str, marks: str) -> int:
    """Index of the first of some marks in a text, -1 where it has none."""
    found = [place for mark in marks if (place := text.find(mark)) >= 0]
    return min(found, default=-1)


def spaced_names(text: str) -> list[str]:
    """Split names between white space, as ``t (s)  force [kN / m]``; brackets may hold some."""
    parts: list[list[str]] = []
    inside = False
    for word in text.split():
        if inside or (parts and word[0] in _OPENING):
            parts[-1].append(word)
        else:
            parts.append([word])
        opened, closed = (max(map(word.rfind, marks)) for marks in (_OPENING, _CLOSING))
        inside = opened > closed if opened != closed else inside
    return text.split() if inside else [" ".join(words) for words in parts]


def is_number(field: str, decimal: str = ".") -> bool:
    """True if a column holds a number, or the mark of a missing one."""
    return is_missing(field) or _written(_pointed(field, decimal))


def is_missing(field: str) -> bool:
    """True if a column holds the mark of a missing number."""
    return len(field) <= _LONGEST_MARK and field.lower() in MISSING


def _written(point: str) -> bool:
    """True if a text is a number: float() alone would take underscores and other digits."""
    if not point or len(point) > _LONGEST_NUMBER or not _NUMERALS.issuperset(point):
        return False
    try:
        float(point)
    except ValueError:
        return False
    return True


def read_number(field: str, decimal: str = ".") -> float:
    """Return the number that a column holds, NaN for the mark of a missing one.

    Raises `BadLineError` if it holds anything else.
    """
    field = field.strip()
    if is_missing(field):
        return float("nan")
    point = _pointed(field, decimal)
    if not _written(point):
        raise BadLineError(f"{shown(field)} is not a number")
    return float(point)


def _pointed(field: str, decimal: str) -> str:
    """A number with a decimal point; one that has a point beside another decimal mark is none."""
    return field if decimal == "." else field.replace(".", "?").replace(decimal, ".")


def is_value(text: str, decimal: str) -> bool:
    """True if a column holds a number, the mark of a missing one, or a date."""
    return is_number(text, decimal) or is_date(text)


def is_date(text: str) -> bool:
    """True if a column holds a date or a time of the day."""
    try:
        return text[:1].isdigit() and bool(read_date(text))
    except ValueError:
        return False


def read_date(text: str) -> datetime:
    """Return a date, or a time of the day, in universal time where it names a zone.

    Raises `ValueError` if it is none.
    """
    moment = datetime.fromisoformat(_iso(text.strip()))
    try:
        return moment if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text} is beyond the calendar") from error


def _iso(text: str) -> str:
    """A date as ISO 8601 has it, of one that loggers write, or of a time of the day alone."""
    if len(text) > _LONGEST_DATE:
        raise ValueError("it is too long for a date")
    day, mark, clock = text.partition("T" if "T" in text else " ")
    if ":" in day:
        day, mark, clock = str(DAY), " ", text
    hour = "0" if clock[1:2] == ":" else ""
    return _iso_day(day) + mark + hour + clock


def _iso_day(text: str) -> str:
    """A day as ISO 8601 has it, of ``31.1.2026``, ``2026/01/31`` or ``01/31/2026``."""
    dots, strokes = text.split("."), text.split("/")
    parts = dots if len(dots) == 3 else strokes
    if len(parts) != 3:
        return text
    if len(parts[0]) == 4:
        year, month, day = parts
    else:
        day, month, year = parts
        if parts is strokes and int(month) > 12:
            day, month = month, day
        elif parts is strokes and int(day) <= 12 and int(day) != int(month):
            raise ValueError("day and month may each be first")
    return f"{year}-{month:0>2}-{day:0>2}"


def kind_of(moment: datetime) -> str:
    """Kind of a date: nobody knows the time between two of different kinds."""
    if moment.tzinfo is not None:
        return "a date with a zone"
    return "a time of the day" if moment.date() == DAY else "a date"
