"""A fast stream for long: its memory, what is lost on the way, and its posterior.

A process of its own sends samples of 610 Hz at twenty times real time over TCP: with gaps, lines
that are no samples, connections that break in the middle of a line and begin again earlier, times
far ahead and long past, and a clock that is set forward. The clock of this computer, as Python's
`time.time` tells it, jumps as well. An identification to which the same samples are given without
any of this has to end in the same bytes.
"""

from __future__ import annotations

import multiprocessing
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
from scipy import stats

import smcpn
from benchmarks.memory import resident_memory
from benchmarks.rows import Row, at_least, at_most, equal
from benchmarks.study import study
from smcpn.base.signals import Stop
from smcpn.datasets.models import duffing
from smcpn.io import Channels, Event, Stream, open_source

RATE, SPEED = 610.0, 20.0
"""Samples a second of the stream, and seconds of the stream a second."""
PERIOD, BLOCK = 6100, 610
"""Samples after which the input comes again, and those of a block, in which everything happens."""
JUMPS = 20
"""Blocks after each of which the clock is set forward."""
AHEAD, JUMP, GAP = 5000, 1500, 40
"""Intervals: of a time that is wrong, of a clock that is set forward, and of the longest gap."""
SPOILT = (
    b"\xff\xfe\x00noise\n", b"0.1,0.2\n", b"0.1,zero,0.2\n", b"nan,nan,nan\n", b'{"t": 1, "u": \n',
    b"x" * 70000 + b"\n", b"1,2,3,4,5,6\n",
)  # fmt: skip
"""Lines that are no samples."""
EVERY = 0.5
"""Seconds between two looks at the memory."""
STALLED = 30.0
"""Seconds without a sample after which the rest is given up."""
NOISE = 5.0
"""Standard deviation of the noise, in those of the position."""
TRUTH = {"m": 1.0, "c": 40.0, "k": 4e4, "k3": 2e4}
SETTINGS: dict[str, Any] = {
    "solver": smcpn.RK4(steps=1), "particles": 10, "seed": 1, "threads": 1, "memory": 8192,
}  # fmt: skip

Sample = tuple[float, float, float]


SECONDS = 1200.0
"""How long the stream is."""
SPEED = 19.0
"""Least times real time: gaps leave 19.3 of 20, and connecting counts among seconds."""
MEGABYTES = 5.0
"""Growth of the memory: what the stream keeps of its past fills within seconds."""


