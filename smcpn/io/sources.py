"""Sources of samples: Python iterables, files, standard input.

A `Source` yields items in the order they came: samples, events (a bad line, a connection lost) and
receipts. A `ByteSource` yields bytes, of which `Lines` makes samples. A `Reader` reads a source in
a thread of its own, a bounded number of items ahead.
"""

from __future__ import annotations

import os
import queue
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event as Flag
from typing import Any, BinaryIO, Protocol

import numpy as np

from smcpn.errors import InputError, shown
from smcpn.io.channels import Sample
from smcpn.io.events import Event
from smcpn.io.fields import BadLineError
from smcpn.io.parse import Line, LineParser, LineSplitter


@dataclass(slots=True)
class Position:
    """The last time and number that a source has read, for a server that is willing to resume.

    t: Largest time read.
    number: Largest sequence number read.
    """

    t: float | None = None
    number: int | None = None

    def count(self, sample: Sample) -> None:
        """Count a sample as read."""
        if sample.t is not None:
            self.t = sample.t if self.t is None else max(self.t, sample.t)
        if sample.number is not None:
            known = self.number
            self.number = sample.number if known is None else max(known, sample.number)


@dataclass(frozen=True, slots=True)
class Receipt:
    """A call to make once every sample before it is assimilated: a broker may then forget them."""

    acknowledge: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Break:
    """The bytes that follow do not continue those before.

    lossy: Lines may be missing, or come again.
    """

    lossy: bool


Item = Sample | Event | Receipt


class Source(Protocol):
    """A sequence of samples, events and receipts in the order they came.

    name: For messages.
    replays: It begins with its first sample whenever it is opened.
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
    """A sequence of chunks of bytes, and events; `Lines` makes samples of them."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def replays(self) -> bool: ...  # noqa: D102

    def read(self, stop: Flag, position: Position) -> Iterator[bytes | Event | Receipt | Break]:
        """Yield bytes and what happens until the source ends or ``stop`` is set."""
        ...


class Lines:
    """Source of the samples in the lines of a byte source.

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
        """Yield items until the source ends or ``stop`` is set."""
        for piece in self._content.read(stop, self.position):
            if isinstance(piece, bytes):
                for line in self._splitter.feed(piece):
                    yield from self._items_of(line)
            elif isinstance(piece, Break):
                yield from self._rest()
                if not piece.lossy:
                    self._parser.begin()
                elif not self._timed:
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
        for kind, message in self._parser.told():
            yield Event(kind, message, line=line.number)
        if sample is not None:
            self._timed = sample.timed
            self.position.count(sample)
            yield sample


class Samples:
    """Source of the samples of a Python iterable: ``(u, y)``, ``(t, u, y)`` or `Sample` objects.

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
        """Yield items until the source ends or ``stop`` is set."""
        for place, given in enumerate(self._iterable, 1):
            if stop.is_set():
                return
            try:
                sample = given if isinstance(given, Sample) else _sample(place, *given)
            except (TypeError, ValueError) as error:
                message = f"{error}, skipped: {shown(given)}"
                yield Event("bad-line", message, line=place)
                continue
            self.position.count(sample)
            yield sample


def _sample(place: int, *given: Any) -> Sample:
    if len(given) not in (2, 3):
        raise ValueError(f"{len(given)} entries: give (u, y) or (t, u, y)")
    t = float(given[0]) if len(given) == 3 else None
    u, y = (np.atleast_1d(np.asarray(value, dtype=float)) for value in given[-2:])
    if not np.isfinite(u).all() or np.isinf(y).any() or (t is not None and not np.isfinite(t)):
        raise ValueError("a time or an input that is not finite, or an infinite output")
    return Sample(place, t, u, y)


AHEAD = 1024
"""Most items read ahead. A reader that is this far ahead stops reading: a pipe or a TCP connection
then holds its sender back, and no sample is dropped."""
_POLL_SECONDS = 0.1


