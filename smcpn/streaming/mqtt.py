"""Lines in the messages of an MQTT topic."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from threading import Event as Flag
from typing import Any

from smcpn.errors import InputError
from smcpn.streaming.backoff import Backoff, reconnecting
from smcpn.streaming.events import Event
from smcpn.streaming.source import Break, Position, Receipt

KEEPALIVE_SECONDS = 60
BUSY_SECONDS, IDLE_SECONDS = 0.005, 0.2
"""Waiting for the network while absorbed messages await their acknowledgement, and otherwise."""


class Mqtt:
    """A subscriber whose session the broker keeps (QoS 1), so that nothing is missed while away.

    A message holds one line or several. It is acknowledged once its samples are absorbed; what a
    killed process had not absorbed the broker sends again.

    Parameters
    ----------
    host : str
    port : int
    topic : str
    client_id : str
        The name of the session: the same after a restart, another one for another reader.
    username, password : str, optional
    give_up : float, optional
        Seconds without a message after which a lost connection is given up; never by default.

    Raises
    ------
    InputError
        If paho-mqtt is not installed.
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
    ) -> None:
        self._address, self._topic, self._give_up = (host, port), topic, give_up
        self.name = f"mqtt://{host}:{port}/{topic}"
        self._received: deque[Any] = deque()
        self._refused = ""
        # Appended to by the thread that identifies, emptied by the one that owns the connection.
        self._absorbed: deque[tuple[int, Any]] = deque()
        self._connections = 0
        self._pending = 0
        self._client = self._make_client(client_id)
        if username is not None:
            self._client.username_pw_set(username, password)

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
        else:
            client.subscribe(self._topic, qos=1)

    def _on_subscribe(self, client: Any, data: Any, mid: int, reasons: Any, more: Any) -> None:
        if any(reason.is_failure for reason in reasons):
            self._refused = f"the subscription was refused: {reasons[0]}"
        else:
            self._received.append(Event("connected", self.name))

    def read(self, stop: Flag, position: Position) -> Iterator[bytes | Event | Receipt | Break]:
        """See `ByteSource.read`."""
        backoff = Backoff(self._give_up)

        def connection() -> Generator[bytes | Event | Receipt, None, str]:
            self._refused = ""
            self._client.connect(*self._address, keepalive=KEEPALIVE_SECONDS)
            yield from self._messages(stop, backoff)
            return self._refused or "the connection was lost"

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
            if self._client.loop(seconds) != 0 or self._refused:
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
        yield Receipt(lambda: self._absorbed.append((here, message)))

    def _acknowledge(self) -> None:
        while self._absorbed:
            connection, message = self._absorbed.popleft()
            if connection == self._connections:
                self._pending -= 1
                self._client.ack(message.mid, message.qos)
