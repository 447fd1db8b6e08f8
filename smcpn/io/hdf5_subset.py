"""Read the plain part of HDF5: groups, arrays of numbers stored in one piece, and short texts.

A file may come from anywhere, and the HDF5 library is no safe reader of one: four in six thousand
damaged files corrupt its memory, and well-formed ones may name other files, declare arrays of any
size, or load filters. So what was written by it, in the oldest form of the format, is read here
from bytes by the format's specification. Whatever else a file may hold has no code to read it.

References
----------
The HDF Group. HDF5 File Format Specification, version 3.0: superblock version 0, object headers
and symbol tables of version 1, contiguous and compact data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_PARTS = 1 << 20
"""Names, attributes and other parts of objects, of a file together: a second's work."""
LONGEST_NAME = 256
DEEPEST = 16
"""Groups within each other."""
MOST_DIMENSIONS = 8
LONGEST_SIDE = 1 << 31

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_VERSIONS = bytes([0, 0, 0, 0, 0, 8, 8, 0])
"""Of superblock, free space, root and shared headers; sizes of offsets and lengths."""
_DATASPACE, _DATATYPE, _LAYOUT, _ATTRIBUTE, _CONTINUED, _MEMBERS = 0x1, 0x3, 0x8, 0xC, 0x10, 0x11
_IGNORED = frozenset({0x0, 0x4, 0x5, 0x12})
"""Messages that change nothing: padding, fill values of whole arrays, times of modification."""
_KNOWN = frozenset({_DATASPACE, _DATATYPE, _LAYOUT, _ATTRIBUTE, _MEMBERS})
_COMPACT, _CONTIGUOUS = 0, 1
_STRING, _COMPOUND = 3, 6


class NotPlainError(ValueError):
    """A file holds what is no plain data."""


@dataclass(frozen=True)
class Group:
    """Content of a group of an HDF5 file.

    attributes: Numbers, texts and arrays.
    """

    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    arrays: dict[str, Array] = field(default_factory=dict[str, "Array"])
    texts: dict[str, str] = field(default_factory=dict[str, str])
    groups: dict[str, Group] = field(default_factory=dict[str, "Group"])

    def group(self, name: str) -> Group:
        """Return the group of a name; an empty one where there is none."""
        return self.groups.get(name, Group())


@dataclass(frozen=True)
class Array:
    """An array with its attributes."""

    values: NDArray[Any]
    attributes: dict[str, Any]


def read_plain(content: bytes) -> Group:
    """Return all that a file holds.

    The content is that from the superblock on, without a user block; all arrays together have at
    most its length. Anything but what the module names, and what is damaged, raises
    `NotPlainError`.
    """
    if content[:16] != _SIGNATURE + _VERSIONS:
        raise NotPlainError("it is no HDF5 file of the oldest form")
    return _Reader(content).root()


Messages = list[tuple[int, bytes]]


