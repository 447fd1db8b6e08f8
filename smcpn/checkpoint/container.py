"""Write and read a plain HDF5 file atomically, behind a header with its checksum.

The first 512 bytes, which HDF5 leaves to the user, hold three lines of text: the kind of the file,
the SHA-256 of all that follows, and its length. Readers of HDF5 (h5py, MATLAB, Julia) skip them.

A file is written under another name, synchronised and renamed; its last version is kept
as ``run.h5.previous``, and ``run.h5.lock`` keeps other processes from writing it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import h5py
import numpy as np
from filelock import FileLock, Timeout

from smcpn.base.files import (
    beside,
    is_plain,
    left_beside,
    remove_quietly,
    written_beside,
)
from smcpn.errors import InputError
from smcpn.io.hdf5_subset import Group, NotPlainError, read_plain

RUN, RECORDS, STREAM, NESTED, POSTERIOR, DISCOVERY = KINDS = (
    "smcpn checkpoint",
    "smcpn records",
    "smcpn stream",
    "smcpn nested filter",
    "smcpn posterior",
    "smcpn discovery",
)
"""Kinds of files: the first line of the header."""
FORMAT_VERSION = 6
READ_SINCE = {POSTERIOR: 4}
"""The first format version that is read, by kind, of results; runs go on in their own only."""
HEADER_BYTES = 512
PREVIOUS = ".previous"
"""Suffix of the version before the last."""
LOCK = ".lock"
DAMAGED = "the file is damaged, or was not written by smcpn"

_AT_ONCE = getattr(os, "O_NONBLOCK", 0)

T = TypeVar("T")


class DamagedFileError(InputError):
    """A file does not hold what was written."""


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written, or is damaged and its previous version is used."""


def image(kind: str, fill: Callable[[h5py.File], None], onto: bytes = b"") -> bytes:
    """Return the bytes of a file.

    ``fill`` writes groups, arrays and texts of fixed length, which `smcpn.io.hdf5_subset` can read.
    ``onto`` is another image to add to, which is not changed: what many versions have in common.
    """
    with _in_memory(onto) as file:
        file.attrs["format"], file.attrs["format_version"] = np.bytes_(kind), FORMAT_VERSION
        fill(file)
        file.flush()
        body = file.id.get_file_image()
    return _header(kind, body) + body


def _in_memory(written: bytes) -> h5py.File:
    """Open a new file, or one that was written here, in the oldest form of the format."""
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_fapl_core(backing_store=False)
    access.set_libver_bounds(h5py.h5f.LIBVER_EARLIEST, h5py.h5f.LIBVER_LATEST)
    if written:
        access.set_file_image(written)
        return h5py.File(h5py.h5f.open(b"image", h5py.h5f.ACC_RDWR, access))
    creation = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    creation.set_userblock(HEADER_BYTES)
    return h5py.File(h5py.h5f.create(b"image", h5py.h5f.ACC_TRUNC, creation, access))


def _header(kind: str, body: bytes) -> bytes:
    digest = hashlib.sha256(body).hexdigest()
    return f"{kind}\nsha256 {digest}\nbytes {len(body)}\n".encode().ljust(HEADER_BYTES, b"\0")


# Writing


def publish(path: Path, content: bytes) -> None:
    """Put a file in place of its last version, which becomes the previous one.

    Whatever happens on the way, a process killed or a full disk, there is a whole file of this
    name if there was one before. The caller holds the `lock`.

    Raises `OSError` if the folder cannot be written or the disk is full.
    """
    temporary = written_beside(path, content)
    try:
        _keep_previous(path)
        temporary.replace(path)
    except OSError:
        remove_quietly(temporary)
        raise
    _sync_folder(path.parent)


def save(path: Path, kind: str, content: bytes) -> None:
    """Publish a file under its lock, within a `lock` of this process or without one.

    Raises `InputError` if it cannot be written, another process holds the lock, or a file of this
    name is of another kind.
    """
    path = Path(os.path.abspath(path))
    with nullcontext() if str(path) in _LOCKED else _file_lock(path):
        found = kind_of(path)
        if found not in (None, "", kind):
            raise InputError(
                f"{path} is no {kind}, or damaged, and is not overwritten: choose another file"
            )
        try:
            publish(path, content)
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror or error}") from None


