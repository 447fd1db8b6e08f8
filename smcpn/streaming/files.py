"""Bytes of a file, of a growing file, and of standard input."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event as Flag
from typing import BinaryIO

from smcpn.errors import InputError
from smcpn.streaming.events import Event
from smcpn.streaming.source import Break, Position, Receipt

CHUNK = 65536
POLL_SECONDS = 0.1


class File:
    """A file or a named pipe, from its beginning to its end.

    Parameters
    ----------
    path : path

    Raises
    ------
    InputError
        If there is none.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        if not self._path.exists() or self._path.is_dir():
            raise InputError(f"'{path}' is no file: correct the name, or --follow waits for it")
        self.name = str(path)
        self.replays = self._path.is_file()

    def read(self, stop: Flag, position: Position) -> Iterator[bytes]:
        """See `ByteSource.read`."""
        with _opened(self._path) as file:
            while not stop.is_set() and (chunk := file.read(CHUNK)):
                yield chunk


class FollowedFile:
    """A file that grows, as ``tail -F`` reads it: it never ends.

    A file cut short is read again from its beginning; one that is replaced is read to its end,
    then the new one. Both are reported.

    Parameters
    ----------
    path : path
        It need not exist yet.

    Raises
    ------
    InputError
        If it exists and is no regular file.
    """

    replays = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path, self.name = Path(path), str(path)
        if self._path.exists() and not self._path.is_file():
            raise InputError(f"'{path}' is no regular file: it cannot be followed")

    def read(self, stop: Flag, position: Position) -> Iterator[bytes | Event | Receipt | Break]:
        """See `ByteSource.read`."""
        while self._wait(stop):
            with _opened(self._path) as file:
                yield from self._grow(file, stop)
            if not stop.is_set():
                yield from self._restart("was replaced: reading the new file")

    def _grow(self, file: BinaryIO, stop: Flag) -> Iterator[bytes | Event | Break]:
        """Read one file until another has its name."""
        while not stop.is_set():
            # Asked before the read: what is written until the name changes is read too.
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
    """What is piped into the process; a file redirected there is one."""

    name = "standard input"

    def __init__(self) -> None:
        self._descriptor = sys.stdin.fileno()
        self.replays = stat.S_ISREG(os.fstat(self._descriptor).st_mode)

    def read(self, stop: Flag, position: Position) -> Iterator[bytes]:
        """See `ByteSource.read`."""
        # Not sys.stdin.read: a thread that waits in it at exit holds the lock of its buffer.
        while not stop.is_set() and (chunk := os.read(self._descriptor, CHUNK)):
            yield chunk


def _opened(path: Path) -> BinaryIO:
    try:
        return open(path, "rb", buffering=0)
    except OSError as error:
        raise InputError(f"'{path}' cannot be read: {error.strerror}") from error
