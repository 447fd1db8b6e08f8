"""Bytes to lines: numbered, of bounded length, and never half of one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
    """Cut chunks of bytes at newlines (LF or CR LF)."""

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
        """Return what has begun and will not be completed, and begin anew."""
        if not self._rest and not self._too_long:
            return None
        text, self._rest = self._rest, b""
        return self._line(text, cut=True)

    def _line(self, text: bytes, cut: bool = False) -> Line:
        self._number += 1
        too_long = self._too_long or len(text) > self._longest
        self._too_long = False
        return Line(self._number, text[: self._longest].removesuffix(b"\r"), too_long, cut)