_LOCKED: set[str] = set()
"""Absolute paths for which this process is within a `lock`."""


@contextmanager
def lock(path: Path) -> Generator[None]:
    """Lock a file for writing by this process; the lock ends with the process at the latest.

    What a killed process left beside it is removed.

    Raises
    ------
    InputError
        If another process holds it, or a file beside it is not of this package.

    Warns
    -----
    CheckpointWarning
        If no lock can be had here.
    """
    path = Path(os.path.abspath(path))
    with _file_lock(path):
        _LOCKED.add(str(path))
        try:
            yield
        finally:
            _LOCKED.discard(str(path))


@contextmanager
def _file_lock(path: Path) -> Generator[None]:
    name = path.with_name(path.name + LOCK)
    _require_no_links(path, previous_of(path), name)
    file_lock = FileLock(name, timeout=0)
    try:
        file_lock.acquire()
    except Timeout:
        raise InputError(
            f"{path} is in use by another process: wait for it, or choose another file"
        ) from None
    except (OSError, NotImplementedError) as error:
        _tell_unlocked(path, error)
    try:
        _require_own_previous(path)
        remove_left(path)
        yield
    finally:
        file_lock.release()


def _tell_unlocked(path: Path, error: Exception) -> None:
    # Where nothing can be written that is reported when it is tried.
    if os.access(path.parent, os.W_OK):
        why = getattr(error, "strerror", None) or error
        warnings.warn(
            f"{path} cannot be locked ({why}): see to it that no other process writes it",
            CheckpointWarning,
            stacklevel=6,
        )


def _require_no_links(*paths: Path) -> None:
    for path in paths:
        if path.is_symlink():
            raise InputError(
                f"{path} is a symbolic link, which is not written through: name the file itself, "
                "or remove the link"
            )


def _require_own_previous(path: Path) -> None:
    previous = previous_of(path)
    found = kind_of(previous)
    if found not in (None, "", *KINDS):
        raise InputError(
            f"{previous} is no earlier version of {path.name}, or damaged, and is not "
            "overwritten: move it away, or choose another file"
        )


def kind_of(path: Path) -> str | None:
    """Return the kind that a file says it is of, a text not in `KINDS` if of none.

    None where there is no file, "" where it is empty.
    """
    if not is_plain(path):
        return "no plain file" if os.path.lexists(path) else None
    try:
        with path.open("rb") as file:
            begin = file.read(HEADER_BYTES)
    except OSError as error:
        return f"unreadable: {error.strerror or error}"
    said = begin.partition(b"\n")[0].decode("ascii", "replace")
    return said if said in KINDS or not begin else "another"


def remove_left(path: Path) -> None:
    """Remove what a process that was killed while writing a file left beside it."""
    for left in left_beside(path, ("new", "link")):
        if kind_of(left) in ("", *KINDS):
            remove_quietly(left)


def _keep_previous(path: Path) -> None:
    """Keep the file as the previous version, by a hard link; renamed where that is impossible."""
    if not path.exists():
        return
    previous, linked = previous_of(path), beside(path, "link")
    try:
        os.link(path, linked)
    except OSError:
        path.replace(previous)
        return
    try:
        linked.replace(previous)
    except OSError:
        remove_quietly(linked)
        raise


