"""A file that is whole or not there: plain HDF5 behind a header with its checksum.

The first 512 bytes, which HDF5 leaves to the user, hold three lines of text: what the file is, the
SHA-256 of all that follows, and its length. Readers of HDF5 (h5py, MATLAB, Julia) skip them.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import h5py

from smcpn.errors import InputError, shown

# ---- Read the entries of a document that may be damaged, or of another program.

DAMAGED = "the file is damaged, or none of smcpn's"


def entry(document: Any, name: str, *kinds: type) -> Any:
    """Return an entry that is of one of these types; ``float`` takes whole numbers as well.

    Raises
    ------
    InputError
        If it is absent or something else.
    """
    if not isinstance(document, Mapping) or name not in document:
        raise InputError(f"stored problem lacks '{name}': {DAMAGED}")
    value = document[name]
    if float in kinds:
        kinds = (*kinds, int)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise InputError(f"stored '{name}' is {shown(value)}: {DAMAGED}")
    return value


def texts(document: Any, name: str) -> tuple[str, ...]:
    """Return an entry that is a list of strings."""
    values = entry(document, name, list)
    if not all(isinstance(value, str) for value in values):
        raise InputError(f"stored '{name}' is {shown(values)}: {DAMAGED}")
    return tuple(values)


def numbers(document: Any, name: str) -> dict[str, float]:
    """Return an entry that maps names to finite numbers."""
    values = entry(document, name, dict)
    found = {key: float(entry(values, key, float)) for key in values}
    if not all(map(math.isfinite, found.values())):
        raise InputError(f"stored '{name}' is {shown(values)}: {DAMAGED}")
    return found


def words(document: Any, name: str) -> dict[str, str]:
    """Return an entry that maps names to text."""
    values = entry(document, name, dict)
    return {key: entry(values, key, str) for key in values}


HEADER_BYTES = 512
_WRITABLE = 1
"""H5LT_FILE_IMAGE_OPEN_RW."""
TITLES = ("smcpn checkpoint", "smcpn records", "smcpn stream")
"""First lines of the files there are."""
PREVIOUS = ".previous"
"""What the name of the last but one version ends with."""


class DamagedFileError(InputError):
    """A file is not what was written."""


def image(title: str, fill: Callable[[h5py.File], None], onto: bytes = b"") -> bytes:
    """Return the bytes of a file.

    Parameters
    ----------
    title : str
        First line of the header.
    fill : callable
        Writes groups, datasets and attributes.
    onto : bytes
        Another image, of what many files have in common; it is not changed.
    """
    with _in_memory(onto) as file:
        fill(file)
        file.flush()
        body = file.id.get_file_image()
    return _header(title, body) + body


def _in_memory(onto: bytes) -> h5py.File:
    if onto:
        return h5py.File(h5py.h5f.open_file_image(onto, _WRITABLE))
    return h5py.File("new", "w", driver="core", backing_store=False, userblock_size=HEADER_BYTES)


def publish(path: Path, content: bytes) -> None:
    """Put a file in place of its last version, which becomes the previous one.

    Whatever happens on the way, a process killed or a full disk, there is a whole file of this
    name if there was one before.

    Raises
    ------
    OSError
        If the folder cannot be written or the disk is full.
    """
    temporary = path.with_name(path.name + ".new")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _keep_previous(path)
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def content_of(path: Path, title: str) -> bytes:
    """Read a file and check that it is whole.

    Raises
    ------
    DamagedFileError
        If it is not, in a sentence that says what is wrong.
    InputError
        If it cannot be read.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    if not content:
        raise DamagedFileError(f"{path} is empty")
    kind = content[:HEADER_BYTES].split(b"\n")[0].decode(errors="replace")
    if kind != title and kind in TITLES:
        raise InputError(f"{path} is a file of kind '{kind}', not '{title}'")
    if kind != title:
        raise DamagedFileError(f"{path} is no {title}, or its beginning is damaged")
    if content[:HEADER_BYTES] != _header(title, content[HEADER_BYTES:]):
        raise DamagedFileError(f"{path} is damaged: its content does not have its checksum")
    return content


def opened(content: bytes) -> h5py.File:
    """Open the content of a file for reading."""
    return h5py.File(io.BytesIO(content), "r")


def previous_of(path: Path) -> Path:
    """Return where the last but one version of a file is kept."""
    return path.with_name(path.name + PREVIOUS)


def _header(title: str, body: bytes) -> bytes:
    digest = hashlib.sha256(body).hexdigest()
    return f"{title}\nsha256 {digest}\nbytes {len(body)}\n".encode().ljust(HEADER_BYTES, b"\0")


def _keep_previous(path: Path) -> None:
    """Give the file a second name; where the file system cannot, there is a moment without it."""
    if not path.exists():
        return
    previous = previous_of(path)
    linked = path.with_name(path.name + ".link")
    linked.unlink(missing_ok=True)
    try:
        os.link(path, linked)
    except OSError:
        path.replace(previous)
    else:
        linked.replace(previous)


def _sync_folder(folder: Path) -> None:
    """Make the renaming last; where a folder cannot be opened the system does it in time."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
