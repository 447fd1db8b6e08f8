"""Machine code on disk, believed only where this user wrote it.

An entry is a file named by what it was compiled from: a digest keyed by a secret of the user's,
then the code. The folder and the secret belong to the user alone; a folder that is another
user's, or that others may write, is not used. An entry that is damaged, or that was written
without the secret, is no entry: its function is compiled again.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import hmac
import os
import secrets
import shutil
import stat
import tempfile
import warnings
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import platformdirs
from filelock import FileLock, Timeout

KERNELS_KEPT = 2048
"""Some 30 MB; most take a second to compile again."""
DIGEST_BYTES = 32
LOCK_SECONDS = 120.0
"""Wait this long for another process that compiles the same, then do it as well."""


class CacheWarning(UserWarning):
    """Compiled code cannot be kept: each process compiles it anew."""


@functools.cache
def folder() -> Path:
    """Return the folder of compiled code: ``SMCPN_CACHE``, or the user's cache folder.

    A temporary one that lasts as long as the process where that cannot be written or believed.
    """
    wanted = os.environ.get("SMCPN_CACHE") or platformdirs.user_cache_dir("smcpn", appauthor=False)
    place = Path(os.path.abspath(wanted)) / "kernels"
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        why = distrust(place)
        if not why:
            place.chmod(0o700)
            with tempfile.TemporaryFile(dir=place):
                return place
        warnings.warn(
            f"the cache folder {place} is not used, for {why}: compiled code is kept for this "
            "process only; set SMCPN_CACHE to a folder of your own",
            CacheWarning,
            stacklevel=2,
        )
    except OSError:
        pass
    temporary = Path(tempfile.mkdtemp(prefix="smcpn-kernels-"))
    atexit.register(_remove, temporary, os.getpid())
    return temporary


def distrust(place: Path) -> str:
    """Say why others could have written what lies in a folder; "" where they could not."""
    if not hasattr(os, "geteuid"):
        return ""
    own = os.geteuid()
    for path in (place, *place.parents):
        status = path.stat()
        if status.st_uid != own and (path == place or status.st_uid != 0):
            return f"{path} belongs to another user"
        # In a sticky folder, such as /tmp, others cannot rename or remove what is the user's.
        sticky = path != place and status.st_mode & stat.S_ISVTX
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky:
            return f"others may write {path}"
    return ""


def _remove(place: Path, owner: int) -> None:
    # A forked child leaves the folder to its parent.
    if os.getpid() == owner:
        shutil.rmtree(place, ignore_errors=True)


@functools.cache
def _secret(place: Path) -> bytes:
    """The user's secret of a folder, made at its first use."""
    path = place / "secret"
    for _ in range(2):
        with suppress(OSError):
            found = path.read_bytes() if _private(path) else b""
            if len(found) == DIGEST_BYTES:
                return found
            path.unlink()
        _write_new(path, secrets.token_bytes(DIGEST_BYTES), replacing=False)
    return secrets.token_bytes(DIGEST_BYTES)


def _private(path: Path) -> bool:
    """True if a plain file is this user's and no other may read it."""
    status = path.lstat()
    if not hasattr(os, "geteuid"):
        return stat.S_ISREG(status.st_mode)
    private = stat.S_ISREG(status.st_mode) and not status.st_mode & 0o077
    return private and status.st_uid == os.geteuid()


def _write_new(path: Path, content: bytes, replacing: bool = True) -> None:
    """Write a file whole or not at all; a full disk leaves none, and is no error."""
    with suppress(OSError):
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            if replacing:
                os.replace(temporary, path)
            else:
                os.link(temporary, path)
        finally:
            Path(temporary).unlink(missing_ok=True)


def load(name: str) -> bytes | None:
    """Return the entry of a name; None where there is none that this user wrote whole."""
    place = folder()
    try:
        content = (place / name).read_bytes()
    except OSError:
        return None
    body = content[DIGEST_BYTES:]
    if not hmac.compare_digest(content[:DIGEST_BYTES], _digest(place, name, body)):
        return None
    return body


def save(name: str, entry: bytes) -> None:
    """Write the entry of a name, and remove those of the kernels that were used longest ago."""
    place = folder()
    _write_new(place / name, _digest(place, name, entry) + entry)
    _keep_newest(place)


def _digest(place: Path, name: str, body: bytes) -> bytes:
    return hmac.digest(_secret(place), name.encode() + b"\0" + body, hashlib.sha256)


def _keep_newest(place: Path) -> None:
    """Remove all entries but those of the newest kernels, where there are too many."""
    # Each has an entry and a lock. To ask thousands of files for their age takes 40 ms.
    if len(os.listdir(place)) <= 2 * KERNELS_KEPT:
        return
    files: dict[str, list[os.DirEntry[str]]] = {}
    newest: dict[str, float] = {}
    for file in os.scandir(place):
        # Another process may tidy up at the same time.
        with suppress(OSError):
            if file.name.startswith("kernel_"):
                kernel = file.name.partition(".")[0]
                files.setdefault(kernel, []).append(file)
                newest[kernel] = max(newest.get(kernel, 0.0), file.stat().st_mtime)
    # Some more, so that not every entry beyond finds too many.
    kept = KERNELS_KEPT - KERNELS_KEPT // 8
    for kernel in sorted(newest, key=lambda name: newest[name], reverse=True)[kept:]:
        for file in files[kernel]:
            with suppress(OSError):
                os.unlink(file)


@contextmanager
def locked(kernel: str) -> Generator[None]:
    """Compile a kernel in one process at a time, so that the others read what it wrote."""
    lock = FileLock(folder() / f"{kernel}.lock", timeout=LOCK_SECONDS)
    try:
        lock.acquire()
    except (OSError, Timeout):
        # Entries are written whole: without a lock the same is compiled twice, no more.
        yield
        return
    try:
        yield
    finally:
        lock.release()
