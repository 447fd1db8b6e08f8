"""Measurements in HDF5: nothing outside the file is read, and no size is believed unchecked.

An HDF5 file can name other files to read from and declare arrays of any size in a few bytes. A file
of measurements is therefore looked at before it is read; files of this package, see `plain`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import h5py
import numpy as np

from smcpn.io.plain import NotPlainError

DATA_BYTES = 2 << 30
"""Largest array of a file of measurements, which may be compressed."""
MOST_REFERENCES = 10_000
"""Members of a cell."""
KNOWN_FILTERS = frozenset(
    {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32, 32000}
)
"""Filters that h5py itself brings (32000 is LZF); others are loaded from the machine."""


class Measurements(Mapping[str, Any]):
    """The groups and arrays of a file of measurements by name, each checked before it is read.

    Parameters
    ----------
    group : h5py.Group
    """

    def __init__(self, group: Any) -> None:
        self._group = group

    def __getitem__(self, name: str) -> Any:
        """Return a group, an array that is read when it is asked for, or a list of these.

        Raises
        ------
        KeyError
            If there is none.
        NotPlainError
            If it lies in another file, has filters of other programs, or is too large.
        """
        if isinstance(self._group.get(name, getlink=True), h5py.ExternalLink):
            raise NotPlainError(f"'{name}' lies in another file")
        return self._read(self._group[name])

    def _read(self, found: Any) -> Any:
        """Return a group or an array; of references, which are MATLAB's cells, what they name."""
        if isinstance(found, h5py.Group):
            return Measurements(found)
        _check_measured(found)
        if h5py.check_ref_dtype(found.dtype) is not h5py.Reference:
            return found
        if found.size > MOST_REFERENCES:
            raise NotPlainError(f"'{found.name}' is a cell of {found.size}")
        references = [one for one in found[()].ravel() if one]
        return [self._array(found.file[one]) for one in references]

    def _array(self, found: Any) -> Any:
        """A member of a cell, which is no cell itself."""
        if isinstance(found, h5py.Group):
            return Measurements(found)
        _check_measured(found)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._group)

    def __len__(self) -> int:
        return len(self._group)


def _check_measured(dataset: Any) -> None:
    _refuse_foreign(dataset)
    plan = dataset.id.get_create_plist()
    filters = {plan.get_filter(number)[0] for number in range(plan.get_nfilters())}
    if filters - KNOWN_FILTERS:
        raise NotPlainError(f"'{dataset.name}' is compressed by a filter that h5py does not have")
    if _bytes(dataset) > DATA_BYTES:
        raise NotPlainError(
            f"'{dataset.name}' declares {_bytes(dataset):.3g} bytes, and the most is {DATA_BYTES}"
        )


def _refuse_foreign(dataset: Any) -> None:
    if dataset.external or dataset.is_virtual:
        raise NotPlainError(f"'{dataset.name}' lies in other files")


def _bytes(dataset: Any) -> int:
    return int(np.prod(dataset.shape, dtype=object)) * dataset.dtype.itemsize
