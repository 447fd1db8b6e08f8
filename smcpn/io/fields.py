"""Fields of a line of text: numbers, dates, names with units."""

from __future__ import annotations

import csv
import re
from datetime import UTC, date, datetime

from smcpn.errors import shown

LONGEST = 65536
"""Bytes of the longest line that is read; a garbled source may never send a newline."""
COMMENT = "#"
MISSING = frozenset(
    {"", "-", "--", "---", "nan", "-nan", "na", "n/a", "#n/a", "null", "none", "missing"}
)
"""Texts of a missing number, in either case."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_UNIT = re.compile(r"\s*[\[(](?P<unit>.*)[\])]$")
DAY = date(1970, 1, 1)
"""Of a time of the day."""
DATES = "seconds, or dates as 2026-01-31 12:00:00.5"
"""What a time may be."""


class BadLineError(ValueError):
    """A line that is no sample; the message says why."""


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


def is_value(text: str, decimal: str) -> bool:
    """Whether a column holds a number, the mark of a missing one, or a date."""
    return is_number(text, decimal) or is_date(text)


def is_date(text: str) -> bool:
    """Whether a column holds a date or a time of the day."""
    try:
        return text[:1].isdigit() and bool(read_date(text))
    except ValueError:
        return False


def read_date(text: str) -> datetime:
    """Return a date, or a time of the day, in universal time where it names a zone.

    Raises
    ------
    ValueError
        If it is none.
    """
    text = text.strip()
    moment = datetime.fromisoformat(f"{DAY} {text}" if text[2:3] == ":" else text)
    try:
        return moment if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text} is beyond the calendar") from error


def kind_of(moment: datetime) -> str:
    """What a date is: nobody knows the time between two of different kinds."""
    if moment.tzinfo is not None:
        return "a date with a zone"
    return "a time of the day" if moment.date() == DAY else "a date"
