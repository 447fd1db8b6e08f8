"""Absolute names of files, and files that appear whole or not at all.

A new file has a name that nobody can foresee and takes its place by being renamed: what stands
there, were it a symbolic link, is replaced and never written through.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
from os import PathLike
from pathlib import Path
from typing import Any

from smcpn.errors import InputError, shown

TOKEN_BYTES = 4
COMPANION_BYTES = 32
"""Bytes that the names of files beside a file are longer than its own, at most."""
_USUAL_LONGEST = 255
_EXCLUSIVE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_FLAGS = _EXCLUSIVE | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def file_path(argument: str, value: Any) -> Path:
    """Return the absolute path of a file, so that a later change of the folder does not matter.

    Raises
    ------
    InputError
        If the value is no name of a file, or one too long for the files beside it.
    """
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


def written_beside(path: Path, content: bytes) -> Path:
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
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        remove_quietly(temporary)
        raise
    return temporary


def put(path: Path, content: bytes) -> None:
    """Put a file in place of one of this name, whole or not at all.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    temporary = written_beside(path, content)
    try:
        temporary.replace(path)
    except BaseException:
        remove_quietly(temporary)
        raise


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
    """Whether there is a file of this name that is no link, folder, pipe or device."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def remove_quietly(path: Path) -> None:
    """Remove a file where that is possible."""
    with contextlib.suppress(OSError):
        path.unlink()
