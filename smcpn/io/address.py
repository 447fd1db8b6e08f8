"""A source from its address."""

from __future__ import annotations

import hashlib
from urllib.parse import SplitResult, urlsplit

from smcpn.errors import InputError
from smcpn.io.network import Tcp
from smcpn.io.parse import Channels, LineParser
from smcpn.io.sources import ByteSource, File, FollowedFile, Lines, StandardInput

STANDARD = "-"
MQTT_PORT = 1883


def open_source(
    address: str,
    channels: Channels,
    *,
    format: str | None = None,
    columns: list[str] | None = None,
    follow: bool = False,
    announce: bool = False,
    give_up: float | None = None,
    session: str = "",
) -> Lines:
    """Open the source of an address; connections are made when it is read.

    Parameters
    ----------
    address : str
        A file, ``-`` for standard input, ``tcp://host:port`` or ``mqtt://host[:port]/topic``.
    channels : Channels
        Names of the inputs and outputs.
    format, columns
        See `LineParser`.
    follow : bool
        Read a file as it grows.
    announce : bool
        See `Tcp`.
    give_up : float, optional
        Seconds without data after which a lost connection is not tried again.
    session : str
        Identifies one reader of an MQTT topic among several.

    Raises
    ------
    InputError
        For an address that is none of these, or an option that does not belong to it.
    """
    parser = LineParser(channels, format, columns)
    parts = urlsplit(address) if "://" in address else None
    if follow and (parts is not None or address == STANDARD):
        raise InputError(f"follow is for files, not for '{address}'")
    if announce and (parts is None or parts.scheme != "tcp"):
        raise InputError(f"announce is for tcp://host:port, not for '{address}'")
    return Lines(_bytes(address, parts, follow, announce, give_up, session), parser)


def _bytes(
    address: str,
    parts: SplitResult | None,
    follow: bool,
    announce: bool,
    give_up: float | None,
    session: str,
) -> ByteSource:
    if parts is None:
        if address == STANDARD:
            return StandardInput()
        return FollowedFile(address) if follow else File(address)
    if parts.scheme == "tcp":
        return Tcp(_host(parts), _port(parts, None), announce, give_up)
    if parts.scheme == "mqtt":
        return _mqtt(parts, give_up, session)
    raise InputError(
        f"'{parts.scheme}://' is no source: give a file, -, tcp://host:port or "
        "mqtt://host:port/topic"
    )


def _mqtt(parts: SplitResult, give_up: float | None, session: str) -> ByteSource:
    from smcpn.io.network import Mqtt

    topic = parts.path.removeprefix("/")
    if not topic:
        raise InputError("the address has no topic: give mqtt://host:port/topic")
    host, port = _host(parts), _port(parts, MQTT_PORT)
    name = hashlib.sha256(f"{host}:{port}/{topic} {session}".encode()).hexdigest()
    # MQTT 3.1 brokers need accept no more than 23 characters.
    return Mqtt(host, port, topic, f"smcpn-{name[:16]}", parts.username, parts.password, give_up)


def _host(parts: SplitResult) -> str:
    if not parts.hostname:
        raise InputError(f"the address has no host: give {parts.scheme}://host:port")
    return parts.hostname


def _port(parts: SplitResult, default: int | None) -> int:
    try:
        port = parts.port or default
    except ValueError:
        port = None
    if port is None:
        raise InputError(f"the port of {parts.scheme}://{_host(parts)} is none from 1 to 65535")
    return port
