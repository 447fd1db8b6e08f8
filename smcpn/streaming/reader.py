"""A source read in a thread of its own, a bounded number of items ahead."""

from __future__ import annotations

import queue
import threading

from smcpn.streaming.source import Item, Source

AHEAD = 1024
"""Most items read ahead. A reader that is this far ahead stops reading: a pipe or a TCP connection
then holds its sender back, and no sample is dropped."""
_POLL_SECONDS = 0.1


class Reader:
    """Read a source ahead.

    Parameters
    ----------
    source : Source
    ahead : int
        Most items that wait.
    """

    def __init__(self, source: Source, ahead: int = AHEAD) -> None:
        self._source = source
        self._items: queue.Queue[Item | None] = queue.Queue(maxsize=ahead)
        self._stop = threading.Event()
        self._failure: Exception | None = None
        # A daemon: a read from standard input cannot be interrupted.
        self._thread = threading.Thread(target=self._read, name="smcpn-source", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Items read and not yet taken."""
        return self._items.qsize()

    def take(self) -> Item | None:
        """Return the next item, or None where none has come for a tenth of a second.

        Raises
        ------
        EOFError
            At the end of the source.
        Exception
            What reading raised.
        """
        try:
            item = self._items.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            return None
        if item is not None:
            return item
        if self._failure is not None:
            raise self._failure
        raise EOFError

    def close(self) -> None:
        """Stop reading; what waits is left where it is."""
        self._stop.set()
        self._thread.join(timeout=1.0)

    def _read(self) -> None:
        try:
            for item in self._source.items(self._stop):
                if not self._put(item):
                    return
        except Exception as error:
            self._failure = error
        self._put(None)

    def _put(self, item: Item | None) -> bool:
        """Put an item once there is room; whether it was wanted."""
        while not self._stop.is_set():
            try:
                self._items.put(item, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return True
        return False
