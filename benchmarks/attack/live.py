"""The live page among strangers: requests made to do harm.

Met is that none of them sees anything without the token, and that none ends the server or keeps a
browser from its frames.
"""

from __future__ import annotations

import itertools
import random
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from types import SimpleNamespace

import numpy as np

from benchmarks.rows import Row, at_most
from benchmarks.study import study
from smcpn.report.live.page import LivePage
from tests.models import oscillator_problem, oscillator_record

SHOWN = (b"<title>", b"event: run")
"""With which page and frames begin, and no refusal."""
SECONDS = 5.0
"""From which an answer is taken for none."""
GARBAGE, QUICK_GARBAGE = 300, 20
"""Requests of random bytes."""
HOSTS = (
    "evil.example",
    "",
    "127.0.0.1.evil.example",
    "localhost:1:2",
    "[::1",
    "\xff",
    "a" * 60_000,
)
PATHS = (
    "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/events/../..", "/\\..\\..",
    "/page", "/smcpn/report/live/server.py",
    "/?token=", "/?token=%00", "/events?token=x", "/*", "/%ff",
)  # fmt: skip
IDS = (
    "-1", "x", "9" * 5000, "{run}:", ":1", "{run}:" + "9" * 5000, "\xb2", "{run}:\xb2", "{run}:-1",
    "0" * 60_000,
)  # fmt: skip
"""Of the last event; a browser knows the run."""
LINES = (
    b"GET / HTTP/1.1\r\n" + b"X: " + b"a" * 200_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 20_000 + b"\r\n",
    b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n",
    b"GET / HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 999999999999\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"\r\n" * 9,
    b"GET / HTTP/1.1\nHost: 127.0.0.1\n Upgrade: websocket\n\n",
    b"GET http://evil/ HTTP/1.1\r\n\r\n",
)  # fmt: skip


def _raw(port: int, sent: bytes) -> bytes:
    """Return what a server answers to bytes; nothing where it closes the connection."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), SECONDS) as connection:
        connection.settimeout(SECONDS)
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        return connection.recv(65536)
    return b""


def _asked(port: int, path: str = "/", **headers: str) -> tuple[int, bytes]:
    """Status and beginning of an answer; 0 where there is none."""
    connection = HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    with closing(connection), suppress(OSError, HTTPException):
        connection.putrequest("GET", path, skip_host=True)
        for name, value in ({"Host": f"127.0.0.1:{port}"} | headers).items():
            connection.putheader(name.replace("_", "-"), value.encode("latin-1"))
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read1(65536)
    return 0, b""


def _shown(said: bytes) -> bool:
    return any(one in said for one in SHOWN)


class _Fed:
    """A page whose stream goes on."""

    def __init__(self, page: LivePage) -> None:
        self._page, self.samples = page, 0

    def feed(self, number: int) -> None:
        """Give samples to the page."""
        state = SimpleNamespace(
            prediction=np.ones((2, 1)), latency=1e-4, late=False, names=("k",), mean={"k": 4.0},
            sd={"k": 0.1}, ess=100.0, degraded=False, lag=0, approximate="", budget=float("inf"),
            quantile=lambda name, q: np.array([3.8, 4.2]),
        )  # fmt: skip
        sample = SimpleNamespace(y=np.ones(1))
        for k in range(self.samples, self.samples + number):
            state.t = 0.1 * k
            self._page.sample(sample, state.t, state, 0)  # type: ignore[arg-type]
        self.samples += number


def _page(serve: str) -> LivePage:
    return LivePage(serve, "attacked", oscillator_problem(oscillator_record(samples=40)))


def _seen(port: int, cookie: str) -> bool:
    """Whether a browser that may look on gets page and frames."""
    page = _asked(port, Cookie=cookie)
    frames = _asked(port, "/events", Cookie=cookie)
    return page[0] == frames[0] == 200 and _shown(page[1]) and _shown(frames[1])


def _strangers(port: int) -> Iterator[str]:
    """Requests without the token that were answered by more than a refusal."""
    for path in PATHS:
        status, said = _asked(port, path)
        if status < 400 or _shown(said):
            yield f"{path}: {status}"
    for host, cookie in itertools.product(("127.0.0.1", *HOSTS), ("", "smcpn-1=x", "\xff;;=")):
        for path in ("/", "/events"):
            status, said = _asked(port, path, Host=host, Cookie=cookie)
            if 0 < status < 400 or _shown(said):
                yield f"{path} of {host[:30]!r}: {status}"


def _forged(port: int) -> Iterator[str]:
    """Requests to a page on this machine, by a name that is not ours, that were answered."""
    for host in HOSTS:
        status, said = _asked(port, Host=host)
        if 0 < status < 400 or _shown(said):
            yield f"Host {host[:30]!r}: {status}"


@study("live requests", full=GARBAGE, quick=QUICK_GARBAGE)
def requests(number: int) -> Iterator[Row]:
    """Forged hosts, no token, paths upwards, headers of any size, garbage, wrong event ids."""
    rng = random.Random(17)
    with closing(_page("0.0.0.0:0")) as page, closing(_page("0")) as local:
        fed = _Fed(page)
        port, token = int(page.url.split(":")[2].split("/")[0]), page.url.partition("token=")[2]
        here, before = int(local.url.rstrip("/").rpartition(":")[2]), page.server_process
        cookie = f"smcpn-{port}={token}"
        fed.feed(200)
        open_ = [*_strangers(port), *_forged(here)]
        for one in (*LINES, *(rng.randbytes(rng.randint(1, 3000)) for _ in range(number))):
            said = _raw(port, one)
            open_ += [f"{one[:40]!r}"] if _shown(said) or b" 200 " in said[:16] else []
        wrong = [one[:30] for one in IDS if _failed(port, cookie, one)]
        fed.feed(200)
        lost = not _seen(port, cookie) + (page.server_process != before)
    yield at_most("requests answered without a right to it", len(open_), 0, "; ".join(open_[:5]))
    yield at_most("wrong ids of events that a server failed at", len(wrong), 0, str(wrong[:5]))
    yield at_most("servers ended, or pages not shown afterwards", int(lost), 0)


def _failed(port: int, cookie: str, last: str) -> bool:
    """Whether frames after an id of events are no answer and no refusal."""
    _, begin = _asked(port, "/events", Cookie=cookie)
    run = begin.partition(b"data: ")[2].partition(b"\n")[0].decode()
    given = last.format(run=run)
    status, said = _asked(port, "/events", Cookie=cookie, Last_Event_ID=given)
    return status not in (200, 400, 431) or (status == 200 and not _shown(said))
