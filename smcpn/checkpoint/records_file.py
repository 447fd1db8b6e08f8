"""The records of a run, in a file of their own beside the checkpoint: written once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py

from smcpn.checkpoint.file import content_of, image, opened, publish
from smcpn.checkpoint.records import records_document, restored_records
from smcpn.errors import InputError
from smcpn.record import Record

TITLE = "smcpn records"
DIGITS = 8
"""Digits of the fingerprint in a file's name."""


def records_path(checkpoint: Path, fingerprint: str) -> Path:
    """Return where the records of a checkpoint are: ``run.data-0123abcd.h5`` beside ``run.h5``."""
    return checkpoint.with_name(f"{checkpoint.stem}.data-{fingerprint[:DIGITS]}.h5")


def records_image(records: tuple[Record, ...]) -> bytes:
    """Return the bytes of the file.

    Raises
    ------
    NotStorableError
        If the input of a record is a function.
    """
    documents, arrays = records_document(records)

    def fill(file: h5py.File) -> None:
        file.attrs["format"] = TITLE
        file.attrs["records"] = json.dumps(documents)
        for name, values in arrays.items():
            file[name] = values

    return image(TITLE, fill)


def write_records(path: Path, content: bytes) -> None:
    """Write the file unless it is there; its name tells its content."""
    if not path.exists():
        publish(path, content)


def read_records(path: Path) -> tuple[Record, ...]:
    """Read the records of a run.

    Raises
    ------
    InputError
        If the file is absent or damaged.
    """
    if not path.exists():
        raise InputError(
            f"{path.name}, which holds the records, is not beside the checkpoint in "
            f"{path.parent}: put it there, or resume from the script that has the data"
        )
    with opened(content_of(path, TITLE)) as file:
        arrays: dict[str, Any] = {}
        file.visititems(
            lambda name, item: (
                arrays.update({name: item[...]}) if isinstance(item, h5py.Dataset) else None
            )
        )
        return restored_records(json.loads(str(file.attrs["records"])), arrays)


def remove_other_records(checkpoint: Path, used: set[str]) -> None:
    """Remove files of records that no version of the checkpoint refers to."""
    for path in checkpoint.parent.glob(f"{checkpoint.stem}.data-*.h5"):
        if path.name not in used:
            path.unlink(missing_ok=True)
