"""Records as arrays and a few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.arguments import shown
from smcpn.checkpoint.document import DAMAGED, entry
from smcpn.errors import InputError, NotStorableError
from smcpn.record import CONTEXT, Record

Array = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]

_WORDS: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "hold": (str,),
    "y_unit": (str,),
    "periodic": (bool,),
    "start": (float,),
    "dt": (float, type(None)),
}


def records_document(records: Sequence[Record]) -> tuple[list[dict[str, Any]], Arrays]:
    """Write records as one document each, and their arrays as ``"0/u"``, ``"0/y"``, ...

    The times are an array where they do not follow from ``dt``; ``u_before`` and ``u_after`` are
    the input that a slice knows beyond its ends.

    Raises
    ------
    NotStorableError
        If the input of a record is a function of time.
    """
    documents: list[dict[str, Any]] = []
    arrays: Arrays = {}
    for number, record in enumerate(records):
        if record.u_function is not None:
            raise NotStorableError(
                f"{record.name}: u is a function of time and cannot be stored in a file: give its "
                "samples and a hold to be able to resume from the file alone; otherwise resume "
                "from the script"
            )
        documents.append({word: getattr(record, word) for word in _WORDS})
        names = ["u", "y", "u_before", "u_after"] + ["t"] * (record.dt is None)
        for name in names:
            values = getattr(record, name)
            if values is not None:
                arrays[f"{number}/{name}"] = np.asarray(values)
    return documents, arrays


def restored_records(documents: Any, arrays: Mapping[str, NDArray[Any]]) -> tuple[Record, ...]:
    """Make the records again that `records_document` wrote.

    Raises
    ------
    InputError
        If something is absent, or no record can be made of it.
    """
    if not isinstance(documents, list):
        raise InputError(f"stored records are {shown(documents)}: {DAMAGED}")
    return tuple(_restored(k, document, arrays) for k, document in enumerate(documents))


def _restored(number: int, document: Any, arrays: Mapping[str, NDArray[Any]]) -> Record:
    words: dict[str, Any] = {word: entry(document, word, *kinds) for word, kinds in _WORDS.items()}
    found: dict[str, Any] = {
        name: arrays.get(f"{number}/{name}") for name in ("u", "y", "t", "u_before", "u_after")
    }
    for name in ("u", "y"):
        if found[name] is None:
            raise InputError(f"{words['name']}: the array {name} is absent: {DAMAGED}")
    record = Record(**words, **found)
    for around in (record.u_before, record.u_after):
        if around is not None and not _continues(record, around):
            raise InputError(f"{record.name}: the input beyond the ends does not fit u: {DAMAGED}")
    return record


def _continues(record: Record, around: Array) -> bool:
    """Whether an array can be input beyond the ends of a record."""
    fits = around.ndim == 2 and around.shape[1] == record.n_inputs and around.dtype == np.float64
    return fits and len(around) <= CONTEXT and bool(np.isfinite(around).all())
