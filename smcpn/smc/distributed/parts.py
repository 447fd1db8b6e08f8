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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smcpn.codegen.kernel import Rows
from smcpn.codegen.native import Code
from smcpn.likelihood.inputs import KernelRows

PARTS = (Code, Rows, KernelRows)
"""Classes of what travels by itself."""
MOST_BYTES = 2**28
"""Parts that a worker keeps, or as many as came together; those used longest ago are dropped."""
MOST_OBJECTS = 64
"""Objects of messages that it keeps, but for those of which a part is dropped."""


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
        self._parts: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        """With the bytes of each; those used last come last."""
        self._objects: OrderedDict[Message, Any] = OrderedDict()
        self._lock = threading.RLock()

    @property
    def n_bytes(self) -> int:
        """Bytes that all parts take here."""
        return sum(size for _, size in self._parts.values())

    def receive(self, parts: Mapping[str, bytes]) -> None:
        """Keep parts, by their fingerprints, in place of those used longest ago."""
        received = {one: (pickle.loads(content), len(content)) for one, content in parts.items()}
        with self._lock:
            for fingerprint, part in received.items():
                self._parts[fingerprint] = part
                self._parts.move_to_end(fingerprint)
            most = max(MOST_BYTES, sum(map(len, parts.values())))
            while self.n_bytes > most:
                self._drop()

    def read(self, message: Message) -> Any:
        """Return the object of a message, or None if a part is not here."""
        with self._lock:
            if not all(one in self._parts for one in message.needs):
                return None
            for fingerprint in message.needs:
                self._parts.move_to_end(fingerprint)
            if message not in self._objects:
                parts = {one: self._parts[one][0] for one in message.needs}
                self._objects[message] = _Unpickler(io.BytesIO(message.content), parts).load()
            self._objects.move_to_end(message)
            if len(self._objects) > MOST_OBJECTS:
                self._objects.popitem(last=False)
            return self._objects[message]

    def _drop(self) -> None:
        """Drop the part used longest ago, and the objects that hold it."""
        dropped, _ = self._parts.popitem(last=False)
        for message in [one for one in self._objects if dropped in one.needs]:
            del self._objects[message]


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, parts: Mapping[str, Any]) -> None:
        super().__init__(file)
        self._parts = parts

    def persistent_load(self, pid: str) -> Any:
        return self._parts[pid]
