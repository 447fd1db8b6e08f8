"""The server of a live page: reads frames from standard input, and sends them to browsers.

The first line is the settings, each further one a frame. It ends with its standard input.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import os
import signal
import socket
import sys
import threading
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, StreamingResponse
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from smcpn.base.priority import normal

HISTORY = 200
"""Frames that a browser that comes gets at once, or that has been away."""
SILENCE = 5.0
"""Seconds after which a comment keeps a connection open."""
MOST_CONNECTIONS, MOST_WAITING = 100, 100
"""That are answered, and on which a request is still to come."""
PATIENCE, READING = 5.0, 30.0
"""Seconds within which a request is to come and an answer read; a page and frames, some of it."""
NICE = 5
"""Lower priority than the stream's."""
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

App = Callable[[Any, Any, Any], Awaitable[None]]


class Patient(H11Protocol):
    """HTTP for those who ask soon, once, and read: who only holds a connection keeps nobody out."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Close a connection on which no request comes; of too many the oldest at once."""
        super().connection_made(transport)
        self._since, self._unread = self.loop.time(), None
        every: set[Any] = self.connections
        waiting = [one for one in every if one.cycle is None]
        if len(waiting) > MOST_WAITING:
            _oldest_of_the_busiest(waiting).give_up()
        self.loop.call_later(PATIENCE, self._close_if_silent)

    def _close_if_silent(self) -> None:
        # Whatever was sent, it is no request yet.
        if self.cycle is None:
            self.give_up()

    def on_response_complete(self) -> None:
        """Close the connection soon, were it that the answer is not read."""
        super().on_response_complete()
        self.loop.call_later(PATIENCE, self.give_up)

    def pause_writing(self) -> None:
        """Close the connection of a reader that does not go on reading."""
        super().pause_writing()
        self._unread = self.loop.call_later(READING, self.give_up)

    def resume_writing(self) -> None:
        """Keep the connection of a reader that goes on."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()

    def give_up(self) -> None:
        """Close the connection, and count it no more."""
        self.connections.discard(self)
        self.transport.abort()


def _oldest_of_the_busiest(waiting: list[Any]) -> Patient:
    """Return the connection that waits longest of the address that has most of them."""
    counts = Counter(one.client and one.client[0] for one in waiting)
    busiest = counts.most_common(1)[0][0]
    of_it = [one for one in waiting if (one.client and one.client[0]) == busiest]
    return min(of_it, key=lambda one: one._since)


class Board:
    """The last frames: a reader takes what is new, and misses what it is too slow for."""

    def __init__(self, run: str) -> None:
        self._run, self._count = run, 0
        self._frames: deque[tuple[int, str]] = deque(maxlen=HISTORY)
        self._changed = asyncio.Event()

    def put(self, frame: str) -> None:
        """Add a frame."""
        self._count += 1
        self._frames.append((int(json.loads(frame)["frame"]), frame))
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def follow(self, last: str) -> AsyncIterator[str]:
        """Yield server-sent events after that of the id ``last``."""
        run, _, number = last.rpartition(":")
        # int() refuses digits that are no numbers, and numbers of thousands of digits.
        counted = number.isascii() and number.isdigit() and len(number) < 16
        seen = int(number) if run == self._run and counted else 0
        yield f"retry: 500\nevent: run\ndata: {self._run}\n\n"
        while True:
            changed = self._changed
            fresh = [(number, frame) for number, frame in self._frames if number > seen]
            if fresh:
                seen = fresh[-1][0]
                frames = ",".join(frame for _, frame in fresh)
                yield f"id: {self._run}:{seen}\ndata: [{frames}]\n\n"
            else:
                try:
                    await asyncio.wait_for(changed.wait(), SILENCE)
                except TimeoutError:
                    yield ": nothing new\n\n"


def guarded(app: App, settings: dict[str, Any]) -> App:
    """Let a request through whose host is one of ours, and that has the token if there is one."""
    token, cookie = settings["token"], f"smcpn-{settings['port']}"
    names = _our_names(settings["host"], bool(token))

    async def check(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        request, refusal = Request(scope), None
        if not _our_host(request.headers.get("host", ""), names, bool(token)):
            refusal = PlainTextResponse("unknown host", 400, HEADERS)
        elif token:
            given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
            if _same(given, token) and scope["path"] == "/":
                # The token leaves the address, where a history or a glance would keep it.
                refusal = RedirectResponse("/", 303, HEADERS)
                refusal.set_cookie(cookie, token, httponly=True, samesite="lax")
            elif not _same(_cookie(request, cookie), token):
                refusal = PlainTextResponse("open the address that has the token", 403, HEADERS)
        await (refusal or app)(scope, receive, send)

    return check


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())


def _cookie(request: Request, name: str) -> str:
    try:
        found = SimpleCookie(request.headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _our_names(host: str, public: bool) -> set[str]:
    """Return the names of this server; that which DNS knows is added when it has answered."""
    names = {"localhost", host.lower()}

    def ask() -> None:
        with suppress(OSError, UnicodeError):
            names.add(socket.getfqdn().lower())

    if public:
        names.add(socket.gethostname().lower())
        threading.Thread(target=ask, daemon=True).start()
    return names


def _our_host(header: str, names: set[str], public: bool) -> bool:
    """True if a Host header names this server: a foreign name may be made to lead here."""
    name = header.rpartition(":")[0] if not header.endswith("]") and ":" in header else header
    name = name.removeprefix("[").removesuffix("]").lower()
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name in names
    return public or address.is_loopback


def application(settings: dict[str, Any], board: Board) -> App:
    """Page and events."""

    async def page(_: Request) -> HTMLResponse:
        return HTMLResponse(settings["page"], headers=HEADERS)

    async def events(request: Request) -> StreamingResponse:
        last = request.headers.get("last-event-id", "")
        return StreamingResponse(
            board.follow(last), media_type="text/event-stream", headers=HEADERS
        )

    routes = [Route("/", page, methods=["GET"]), Route("/events", events, methods=["GET"])]
    return guarded(Starlette(routes=routes), settings)


async def serve(settings: dict[str, Any]) -> None:
    """Serve until standard input ends."""
    family = socket.AF_INET6 if ":" in settings["host"] else socket.AF_INET
    listening = socket.create_server((settings["host"], settings["port"]), family=family)
    settings["port"] = listening.getsockname()[1]
    board = Board(settings["run"])
    config = uvicorn.Config(
        application(settings, board), log_level="error", access_log=False, lifespan="off",
        limit_concurrency=MOST_CONNECTIONS + MOST_WAITING, timeout_graceful_shutdown=1,
        server_header=False, ws="none", http=Patient, backlog=MOST_WAITING,
        headers=[("Connection", "close")],
    )  # fmt: skip
    server, loop = uvicorn.Server(config), asyncio.get_running_loop()

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(board.put, line.rstrip("\n"))
        # What was put last is to arrive before the connections are closed.
        loop.call_soon_threadsafe(loop.call_later, 0.5, setattr, server, "should_exit", True)

    threading.Thread(target=read, daemon=True).start()
    print(f"port {settings['port']}", flush=True)
    await server.serve([listening])


def main() -> None:
    """Read the settings and serve."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Whoever looks on waits for the stream, not the stream for them.
    normal()
    if hasattr(os, "nice"):
        os.nice(NICE)
    settings = json.loads(sys.stdin.readline())
    try:
        asyncio.run(serve(settings))
    except OSError as error:
        # create_server adds the address, which the reader of this knows.
        reason = error.strerror or str(error)
        print(reason.partition(" (while attempting")[0], flush=True)


if __name__ == "__main__":
    main()