class Reader:
    """Reads a source in a thread of its own.

    ahead: Most items that wait.
    """

    def __init__(self, source: Source, ahead: int = AHEAD) -> None:
        self._source = source
        self._items: queue.Queue[Item | None] = queue.Queue(maxsize=ahead)
        self._stop = threading.Event()
        self._failure: Exception | None = None
        # A daemon: a read from standard input cannot be interrupted.
        self._thread = threading.Thread(target=self._read, name="smcpn-source", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Items read and not yet taken."""
        return self._items.qsize()

    def take(self) -> Item | None:
        """Return the next item, or None where none has come for a tenth of a second.

        Raises
        ------
        EOFError
            At the end of the source.
        Exception
            What reading raised.
        """
        try:
            item = self._items.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            return None
        if item is not None:
            return item
        if self._failure is not None:
            raise self._failure
        raise EOFError

    def close(self) -> None:
        """Stop reading; what waits is left where it is."""
        self._stop.set()
        self._thread.join(timeout=1.0)

    def _read(self) -> None:
        try:
            for item in self._source.items(self._stop):
                if not self._put(item):
                    return
        except Exception as error:
            self._failure = error
        self._put(None)

    def _put(self, item: Item | None) -> bool:
        """Put an item once the queue takes it; False where reading was stopped."""
        while not self._stop.is_set():
            try:
                self._items.put(item, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return True
        return False


CHUNK = 65536
POLL_SECONDS = 0.1


class File:
    """A file or a named pipe, from its beginning to its end.

    Raises `InputError` if there is none.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        if not self._path.exists() or self._path.is_dir():
            raise InputError(f"'{path}' is no file: correct the name, or --follow waits for it")
        self.name = str(path)
        self.replays = self._path.is_file()

    def read(self, stop: Flag, position: Position) -> Iterator[bytes]:
        """Yield bytes and what happens until the source ends or ``stop`` is set."""
        with _opened(self._path) as file:
            while not stop.is_set() and (chunk := file.read(CHUNK)):
                yield chunk


class FollowedFile:
    """A file that grows, as ``tail -F`` reads it: it never ends.

    A file cut short is read again from its beginning; one that is replaced is read to its end,
    then the new one. Both are reported.

    Raises `InputError` if it exists and is no regular file.

    path: It need not exist yet.
    """

    replays = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path, self.name = Path(path), str(path)
        if self._path.exists() and not self._path.is_file():
            raise InputError(f"'{path}' is no regular file: it cannot be followed")

    def read(self, stop: Flag, position: Position) -> Iterator[bytes | Event | Receipt | Break]:
        """Yield bytes and what happens until the source ends or ``stop`` is set."""
        while self._wait(stop):
            with _opened(self._path) as file:
                yield from self._grow(file, stop)
            if not stop.is_set():
                yield from self._restart("was replaced: reading the new file")

    def _grow(self, file: BinaryIO, stop: Flag) -> Iterator[bytes | Event | Break]:
        """Read one file until another has its name."""
        while not stop.is_set():
            # Checked before the read: what is written until the name changes is read too.
            replaced = self._replaced(file)
            if chunk := file.read(CHUNK):
                yield chunk
            elif replaced:
                return
            elif os.fstat(file.fileno()).st_size < file.tell():
                file.seek(0)
                yield from self._restart("was cut short: reading it from its beginning")
            else:
                stop.wait(POLL_SECONDS)

    def _replaced(self, file: BinaryIO) -> bool:
        try:
            return not os.path.samestat(self._path.stat(), os.fstat(file.fileno()))
        except FileNotFoundError:
            return False

    def _wait(self, stop: Flag) -> bool:
        """Wait for the file; whether it has come."""
        while not stop.is_set():
            if self._path.exists():
                return True
            stop.wait(POLL_SECONDS)
        return False

    def _restart(self, what: str) -> Iterator[Event | Break]:
        yield Break(lossy=False)
        yield Event("restarted", f"'{self.name}' {what}")


class StandardInput:
    """Standard input: a pipe, or a file redirected there, which replays."""

    name = "standard input"

    def __init__(self) -> None:
        self._descriptor = sys.stdin.fileno()
        self.replays = stat.S_ISREG(os.fstat(self._descriptor).st_mode)

    def read(self, stop: Flag, position: Position) -> Iterator[bytes]:
        """Yield bytes and what happens until the source ends or ``stop`` is set."""
        # Not sys.stdin.read: a thread that waits in it at exit holds the lock of its buffer.
        while not stop.is_set() and (chunk := os.read(self._descriptor, CHUNK)):
            yield chunk


def _opened(path: Path) -> BinaryIO:
    try:
        return open(path, "rb", buffering=0)
    except OSError as error:
        raise InputError(f"'{path}' cannot be read: {error.strerror}") from error
