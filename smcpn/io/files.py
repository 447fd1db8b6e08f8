"""Columns of measurements from CSV, MAT, HDF5 and NPZ files."""

from __future__ import annotations

import logging
import math
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError, counted, listed, nearest, visible
from smcpn.io.hdf5_subset import NotPlainError
from smcpn.io.reading_process import Answer, LostError, ReadingProcess, serve
from smcpn.io.table import TEXTS, TextTable
from smcpn.io.unmeasured import flags_among, without_twins, without_unmeasured
from smcpn.model.units_and_times import DATED, MeasuredSamples

_log = logging.getLogger(__name__)

Array = NDArray[np.float64]

_NAME_IT = ": name a variable of the file"


class ColumnError(InputError):
    """A column that is not there, or is no column of numbers; ``argument`` is its name."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(reason, argument=column)


@dataclass(frozen=True)
class Layout:
    """Which columns are wanted, and how a text file is written.

    header: Names of the columns of a text file that has no line of names.
    delimiter, decimal: Of a text file; None is guessed.
    experiment: Column that tells experiments apart; or the struct array, cell or group of a MAT or
        HDF5 file that has one experiment in each of its members, which hold the columns.
    """

    time: str | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    header: tuple[str, ...] | None = None
    delimiter: str | None = None
    decimal: str | None = None
    experiment: str | None = None

    @property
    def wanted(self) -> tuple[str, ...]:
        """All columns of numbers that are wanted."""
        return (*(() if self.time is None else (self.time,)), *self.inputs, *self.outputs)


@dataclass(frozen=True)
class Columns(MeasuredSamples):
    """The columns of an experiment, as measured.

    label: Of the experiment, where a file has several.
    told: A sentence on outputs that the file says are missing.
    """

    label: str = ""
    told: str = ""


def read_columns(path: Path, layout: Layout) -> list[Columns]:
    """Read the experiments of a file by the reader of its suffix.

    Raises `InputError` if there is no such file, it is not what its suffix says, times do not
    increase, an input is missing, or an output is infinite: the line or the sample is named. Raises
    `ColumnError` if a column is missing.
    """
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(
            f"{path} ends in '{path.suffix}': save it as one of {', '.join(READERS)}, or read it "
            "with pandas and use smcpn.Record.from_dataframe"
        )
    if not path.is_file():
        raise InputError(f"{path} is no file: correct its name")
    found = reader(path, layout)
    for told in dict.fromkeys(one.told for one in found if one.told):
        _log.warning("%s", visible(f"{path.name}: {told}"))
    return found


def read_text(path: Path, layout: Layout) -> list[Columns]:
    """Read a text file."""
    known = layout.wanted if layout.experiment is None else (*layout.wanted, layout.experiment)
    labels = {layout.experiment, layout.time} - {None}
    table = TextTable.open(
        path,
        known,
        header=layout.header,
        delimiter=layout.delimiter,
        decimal=layout.decimal,
        labels={str(one) for one in labels},
    )
    names = list(table.dialect.names)
    if not any(names):
        raise _no_names(path, table, known)
    for column in known:
        if column not in names:
            raise _no_column(
                path,
                column,
                names,
                f": it was read with {table.dialect.form}; correct the name of the column, or "
                "state delimiter or header",
            )
        if names.count(column) > 1:
            raise ColumnError(column, f"{path} has several columns '{column}': rename one")
    flags = flags_among(names, known)
    numbers = [*layout.inputs, *layout.outputs, *flags]
    found = table.read(numbers, layout.time, layout.experiment)
    table.tell()
    length = len(next(iter(found.values())))
    t, units = None, dict(table.dialect.units)
    if layout.time is not None:
        t = found[layout.time]
        if t.dtype.kind == "M":
            # What a header says of dates is a zone, or how they are written.
            t, units[layout.time] = (t - t[:1]) / np.timedelta64(1, "us") / 1e6, DATED
    y = _matrix(found, layout.outputs, length)
    y, told = without_unmeasured(y, {one: found[one] for one in flags})
    every = Columns(t, _matrix(found, layout.inputs, length), y, units, told=told)
    place = lambda sample: f", line {table.line_of(sample)}"  # noqa: E731
    return _separated(path, layout, every, found.get(layout.experiment or ""), place)


def _no_names(path: Path, table: TextTable, known: Sequence[str]) -> InputError:
    """Return the error for a file in which no line names the columns."""
    dialect = table.dialect
    columns = counted(len(dialect.names), "column")
    if not table.begins_with_numbers:
        return InputError(
            f"{path} has no line that names {listed(known)}, and none of numbers ({dialect.form}): "
            "name another file, or state its delimiter and decimal mark",
        )
    return InputError(
        f"{path}, line {dialect.first} holds numbers, and no line names the {columns}: name all "
        'with header = ["t", "u", ...] (--columns t,u,...)',
        argument="header",
    )


def _matrix(found: Mapping[str, Array], names: Sequence[str], length: int) -> Array:
    """Columns as a matrix, (T, n)."""
    matrix = np.empty((length, len(names)))
    for j, name in enumerate(names):
        matrix[:, j] = found[name]
    return matrix


def _separated(
    path: Path,
    layout: Layout,
    every: Columns,
    labels: NDArray[Any] | None,
    place: Callable[[int], str],
) -> list[Columns]:
    """Columns of each experiment, in the order in which they begin, checked."""
    groups = [("", np.arange(len(every.y)))]
    if labels is not None:
        names, begins, numbers = np.unique(labels, return_index=True, return_inverse=True)
        groups = [(_label(names[k]), np.flatnonzero(numbers == k)) for k in np.argsort(begins)]
    found: list[Columns] = []
    for label, rows in groups:
        samples = without_twins(every, rows)
        one = replace(every.of(samples), label=label)
        _check(path, layout, one, samples, place)
        found.append(one)
    return found


def _label(value: Any) -> str:
    return f"{value:g}" if isinstance(value, (float, np.floating)) else str(value)


def _check(
    path: Path,
    layout: Layout,
    columns: Columns,
    samples: NDArray[np.int_],
    place: Callable[[int], str],
) -> None:
    """Refuse what no record can have, with its line.

    ``samples`` are the numbers of the samples in the file, and ``place`` the line or the place of
    one, for the message.
    """
    of = f" of experiment '{columns.label}'" if columns.label else ""
    if len(samples) < 2:
        count = f"{len(samples)} sample" + "s" * (len(samples) != 1)
        raise InputError(f"{path} has {count}{of}: give at least two")
    where = lambda k: f"{path}{place(int(samples[k]))}"  # noqa: E731
    t = columns.t
    if t is not None:
        for k in np.flatnonzero(~np.isfinite(t))[:1]:
            raise InputError(
                f"{where(k)}: time '{layout.time}' is {_named(float(t[k]))}: fill it in, or remove "
                "the sample"
            )
        for k in np.flatnonzero(np.diff(t) <= 0)[:1] + 1:
            remedy = "remove repeated samples, or write times with more digits"
            if t[k] < t[k - 1]:
                remedy = "sort the samples, or write dates where a clock passes midnight" + (
                    ""
                    if of
                    else "; where another experiment begins, name the column that tells "
                    'them apart, experiment = "..."'
                )
            raise InputError(
                f"{where(k)}: time '{layout.time}' is {t[k]:.12g} after {t[k - 1]:.12g}{of}: "
                f"{remedy}"
            )
    for j, name in enumerate(layout.inputs):
        for k in np.flatnonzero(~np.isfinite(columns.u[:, j]))[:1]:
            raise InputError(
                f"{where(k)}: input '{name}' is {_named(columns.u[k, j])}, and an input must "
                "be known at every sample: fill it in, or remove the samples before or after"
            )
    for j, name in enumerate(layout.outputs):
        for k in np.flatnonzero(np.isinf(columns.y[:, j]))[:1]:
            raise InputError(
                f"{where(k)}: output '{name}' is infinite: leave it empty (NaN), as a missing "
                "sample"
            )


def _named(value: Any) -> str:
    return "missing" if math.isnan(value) else f"{value}"


def _read_mat(path: Path, layout: Layout) -> list[Columns]:
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
        raise InputError(
            f"{path} is no MAT file ({_one_line(error)}): save it again with MATLAB's save"
        ) from error
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


def _read_hdf5(path: Path, layout: Layout) -> list[Columns]:
    import h5py

    from smcpn.io.hdf5 import Measurements

    try:
        with h5py.File(path, "r") as file:
            return _columns_of(path, Measurements(file), layout)
    except NotPlainError as error:
        raise InputError(f"{path}: {error}; copy the data into a plain file") from None
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"{path} cannot be read as HDF5 ({_one_line(error)}): write the file again, or correct "
            "its suffix"
        ) from error


def _read_npz(path: Path, layout: Layout) -> list[Columns]:
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                _check_size(path, (info.file_size for info in archive.infolist()))
        archive: Any = np.load(path, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise InputError(f"{path} holds one array without a name: save it with np.savez")
        with archive as arrays:
            return _columns_of(path, arrays, layout)
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"{path} cannot be read as NPZ ({_objects(error)}): save arrays with np.savez"
        ) from error


READ_APART: dict[str, Callable[[Path, Layout], list[Columns]]] = {
    ".mat": _read_mat,
    ".h5": _read_hdf5,
    ".hdf5": _read_hdf5,
}
"""Readers by the suffix of the file whose libraries a damaged file may crash."""
SECONDS, BYTES_A_SECOND = 2.0, 1e6
"""Processor time to read a file with any, and more of a large one."""
_PROCESS = ReadingProcess("smcpn.io.files")
"""This file, run as a program."""


def read_apart(path: Path, layout: Layout) -> list[Columns]:
    """Read a file in a process of its own, of which a damaged file crashes nothing else.

    Raises `InputError` as the reader, and if the process is lost.
    """
    request = {"path": str(path), "layout": asdict(layout)}
    try:
        told, arrays = _PROCESS.ask(request, SECONDS + path.stat().st_size / BYTES_A_SECOND)
    except LostError as error:
        raise InputError(
            f"{path} cannot be read, reading it ends in {error}: it is damaged; write it again"
        ) from None
    if "column" in told:
        raise ColumnError(told["argument"], told["column"])
    if "refused" in told:
        raise InputError(told["refused"], argument=told["argument"])
    rest = iter(arrays)
    return [
        Columns(None if layout.time is None else next(rest), next(rest), next(rest), **one)
        for one in told["experiments"]
    ]


def _answered(request: dict[str, Any]) -> Answer:
    """Return the experiments of a file that `read_apart` asks for, or why it is refused."""
    path = Path(request["path"])
    names = {name: _as_tuple(value) for name, value in request["layout"].items()}
    try:
        found = READ_APART[path.suffix.lower()](path, Layout(**names))
    except InputError as error:
        kind = "column" if isinstance(error, ColumnError) else "refused"
        return {kind: str(error), "argument": error.argument}, []
    experiments = [
        {"label": one.label, "units": dict(one.units), "told": one.told} for one in found
    ]
    arrays = [array for one in found for array in (one.t, one.u, one.y) if array is not None]
    return {"experiments": experiments}, arrays


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


READERS: dict[str, Callable[[Path, Layout], list[Columns]]] = {
    **dict.fromkeys(TEXTS, read_text),
    **dict.fromkeys(READ_APART, read_apart),
    ".npz": _read_npz,
}
"""Readers by the suffix of the file."""


def _columns_of(path: Path, tree: Mapping[str, Any], layout: Layout) -> list[Columns]:
    """Find the columns among named variables, which may be nested, of every experiment."""
    if layout.experiment is None:
        return _experiments(path, tree, layout)
    members, _ = _found(path, tree, layout.experiment)
    if isinstance(members, Mapping):
        named = {str(name): one for name, one in members.items() if isinstance(one, Mapping)}
    elif _is_list(members):
        named = {str(k): one for k, one in enumerate(members, 1) if isinstance(one, Mapping)}
    else:
        labels = np.squeeze(np.asarray(members))
        alone = replace(layout, experiment=None)
        every = _one_experiment(path, _variables(path, tree, layout), alone)
        if labels.shape != (len(every.y),):
            raise ColumnError(
                layout.experiment,
                f"'{layout.experiment}' in {path} has shape {labels.shape}: give one label for "
                f"each of {len(every.y)} samples",
            )
        return _separated(path, layout, every, labels, lambda k: f", sample {k}")
    if not named:
        raise ColumnError(
            layout.experiment,
            f"'{layout.experiment}' in {path} holds no experiments: name a struct array, a group "
            "of groups, or labels of the samples",
        )
    alone = replace(layout, experiment=None)
    return [
        replace(one, label=f"{name} {one.label}".strip())
        for name, member in named.items()
        for one in _experiments(path, member, alone)
    ]


def _experiments(path: Path, tree: Mapping[str, Any], layout: Layout) -> list[Columns]:
    """Columns of every experiment, where cells and arrays of structures have one in each."""
    variables = _variables(path, tree, layout)
    counts = {name: len(found) for name, (found, _) in variables.items() if isinstance(found, list)}
    if not counts:
        one = _one_experiment(path, variables, layout)
        return _separated(path, layout, one, None, lambda k: f", sample {k}")
    if len(set(counts.values())) > 1:
        each = listed(f"'{name}' has {count}" for name, count in counts.items())
        raise InputError(f"{path}: unequal numbers of experiments ({each})")
    found: list[Columns] = []
    for k in range(next(iter(counts.values()))):
        # What there is once, such as the times, holds for all.
        own = {
            name: (values[k] if isinstance(values, list) else values, unit)
            for name, (values, unit) in variables.items()
        }
        one = replace(_one_experiment(path, own, layout), label=str(k + 1))
        where = lambda sample, k=k: f", sample {sample} of experiment {k + 1}"  # noqa: E731
        _check(path, layout, one, np.arange(len(one.y)), where)
        found.append(one)
    return found


def _one_experiment(
    path: Path, variables: Mapping[str, tuple[Any, str]], layout: Layout
) -> Columns:
    values: dict[str, Array] = {}
    for column, (found, _) in variables.items():
        if isinstance(found, list):
            raise ColumnError(
                column, f"'{column}' in {path} is a list of arrays: leave experiment out"
            )
        values[column] = found
    lengths = {column: len(series) for column, series in values.items()}
    if len(set(lengths.values())) > 1:
        counts = listed(f"'{column}' has {length}" for column, length in lengths.items())
        raise InputError(
            f"{path}: unequal numbers of samples ({counts}): cut them to the same length"
        )
    length = next(iter(lengths.values()))
    flags = {column: one for column, one in values.items() if column not in layout.wanted}
    y, told = without_unmeasured(_matrix(values, layout.outputs, length), flags)
    return Columns(
        t=None if layout.time is None else values[layout.time],
        u=_matrix(values, layout.inputs, length),
        y=y,
        units={column: unit for column, (_, unit) in variables.items() if unit},
        told=told,
    )


def _variables(path: Path, tree: Mapping[str, Any], layout: Layout) -> dict[str, tuple[Any, str]]:
    """Values and units of all columns that are wanted, and of flags; all are found before."""
    found = {column: _found(path, tree, column) for column in layout.wanted}
    found |= {column: _found(path, tree, column) for column in _flags(path, tree, layout)}
    return {column: _variable(path, column, *one) for column, one in found.items()}


def _flags(path: Path, tree: Mapping[str, Any], layout: Layout) -> list[str]:
    """Variables beside the outputs that say where nothing was measured."""
    found = list[str]()
    nested = {one: one.replace("/", ".").rpartition(".")[0] for one in layout.outputs}
    for place in dict.fromkeys("" if one in tree else nested[one] for one in layout.outputs):
        holder: Any = _found(path, tree, place)[0] if place else tree
        held = holder[0] if _is_list(holder) and len(holder) else holder
        names = held if isinstance(held, Mapping) else ()
        found += [f"{place}.{one}" if place else one for one in flags_among(names, ())]
    return [one for one in found if one not in layout.wanted]


def _variable(path: Path, column: str, found: Any, index: int | None) -> tuple[Any, str]:
    """Return a variable, (T,), and the unit stored with it; a list of them for experiments."""
    held = found[0] if _is_list(found) and len(found) else found
    if isinstance(held, Mapping):
        inside = listed(f"{column}.{part}" for part in held)
        remedy = f"choose one of {inside}" if inside else "it is empty"
        raise ColumnError(column, f"'{column}' in {path} holds variables: {remedy}")
    attributes = getattr(found, "attrs", {})
    unit = attributes.get("unit", attributes.get("units", ""))
    unit = unit.decode() if isinstance(unit, bytes) else str(unit)
    if _is_list(found):
        return [_series(path, column, np.asarray(one), index) for one in found], unit
    return _series(path, column, np.asarray(found), index), unit


def _found(path: Path, tree: Mapping[str, Any], column: str) -> tuple[Any, int | None]:
    """Return what has a name, which may be in structures, and the column of it that is meant."""
    name, index = (column, None) if column in tree else _indexed(column)
    found: Any = tree
    for part in [name] if name in tree else name.replace("/", ".").split("."):
        several = _is_list(found)
        inside = [_member(path, one, part, column) for one in (found if several else [found])]
        found = inside if several else inside[0]
    return found, index


def _indexed(column: str) -> tuple[str, int | None]:
    """Split ``"y[0]"`` into a name and the column of a matrix, None where it names none."""
    name, _, index = column.removesuffix("]").rpartition("[")
    indexed = column.endswith("]") and name and len(index) < 10 and index.isdecimal()
    return (name, int(index)) if indexed else (column, None)


def _member(path: Path, holder: Any, part: str, column: str) -> Any:
    if not isinstance(holder, Mapping) or part not in holder:
        known = list(holder) if isinstance(holder, Mapping) else []
        hint = ""
        with suppress(NotPlainError):
            hint = _holder_of(holder, part)
        raise _no_column(path, column, known, hint, part)
    return holder[part]


def _holder_of(tree: Any, part: str) -> str:
    """Say which structures of a file have a variable of this name."""
    for name, member in tree.items() if isinstance(tree, Mapping) else ():
        if isinstance(member, Mapping) and part in member:
            return f": write '{name}.{part}'"
        inside = member.values() if isinstance(member, Mapping) else member
        first = (
            next(iter(inside), None) if isinstance(member, Mapping) or _is_list(member) else None
        )
        if isinstance(first, Mapping) and part in first:
            return f": '{name}' has one in each member; say experiment = \"{name}\""
    return ""


def _is_list(value: Any) -> bool:
    """True if a value is a cell, or an array of structures."""
    return isinstance(value, list) or (
        isinstance(value, np.ndarray) and value.dtype == object and value.ndim <= 1
    )


def _series(path: Path, column: str, values: NDArray[Any], index: int | None) -> Array:
    """Return real numbers, (T,); of a matrix the samples go along its longer axis."""
    if values.dtype.kind not in "fiub":
        raise ColumnError(
            column,
            f"'{column}' in {path} holds {_kind(values)}, not real numbers: {_cure(values)}",
        )
    values = np.squeeze(values)
    if values.ndim == 2 and values.shape[0] < values.shape[1]:
        values = values.T
    if values.ndim == 2 and index is not None:
        if index >= values.shape[1]:
            raise ColumnError(
                column,
                f"'{column}' in {path}: it has {counted(values.shape[1], 'column')}, from [0] to "
                f"[{values.shape[1] - 1}]",
            )
        values = values[:, index]
    if values.ndim != 1:
        remedy = f"choose a column, as '{column}[0]'"
        if values.ndim != 2:
            remedy = "give one number for each sample"
        raise ColumnError(column, f"'{column}' in {path} has shape {values.shape}: {remedy}")
    return values.astype(float)


def _kind(values: NDArray[Any]) -> str:
    """The kind of entries, in words where numpy has none."""
    words = {
        "U": "text",
        "S": "text",
        "O": "objects or text",
        "c": "complex numbers",
        "V": "records",
    }
    return words.get(values.dtype.kind, str(values.dtype))


def _cure(values: NDArray[Any]) -> str:
    if values.dtype.kind == "c":
        return "save real and imaginary part as columns of their own"
    if values.dtype.kind in "mM":
        return "save seconds, as (t - t[0]) / np.timedelta64(1, 's')"
    return "save it as an array of numbers"


def _no_column(
    path: Path, column: str, known: list[str], remedy: str, part: str | None = None
) -> ColumnError:
    """Return the error for a column, or a part of its nested name, that the file lacks."""
    has = f"it has {listed(known)}" if known else "it has none"
    close = nearest(part or column, known)
    meant = f", {close}" if close.startswith("did") else ""
    return ColumnError(column, f"{path} has no '{column}' ({has}){meant}{remedy or _NAME_IT}")


def _objects(error: Exception) -> str:
    return "it holds Python objects" if "pickle" in str(error) else _one_line(error)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


if __name__ == "__main__":
    serve(_answered)
