"""What the lines are written in."""

from __future__ import annotations

from collections.abc import Callable

from smcpn.errors import InputError
from smcpn.streaming.channels import BadLineError, Channels
from smcpn.streaming.csv_lines import CsvLines
from smcpn.streaming.json_lines import JsonLines
from smcpn.streaming.lines import LONGEST, Line
from smcpn.streaming.sample import Sample

COMMENT = "#"
_BYTE_ORDER_MARK = "\ufeff"

Parse = Callable[[int, str], Sample | None]
"""Number and text of a line to its sample; None for a line that names the columns."""

FORMATS = ("csv", "json")


class LineParser:
    """Read lines of either format.

    Without ``format`` a line that begins with a brace is JSON, any other one CSV. Empty lines and
    comments (``#``) hold nothing.

    Parameters
    ----------
    channels : Channels
    format : {"csv", "json"}, optional
    columns : sequence of str, optional
        Names of the columns of CSV, instead of a header.

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
    ) -> None:
        if format not in (None, *FORMATS):
            raise InputError(f"format is '{format}': choose one of {', '.join(FORMATS)}")
        self._format = format
        self._csv = CsvLines(channels, columns).parse
        self._json = JsonLines(channels).parse

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
        parse: Parse = self._json if as_json else self._csv
        return parse(line.number, text)
