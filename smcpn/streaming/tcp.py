"""Lines from a TCP server, over as many connections as it takes."""

from __future__ import annotations

import json
import socket
from collections.abc import Generator, Iterator
from threading import Event as Flag

from smcpn.streaming.backoff import Backoff, reconnecting
from smcpn.streaming.events import Event
from smcpn.streaming.files import CHUNK
from smcpn.streaming.source import Break, Position

POLL_SECONDS = 0.2
CONNECT_SECONDS = 5.0


class Tcp:
    """A client that reads lines, and connects again when the connection is lost.

    The server decides where it goes on after that. It may replay from its beginning, or from
    where it was. What comes twice is recognised by its time; what is missing is a gap in time.

    Parameters
    ----------
    host : str
    port : int
    announce : bool
        Send one line on every connection, ``{"resume_after": t, "resume_after_n": n}``: the time
        and the sequence number of the last sample read, null where there is none. A server that
        reads it need not replay.
    give_up : float, optional
        Seconds without data after which the source ends; it never does by default.
    """

    replays = False

    def __init__(
        self, host: str, port: int, announce: bool = False, give_up: float | None = None
    ) -> None:
        self._address = (host, port)
        self._announce, self._give_up = announce, give_up
        self.name = f"tcp://{host}:{port}"

    def read(self, stop: Flag, position: Position) -> Iterator[bytes | Event | Break]:
        """See `ByteSource.read`."""
        backoff = Backoff(self._give_up)

        def connection() -> Generator[bytes | Event, None, str]:
            with self._connection(position) as connected:
                yield Event("connected", self.name)
                yield from self._received(connected, stop, backoff)
            return "the server closed the connection"

        return reconnecting(self.name, connection, stop, backoff)

    def _connection(self, position: Position) -> socket.socket:
        connection = socket.create_connection(self._address, CONNECT_SECONDS)
        # Otherwise a server that vanished without a word is waited for forever.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, seconds in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, option):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), seconds)
        if self._announce:
            connection.sendall(_resume_line(position))
        connection.settimeout(POLL_SECONDS)
        return connection

    @staticmethod
    def _received(connection: socket.socket, stop: Flag, backoff: Backoff) -> Iterator[bytes]:
        while not stop.is_set():
            try:
                chunk = connection.recv(CHUNK)
            except TimeoutError:
                continue
            if not chunk:
                return
            backoff.reset()
            yield chunk


def _resume_line(position: Position) -> bytes:
    known = {"resume_after": position.t, "resume_after_n": position.number}
    return json.dumps(known).encode() + b"\n"
