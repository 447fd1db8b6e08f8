"""Sources that are killed, garbled and delayed: what is lost on the way to the posterior.

A server on this machine sends a simulated Duffing record and, at random places, closes the
connection in the middle of a line, replays from an earlier sample, sends noise, overlong and
mistyped lines, and pauses. Then the command ``smcpn stream`` reads the same from its standard
input; it is killed at random moments and resumed from its checkpoint. In both cases the samples
assimilated, the numbers of the lines reported as bad, and the posterior are compared with what was
sent and with an identification that nothing disturbed.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import smcpn
from benchmarks.rows import Row
from benchmarks.study import study
from smcpn.datasets.models import duffing
from smcpn.io import Channels, Event, Stream, open_source
from smcpn.process.signals import Stop

TRUTH = {"m": 1.0, "c": 0.4, "k": 4.0, "k3": 2.0}
DT, NOISE = 0.05, 0.02
SETTINGS: dict[str, Any] = {
    "solver": smcpn.EKF0(order=2, steps=2),
    "particles": 200,
    "seed": 1,
}
SPOILT = (
    b"\xff\xfe\x00noise\n", b"0.1,0.2\n", b"0.1,zero,0.2\n", b"nan,nan,nan\n", b'{"t": 1, "u": \n',
    b"x" * 70000 + b"\n", b"1,2,3,4,5,6\n",
)  # fmt: skip
"""Lines that are no samples."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a disturbed source.

    Attributes
    ----------
    sent, assimilated, lost, doubled : int
        Samples; ``doubled`` were assimilated twice.
    spoilt, reported : int
        Bad lines sent, and those of them reported with their numbers; nothing else may be.
    misreported : int
        Lines reported as bad that were not, or under another number.
    interruptions : int
        Connections lost, or processes killed.
    same_posterior : bool
        Mean and sd agree to the last bit with the undisturbed identification.
    """

    sent: int
    assimilated: int
    lost: int
    doubled: int
    spoilt: int
    reported: int
    misreported: int
    interruptions: int
    same_posterior: bool

    @property
    def met(self) -> bool:
        """Nothing lost, nothing doubled, every bad line reported, the same posterior."""
        whole = self.lost == self.doubled == self.misreported == 0
        return whole and self.reported == self.spoilt and self.same_posterior


def make_problem(samples: int) -> smcpn.Problem:
    """A simulated Duffing oscillator."""
    rng = np.random.default_rng(3)
    u = np.repeat(2.0 * rng.normal(size=-(-samples // 5)), 5)[:samples]
    silent = smcpn.Record(u=u, dt=DT, hold="zoh")
    clean = smcpn.simulate(duffing, silent, TRUTH, observe="x", steps=8)[:, 0]
    y = clean + NOISE * rng.standard_normal(samples)
    prior: dict[str, Any] = {
        name: stats.lognorm(0.5, scale=1.2 * value) for name, value in TRUTH.items()
    }
    record = smcpn.Record(u=u, y=y, dt=DT, hold="zoh")
    return smcpn.Problem(duffing, record, observe="x", noise=NOISE, prior=prior)


def lines_of(problem: smcpn.Problem) -> list[bytes]:
    """The record as lines of t, u and y."""
    record = problem.records[0]
    columns = np.column_stack([record.t, record.u, record.y]).tolist()
    return [(",".join(map(repr, row)) + "\n").encode() for row in columns]


def undisturbed(problem: smcpn.Problem) -> Any:
    """State after the whole record."""
    live, record = smcpn.Online(problem, **SETTINGS), problem.records[0]
    state = None
    for t, u, y in zip(record.t, record.u, record.y, strict=True):
        state = live.update(u, y, float(t))
    return state


class Saboteur:
    """Sends lines, and spoils the sending at random places.

    Attributes
    ----------
    spoilt : set of int
        Numbers of the bad lines, as the reader counts them over all connections.
    interruptions : int
    """

    def __init__(self, lines: list[bytes], seed: int) -> None:
        self._lines, self._rng = lines, np.random.default_rng(seed)
        self._reached, self._number, self._complete = 0, 0, False
        self.spoilt: set[int] = set()
        self.interruptions = 0

    def connection(self) -> Iterator[bytes]:
        """Yield what one connection sends; the last one sends all that is left."""
        if self._complete:
            # The reader is ahead of the identification, which may not take any more.
            return
        begin = int(self._rng.integers(0, self._reached + 1))
        for k in range(begin, len(self._lines)):
            chance = self._rng.random()
            if chance < 0.02:
                self._count(bad=True)
                yield SPOILT[int(self._rng.integers(len(SPOILT)))]
            elif chance < 0.025 and self._reached > 0:
                # Half a line: a bad one for the reader.
                self._count(bad=True)
                self.interruptions += 1
                yield self._lines[k][: len(self._lines[k]) // 2]
                return
            elif chance < 0.03:
                time.sleep(0.05)
            self._count(bad=False)
            yield self._lines[k]
            self._reached = max(self._reached, k)
        self._complete = True

    def _count(self, bad: bool) -> None:
        self._number += 1
        if bad:
            self.spoilt.add(self._number)


@contextmanager
def serving(saboteur: Saboteur) -> Iterator[str]:
    """Yield the address of a server that a saboteur runs."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                for content in saboteur.connection():
                    connection.sendall(content)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"tcp://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def tcp_robustness(samples: int = 2000, seed: int = 1) -> Outcome:
    """Read a sabotaged TCP server."""
    problem = make_problem(samples)
    saboteur = Saboteur(lines_of(problem), seed)
    live, stop, events = smcpn.Online(problem, **SETTINGS), Stop(), list[Event]()
    times, state = [], None
    with serving(saboteur) as address:
        source = open_source(address, Channels.of(problem))
        last = float(problem.records[0].t[-1])
        for _, t, after in Stream(live, source, events.append, stop=stop):
            times.append(t)
            state = after
            if t == last:
                stop.request()
    reported = {event.line for event in events if event.kind == "bad-line"}
    return _outcome(problem, times, saboteur.spoilt, reported, saboteur.interruptions, state)