def _sync_folder(folder: Path) -> None:
    """Make the renaming durable; where a folder cannot be opened the system does it in time."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def begun(path: Path) -> bool:
    """True if there is a version of a file that a run or a stream goes on from.

    Raises `InputError` if only the previous one is there. Writing leaves no such state where files
    can have two names: somebody who removed the file may want to begin anew, which cannot be known.
    """
    previous = previous_of(path)
    if not path.exists() and previous.exists():
        raise InputError(
            f"{path} is gone, but its previous version is there: rename {previous.name} to "
            f"{path.name} to go on from it, or remove it to begin anew"
        )
    return path.exists()


def remove(path: Path) -> None:
    """Remove both versions of a file; the caller holds the `lock`.

    Raises `InputError` if the file is not of this package.
    """
    if kind_of(path) not in (None, "", *KINDS):
        raise InputError(
            f"{path} is no file of smcpn, or damaged at its beginning: remove it yourself, or "
            "choose another file"
        )
    path.unlink(missing_ok=True)
    previous_of(path).unlink(missing_ok=True)


# Reading


def exists(path: Path) -> bool:
    """True if there is a version of a file, damaged or not."""
    return os.path.exists(path) or os.path.exists(previous_of(path))


def previous_of(path: Path) -> Path:
    """Return the path of the version before the last."""
    return path.with_name(path.name + PREVIOUS)


def read(path: Path, kind: str, parse: Callable[[Group], T]) -> T:
    """Return what ``parse`` makes of a file, or of its previous version where it is damaged.

    Raises
    ------
    InputError
        If there is no file, or none of this kind and format version that is whole.

    Warns
    -----
    CheckpointWarning
        If the previous version is used.
    """
    if os.path.isdir(path):
        raise InputError(f"{path} is a folder: give the file that a run or a stream wrote")
    if not exists(path):
        raise InputError(f"{path} does not exist: give the file that a run or a stream wrote")
    previous = previous_of(path)
    try:
        return read_version(path, kind, parse)
    except DamagedFileError as damage:
        if not os.path.exists(previous):
            raise
        try:
            found = read_version(previous, kind, parse)
        except InputError as also:
            raise DamagedFileError(f"{damage}; {also}") from None
        written = datetime.fromtimestamp(previous.stat().st_mtime, UTC)
        warnings.warn(
            f"{damage}: its previous version is used, {previous}, "
            f"of {written.isoformat(timespec='seconds')}",
            CheckpointWarning,
            stacklevel=4,
        )
        return found


def read_version(path: Path, kind: str, parse: Callable[[Group], T]) -> T:
    """Return what ``parse`` makes of one file.

    Raises `DamagedFileError` if the file is absent, does not have its checksum, or does not hold
    what it should. Raises `InputError` if it cannot be read, is of another kind or format version,
    or cannot be used here.
    """
    body = _checked(path, kind)
    try:
        file = read_plain(body)
    except NotPlainError as error:
        raise DamagedFileError(f"{path} cannot be read ({error}): {DAMAGED}") from None
    said, version = (file.attributes.get(name) for name in ("format", "format_version"))
    first = READ_SINCE.get(kind, FORMAT_VERSION)
    if isinstance(version, int) and not first <= version <= FORMAT_VERSION:
        known = f"{first} to {FORMAT_VERSION}" if first < FORMAT_VERSION else f"{FORMAT_VERSION}"
        raise InputError(
            f"{path} has format version {version}, and this smcpn reads version {known}: "
            "use the smcpn that wrote it, or begin another file"
        )
    if len(file.attributes) != 2 or not isinstance(version, int) or str(said) != kind:
        raise DamagedFileError(f"{path} does not say what it is: {DAMAGED}")
    try:
        return parse(file)
    except InputError as error:
        raise type(error)(f"{path}: {error}") from None


def _checked(path: Path, kind: str) -> bytes:
    """Return the content of a file behind its header, which has the checksum."""
    content = _content(path)
    if not content:
        raise DamagedFileError(f"{path} is empty")
    found = content[:HEADER_BYTES].split(b"\n")[0].decode(errors="replace")
    if found != kind and found in KINDS:
        raise InputError(f"{path} is a file of kind '{found}', not '{kind}'")
    if found != kind:
        raise DamagedFileError(f"{path} is no {kind}, or its beginning is damaged")
    body = content[HEADER_BYTES:]
    if content[:HEADER_BYTES] != _header(kind, body):
        raise DamagedFileError(f"{path} is damaged: its content does not have its checksum")
    return body


def _content(path: Path) -> bytes:
    """Return the bytes of a regular file, all only where its beginning states their number."""
    try:
        # A pipe would be waited for.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _AT_ONCE)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InputError(f"{path} is no regular file: give the file that smcpn wrote")
            start = file.read(HEADER_BYTES)
            stated = f"\nbytes {status.st_size - HEADER_BYTES}\n".encode()
            return start + file.read() if stated in start else start
    except FileNotFoundError:
        raise DamagedFileError(f"{path} is absent") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder: give the file that smcpn wrote") from None
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path} cannot be read: {reason}") from None
