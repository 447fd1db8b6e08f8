"""What a source is: items in the order they came."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from threading import Event as Flag
from typing import Any, Protocol

import numpy as np

from smcpn.arguments import shown
from smcpn.streaming.channels import BadLineError
from smcpn.streaming.events import Event
from smcpn.streaming.formats import LineParser
from smcpn.streaming.lines import Line, LineSplitter
from smcpn.streaming.sample import Sample


@dataclass(slots=True)
class Position:
    """Where a source has got to: what it may tell a server that is willing to resume.

    Attributes
    ----------
    t : float, optional
        Largest time read.
    number : int, optional
        Largest sequence number read.
    """

    t: float | None = None
    number: int | None = None

    def advance(self, sample: Sample) -> None:
        """Count a sample as read."""
        if sample.t is not None:
            self.t = sample.t if self.t is None else max(self.t, sample.t)
        if sample.number is not None:
            known = self.number
            self.number = sample.number if known is None else max(known, sample.number)


@dataclass(frozen=True, slots=True)
class Receipt:
    """Called once every sample before it is absorbed: a broker may then forget them."""

    acknowledge: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Break:
    """The bytes that follow do not continue those before.

    Attributes
    ----------
    lossy : bool
        Lines may be missing, or come again.
    """

    lossy: bool


Item = Sample | Event | Receipt


class Source(Protocol):
    """Where samples come from.

    Attributes
    ----------
    name : str
        For messages.
    replays : bool
        It begins with its first sample whenever it is opened.
    position : Position
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def replays(self) -> bool: ...  # noqa: D102
    @property
    def position(self) -> Position: ...  # noqa: D102

    def items(self, stop: Flag) -> Iterator[Item]:
        """Yield items until the source ends or ``stop`` is set."""
        ...


class ByteSource(Protocol):
    """Where bytes come from; `Lines` makes samples of them."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def replays(self) -> bool: ...  # noqa: D102

    def read(self, stop: Flag, position: Position) -> Iterator[bytes | Event | Receipt | Break]:
        """Yield bytes and what happens until the source ends or ``stop`` is set."""
        ...


class Lines:
    """The samples in the lines of a byte source.

    Parameters
    ----------
    content : ByteSource
    parser : LineParser
    """

    def __init__(self, content: ByteSource, parser: LineParser) -> None:
        self._content, self._parser = content, parser
        self._splitter = LineSplitter()
        self._timed = True
        self.name, self.replays = content.name, content.replays
        self.position = Position()

    def items(self, stop: Flag) -> Iterator[Item]:
        """See `Source.items`."""
        for piece in self._content.read(stop, self.position):
            if isinstance(piece, bytes):
                for line in self._splitter.feed(piece):
                    yield from self._items_of(line)
            elif isinstance(piece, Break):
                yield from self._rest()
                if piece.lossy and not self._timed:
                    yield Event("untimed", "the lines state no time: lost or doubled ones are "
                                "not recognised after a reconnection")  # fmt: skip
            else:
                yield piece
        yield from self._rest()

    def _rest(self) -> Iterator[Item]:
        line = self._splitter.cut()
        if line is not None:
            yield from self._items_of(line)

    def _items_of(self, line: Line) -> Iterator[Item]:
        try:
            sample = self._parser.parse(line)
        except BadLineError as error:
            begin = line.text.decode("utf-8", "replace")
            yield Event("bad-line", f"{error}, skipped: {shown(begin)}", line=line.number)
            return
        if sample is not None:
            self._timed = sample.t is not None or sample.number is not None
            self.position.advance(sample)
            yield sample


class Samples:
    """The samples of a Python iterable: ``(u, y)``, ``(t, u, y)`` or `Sample` objects.

    Parameters
    ----------
    iterable : iterable
    replays : bool
        It begins with the first sample of the experiment, also when a run is resumed.
    """

    name = "iterator"

    def __init__(self, iterable: Iterable[Any], replays: bool = False) -> None:
        self._iterable, self.replays = iterable, replays
        self.position = Position()

    def items(self, stop: Flag) -> Iterator[Item]:
        """See `Source.items`."""
        for place, given in enumerate(self._iterable, 1):
            if stop.is_set():
                return
            try:
                sample = given if isinstance(given, Sample) else _sample(place, *given)
            except (TypeError, ValueError) as error:
                message = f"{error}, skipped: {shown(given)}"
                yield Event("bad-line", message, line=place)
                continue
            self.position.advance(sample)
            yield sample


def _sample(place: int, *given: Any) -> Sample:
    if len(given) not in (2, 3):
        raise ValueError(f"{len(given)} entries: give (u, y) or (t, u, y)")
    t = float(given[0]) if len(given) == 3 else None
    u, y = (np.atleast_1d(np.asarray(value, dtype=float)) for value in given[-2:])
    if not np.isfinite(u).all() or np.isinf(y).any() or (t is not None and not np.isfinite(t)):
        raise ValueError("a time or an input that is not finite, or an infinite output")
    return Sample(place, t, u, y)
