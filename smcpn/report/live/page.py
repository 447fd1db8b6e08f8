"""Frames of a stream for browsers, handed to a server in a process of its own.

The identifying thread only appends to a bounded queue. Another thread makes a frame of it seven
times a second and writes it to the server's standard input; while the server is slow, or being
started again, frames are left out. However many look on, the identification does not wait.
"""

from __future__ import annotations

import ipaddress
import json
import math
import secrets
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from smcpn.base.tables import Column, Table, words
from smcpn.base.units import time_label
from smcpn.errors import InputError, shown
from smcpn.io.channels import Sample
from smcpn.io.events import Event
from smcpn.io.sink import json_text
from smcpn.model.problem import Problem
from smcpn.report.page import rendered
from smcpn.report.style import with_unit

PARAMETERS = Table([words("parameter"), *map(Column, ("mean", "sd", "2.5 %", "97.5 %"))])
"""Table that the script of the page fills."""
FRAME_SECONDS = 0.15
STATE_FRAMES = 4
"""Every so many frames have the posterior: its summaries take longer than all the rest."""
RECENT = 4096
"""Samples that wait for a frame, and those whose latency is summed up."""
EVENTS = 20
Array = NDArray[np.float64]
SCRIPTS = ("uplot/uPlot.iife.min.js", "axes.js", "live.js")