class _Reader:
    """Reads objects at addresses, each once, and counts what is left of the bounds."""

    def __init__(self, content: bytes) -> None:
        self._content, self._bytes, self._parts = content, len(content), MOST_PARTS
        self._seen: set[int] = set()

    def number(self, begin: int, size: int) -> int:
        """Return an unsigned number."""
        return _number(self._content, begin, size)

    def root(self) -> Group:
        """Return the group that holds all others."""
        return self._group(self._messages(self.number(64, 8)), DEEPEST)

    def _group(self, messages: Messages, depth: int) -> Group:
        """Return the group of an object header with all that it holds."""
        if depth == 0:
            raise NotPlainError(f"its groups are more than {DEEPEST} deep")
        found = Group(attributes=self._attributes(messages))
        for name, address in self._members(_only(messages, _MEMBERS)):
            if name in found.arrays or name in found.texts or name in found.groups:
                raise NotPlainError(f"'{name}' is there twice")
            own = self._messages(address)
            if any(kind == _MEMBERS for kind, _ in own):
                found.groups[name] = self._group(own, depth - 1)
                continue
            values = self._values(own)
            if values.ndim == 0 and values.dtype.kind == "S":
                found.texts[name] = _text(values.item())
            else:
                found.arrays[name] = Array(values, self._attributes(own))
        return found

    def _take(self, address: int, size: int) -> None:
        """Count a piece of the file, and refuse it if it was read before or is not there.

        Pieces of a file that HDF5 wrote do not overlap.
        """
        if address in self._seen:
            raise NotPlainError(f"what is at byte {address} has several names")
        self._seen.add(address)
        self._bytes -= size
        if self._bytes < 0 or address + size > len(self._content):
            raise NotPlainError("its parts are larger than the file")

    def _count(self) -> None:
        self._parts -= 1
        if self._parts < 0:
            raise NotPlainError(f"it has more than {MOST_PARTS} parts")

    def _messages(self, address: int) -> Messages:
        """Return the messages of an object header, with those of the blocks that continue it."""
        self._take(address, 16)
        if self.number(address, 2) != 1:
            raise NotPlainError(f"the object at byte {address} is not of the oldest form")
        blocks, found = [(address + 16, self.number(address + 8, 4))], Messages()
        for begin, size in blocks:
            self._take(begin, size)
            end = begin + size
            while begin + 8 <= end:
                self._count()
                kind, length = self.number(begin, 2), self.number(begin + 2, 2)
                if self.number(begin + 4, 1) & 2 or begin + 8 + length > end:
                    raise NotPlainError("a part of it is too long, or shared")
                body = self._content[begin + 8 : begin + 8 + length]
                begin += 8 + length
                if kind == _CONTINUED:
                    blocks.append((_number(body, 0, 8), _number(body, 8, 8)))
                elif kind not in _IGNORED:
                    found.append((kind, body))
        if not _KNOWN.issuperset(kind for kind, _ in found):
            raise NotPlainError("it holds links, filters, or data in other files")
        return found

    def _members(self, table: bytes) -> Iterator[tuple[str, int]]:
        """Yield names and addresses of what a symbol table lists."""
        heap = _number(table, 8, 8)
        if self._content[heap : heap + 4] != b"HEAP":
            raise NotPlainError("a group has no names")
        names = self.number(heap + 24, 8)
        for node in self._leaves(_number(table, 0, 8)):
            for entry in range(node + 8, node + 8 + 40 * self.number(node + 6, 2), 40):
                self._count()
                begin = names + self.number(entry, 8)
                end = self._content.find(b"\0", begin, begin + LONGEST_NAME)
                if not begin < end or self.number(entry + 16, 4) > 1:
                    raise NotPlainError("a name is empty, too long, or that of a link")
                yield _text(self._content[begin:end]), self.number(entry + 8, 8)

    def _leaves(self, root: int) -> Iterator[int]:
        """Yield the addresses of the nodes that list members, from a tree of them."""
        nodes = [root]
        while nodes:
            node = nodes.pop()
            used = self.number(node + 6, 2)
            if self._content[node : node + 4] == b"SNOD":
                self._take(node, 8 + 40 * used)
                yield node
            elif self._content[node : node + 5] == b"TREE\0":
                self._take(node, 32 + 16 * used)
                nodes += [self.number(node + 32 + 16 * k, 8) for k in reversed(range(used))]
            else:
                raise NotPlainError("a group has no members")

    def _values(self, messages: Messages) -> NDArray[Any]:
        """Return the array of a dataset."""
        dtype, _ = _dtype(_only(messages, _DATATYPE))
        shape = _shape(_only(messages, _DATASPACE))
        layout, size = _only(messages, _LAYOUT), math.prod(shape) * dtype.itemsize
        form = layout[:2]
        if form == bytes([3, _COMPACT]) and _number(layout, 2, 2) == size:
            return _array(layout[4 : 4 + size], dtype, shape)
        if form != bytes([3, _CONTIGUOUS]) or _number(layout, 10, 8) != size:
            raise NotPlainError("an array has chunks, or is not stored whole")
        if size == 0:
            return _array(b"", dtype, shape)
        address = _number(layout, 2, 8)
        self._take(address, size)
        return _array(self._content[address : address + size], dtype, shape)

    def _attributes(self, messages: Messages) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for body in (body for kind, body in messages if kind == _ATTRIBUTE):
            if _number(body, 0, 1) != 1:
                raise NotPlainError("an attribute is not of the oldest form")
            ends = [8]
            for begin in (2, 4, 6):
                ends.append(ends[-1] + -(-_number(body, begin, 2) // 8) * 8)
            name, kind, space = (body[a:b] for a, b in pairwise(ends))
            (dtype, _), shape = _dtype(kind), _shape(space)
            value = _array(body[ends[-1] :][: math.prod(shape) * dtype.itemsize], dtype, shape)
            plain = value.item() if value.ndim == 0 and dtype.fields is None else value
            label = _text(name.rstrip(b"\0"))
            if label in found:
                raise NotPlainError(f"attribute '{label}' is there twice")
            found[label] = _text(plain) if isinstance(plain, bytes) else plain
        return found


def _only(messages: Messages, kind: int) -> bytes:
    """Return the one message of a kind."""
    bodies = [body for number, body in messages if number == kind]
    if len(bodies) != 1:
        raise NotPlainError("an object is neither a group nor an array")
    return bodies[0]


def _number(data: bytes, begin: int, size: int) -> int:
    if begin + size > len(data):
        raise NotPlainError("a part of it is too short")
    return int.from_bytes(data[begin : begin + size], "little")


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise NotPlainError("a text is not in UTF-8") from None


def _array(data: bytes, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    if len(data) != math.prod(shape) * dtype.itemsize:
        raise NotPlainError("an array is not whole")
    return np.ndarray(shape, dtype, data).copy()


def _shape(space: bytes) -> tuple[int, ...]:
    dimensions = _number(space, 1, 1)
    if _number(space, 0, 1) != 1 or dimensions > MOST_DIMENSIONS:
        raise NotPlainError("the shape of an array is not of the oldest form")
    shape = tuple(_number(space, 8 + 8 * k, 8) for k in range(dimensions))
    # An empty array may have one side of any length, beyond what numpy can count.
    if max(shape, default=0) > LONGEST_SIDE or math.prod(n or 1 for n in shape) > LONGEST_SIDE:
        raise NotPlainError("an array is larger than the file")
    return shape


_WHOLE = {
    bytes([0x10, sign, 0, 0, size, 0, 0, 0, 0, 0, 8 * size, 0]): np.dtype(f"<{kind}{size}")
    for sign, kind in ((8, "i"), (0, "u"))
    for size in (1, 2, 4, 8)
}
_DOUBLE = bytes.fromhex("11203f000800000000004000340b0034ff030000")
_MEMBER_BYTES = 32
"""Of a field of a table between its name and its type."""


def _dtype(data: bytes) -> tuple[np.dtype[Any], int]:
    """Return the type that a message begins with, and how many bytes describe it."""
    if data[:12] in _WHOLE:
        return _WHOLE[data[:12]], 12
    if data[:20] == _DOUBLE:
        return np.dtype("<f8"), 20
    kind, size = _number(data, 0, 1), _number(data, 4, 4)
    if kind == 0x10 | _STRING and 0 < size < 1 << 31:
        return np.dtype(f"S{size}"), 8
    if kind == 0x10 | _COMPOUND:
        return _table(data, size)
    raise NotPlainError("an array is of a type that is no plain number, text, or table")


def _table(data: bytes, size: int) -> tuple[np.dtype[Any], int]:
    """Return the type of a table, whose columns follow each other without gaps."""
    fields: list[tuple[str, np.dtype[Any]]] = []
    place, offset = 8, 0
    for _ in range(_number(data, 1, 2)):
        end = data.find(b"\0", place)
        if end < 0:
            raise NotPlainError("a table has columns without names")
        name = _text(data[place:end])
        place += -(-(end + 1 - place) // 8) * 8
        dtype, length = _dtype(data[place + _MEMBER_BYTES :])
        if _number(data, place, 4) != offset or _number(data, place + 4, 1):
            raise NotPlainError("a table has gaps")
        if dtype.fields is not None or name in dict(fields):
            raise NotPlainError("a table has columns of columns, or two of a name")
        fields.append((name, dtype))
        offset, place = offset + dtype.itemsize, place + _MEMBER_BYTES + length
    if offset != size or not fields:
        raise NotPlainError("a table has gaps")
    return np.dtype(fields), place