def _outcome(
    problem: smcpn.Problem,
    times: list[float],
    spoilt: set[int],
    reported: set[int | None],
    interruptions: int,
    state: Any,
) -> Outcome:
    expected, sent = undisturbed(problem), problem.records[0].t.tolist()
    return Outcome(
        sent=len(sent),
        assimilated=len(times),
        lost=len(set(sent) - set(times)),
        doubled=len(times) - len(set(times)),
        spoilt=len(spoilt),
        reported=len(spoilt & reported),
        misreported=len(reported - spoilt),
        interruptions=interruptions,
        same_posterior=state is not None and (state.mean, state.sd) == (expected.mean, expected.sd),
    )


@dataclass(frozen=True)
class LineState:
    """The posterior as an output line tells it."""

    mean: dict[str, float]
    sd: dict[str, float]


def stdin_robustness(samples: int = 1000, seed: int = 1, kills: int = 3) -> Outcome:
    """Pipe a record with noise into ``smcpn stream``, killed and resumed."""
    problem, rng = make_problem(samples), np.random.default_rng(seed)
    lines = lines_of(problem)
    bad = sorted(rng.choice(np.arange(1, samples), 20, replace=False).tolist())
    content = b"".join(
        line + (SPOILT[k % len(SPOILT)] if k in bad else b"") for k, line in enumerate(lines, 1)
    )
    with tempfile.TemporaryDirectory() as folder:
        process = _Process(Path(folder), samples)
        for place in sorted(rng.integers(samples // 10, samples - 10, kills).tolist()):
            process.kill_at(content, place)
        process.to_the_end(content)
        output = process.output()
        reported = process.bad_lines()
        final = process.final()
    last = LineState(final["mean"], final["sd"])
    spoilt = {k + place for place, k in enumerate(bad, 1)}
    return _outcome(
        problem,
        [line["t"] for line in output],
        spoilt,
        reported,
        kills,
        last,
    )


class _Process:
    """``smcpn stream`` on its standard input, over and over."""

    def __init__(self, folder: Path, samples: int) -> None:
        self._folder, self._samples = folder, samples
        (folder / "model.py").write_text(
            "from benchmarks.online_sources import make_problem\n"
            f"problem = make_problem({samples})\n"
        )

    def _start(self) -> subprocess.Popen[bytes]:
        solver = SETTINGS["solver"]
        options = {
            "particles": SETTINGS["particles"], "seed": SETTINGS["seed"], "steps": solver.steps,
            "order": solver.order, "to": "out.jsonl", "checkpoint": "live.h5",
            "checkpoint-every": 0.1, "events": "events.jsonl",
        }  # fmt: skip
        flat = [text for key, value in options.items() for text in (f"--{key}", str(value))]
        home = str(Path(__file__).parent.parent)
        return subprocess.Popen(
            [sys.executable, "-m", "smcpn", "stream", "model.py", *flat],
            cwd=self._folder,
            env=os.environ | {"PYTHONPATH": home},
            stdin=subprocess.PIPE,
        )

    def kill_at(self, content: bytes, sample: int) -> None:
        """Kill it once a sample has come out."""
        with self._start() as process:
            feeding = threading.Thread(target=self._feed, args=(process, content), daemon=True)
            feeding.start()
            while len(self._lines("out.jsonl")) < sample and process.poll() is None:
                time.sleep(0.005)
            process.send_signal(signal.SIGKILL)
            feeding.join()

    def to_the_end(self, content: bytes) -> None:
        """Have it read everything."""
        with self._start() as process:
            self._feed(process, content)

    @staticmethod
    def _feed(process: subprocess.Popen[bytes], content: bytes) -> None:
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.write(content)
        with suppress(BrokenPipeError):
            process.stdin.close()

    def output(self) -> list[dict[str, Any]]:
        """Lines of the output."""
        return self._lines("out.jsonl")

    def final(self) -> dict[str, Any]:
        """The posterior in the end, as reported."""
        (event,) = [one for one in self._lines("events.jsonl") if one["event"] == "final"]
        return event["state"]

    def bad_lines(self) -> set[int | None]:
        """Numbers of the lines reported as bad."""
        events = self._lines("events.jsonl")
        return {event["line"] for event in events if event["event"] == "bad-line"}

    def _lines(self, name: str) -> list[dict[str, Any]]:
        path = self._folder / name
        whole = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in whole]


@study("sources")
def sources(quick: bool) -> Iterator[Row]:
    """TCP and standard input killed, garbled and delayed."""
    for name, outcome in (("tcp", tcp_robustness()), ("stdin", stdin_robustness())):
        figures = vars(outcome)
        note = ", ".join(f"{value} {key}" for key, value in figures.items())
        target = "0 lost, 0 doubled, bad lines reported, undisturbed posterior"
        yield Row(f"{name}, samples lost", outcome.lost, target, outcome.met, note)
