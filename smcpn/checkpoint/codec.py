"""Dataclasses as groups of a file, written and read by the annotations of their fields.

A group holds a dataclass: the arrays in it, by the names of the fields that lead to them, and one
text of JSON for all else, in which an array is the path where it stands. pydantic reads the text
and checks every field, see `smcpn.base.stored`, before anything is made of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache, reduce
from typing import Any, TypeVar

import h5py
import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from smcpn.base.stored import Reading
from smcpn.checkpoint.container import DAMAGED, DamagedFileError, image
from smcpn.errors import InputError, shown
from smcpn.io.hdf5_subset import Group

TEXT = "fields"
"""Name of the text of a group."""

T = TypeVar("T")
_NOTHING: Mapping[str, Any] = {}


@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def encoded(
    kind: str,
    parts: Mapping[str, Any],
    onto: bytes = b"",
    beside: Mapping[str, NDArray[Any]] | None = None,
) -> bytes:
    """Return the bytes of a file.

    The kind is one of `smcpn.checkpoint.container.KINDS`; each part, a dataclass, is in the group
    of its name. ``onto`` is the image of a file to add these to, and ``beside`` has further arrays,
    for other readers.
    """

    def fill(file: h5py.File) -> None:
        for name, value in parts.items():
            _write(file.create_group(name), value)
        for name, values in (beside or {}).items():
            file[name] = values

    return image(kind, fill, onto)


def _write(group: h5py.Group, value: Any) -> None:
    document, arrays = written(value)
    group[TEXT] = np.bytes_(json.dumps(document, default=_plain).encode())
    for path, values in arrays.items():
        group[path] = values


def _plain(number: np.generic) -> Any:
    """Return a number of numpy as one of Python."""
    return number.item()


def written(value: Any) -> tuple[Any, dict[str, NDArray[Any]]]:
    """Return a dataclass as values for JSON, with its arrays by the paths that stand for them."""
    arrays: dict[str, NDArray[Any]] = {}
    tree = _adapter(type(value)).dump_python(value, warnings=False)
    return _without_arrays(tree, "", arrays), arrays


def plain(value: Any) -> Any:
    """Return a dataclass as values for JSON, with lists in place of its arrays, to be compared."""
    tree = _adapter(type(value)).dump_python(value, warnings=False)
    return json.loads(json.dumps(tree, default=lambda one: one.tolist()))


def read_again(value: T) -> T:
    """Return a dataclass as it comes back from a file; errors as of `decoded`."""
    document, arrays = written(value)
    return made(json.dumps(document), Reading(arrays), type(value))


def _without_arrays(tree: Any, path: str, arrays: dict[str, NDArray[Any]]) -> Any:
    """Return a tree with its arrays replaced by their paths, under which they are put."""
    if isinstance(tree, np.ndarray):
        arrays[path] = tree
        return path
    if isinstance(tree, Mapping):
        entries = tree.items()
        return {k: _without_arrays(v, f"{path}/{k}".lstrip("/"), arrays) for k, v in entries}
    if isinstance(tree, (list, tuple)):
        return [_without_arrays(v, f"{path}/{k}", arrays) for k, v in enumerate(tree)]
    return tree


def require_parts(file: Group, *names: str) -> None:
    """Refuse a file that holds anything but parts of these names."""
    if file.arrays or file.texts or not file.groups.keys() <= set(names):
        raise DamagedFileError(f"there is more in it than {', '.join(names)}: {DAMAGED}")


def decoded(
    file: Group,
    part: str,
    kind: type[T],
    sizes: Mapping[str, int] = _NOTHING,
    given: Mapping[str, Any] = _NOTHING,
) -> T:
    """Return the dataclass that a part of a file holds, with nothing beside it.

    ``sizes`` are those that are known, ``given`` fields that other parts hold. A `DamagedFileError`
    names the first field that is absent or something else, an `InputError` a name that is not known
    here.
    """
    group = reduce(Group.group, part.split("/"), file)
    if group.texts.keys() != {TEXT}:
        raise DamagedFileError(f"'{part}' is absent: {DAMAGED}")
    arrays = _arrays_of(replace(group, texts={}))
    return made(group.texts[TEXT], Reading(arrays, dict(sizes), given), kind)


def numbered(values: Iterable[T], part: str) -> dict[str, T]:
    """Return values as parts of a file within one: ``"records/0"``, ``"records/1"``, ..."""
    return {f"{part}/{number}": value for number, value in enumerate(values)}


def decoded_all(file: Group, part: str, kind: type[T]) -> tuple[T, ...]:
    """Return the dataclasses that the `numbered` parts of a file hold; errors as of `decoded`."""
    group = file.group(part)
    names = [str(number) for number in range(len(group.groups))]
    if group != Group(groups=group.groups) or set(group.groups) != set(names):
        raise DamagedFileError(f"{part} are not numbered: {DAMAGED}")
    return tuple(decoded(group, name, kind) for name in names)


def made(text: str, reading: Reading, kind: type[T]) -> T:
    """Return the dataclass of a text and of arrays, of which none is left; see `decoded`."""
    _require_single_names(text)
    try:
        value = _adapter(kind).validate_json(text, strict=True, context=reading)
    except ValidationError as error:
        raise _in_one_sentence(error) from None
    if reading.arrays:
        raise DamagedFileError(f"{shown(min(reading.arrays))} is not known: {DAMAGED}")
    return value


def _in_one_sentence(error: ValidationError) -> InputError:
    """Return what pydantic found first as the sentence a user reads."""
    first: Mapping[str, Any] = error.errors()[0]
    name = shown(".".join(str(part) for part in first["loc"])).strip("'\"")
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        return cause
    entry = f"'{name}'" if name else "document"
    if first["type"] == "missing":
        return DamagedFileError(f"stored document lacks {entry}: {DAMAGED}")
    if isinstance(cause, ValueError):
        return DamagedFileError(f"stored {entry} {cause}: {DAMAGED}")
    return DamagedFileError(f"stored {entry} is {shown(first['input'])}: {DAMAGED}")


def _arrays_of(group: Group) -> dict[str, NDArray[Any]]:
    """Return the arrays in a group and in the groups within, by their paths."""
    if group.texts or group.attributes or any(one.attributes for one in group.arrays.values()):
        raise DamagedFileError(f"there is more among the arrays than these: {DAMAGED}")
    found = {name: one.values for name, one in group.arrays.items()}
    for name, inner in group.groups.items():
        found |= {f"{name}/{path}": values for path, values in _arrays_of(inner).items()}
    return found


def _require_single_names(text: str) -> None:
    """Refuse JSON with an object that has a name twice."""
    try:
        json.loads(text, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(f"its text is {shown(str(error))}: {DAMAGED}") from None


def _object(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("an object with a name twice")
