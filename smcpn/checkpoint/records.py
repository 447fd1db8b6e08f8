"""The records of a run: a file of its own beside the checkpoint, written once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from smcpn.checkpoint.codec import decoded_all, encoded, numbered, require_parts
from smcpn.checkpoint.container import (
    RECORDS,
    kind_of,
    read_version,
    remove_left,
)
from smcpn.checkpoint.problem import StoredRecord
from smcpn.errors import InputError
from smcpn.files import is_plain, put
from smcpn.io.hdf5_subset import Group
from smcpn.model.record import Record

DIGITS = 8
"""Digits of the fingerprint of the data in the name of their file."""


def records_path(checkpoint: Path, fingerprint: str) -> Path:
    """Return the path of a checkpoint's records: ``run.h5.data-0123abcd.h5`` of ``run.h5``."""
    return checkpoint.with_name(f"{checkpoint.name}.data-{fingerprint[:DIGITS]}.h5")


def write_records(path: Path, records: Sequence[Record]) -> None:
    """Write the records of a run unless the file holds them already.

    Raises
    ------
    NotStorableError
        If the input of a record is a function.
    InputError
        If a file of this name is none of records.
    OSError
        If the file cannot be written.
    """
    content = encoded(RECORDS, numbered(map(StoredRecord.of, records), "records"))
    if kind_of(path) not in (None, "", RECORDS):
        raise InputError(
            f"{path} is not the file of records that belongs to this name, or damaged, and is not "
            "overwritten: move it away, or choose another checkpoint"
        )
    remove_left(path)
    if not path.exists() or path.read_bytes() != content:
        put(path, content)


def read_records(path: Path) -> tuple[Record, ...]:
    """Read the records of a run.

    Raises
    ------
    InputError
        If the file is absent or damaged.
    """
    if not path.exists():
        raise InputError(
            f"{path.name}, which holds the records, is not with the checkpoint in "
            f"{path.parent}: put it there, or resume from the script that has the data"
        )
    return read_version(path, RECORDS, _records_of)


def _records_of(file: Group) -> tuple[Record, ...]:
    """Return the records of a file."""
    require_parts(file, "records")
    return tuple(one.restored() for one in decoded_all(file, "records", StoredRecord))


def remove_records(paths: Iterable[Path]) -> None:
    """Remove those files that are whole files of records."""
    for path in paths:
        with suppress(InputError, OSError):
            if is_plain(path):
                read_version(path, RECORDS, lambda _: None)
                path.unlink()
