"""Samples as comma-separated numbers."""

from __future__ import annotations

import csv
import re

from smcpn.arguments import shown
from smcpn.errors import InputError
from smcpn.streaming.channels import BadLineError, Channels, Slot
from smcpn.streaming.sample import Sample

MISSING = frozenset({"", "nan", "na", "null", "none"})
"""Texts of a missing number, in either case."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_WORD = re.compile(r"[A-Za-z_]\w*'?( *[\[(].*[\])])?", re.ASCII)
_UNIT = re.compile(r"\s*[\[(](?P<unit>.*)[\])]$")


class CsvLines:
    """Read lines of comma-separated numbers.

    A line of words that names the columns says which is which, wherever it comes: files may be
    strung together. Other columns are passed over, and a unit in brackets too. Without such a
    line the columns are the inputs and then the outputs in the problem's order, with the time
    before them where there is one column more.

    Parameters
    ----------
    channels : Channels
    columns : sequence of str, optional
        Names instead of a header.
    delimiter, decimal : str
        What stands between columns, and before the decimals of a number.

    Raises
    ------
    InputError
        If ``columns`` lacks an input.
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
            return self._header(fields)
        layout = self._layout or self._in_order(fields)
        if len(fields) != len(layout):
            raise BadLineError(f"{len(fields)} columns instead of {len(layout)}")
        values = {
            slot: _number(field, self._decimal)
            for slot, field in zip(layout, fields, strict=True)
            if slot is not None
        }
        sample = self._channels.sample(number, values)
        self._layout = layout
        return sample

    def _names_columns(self, fields: list[str]) -> bool:
        least = len(self._channels.inputs) + 1
        words = all(_WORD.fullmatch(field) for field in fields)
        return len(fields) >= least and words and not all(f.lower() in MISSING for f in fields)

    def _header(self, fields: list[str]) -> None:
        try:
            self._layout = self._named(fields, "the header")
        except InputError as error:
            if self._layout is None:
                # Read by order, columns of other names would be taken for those of the problem.
                raise
            raise BadLineError("words instead of numbers") from error

    def _named(self, fields: list[str], where: str) -> list[Slot | None]:
        layout = [self._channels.slots.get(split_unit(field)[0]) for field in fields]
        known = [slot for slot in layout if slot is not None]
        missing = self._channels.missing_from(set(known))
        if missing:
            raise InputError(
                f"{where} ({shown(','.join(fields))}) names {missing}: name every column by its "
                "input, output or t"
            )
        if len(set(known)) < len(known):
            raise InputError(f"{where} ({shown(','.join(fields))}) names a column twice")
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
    return field.lower() in MISSING or bool(_NUMBER.fullmatch(field.replace(decimal, ".")))


def _number(field: str, decimal: str) -> float:
    if field.lower() in MISSING:
        return float("nan")
    point = field if decimal == "." else field.replace(decimal, ".")
    # float() would read underscores and digits of other scripts.
    if not _NUMBER.fullmatch(point):
        raise BadLineError(f"{shown(field)} is not a number")
    return float(point)
