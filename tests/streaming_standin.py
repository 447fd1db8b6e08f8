"""A stand-in with the face of `smcpn.Online`, and servers that misbehave on purpose."""

from __future__ import annotations

import json
import math
import socket
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from smcpn.online.change import Alarm


@dataclass
class StandInState:
    """Mean and sd of all outputs so far."""

    sample: int
    t: float
    mean: dict[str, float]
    sd: dict[str, float]
    innovation: np.ndarray
    log_evidence: float
    ess: float = 10.0
    latency: float = 1e-4
    late: bool = False
    lag: int = 0
    degraded: bool = False
    projected: float = float("nan")
    rejuvenations: int = 0
    alarm: Alarm | None = None
    status: str = "assimilated"
    missing: int = 0
    approximate: str = ""

    def quantile(self, name: str, q: list[float]) -> np.ndarray:
        return self.mean[name] + self.sd[name] * (np.asarray(q) - 0.5)


class StandIn:
    """Remembers what it was given."""

    def __init__(self, *_: Any, wait: Callable[[], None] | None = None, **__: Any) -> None:
        self.times: list[float] = []
        self.inputs: list[float] = []
        self.outputs: list[float] = []
        self._wait = wait

    @property
    def sample(self) -> int:
        return len(self.times)

    @property
    def t(self) -> float | None:
        return self.times[-1] if self.times else None

    def update(self, u: Any, y: Any, t: float | None = None) -> StandInState:
        assert t is not None
        if self._wait is not None:
            self._wait()
        self.times.append(t)
        self.inputs.append(float(np.sum(u)))
        self.outputs.append(float(y[0]))
        return self.finish()

    def finish(self) -> StandInState:
        seen = [value for value in self.outputs if not math.isnan(value)]
        mean = float(np.mean(seen)) if seen else 0.0
        residual = np.array([self.outputs[-1] - mean])
        return StandInState(
            self.sample, self.times[-1], {"k": mean}, {"k": 1.0}, residual, -float(len(seen))
        )

    def save(self, path: str) -> None:
        kept = {"times": self.times, "inputs": self.inputs, "outputs": self.outputs}
        unfinished = Path(f"{path}.unfinished")
        unfinished.write_text(json.dumps(kept))
        unfinished.replace(path)

    @classmethod
    def load(cls, path: str) -> StandIn:
        live = cls()
        for key, value in json.loads(Path(path).read_text()).items():
            setattr(live, key, value)
        return live


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