@dataclass(frozen=True)
class Address:
    """Host and port at which the server listens."""

    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> Address:
        """Read ``port``, ``host:port`` or ``[address]:port``.

        Raises `InputError` if it is none of these.
        """
        host, _, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
        number = port.isascii() and port.isdigit() and len(port) < 6 and int(port) < 65536
        if not number or "/" in host or not _is_host(host):
            raise InputError(
                f"--serve is {shown(text)}: give a port, or host:port, as 8000 or 192.168.0.7:8000"
            )
        return cls(host, int(port))

    @property
    def loopback(self) -> bool:
        """True if only this machine reaches it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def _is_host(name: str) -> bool:
    """True if a name can be looked up."""
    try:
        return bool(name.encode("idna"))
    except UnicodeError:
        return False


class LivePage:
    """The page of a stream: takes samples and events, and keeps a server running.

    The address is ``[host:]port``; port 0 takes a free one. ``url`` is what to open, with the token
    where one is needed.
    """

    def __init__(self, serve: str, title: str, problem: Problem) -> None:
        address = Address.of(serve)
        if find_spec("uvicorn") is None or find_spec("starlette") is None:
            raise InputError("--serve needs two more packages: pip install smcpn[web]")
        record = problem.records[0]
        outputs = [with_unit(str(one), record.unit_of(j)) for j, one in enumerate(problem.observe)]
        clock = time_label(record.t_unit)
        self._settings: dict[str, Any] = {
            "host": address.host,
            "port": address.port,
            "token": "" if address.loopback else secrets.token_urlsafe(32),
            "run": secrets.token_hex(8),
            "page": rendered(
                "live.html",
                SCRIPTS,
                title=title,
                outputs=outputs,
                time=clock,
                parameters=PARAMETERS,
            ),
        }
        self._samples: deque[tuple[float, Any, Any]] = deque(maxlen=RECENT)
        self._latencies: deque[float] = deque(maxlen=RECENT)
        self._events: deque[str] = deque(maxlen=EVENTS)
        self._state: Any = None
        self._count = self._frames = self._alarms = self._late = self._waiting = 0
        self._rate, self._before = 0.0, (time.monotonic(), 0)
        self._server = self._started()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._publish, name="smcpn-live", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Address to open in a browser."""
        host, token = self._settings["host"], self._settings["token"]
        named = f"[{host}]" if ":" in host else host
        return f"http://{named}:{self._settings['port']}/" + (f"?token={token}" if token else "")

    @property
    def server_process(self) -> int:
        """Number of the process that serves."""
        return self._server.pid

    def sample(self, sample: Sample, t: float, state: Any, waiting: int) -> None:
        """Take note of a sample; called by the identifying thread."""
        self._samples.append((t, sample.y, state.prediction))
        self._latencies.append(state.latency)
        self._count += 1
        self._late += state.late
        self._waiting, self._state = waiting, state

    def event(self, event: Event) -> None:
        """Keep an event for the next frames."""
        self._alarms += event.kind == "alarm"
        self._events.append(str(event))

    def close(self) -> None:
        """Write the last frame and end the server."""
        self._done.set()
        self._thread.join(timeout=5.0)
        _end(self._server)

    def _started(self) -> subprocess.Popen[str]:
        """Start a server, and wait until it listens."""
        # A session of its own: an interrupt from the keyboard is not meant for it.
        server = subprocess.Popen(
            [sys.executable, "-P", "-m", "smcpn.report.live.server"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8",
            start_new_session=True,
        )  # fmt: skip
        with suppress(OSError):
            _write(server, json.dumps(self._settings))
        assert server.stdout is not None
        with server.stdout:
            answer = server.stdout.readline().strip()
        if not answer.startswith("port "):
            _end(server)
            name = f"{self._settings['host']}:{self._settings['port']}"
            raise InputError(
                f"--serve {name} cannot be listened on: {answer or 'no answer'}; give another "
                "port, 0 for any that is free, or an address of this machine"
            )
        self._settings["port"] = int(answer.split()[1])
        return server

    def _publish(self) -> None:
        over = False
        while not over:
            over = self._done.wait(FRAME_SECONDS)
            frame = self._frame(over)
            try:
                _write(self._server, frame)
            except (OSError, ValueError):
                _end(self._server)
                if not over:
                    # A port may be taken for a moment: the next frame tries again.
                    with suppress(InputError, OSError):
                        self._server = self._started()

    def _frame(self, over: bool) -> str:
        """News as JSON, and now and then the posterior."""
        now, (before, count) = time.monotonic(), self._before
        if now - before >= 1.0:
            self._rate, self._before = (self._count - count) / (now - before), (now, self._count)
        self._frames += 1
        fields: dict[str, Any] = {
            "frame": self._frames, "samples": self._count, "rate": self._rate, "over": over,
            "waiting": self._waiting, "alarms": self._alarms, "events": list(self._events),
        }  # fmt: skip
        fields |= self._shown_samples()
        if over or self._frames % STATE_FRAMES == 1:
            fields["state"] = self._posterior()
        return json_text(fields)

    def _shown_samples(self) -> dict[str, Any]:
        """Columns of the samples since the last frame; of many those where a curve is extreme.

        A frame is as wide as ten pixels: what lies between would not be seen.
        """
        samples: list[tuple[float, Any, Any]] = []
        while self._samples:
            samples.append(self._samples.popleft())
        if not samples:
            return {**dict.fromkeys(("t", "y", "predicted", "sd"), np.empty(0)), "thinned": False}
        t, y, prediction = (np.array(column) for column in zip(*samples, strict=True))
        y = y.reshape(len(t), -1)
        mean, sd = prediction[:, 0], prediction[:, 1]
        some = extremes(np.hstack([y, (y - mean) / sd, mean, mean - 1.96 * sd, mean + 1.96 * sd]))
        columns = {"t": t, "y": y, "predicted": mean, "sd": sd}
        shown: dict[str, Any] = {name: column[some] for name, column in columns.items()}
        return {**shown, "thinned": len(some) < len(t)}

    def _posterior(self) -> dict[str, Any] | None:
        state, latencies = self._state, list(self._latencies)
        if state is None:
            return None
        p50, p99 = np.quantile(latencies, [0.5, 0.99])
        mean, sd = state.mean, state.sd
        rows = [
            [name, mean[name], sd[name], *state.quantile(name, [0.025, 0.975])]
            for name in state.names
        ]
        return {
            "parameters": rows, "ess": state.ess, "degraded": state.degraded, "lag": state.lag,
            "time": state.t, "p50": p50, "p99": p99, "approximate": state.approximate,
            "in_time": 1.0 - self._late / max(self._count, 1) if state.budget < math.inf else None,
        }  # fmt: skip


def extremes(values: Array) -> NDArray[np.intp]:
    """Return the rows of (T, c) that hold the least or the largest value of a column, in order.

    All rows where there are not more of them than these can be.
    """
    n, columns = values.shape
    if n <= 2 * columns:
        return np.arange(n)
    # What is missing is neither the largest nor the least.
    low, high = np.where(np.isnan(values), [[[np.inf]], [[-np.inf]]], values)
    return np.unique([low.argmin(axis=0), high.argmax(axis=0)])


def _input(server: subprocess.Popen[str]) -> IO[str]:
    assert server.stdin is not None
    return server.stdin


def _end(server: subprocess.Popen[str]) -> None:
    """Close the input of a server, which ends it, and wait for it."""
    with suppress(OSError):
        _input(server).close()
    try:
        server.wait(timeout=5.0)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _write(server: subprocess.Popen[str], line: str) -> None:
    _input(server).write(line + "\n")
    _input(server).flush()
