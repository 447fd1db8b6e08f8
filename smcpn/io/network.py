"""Sources over a network: lines from a TCP server, or in the messages of an MQTT topic.

Both connect again when a connection is lost, after waiting times that double (`Backoff`).
"""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from threading import Event as Flag
from typing import Any, TypeVar

from smcpn.errors import InputError
from smcpn.io.events import Event
from smcpn.io.sources import CHUNK, Break, Position, Receipt

FIRST_SECONDS, LONGEST_SECONDS = 0.1, 5.0
T = TypeVar("T")


class Backoff:
    """Waiting times that double from 0.1 s to 5 s, and when to give up.

    With ``give_up`` no further attempt is made after so many seconds without data.
    """

    def __init__(self, give_up: float | None = None) -> None:
        self._give_up = give_up
        self._next = FIRST_SECONDS
        self._last_success = time.monotonic()

    def reset(self) -> None:
        """Restart the waiting times, after data have come."""
        self._next, self._last_success = FIRST_SECONDS, time.monotonic()

    @property
    def silence(self) -> str:
        """Say that no data have come for too long; "" while that is not so."""
        silent = time.monotonic() - self._last_success
        if self._give_up is None or silent < self._give_up:
            return ""
        return f"no data for {silent:.3g} s"

    def wait(self) -> float | None:
        """Seconds to the next attempt; None to give up."""
        if self.silence:
            return None
        seconds, self._next = self._next, min(2 * self._next, LONGEST_SECONDS)
        return seconds


def reconnecting(
    name: str, connection: Callable[[], Generator[T, None, str]], stop: Flag, backoff: Backoff
) -> Iterator[T | Event | Break]:
    """Yield what one connection after the other delivers.

    ``name`` is for messages; ``connection`` connects and yields until the connection is lost, and
    returns why, or raises OSError.
    """
    while not stop.is_set():
        try:
            reason = yield from connection()
        except OSError as error:
            reason = error.strerror or str(error) or type(error).__name__
        if stop.is_set():
            return
        yield Break(lossy=True)
        seconds = backoff.wait()
        what = "given up" if seconds is None else f"next attempt in {seconds:.1f} s"
        yield Event("disconnected", f"{name}: {reason}; {what}")
        if seconds is None:
            return
        stop.wait(seconds)


POLL_SECONDS = 0.2
CONNECT_SECONDS = 5.0


