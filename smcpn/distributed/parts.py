"""Likelihoods as messages: what is large travels once, by its fingerprint.

Machine code and rows of records are *parts*. The rest of a likelihood, some hundred bytes, names
them by SHA-256 and goes with every task; a worker asks for the parts that it lacks.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from smcpn.codegen.kernel import Rows
from smcpn.codegen.native import Code
from smcpn.likelihood.rows import LongRows

PARTS = (Code, Rows, LongRows)
"""Classes of what travels by itself."""
KEPT = 64
"""Parts that a worker keeps, or as many as came together; those used longest ago are dropped."""


@dataclass(frozen=True)
class Message:
    """A pickled object without its parts, and their fingerprints."""

    content: bytes
    needs: tuple[str, ...]


class Sender:
    """Writes messages, and the parts that they name."""

    def __init__(self) -> None:
        # The object is kept, for its id may otherwise be that of another.
        self._known: dict[int, tuple[Any, str]] = {}
        self._parts: dict[str, Any] = {}

    def message(self, sent: Any) -> Message:
        """Return an object as a message."""
        file, needs = io.BytesIO(), dict[str, None]()
        _Pickler(file, self, needs).dump(sent)
        return Message(file.getvalue(), tuple(needs))

    def part(self, fingerprint: str) -> bytes:
        """Return a part by its fingerprint."""
        return _written(self._parts[fingerprint])

    def fingerprint(self, part: Any) -> str:
        """SHA-256 of a part, as hexadecimal digits."""
        if id(part) not in self._known:
            found = hashlib.sha256(_written(part)).hexdigest()
            self._known[id(part)] = part, found
            self._parts.setdefault(found, part)
        return self._known[id(part)][1]


def _written(part: Any) -> bytes:
    return pickle.dumps(part, protocol=pickle.HIGHEST_PROTOCOL)


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, sender: Sender, needs: dict[str, None]) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._sender, self._needs = sender, needs

    def persistent_id(self, obj: Any) -> str | None:
        if not isinstance(obj, PARTS):
            return None
        fingerprint = self._sender.fingerprint(obj)
        self._needs[fingerprint] = None
        return fingerprint


class Store:
    """The parts that this process has received, and the objects that it made of messages."""

    def __init__(self) -> None:
        self._parts: OrderedDict[str, Any] = OrderedDict()
        self._objects: OrderedDict[bytes, Any] = OrderedDict()
        self._lock = threading.RLock()

    def receive(self, parts: Mapping[str, bytes]) -> None:
        """Keep parts, by their fingerprints."""
        for fingerprint, content in parts.items():
            part = pickle.loads(content)
            with self._lock:
                _keep(self._parts, fingerprint, part, max(KEPT, len(parts)))

    def lacking(self, needs: Iterable[str]) -> tuple[str, ...]:
        """Return those of some fingerprints whose parts are not here."""
        with self._lock:
            return tuple(one for one in needs if one not in self._parts)

    def read(self, message: Message) -> Any:
        """Return the object of a message.

        Raises
        ------
        KeyError
            If a part is not here.
        """
        with self._lock:
            if message.content not in self._objects:
                made = _Unpickler(io.BytesIO(message.content), self).load()
                _keep(self._objects, message.content, made)
            return self._objects[message.content]

    def part(self, fingerprint: str) -> Any:
        """Return a part, and keep it longest."""
        with self._lock:
            self._parts.move_to_end(fingerprint)
            return self._parts[fingerprint]


def _keep(kept: OrderedDict[Any, Any], key: Any, value: Any, most: int = KEPT) -> None:
    """Add a value, and drop the oldest where there are too many."""
    kept[key] = value
    while len(kept) > most:
        kept.popitem(last=False)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, store: Store) -> None:
        super().__init__(file)
        self._store = store

    def persistent_load(self, pid: str) -> Any:
        return self._store.part(pid)
