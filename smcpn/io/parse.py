"""Samples in lines of text: columns or JSON, from a stream.

Bytes are cut into lines of bounded length (`LineSplitter`), and a `LineParser` makes a `Sample` of
each. A line that is no sample is reported and skipped. Whole files are read by `table`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from smcpn.errors import InputError, shown
from smcpn.io.channels import Channels, Kind, Moment, Sample, Slot, converted
from smcpn.io.csv_lines import CsvLines
from smcpn.io.fields import COMMENT, LONGEST, BadLineError


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
        times: list[Moment] = []
        for name, value in content.items():
            if isinstance(value, str) and self._channels.slots.get(name) == ("t", 0):
                times.append(self._channels.moment(value))
            else:
                self._take(values, name, value)
        stated: set[Slot] = {*values, *([("t", 0)] if times else [])}
        missing = self._channels.missing_from(stated)
        if missing and stated and not self._begun and self._channels.configured:
            raise InputError(
                f"the first line ({shown(text)}) names {missing}: {self._channels.remedy}"
            )
        if missing:
            raise BadLineError(missing)
        self._begun = True
        return self._channels.sample(
            number, converted(values, self._conversions), times[-1] if times else None
        )

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


_BYTE_ORDER_MARK = "\ufeff"

FORMATS = ("csv", "json")


@dataclass(frozen=True)
class StreamFormat:
    """Configuration of the form of a stream's lines.

    Attributes
    ----------
    channels : Channels
    columns : list of str, optional
        Names of the columns of CSV, instead of a line of names.
    delimiter, decimal : str, optional
        Separator of columns of CSV, and decimal mark of its numbers; guessed if left out.
    """

    channels: Channels
    columns: list[str] | None = None
    delimiter: str | None = None
    decimal: str | None = None


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
    delimiter, decimal : str, optional
        Separator of columns of CSV, and decimal mark of its numbers; guessed if left out.

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
        found, self._csv.told = self._csv.told, []
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