class Tcp:
    """A client that reads lines, and connects again when the connection is lost.

    The server decides where it goes on after that. It may replay from its beginning, or from
    where it was. What comes twice is recognised by its time; what is missing is a gap in time.

    announce: Send one line on every connection, ``{"resume_after": t, "resume_after_n": n}``: the
        time and the sequence number of the last sample read, null where there is none. A server
        that reads it need not replay.
    give_up: Seconds without data after which the source ends; it never does by default.
    tls: For a connection over TLS.
    """

    replays = False

    def __init__(
        self,
        host: str,
        port: int,
        announce: bool = False,
        give_up: float | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._address = (host, port)
        self._announce, self._give_up, self._tls = announce, give_up, tls
        self.name = f"{'tcp' if tls is None else 'tls'}://{host}:{port}"

    def read(self, stop: Flag, position: Position) -> Iterator[bytes | Event | Break]:
        """Yield bytes and what happens until the source ends or ``stop`` is set."""
        backoff = Backoff(self._give_up)

        def connection() -> Generator[bytes | Event, None, str]:
            with self._connection(position) as connected:
                yield Event("connected", self.name)
                yield from self._received(connected, stop, backoff)
            return backoff.silence or "the server closed the connection"

        return reconnecting(self.name, connection, stop, backoff)

    def _connection(self, position: Position) -> socket.socket:
        connection = socket.create_connection(self._address, CONNECT_SECONDS)
        if self._tls is not None:
            connection = self._tls.wrap_socket(connection, server_hostname=self._address[0])
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
        while not stop.is_set() and not backoff.silence:
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


KEEPALIVE_SECONDS = 60
DENIALS = ("Bad user name or password", "Not authorized", "Banned", "Bad authentication method")
"""Answers of a broker that another attempt does not change."""
BUSY_SECONDS, IDLE_SECONDS = 0.005, 0.2
"""Waiting for the network while assimilated messages await their acknowledgement, and otherwise."""


class Mqtt:
    """A subscriber whose session the broker keeps (QoS 1), so that nothing is missed while away.

    A message holds one line or several. It is acknowledged once its samples are assimilated; what a
    killed process had not assimilated the broker sends again.

    client_id: The name of the session: the same after a restart, another one for another reader.
    give_up: Seconds without a message after which the source ends; it never does by default.
    tls: For a connection over TLS.

    Raises `InputError` if paho-mqtt is not installed.
    """

    replays = False

    def __init__(
        self,
        host: str,
        port: int,
        topic: str,
        client_id: str,
        username: str | None = None,
        password: str | None = None,
        give_up: float | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._address, self._topic, self._give_up = (host, port), topic, give_up
        self.name = f"{'mqtt' if tls is None else 'mqtts'}://{host}:{port}/{topic}"
        self._received: deque[Any] = deque()
        self._refused, self._denied = "", False
        # Appended to by the thread that identifies, emptied by the one that owns the connection.
        self._assimilated: deque[tuple[int, Any]] = deque()
        self._connections = 0
        self._pending = 0
        self._client = self._make_client(client_id)
        if username is not None:
            self._client.username_pw_set(username, password)
        if tls is not None:
            self._client.tls_set_context(tls)

    def _make_client(self, client_id: str) -> Any:
        try:
            from paho.mqtt.client import Client
            from paho.mqtt.enums import CallbackAPIVersion
        except ImportError as error:
            raise InputError("mqtt needs paho-mqtt: pip install smcpn[mqtt]") from error
        client = Client(
            CallbackAPIVersion.VERSION2, client_id, clean_session=False, manual_ack=True
        )
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_message = lambda client, data, message: self._received.append(message)
        return client

    def _on_connect(self, client: Any, data: Any, flags: Any, reason: Any, more: Any) -> None:
        if reason.is_failure:
            self._refused = str(reason)
            self._denied = reason.getName() in DENIALS
        else:
            client.subscribe(self._topic, qos=1)

    def _on_subscribe(self, client: Any, data: Any, mid: int, reasons: Any, more: Any) -> None:
        if any(reason.is_failure for reason in reasons):
            self._refused = f"the subscription was refused: {reasons[0]}"
            self._denied = True
        else:
            self._received.append(Event("connected", self.name))

    def read(self, stop: Flag, position: Position) -> Iterator[bytes | Event | Receipt | Break]:
        """Yield bytes and what happens until the source ends or ``stop`` is set."""
        backoff = Backoff(self._give_up)

        def connection() -> Generator[bytes | Event | Receipt, None, str]:
            self._refused = ""
            self._client.connect(*self._address, keepalive=KEEPALIVE_SECONDS)
            yield from self._messages(stop, backoff)
            if self._denied:
                raise InputError(
                    f"{self.name}: the broker says '{self._refused}': check user and password "
                    "(--credentials) and what they may read"
                )
            return self._refused or backoff.silence or "the connection was lost"

        yield from reconnecting(self.name, connection, stop, backoff)
        self._acknowledge()
        self._client.disconnect()

    def _messages(self, stop: Flag, backoff: Backoff) -> Iterator[bytes | Event | Receipt]:
        """Yield the messages of one connection."""
        self._connections += 1
        # The broker sends again what was not acknowledged on the last connection.
        self._pending = 0
        self._received.clear()
        while not stop.is_set():
            self._acknowledge()
            seconds = BUSY_SECONDS if self._pending else IDLE_SECONDS
            if self._client.loop(seconds) != 0 or self._refused or backoff.silence:
                return
            while self._received and not stop.is_set():
                backoff.reset()
                received = self._received.popleft()
                if isinstance(received, Event):
                    yield received
                else:
                    yield from self._delivered(received)

    def _delivered(self, message: Any) -> Iterator[bytes | Receipt]:
        self._pending += 1
        here = self._connections
        yield message.payload.removesuffix(b"\n") + b"\n"
        yield Receipt(lambda: self._assimilated.append((here, message)))

    def _acknowledge(self) -> None:
        while self._assimilated:
            connection, message = self._assimilated.popleft()
            if connection == self._connections:
                self._pending -= 1
                self._client.ack(message.mid, message.qos)
