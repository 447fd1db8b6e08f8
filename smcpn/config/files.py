"""Columns of measurements from CSV, MAT, HDF5 and NPZ files."""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError, listed, nearest
from smcpn.io.parse import (
    BadLineError,
    Channels,
    CsvLines,
    content_lines,
    csv_samples,
    is_number,
    split_fields,
    split_unit,
)

Array = NDArray[np.float64]

_INDEXED = re.compile(r"(?P<name>.+)\[(?P<index>\d+)\]")
_PASSED_OVER = "_"


class ColumnError(InputError):
    """A column that is not there, or is no column of numbers; ``argument`` is its name."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(reason, argument=column)


@dataclass(frozen=True)
class Layout:
    """Which columns are wanted, and how a CSV file is written.

    Attributes
    ----------
    time : str or None
    inputs, outputs : tuple of str
    header : tuple of str or None
        Names of the columns of a CSV file that has no line of names.
    delimiter, decimal : str
        Of a CSV file.
    """

    time: str | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    header: tuple[str, ...] | None = None
    delimiter: str = ","
    decimal: str = "."

    @property
    def wanted(self) -> tuple[str, ...]:
        """All columns that are wanted."""
        return (*(() if self.time is None else (self.time,)), *self.inputs, *self.outputs)


@dataclass(frozen=True)
class Columns:
    """The columns of a file, as measured.

    Attributes
    ----------
    t : ndarray, (T,), or None
    u : ndarray, (T, n_inputs)
    y : ndarray, (T, n_outputs)
    units : mapping of str to str
        Units that the file states, by column.
    """

    t: Array | None
    u: Array
    y: Array
    units: Mapping[str, str] = field(default_factory=dict[str, str])


def read_columns(path: Path, layout: Layout) -> Columns:
    """Read a file by the reader of its suffix.

    Raises
    ------
    InputError
        If there is no such file, or it is not what its suffix says.
    ColumnError
        If a column is missing.
    """
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{path} ends in '{path.suffix}': {', '.join(READERS)} are read")
    if not path.is_file():
        raise InputError(f"{path} is no file: correct its name")
    return reader(path, layout)


def _read_csv(path: Path, layout: Layout) -> Columns:
    content = content_lines(path)
    if not content:
        raise InputError(f"{path} is empty")
    names, units = list(layout.header or ()), {}
    if layout.header is None:
        names, units = _csv_header(path, content.pop(0), layout)
    for column in layout.wanted:
        if column not in names:
            raise _no_column(path, column, names, _one_column_remedy(names))
        if names.count(column) > 1:
            raise ColumnError(column, f"{path} has several columns '{column}': rename one")
    # The lines are read as those of a stream are, which knows the columns by place.
    places = {name: f"u{j}" for j, name in enumerate(layout.inputs)}
    places |= {name: f"y{j}" for j, name in enumerate(layout.outputs)}
    places |= {} if layout.time is None else {layout.time: "t"}
    channels = Channels(
        tuple(f"u{j}" for j in range(len(layout.inputs))),
        tuple(f"y{j}" for j in range(len(layout.outputs))),
    )
    columns = [places.get(name, _PASSED_OVER) for name in names]
    samples = csv_samples(
        path, content, CsvLines(channels, columns, layout.delimiter, layout.decimal)
    )
    times = [sample.t for sample in samples]
    return Columns(
        t=None if layout.time is None else np.array(times, dtype=float),
        u=np.array([sample.u for sample in samples]),
        y=np.array([sample.y for sample in samples]),
        units=units,
    )


def _csv_header(
    path: Path, first: tuple[int, str], layout: Layout
) -> tuple[list[str], dict[str, str]]:
    """Names of the columns and their units."""
    number, line = first
    try:
        fields = split_fields(line, layout.delimiter)
    except BadLineError as error:
        raise InputError(f"{path}, line {number}: {error}") from None
    if all(is_number(name, layout.decimal) for name in fields):
        raise InputError(
            f"{path}, line {number} holds numbers, no names: name the columns with header = "
            '["t", "u", ...]'
        )
    named = [split_unit(name) for name in fields]
    return [name for name, _ in named], {name: unit for name, unit in named if unit}


def _one_column_remedy(names: list[str]) -> str:
    other = [mark for mark in (";", "\t", "|", " ") if len(names) == 1 and mark in names[0]]
    return f"; if {other[0]!r} separates columns, say delimiter = {other[0]!r}" if other else ""


def _read_mat(path: Path, layout: Layout) -> Columns:
    from scipy.io import loadmat, whosmat

    try:
        sizes = (math.prod(shape) * _MAT_BYTES for _, shape, _ in whosmat(path))
        _check_size(path, sizes)
        tree = loadmat(path, simplify_cells=True)
    except InputError:
        raise
    except NotImplementedError:
        # MATLAB's version 7.3 is HDF5.
        return _read_hdf5(path, layout)
    except Exception as error:
        raise InputError(f"{path} is no MAT file: {_one_line(error)}") from error
    tree = {name: value for name, value in tree.items() if not name.startswith("__")}
    return _columns_of(path, tree, layout)


MOST_BYTES = 2 << 30
"""Of all variables of a file together; a compressed one can hold any size in a few bytes."""
_MAT_BYTES = 8
"""Of a number, at most."""


def _check_size(path: Path, sizes: Iterable[int]) -> None:
    total = sum(sizes)
    if total > MOST_BYTES:
        raise InputError(
            f"{path} holds {total:.3g} bytes when unpacked, and the most is {MOST_BYTES}: "
            "save the columns needed in a file of their own"
        )


def _read_hdf5(path: Path, layout: Layout) -> Columns:
    import h5py

    from smcpn.io.hdf5 import Measurements, NotPlainError

    try:
        with h5py.File(path, "r") as file:
            return _columns_of(path, Measurements(file), layout)
    except NotPlainError as error:
        raise InputError(f"{path}: {error}; copy the data into a plain file") from None
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{path} cannot be read as HDF5: {_one_line(error)}") from error


def _read_npz(path: Path, layout: Layout) -> Columns:
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                _check_size(path, (info.file_size for info in archive.infolist()))
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, Mapping):
                raise InputError(f"{path} holds one array without a name: save it with np.savez")
            return _columns_of(path, archive, layout)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{path} cannot be read as NPZ: {_one_line(error)}") from error


READERS: dict[str, Callable[[Path, Layout], Columns]] = {
    ".csv": _read_csv,
    ".txt": _read_csv,
    ".tsv": _read_csv,
    ".dat": _read_csv,
    ".mat": _read_mat,
    ".h5": _read_hdf5,
    ".hdf5": _read_hdf5,
    ".npz": _read_npz,
}
"""Readers by the suffix of the file."""


def _columns_of(path: Path, tree: Mapping[str, Any], layout: Layout) -> Columns:
    """Find the columns among named variables, which may be nested."""
    values: dict[str, Array] = {}
    units: dict[str, str] = {}
    for column in layout.wanted:
        values[column], units[column] = _variable(path, tree, column)
    lengths = {column: len(series) for column, series in values.items()}
    if len(set(lengths.values())) > 1:
        counts = listed(f"'{column}' has {length}" for column, length in lengths.items())
        raise InputError(f"{path}: unequal numbers of samples ({counts})")
    length = next(iter(lengths.values()))
    return Columns(
        t=None if layout.time is None else values[layout.time],
        u=np.array([values[name] for name in layout.inputs]).reshape(-1, length).T,
        y=np.array([values[name] for name in layout.outputs]).reshape(-1, length).T,
        units={column: unit for column, unit in units.items() if unit},
    )


def _variable(path: Path, tree: Mapping[str, Any], column: str) -> tuple[Array, str]:
    """Return a variable, (T,), and the unit stored with it."""
    match = None if column in tree else _INDEXED.fullmatch(column)
    name, index = (column, None) if match is None else (match["name"], int(match["index"]))
    found: Any = tree
    for part in [name] if name in tree else re.split(r"[./]", name):
        if not isinstance(found, Mapping) or part not in found:
            known = list(found) if isinstance(found, Mapping) else []
            raise _no_column(path, column, known, "", part)
        found = found[part]
    if isinstance(found, Mapping):
        inside = listed(f"{name}.{part}" for part in found)
        raise ColumnError(column, f"'{name}' in {path} holds variables: choose one of {inside}")
    attributes = getattr(found, "attrs", {})
    unit = attributes.get("unit", attributes.get("units", ""))
    unit = unit.decode() if isinstance(unit, bytes) else str(unit)
    return _series(path, column, np.asarray(found), index), unit


def _series(path: Path, column: str, values: NDArray[Any], index: int | None) -> Array:
    """Return real numbers, (T,); of a matrix the samples go along its longer axis."""
    if values.dtype.kind not in "fiub":
        raise ColumnError(column, f"'{column}' in {path} holds {values.dtype}, not real numbers")
    values = np.squeeze(values)
    if values.ndim == 2 and values.shape[0] < values.shape[1]:
        values = values.T
    if values.ndim == 2 and index is not None:
        if index >= values.shape[1]:
            raise ColumnError(
                column, f"'{column}' in {path}: it has {values.shape[1]} columns, the first is 0"
            )
        values = values[:, index]
    if values.ndim != 1:
        raise ColumnError(
            column,
            f"'{column}' in {path} has shape {values.shape}: choose a column, as '{column}[0]'",
        )
    return values.astype(float)


def _no_column(
    path: Path, column: str, known: list[str], remedy: str, part: str | None = None
) -> ColumnError:
    """Return the error for a column, or a part of its nested name, that the file lacks."""
    has = f"it has {listed(known)}" if known else "it has none"
    close = nearest(part or column, known)
    meant = f", {close}" if close.startswith("did") else ""
    return ColumnError(column, f"{path} has no '{column}' ({has}){meant}{remedy}")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
