"""A small identification to stream into, and TCP servers that misbehave on purpose."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import numpy as np

import smcpn
from smcpn.io import Channels
from tests.models import oscillator_problem, oscillator_record

RECORD = oscillator_record(samples=60)
PROBLEM = oscillator_problem(RECORD, noise=0.5)
CHANNELS = Channels.of(PROBLEM)
SAMPLES = [
    (round(float(t), 1), round(float(u), 4), round(float(y), 4))
    for t, u, y in zip(RECORD.t, RECORD.u[:, 0], RECORD.y[:, 0], strict=True)
]
TEXT = [b"%4.1f,%8.4f,%8.4f\n" % row for row in SAMPLES]
"""Lines of 23 bytes."""


class Pieces:
    """A byte source of given chunks."""

    name, replays = "pieces", True

    def __init__(self, *chunks: bytes) -> None:
        self.chunks = chunks

    def read(self, stop: object, position: object) -> Iterator[bytes]:
        yield from self.chunks


class Waiting(smcpn.Online):
    """An identification every update of which waits for something first."""

    wait: Callable[[], Any]

    def update(self, u: Any, y: Any, t: float | None = None) -> smcpn.online.State:
        self.wait()
        return super().update(u, y, t)


def online(begin: int = 0, wait: Callable[[], Any] | None = None, **options: Any) -> smcpn.Online:
    """An identification that has the first ``begin`` samples."""
    kind = smcpn.Online if wait is None else Waiting
    live = kind(
        **{"problem": PROBLEM, "solver": smcpn.RK4(2), "particles": 50, "seed": 1} | options
    )
    for t, u, y in SAMPLES[:begin]:
        live.update(u, y, t)
    if isinstance(live, Waiting) and wait is not None:
        live.wait = wait
    return live


def samples_in(live: smcpn.Online) -> np.ndarray:
    """Times, inputs and outputs that an identification has, (n, 3)."""
    state = live.snapshot()
    return np.column_stack([state.t, state.u, state.y])


def everything(live: smcpn.Online) -> bool:
    """Whether it has all samples, each once."""
    found = samples_in(live)
    return found.shape == (len(SAMPLES), 3) and np.allclose(found, SAMPLES, rtol=0.0, atol=1e-12)


Script = Callable[[socket.socket, int], None]
"""What a server does with its n-th connection, from 0; returning closes it."""


class Server:
    """A TCP server on a free port whose every connection runs a script."""

    def __init__(self, script: Script) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._script = script
        self.connections = 0
        self.failures: list[BaseException] = []
        self.port: int = self._listener.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # close() alone does not wake a thread in accept().
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)
        assert not self._thread.is_alive()
        assert not self.failures, self.failures

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with closing(connection):
                connection.settimeout(60)
                number, self.connections = self.connections, self.connections + 1
                try:
                    self._script(connection, number)
                except (BrokenPipeError, ConnectionResetError):
                    continue
                except BaseException as error:
                    self.failures.append(error)