@dataclass(frozen=True)
class Signal:
    """A period of the input and of the position without noise."""

    u: np.ndarray
    y: np.ndarray

    @classmethod
    def made(cls) -> Signal:
        """Simulate it, from the state at its end."""
        rng = np.random.default_rng(1)
        u = np.tile(np.convolve(rng.normal(size=PERIOD), np.ones(10), "same") * 1e3, 2)
        record = smcpn.Record(u=u, dt=1.0 / RATE, hold="foh")
        return cls(u[PERIOD:], smcpn.simulate(duffing, record, TRUTH, observe="x")[PERIOD:, 0])

    @property
    def noise(self) -> float:
        """So large that the samples of minutes are needed, and updates are what takes time."""
        return NOISE * float(self.y.std())

    def block(self, number: int) -> list[Sample]:
        """Return the samples of a block: the same at every call, but for those of a gap."""
        rng, first = np.random.default_rng((2, number)), number * BLOCK
        place = np.arange(first, first + BLOCK)
        t = (place + JUMP * (number // JUMPS)) / RATE
        y = self.y[place % PERIOD] + self.noise * rng.standard_normal(BLOCK)
        rows = list(zip(t.tolist(), self.u[place % PERIOD].tolist(), y.tolist(), strict=True))
        begin = int(rng.integers(1, BLOCK - GAP))
        del rows[begin : begin + int(rng.integers(GAP))]
        return rows

    def problem(self) -> smcpn.Problem:
        """The oscillator, and the first samples."""
        t, u, y = zip(*self.block(0)[:1], strict=True)
        record = smcpn.Record(u=u * 2, y=y * 2, dt=1.0 / RATE, hold="foh", start=t[0])
        prior: dict[str, Any] = {n: stats.lognorm(0.3, scale=v) for n, v in TRUTH.items()}
        return smcpn.Problem(duffing, record, observe="x", noise=self.noise, prior=prior)


def _line(t: float, u: float, y: float) -> bytes:
    return f"{t!r},{u!r},{y!r}\n".encode()


def _spoilt(rng: np.random.Generator, rows: list[Sample]) -> tuple[bytes, bytes]:
    """Return what one connection sends of a block, and what the next one sends again."""
    lines = [_line(*row) for row in rows]
    t, u, y = rows[0]
    places = rng.choice(np.arange(1, len(lines) - 1), 5, replace=False)
    lines[places[0]] = _line(t + AHEAD / RATE, u, y) + lines[places[0]]
    lines[places[1]] = _line(t - AHEAD / RATE, u, y) + lines[places[1]]
    for place in places[2:4]:
        lines[place] = SPOILT[rng.integers(len(SPOILT))] + lines[place]
    if rng.random() > 0.2:
        return b"".join(lines), b""
    broken = int(places[4])
    again = lines[max(0, broken - int(rng.integers(100))) :]
    return b"".join(lines[:broken]) + lines[broken][:7], b"".join(again)


def _send(listener: socket.socket, signal: Signal, seconds: float, told: Any) -> None:
    """Send blocks when they are due, until the time is over; tell how many samples these had."""
    rng, begin, sent, number = np.random.default_rng(3), time.monotonic(), 0, 0
    connection = listener.accept()[0]
    while time.monotonic() - begin < seconds:
        rows = signal.block(number)
        now, later = _spoilt(rng, rows)
        connection.sendall(now)
        if later:
            connection.close()
            connection = listener.accept()[0]
            connection.sendall(later)
        sent, number = sent + len(rows), number + 1
        time.sleep(max(0.0, begin + number * BLOCK / (RATE * SPEED) - time.monotonic()))
    told.send((sent, number))
    with suppress(OSError):
        # Until the reader leaves.
        while connection.recv(4096):
            pass


class _Watched:
    """A stream that is followed: what has come, what was to come, and the memory meanwhile."""

    def __init__(self, signal: Signal, told: Any) -> None:
        self._signal, self._told = signal, told
        self.total: int | None = None
        self.blocks = self.wrong = self.came = 0
        self.kinds: dict[str, int] = {}
        self.sizes: list[tuple[float, float]] = []
        self.stop = Stop()
        self._last = time.monotonic()

    def event(self, event: Event) -> None:
        """Count an event."""
        self.kinds[event.kind] = self.kinds.get(event.kind, 0) + 1

    def idle(self) -> None:
        """Stop where all is here, or nothing comes."""
        if self.total is None and self._told.poll():
            self.total, self.blocks = self._told.recv()
        if self.came == self.total or time.monotonic() - self._last > STALLED:
            self.stop.request()

    def follow(self, live: smcpn.Online, address: str) -> Any:
        """Read all samples, compare each with what was sent, and return the last state."""
        source, state = open_source(address, Channels.of(live.problem)), None
        expected = (row for number in range(10**9) for row in self._signal.block(number))
        begin, worked = time.monotonic(), time.process_time()
        stream = Stream(live, source, self.event, stop=self.stop, idle=self.idle)
        for sample, t, after in stream:
            self.wrong += next(expected) != (t, float(sample.u[0]), float(sample.y[0]))
            state, self.came, self._last = after, self.came + 1, time.monotonic()
            if self._last - begin > EVERY * len(self.sizes):
                self.sizes.append((self._last - begin, resident_memory()))
        self.speed = (self.came / RATE) / (self._last - begin)
        self.cost = (time.process_time() - worked) / max(self.came, 1)
        return state

    @property
    def growth(self) -> float:
        """Growth of the largest memory in megabytes, after a third of the time."""
        at, size = np.array(self.sizes).T
        early = at <= at[-1] / 3
        return float(size[~early].max() - size[early].max()) / 1e6


def _jumping() -> float:
    """Tell a time that nobody should rely on."""
    real = time.time_ns() * 1e-9
    return real + (1e6 if int(real) % 2 else -1e6)


@study("soak", quick=None)
def soak(_: bool) -> Iterator[Row]:
    """A long stream at twenty times real time, disturbed."""
    signal = Signal.made()
    problem = signal.problem()
    live = smcpn.Online(problem, **SETTINGS)
    listener = socket.create_server(("127.0.0.1", 0))
    told, telling = multiprocessing.Pipe(duplex=False)
    sending = multiprocessing.get_context("fork").Process(
        target=_send, args=(listener, signal, SECONDS, telling), daemon=True
    )
    sending.start()
    watched = _Watched(signal, told)
    with mock.patch("time.time", _jumping):
        state = watched.follow(live, f"tcp://127.0.0.1:{listener.getsockname()[1]}")
    sending.terminate()
    calm, last = smcpn.Online(problem, **SETTINGS), None
    for number in range(watched.blocks):
        for t, u, y in signal.block(number):
            last = calm.update(u, y, t)
    total = watched.total or 0
    events = ", ".join(f"{count} {kind}" for kind, count in watched.kinds.items())
    yield Row("samples sent", total, note=f"in {SECONDS:g} s; events: {events}")
    yield at_most("samples lost", total - watched.came, 0)
    yield at_most("samples doubled or changed", watched.wrong, 0)
    spent = f"{1e6 * watched.cost:.0f} us of a processor for a sample"
    yield at_least("times real time", watched.speed, SPEED, spent)
    yield at_most("growth of memory after a third, MB", watched.growth, MEGABYTES)
    same = None not in (state, last) and _bytes(state) == _bytes(last)
    yield equal("same bytes as undisturbed", same, True)


def _bytes(state: Any) -> tuple[Any, ...]:
    return state.mean, state.sd, state.log_evidence, state.ess
