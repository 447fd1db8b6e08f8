"""A source from its address, with what it needs to be trusted: a certificate, a login."""

from __future__ import annotations

import hashlib
import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from smcpn.base.arguments import Positive
from smcpn.errors import InputError, shown
from smcpn.io.channels import Channels
from smcpn.io.network import Tcp
from smcpn.io.parse import LineParser
from smcpn.io.sources import ByteSource, File, FollowedFile, Lines, StandardInput

STANDARD = "-"
PORTS = {"tcp": None, "tls": None, "mqtt": 1883, "mqtts": 8883}
"""The schemes of addresses, with the port where none is given."""
USER, PASSWORD = "SMCPN_USER", "SMCPN_PASSWORD"
"""Environment variables of a login."""


@dataclass(frozen=True)
class Login:
    """User and password for a broker; neither stands in a message."""

    user: str
    password: str | None = field(repr=False)


def open_source(
    address: str,
    channels: Channels,
    *,
    format: str | None = None,
    columns: list[str] | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    follow: bool = False,
    announce: bool = False,
    give_up: Positive | None = None,
    session: str = "",
    ca_file: str | None = None,
    credentials: str | None = None,
) -> Lines:
    """Open the source of an address; connections are made when it is read.

    Parameters
    ----------
    address : str
        A file, ``-`` for standard input, ``tcp://host:port`` or ``mqtt://host[:port]/topic``;
        ``tls://`` and ``mqtts://`` are these over TLS. User, password and topic are
        percent-decoded.
    channels : Channels
        Names of the inputs and outputs.
    format : {"csv", "json"}, optional
        How lines are written, recognised line by line if left out.
    columns : list of str, optional
        Names of the columns of CSV, instead of a header.
    delimiter : str, optional
        What separates columns of a text, where the guess is wrong.
    decimal : {".", ","}, optional
        Decimal mark of a text, where the guess is wrong.
    follow : bool
        Read the file as it grows.
    announce : bool
        Tell a TCP server after which time it shall resume, see `Tcp`.
    give_up : float, optional
        End after this many seconds without data.
    session : str
        Identifies one reader of an MQTT topic among several.
    ca_file : str, optional
        Certificates that TLS believes, PEM; by default those of the system.
    credentials : str, optional
        File with user and password for a broker, a line each, in place of those in the address, or
        of SMCPN_USER and SMCPN_PASSWORD.

    Raises
    ------
    InputError
        For an address that is none of these, or an option that does not belong to it.
    """
    parser = LineParser(channels, format, columns, delimiter, decimal)
    parts = _parts(address) if "://" in address else None
    if follow and (parts is not None or address == STANDARD):
        raise InputError(f"follow is for files, not for {_without_login(address)}")
    if announce and (parts is None or parts.scheme not in ("tcp", "tls")):
        raise InputError(f"announce is for tcp://host:port, not for {_without_login(address)}")
    if ca_file is not None and (parts is None or parts.scheme not in ("tls", "mqtts")):
        raise InputError(f"ca_file is for tls:// and mqtts://, not for {_without_login(address)}")
    if parts is None:
        return Lines(_file(address, follow), parser)
    host, port = _host(parts), _port(parts)
    context = _context(ca_file) if parts.scheme in ("tls", "mqtts") else None
    if parts.scheme in ("tcp", "tls"):
        return Lines(Tcp(host, port, announce, give_up, context), parser)
    login = _login(parts, credentials)
    return Lines(_mqtt(address, host, port, give_up, session, context, login), parser)


def _parts(address: str) -> SplitResult:
    try:
        parts = urlsplit(address)
    except ValueError as error:
        raise InputError(f"the address {_without_login(address)} is none: {error}") from None
    if parts.scheme not in PORTS:
        raise InputError(
            f"{shown(parts.scheme + '://')} is no source: give a file, -, tcp://host:port or "
            "mqtt://host:port/topic, or tls:// and mqtts:// for these over TLS"
        )
    return parts


def _without_login(address: str) -> str:
    """The address as a message shows it."""
    scheme, mark, rest = address.partition("://")
    place, slash, path = rest.partition("/")
    return shown(scheme + mark + place.rpartition("@")[2] + slash + path)


def _file(address: str, follow: bool) -> ByteSource:
    if address == STANDARD:
        return StandardInput()
    return FollowedFile(address) if follow else File(address)


def _context(ca_file: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"ca_file {shown(ca_file)} cannot be used: {reason}") from None


def _login(parts: SplitResult, credentials: str | None) -> Login | None:
    if credentials is not None:
        try:
            lines = Path(credentials).read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is no text"
            raise InputError(f"credentials {shown(credentials)} cannot be read: {reason}") from None
        if not 1 <= len(lines) <= 2 or not lines[0]:
            raise InputError(
                f"credentials {shown(credentials)} has {len(lines)} lines: give the user on the "
                "first and the password on the second"
            )
        return Login(lines[0], lines[1] if len(lines) == 2 else None)
    if parts.username is not None:
        password = None if parts.password is None else unquote(parts.password)
        return Login(unquote(parts.username), password)
    user = os.environ.get(USER)
    return None if user is None else Login(user, os.environ.get(PASSWORD))


def _mqtt(
    address: str,
    host: str,
    port: int,
    give_up: float | None,
    session: str,
    context: ssl.SSLContext | None,
    login: Login | None,
) -> ByteSource:
    from smcpn.io.network import Mqtt

    # Not the path: a topic may hold the marks of a query and a fragment, "#" stands for all below.
    topic = unquote(address.partition("://")[2].partition("/")[2])
    if not topic:
        raise InputError("the address has no topic: give mqtt://host:port/topic")
    name = hashlib.sha256(f"{host}:{port}/{topic} {session}".encode()).hexdigest()
    # MQTT 3.1 brokers need accept no more than 23 characters.
    client_id = f"smcpn-{name[:16]}"
    user, password = (None, None) if login is None else (login.user, login.password)
    return Mqtt(host, port, topic, client_id, user, password, give_up, context)


def _host(parts: SplitResult) -> str:
    if not parts.hostname:
        raise InputError(f"the address has no host: give {parts.scheme}://host:port")
    return parts.hostname


def _port(parts: SplitResult) -> int:
    try:
        port = parts.port or PORTS[parts.scheme]
    except ValueError:
        port = None
    if port is None:
        raise InputError(f"the port of {parts.scheme}://{_host(parts)} is none from 1 to 65535")
    return port
