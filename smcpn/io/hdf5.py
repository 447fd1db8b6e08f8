"""Measurements in HDF5: nothing outside the file is read, and no size is believed unchecked.

An HDF5 file can name other files to read from and declare arrays of any size in a few bytes. A file
of measurements is therefore looked at before it is read; files of this package, see `plain`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from smcpn.errors import shown
from smcpn.io.hdf5_subset import NotPlainError

DATA_BYTES = 2 << 30
"""Of the arrays of a file of measurements together, as numbers; they may be compressed."""
MOST_REFERENCES = 10_000
"""Members of a cell."""
KNOWN_FILTERS = frozenset(
    {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32, 32000}
)
"""Filters that h5py itself brings (32000 is LZF); others are loaded from the machine."""


class Measurements(Mapping[str, Any]):
    """The groups and arrays of a file of measurements by name, each checked before it is read."""

    def __init__(self, group: Any, left: Left | None = None) -> None:
        self._group, self._left = group, Left() if left is None else left

    def __getitem__(self, name: str) -> Any:
        """Return a group, an array that is read when it is asked for, or a list of these.

        Raises `KeyError` if there is none. Raises `NotPlainError` if it lies in another file, has
        filters of other programs, or is too large.
        """
        if isinstance(self._group.get(name, getlink=True), h5py.ExternalLink):
            raise NotPlainError(f"'{name}' lies in another file")
        return self._read(self._group[name])

    def _read(self, found: Any) -> Any:
        """Return a group or an array; of references, which are MATLAB's cells, what they name."""
        if isinstance(found, h5py.Group):
            return Measurements(found, self._left)
        _check_measured(found, self._left)
        if h5py.check_ref_dtype(found.dtype) is not h5py.Reference:
            return Variable(found)
        if found.size > MOST_REFERENCES:
            raise NotPlainError(f"'{found.name}' is a cell of {found.size}")
        references = [one for one in found[()].ravel() if one]
        return [self._array(found.file[one]) for one in references]

    def _array(self, found: Any) -> Any:
        """A member of a cell, which is no cell itself."""
        if isinstance(found, h5py.Group):
            return Measurements(found, self._left)
        _check_measured(found, self._left)
        return Variable(found)

    def __iter__(self) -> Iterator[str]:
        return iter(self._group)

    def __len__(self) -> int:
        return len(self._group)


@dataclass
class Left:
    """Bytes that the arrays of a file which are asked for may still have, each counted once."""

    size: int = DATA_BYTES
    counted: set[int] = field(default_factory=set[int])

    def take(self, dataset: Any) -> None:
        """Count an array.

        Raises `NotPlainError` if all together are too large.
        """
        # Its hash is that of the file and its address in it, whatever its name.
        place = hash(dataset.id)
        self.size -= 0 if place in self.counted else _bytes(dataset)
        self.counted.add(place)
        if self.size < 0:
            raise NotPlainError(f"its arrays declare more than {DATA_BYTES} bytes together")


@dataclass(frozen=True)
class Variable:
    """An array of a file with its attributes, read as what was measured when it is asked for.

    Numbers that are packed are unpacked, and those that stand for none are NaN, as the conventions
    of netCDF have it: ``scale_factor``, ``add_offset``, ``_FillValue``, ``missing_value``,
    ``valid_min``, ``valid_max``, ``valid_range`` and ``_Unsigned``.

    References
    ----------
    NetCDF Climate and Forecast (CF) Metadata Conventions, version 1.11, sections 2.5.1 and 8.1;
    NetCDF Users Guide, attribute conventions, of the units of a valid range.
    """

    dataset: Any

    @property
    def attrs(self) -> Mapping[str, Any]:
        """Attributes of the array."""
        return self.dataset.attrs

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the array.

        Raises `NotPlainError` if an attribute of these is no number.
        """
        raw = np.asarray(self.dataset[()])
        found = self._physical(raw) if raw.dtype.kind in "iuf" else raw
        return found if dtype is None else found.astype(dtype)

    def _physical(self, raw: NDArray[Any]) -> NDArray[Any]:
        if self.attrs.get("_Unsigned") in ("true", b"true") and raw.dtype.kind == "i":
            raw = raw.view(raw.dtype.str.replace("i", "u"))
        scale, offset = self._numbers("scale_factor", 1), self._numbers("add_offset", 1)
        low, high = self._numbers("valid_min", 1), self._numbers("valid_max", 1)
        both = self._numbers("valid_range", 2)
        if len(both):
            low, high = both[:1], both[1:]
        none = np.zeros(raw.shape, dtype=bool)
        for value in (*self._numbers("_FillValue"), *self._numbers("missing_value")):
            # It has more digits than the array may have, or the other sign of as many bits.
            as_bits = value.dtype.kind != "f" and value.dtype.itemsize == raw.dtype.itemsize
            none |= raw == (value.astype(raw.dtype) if raw.dtype.kind == "f" or as_bits else value)
        packed = len(scale) > 0 or len(offset) > 0
        if not packed and not none.any() and not len(low) and not len(high):
            return raw
        values = raw.astype(float)
        unpacked = values * (scale[0] if len(scale) else 1.0) + (offset[0] if len(offset) else 0.0)
        for bound, sign in ((low, 1.0), (high, -1.0)):
            for limit in bound:
                of_unpacked = packed and raw.dtype.kind != "f" and limit.dtype.kind == "f"
                none |= sign * (unpacked if of_unpacked else values) < sign * float(limit)
        unpacked[none] = np.nan
        return unpacked

    def _numbers(self, name: str, size: int | None = None) -> NDArray[Any]:
        """Numbers of an attribute, none where there is no such attribute."""
        given = self.attrs.get(name)
        found = np.ravel(np.asarray([] if given is None else given))
        if given is not None and (found.dtype.kind not in "iuf" or size not in (None, len(found))):
            raise NotPlainError(f"'{self.dataset.name}' has {name} = {shown(given)}, no number")
        return found


def _check_measured(dataset: Any, left: Left) -> None:
    _refuse_foreign(dataset)
    plan = dataset.id.get_create_plist()
    filters = {plan.get_filter(number)[0] for number in range(plan.get_nfilters())}
    if filters - KNOWN_FILTERS:
        raise NotPlainError(f"'{dataset.name}' is compressed by a filter that h5py does not have")
    chunk = int(np.prod(dataset.chunks or (), dtype=object)) * dataset.dtype.itemsize
    if max(_bytes(dataset), chunk) > DATA_BYTES:
        raise NotPlainError(
            f"'{dataset.name}' declares {max(_bytes(dataset), chunk):.3g} bytes, and the most is "
            f"{DATA_BYTES}"
        )
    left.take(dataset)


def _refuse_foreign(dataset: Any) -> None:
    if dataset.external or dataset.is_virtual:
        raise NotPlainError(f"'{dataset.name}' lies in other files")


def _bytes(dataset: Any) -> int:
    """Size of an array once its numbers are floats."""
    return int(np.prod(dataset.shape, dtype=object)) * max(dataset.dtype.itemsize, 8)
