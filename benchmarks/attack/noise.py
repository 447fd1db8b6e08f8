"""Garbled lines among the samples of a stream: which samples arrive, and in which order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import smcpn
from benchmarks.rows import Row, at_most
from benchmarks.study import study
from smcpn.errors import InputError
from smcpn.io import Channels, Lines, Stream
from smcpn.io.parse import LineParser
from smcpn.io.sources import File
from tests.models import oscillator_problem, oscillator_record

SHARE = 0.1
"""Of the lines that are garbled."""
SAMPLES = 500
PROBLEM = oscillator_problem(oscillator_record(samples=SAMPLES), noise=0.5)

Entry = tuple[float, float, float]
NOISE = (
    b"ERROR,timeout", b"y,u,t", b"t,u,y", b"u,y", b"time,value,status", b"nan,nan,nan", b",,", b"{",
    b"}", b"null", b"[1, 2, 3]", b'{"t": 1e999, "u": 0, "y": 0}', b'{"y": 1, "u": "x", "t": 2}',
    b'{"error": "timeout"}', b"{" * 2000, b"[" * 2000, b"# restarted", b"", b"\x00\x01\x02,\xff",
    b"\x1b[31m12.0,0.1,0.2", b"1_0,2,3", b"1.0;2.0;3.0", b"inf,0,0", b"1,2,3,4,5,6", b"0x10,1,2",
    b'"1.0,2.0', b"--,--,--", b"\xef\xbb\xbf", b"True,False,True", b'{"t": true, "u": 1, "y": 1}',
)  # fmt: skip
"""Lines that a logger, a serial line or somebody with bad intentions puts in place of a sample."""


def _entries() -> list[Entry]:
    record = PROBLEM.records[0]
    rows = zip(record.t, record.u[:, 0], record.y[:, 0], strict=True)
    return [(round(float(t), 1), round(float(u), 4), round(float(y), 4)) for t, u, y in rows]


def _line(entry: Entry, form: str) -> bytes:
    t, u, y = entry
    if form == "json":
        return json.dumps({"t": t, "u": u, "y": y}).encode()
    return f"{t},{u},{y}".encode() if form == "csv" else f"{u},{y}".encode()


def _garbled(line: bytes, form: str, rng: np.random.Generator) -> bytes:
    """Return a line that is no sample any more: noise, or cut before its last field."""
    if rng.uniform() < 0.7:
        return NOISE[rng.integers(len(NOISE))]
    last = b"," if form != "json" else b"}"
    return line[: rng.integers(1, line.rindex(last))]


def _arrived(path: Path) -> list[Entry]:
    live = smcpn.Online(PROBLEM, solver=smcpn.RK4(1), particles=20, seed=1, threads=1)
    source = Lines(File(path), LineParser(Channels.of(PROBLEM)))
    steps = Stream(live, source, lambda event: None)
    return [(round(t, 6), float(sample.u[0]), float(sample.y[0])) for sample, t, _ in steps]


def _judged(form: str, seeds: int) -> Iterator[Row]:
    entries, lost, others, order, ended = _entries(), 0, 0, 0, 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        bad = rng.uniform(size=len(entries)) < SHARE
        bad[0] = False
        lines = [
            _garbled(_line(entry, form), form, rng) if garbled else _line(entry, form)
            for entry, garbled in zip(entries, bad, strict=True)
        ]
        with TemporaryDirectory() as folder:
            path = Path(folder) / "lines"
            header = b"t,u,y\n" if form == "csv" else b""
            path.write_bytes(header + b"\n".join(lines) + b"\n")
            try:
                arrived = _arrived(path)
            except InputError:
                arrived, ended = [], ended + 1
        whole = [entry for entry, garbled in zip(entries, bad, strict=True) if not garbled]
        if form == "csv, no times":
            # What has no time of its own is known by its values.
            whole, arrived = [e[1:] for e in whole], [e[1:] for e in arrived]
        lost += len(set(whole) - set(arrived))
        others += len(set(arrived) - set(whole))
        order += arrived != [entry for entry in whole if entry in set(arrived)]
    note = f"{seeds} streams of {SAMPLES} lines"
    yield at_most(f"{form}: samples lost beyond the garbled ones", lost, 0, note)
    yield at_most(f"{form}: samples that were not sent", others, 0)
    yield at_most(f"{form}: streams with samples in another order", order, 0)
    yield at_most(f"{form}: streams ended", ended, 0)


@study("noise", full=100, quick=3)
def noise(seeds: int) -> Iterator[Row]:
    """A tenth of the lines replaced by noise, in JSON and in CSV with and without times."""
    for form in ("json", "csv", "csv, no times"):
        yield from _judged(form, seeds)
