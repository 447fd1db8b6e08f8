"""HDF5 as plain data: nothing outside the file is read, and no size is believed unchecked.

An HDF5 file can name other files to read from, hold one object under many names, and declare
arrays of any size in a few bytes. A file from elsewhere is therefore looked at before it is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

MOST_OBJECTS = 4096
"""Groups, arrays and attributes of a file together."""
DATA_BYTES = 2 << 30
"""Largest array of a file of measurements, which may be compressed."""
KNOWN_FILTERS = frozenset(
    {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32, 32000}
)
"""Filters that h5py itself brings (32000 is LZF); others are loaded from the machine."""


class NotPlainError(ValueError):
    """A file holds what is no plain data."""


@dataclass(frozen=True)
class Group:
    """Content of a group of an HDF5 file.

    Attributes
    ----------
    attributes : dict
        Numbers, texts and arrays.
    arrays : dict of str to ndarray
    texts : dict of str to str
    groups : dict of str to Group
    """

    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict[str, NDArray[Any]])
    texts: dict[str, str] = field(default_factory=dict[str, str])
    groups: dict[str, Group] = field(default_factory=dict[str, "Group"])

    def group(self, name: str) -> Group:
        """Return the group of a name; an empty one where there is none."""
        return self.groups.get(name, Group())


def read_plain(file: h5py.File, most_bytes: int) -> Group:
    """Return all of a file that holds arrays and texts as they are, without filters or chunks.

    Parameters
    ----------
    file : h5py.File
    most_bytes : int
        Of all arrays together: the length of the file.

    Raises
    ------
    NotPlainError
        If it holds anything else.
    """
    return _Reader(most_bytes).group(file)


class _Reader:
    """Reads groups, and counts what is left of the bounds."""

    def __init__(self, most_bytes: int) -> None:
        self._bytes, self._objects = most_bytes, MOST_OBJECTS

    def group(self, source: Any) -> Group:
        """Return a group with all that it holds."""
        found = Group(attributes=self._attributes(source))
        for name in source:
            self._count()
            item = _own(source, name)
            if isinstance(item, h5py.Group):
                found.groups[name] = self.group(item)
                continue
            values = self._array(item)
            if values.dtype.kind == "S" and values.ndim == 0:
                found.texts[name] = values.item().decode()
            else:
                found.arrays[name] = values
        return found

    def _array(self, dataset: Any) -> NDArray[Any]:
        _refuse_foreign(dataset)
        plan = dataset.id.get_create_plist()
        if dataset.chunks is not None or plan.get_nfilters():
            raise NotPlainError(f"'{dataset.name}' has chunks or filters")
        if _kinds(dataset.dtype) - set("fiubS"):
            raise NotPlainError(f"'{dataset.name}' holds {dataset.dtype}")
        size = _bytes(dataset)
        # What is declared but not stored would be filled with any number of zeros.
        if dataset.id.get_storage_size() != size:
            raise NotPlainError(f"'{dataset.name}' declares {size} bytes and stores others")
        self._bytes -= size
        if self._bytes < 0:
            raise NotPlainError("its arrays are larger than the file")
        return np.asarray(dataset[()])

    def _attributes(self, source: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in source.attrs:
            self._count()
            kind = source.attrs.get_id(name).dtype
            if _kinds(kind) - set("fiubS"):
                raise NotPlainError(f"attribute '{name}' holds {kind}")
            value = source.attrs[name]
            found[name] = value.decode() if isinstance(value, bytes) else value
        return found

    def _count(self) -> None:
        self._objects -= 1
        if self._objects < 0:
            raise NotPlainError(f"it holds more than {MOST_OBJECTS} objects")


def _own(group: Any, name: str) -> Any:
    """Return a member that lies in the group, and nowhere else."""
    if type(group.get(name, getlink=True)) is not h5py.HardLink:
        raise NotPlainError(f"'{name}' is a link")
    objects: Any = vars(h5py)["h5o"]
    if objects.get_info(group.id, name.encode()).rc != 1:
        raise NotPlainError(f"'{name}' has several names")
    if group.get(name, getclass=True) not in (h5py.Group, h5py.Dataset):
        raise NotPlainError(f"'{name}' is neither a group nor an array")
    return group[name]


def _refuse_foreign(dataset: Any) -> None:
    if dataset.external or dataset.is_virtual:
        raise NotPlainError(f"'{dataset.name}' lies in other files")


def _kinds(dtype: np.dtype[Any]) -> set[str]:
    """Kinds of the numbers of a type, of all fields of a compound one."""
    if dtype.fields is None:
        return {dtype.kind}
    return {kind for one, *_ in dtype.fields.values() for kind in _kinds(one)}


def _bytes(dataset: Any) -> int:
    return int(np.prod(dataset.shape, dtype=object)) * dataset.dtype.itemsize


class Measurements(Mapping[str, Any]):
    """The groups and arrays of a file of measurements by name, each checked before it is read.

    Parameters
    ----------
    group : h5py.Group
    """

    def __init__(self, group: Any) -> None:
        self._group = group

    def __getitem__(self, name: str) -> Any:
        """Return a group, or an array that is read when it is asked for.

        Raises
        ------
        KeyError
            If there is none.
        NotPlainError
            If it lies in another file, has filters of other programs, or is too large.
        """
        if isinstance(self._group.get(name, getlink=True), h5py.ExternalLink):
            raise NotPlainError(f"'{name}' lies in another file")
        found = self._group[name]
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
