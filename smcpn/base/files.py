"""Absolute names of files, and files that appear whole or not at all.

A new file has a name that nobody can foresee and takes its place by being renamed. `put` replaces
what stands there, were it a symbolic link, and never writes through it: for files of smcpn's own
names. `write_output` is for files that a user names: it leaves links, devices and pipes in place
and writes into them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from smcpn.errors import InputError, shown

TOKEN_BYTES = 4
COMPANION_BYTES = 32
"""Bytes that the names of files beside a file are longer than its own, at most."""
_USUAL_LONGEST = 255
_EXCLUSIVE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_BINARY = getattr(os, "O_BINARY", 0)
_FLAGS = _EXCLUSIVE | getattr(os, "O_NOFOLLOW", 0) | _BINARY
_AT_ONCE = getattr(os, "O_NONBLOCK", 0)
_INTO = os.O_WRONLY | os.O_CREAT | _AT_ONCE | _BINARY


def file_path(argument: str, value: Any) -> Path:
    """Return the absolute path of a file, so that a later change of the folder does not matter."""
    text = os.fspath(value) if isinstance(value, (str, PathLike)) else None
    if isinstance(text, str) and text.strip() and "\0" not in text:
        with contextlib.suppress(OSError, UnicodeError):
            path = Path(os.path.abspath(text))
            _require_short(path)
            with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                path.lstat()
            if path.name:
                return path
    raise InputError(f"{argument} is {shown(value)}: give the name of a file", argument=argument)


def _require_short(path: Path) -> None:
    """Refuse a name that leaves no room for those of the files beside it."""
    longest = _USUAL_LONGEST
    with contextlib.suppress(OSError, AttributeError):
        longest = os.pathconf(path.parent, "PC_NAME_MAX")
    size, most = len(os.fsencode(path.name)), longest - COMPANION_BYTES
    if size > most:
        raise InputError(
            f"the name {shown(path.name)} has {size} bytes: choose one of at most {most}, for the "
            "files beside it have longer ones"
        )


def beside(path: Path, suffix: str) -> Path:
    """Return a name beside a file that nobody can foresee: ``run.h5.0123abcd.new``."""
    return path.with_name(f"{path.name}.{secrets.token_hex(TOKEN_BYTES)}.{suffix}")


def written_beside(path: Path, content: bytes, mode: int | None = None) -> Path:
    """Write a new file beside a path, synchronised, and return its name; its mode is the umask's.

    Raises
    ------
    OSError
        If it cannot be written; nothing is left then.
    """
    temporary = beside(path, "new")
    descriptor = os.open(temporary, _FLAGS, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if mode is not None:
                os.chmod(temporary, mode)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        remove_quietly(temporary)
        raise
    return temporary


def put(path: Path, content: bytes, mode: int | None = None) -> None:
    """Put a file in place of one of this name, whole or not at all.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    temporary = written_beside(path, content, mode)
    try:
        temporary.replace(path)
    except BaseException:
        remove_quietly(temporary)
        raise


def write_output(path: Path, content: bytes) -> None:
    """Write a file that a user named, or into the device, the pipe or the target of a link there.

    A regular file appears whole or not at all, and keeps its mode; one of several names keeps them.
    """
    try:
        there = path.lstat() if os.path.lexists(path) else None
        if there is None:
            put(path, content)
        elif _is_whole(there) and os.access(path, os.W_OK):
            put(path, content, there.st_mode & 0o777)
        else:
            with opened_output(path) as file:
                file.write(content)
    except OSError as error:
        raise _unwritten(path, error) from None


def write_outputs(
    folder: Path, contents: Mapping[str, bytes], own: Callable[[bytes], bool]
) -> None:
    """Write files of given names, which the user did not name, into a folder, made where none is.

    contents: By name of the file.
    own: Whether the content of an existing file is smcpn's own, which may be replaced.
    """
    for name in contents:
        _require_own(folder / name, own)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritten(folder, error) from None
    for name, content in contents.items():
        write_output(folder / name, content)


def _require_own(path: Path, own: Callable[[bytes], bool]) -> None:
    try:
        foreign = os.path.lexists(path) and not (path.is_file() and own(path.read_bytes()))
    except OSError as error:
        raise _unwritten(path, error) from None
    if foreign:
        raise InputError(
            f"{path} is there and was not written by smcpn: it is not overwritten, so name another "
            "folder, or move it away"
        )


def opened_output(path: Path, append: bool = False) -> BinaryIO:
    """Open a file that a user named, what a link leads to, a device or a pipe, for writing.

    Raises
    ------
    OSError
        If it cannot be written, as a folder, a disk or a pipe that nobody reads, which would be
        waited for for ever.
    """
    descriptor = os.open(path, _INTO | (os.O_APPEND if append else 0), 0o666)
    try:
        mode = os.fstat(descriptor).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)):
            raise OSError(errno.EINVAL, "it is no file, pipe or terminal")
        if stat.S_ISREG(mode) and not append:
            os.ftruncate(descriptor, 0)
        if _AT_ONCE:
            os.set_blocking(descriptor, True)
        return os.fdopen(descriptor, "ab" if append else "wb")
    except BaseException:
        os.close(descriptor)
        raise


def _is_whole(there: os.stat_result) -> bool:
    """True if it is a regular file of a single name."""
    return stat.S_ISREG(there.st_mode) and there.st_nlink == 1


def _unwritten(path: Path, error: OSError) -> InputError:
    return InputError(f"{path} cannot be written: {reason_of(error)}")


def reason_of(error: OSError) -> str:
    """Return why an output could not be opened or written."""
    if error.errno == errno.ENXIO:
        return "nobody reads from it, start its reader first"
    return error.strerror or str(error)


def left_beside(path: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Return the plain files whose names `beside` made for a path, as a killed process leaves."""
    endings = "|".join(map(re.escape, suffixes))
    own = re.compile(rf"{re.escape(path.name)}\.[0-9a-f]{{{2 * TOKEN_BYTES}}}\.({endings})")
    found: list[Path] = []
    with contextlib.suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            if own.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                found.append(path.parent / entry.name)
    return found


def is_plain(path: Path) -> bool:
    """True if there is a file of this name that is no link, folder, pipe or device."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def remove_quietly(path: Path) -> None:
    """Remove a file where that is possible."""
    with contextlib.suppress(OSError):
        path.unlink()
