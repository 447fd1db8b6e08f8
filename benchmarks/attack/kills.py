"""Streams killed by SIGKILL at random moments: what their files lead to afterwards."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import smcpn
from benchmarks.rows import Row, at_most
from benchmarks.study import study
from smcpn.base.files import left_beside
from smcpn.base.signals import Stop
from smcpn.checkpoint.container import begun, lock
from smcpn.io import Channels, Lines, Stream
from smcpn.io.parse import LineParser
from smcpn.io.sink import JsonSink
from smcpn.io.sources import File
from smcpn.io.stream import Checkpoints, StreamRun
from tests.models import oscillator_problem, oscillator_record

STREAMS, QUICK_STREAMS = 100, 4
KILLS = 2
"""Of each stream, at most."""
EVERY = 0.02
"""Seconds between two checkpoints of a stream."""
OF_THE_CLOCK = ("latency", "projected", "late")
"""Fields of a line that differ from run to run."""
PROBLEM = oscillator_problem(oscillator_record(samples=100), noise=0.5)


def _stream(folder: Path) -> None:
    """Read the lines from where the checkpoint is to their end, as ``smcpn stream`` does."""
    checkpoint = folder / "stream.h5"
    with lock(checkpoint):
        if begun(checkpoint):
            live = smcpn.Online.load(checkpoint)
        else:
            live = smcpn.Online(PROBLEM, solver=smcpn.RK4(2), particles=50, seed=1)
        source = Lines(File(folder / "lines.csv"), LineParser(Channels.of(PROBLEM)))
        stop = Stop()
        run = StreamRun(
            live=live,
            samples=Stream(live, source, lambda event: None, stop=stop),
            sink=JsonSink(str(folder / "to.jsonl"), live.t),
            checkpoints=Checkpoints(str(checkpoint), EVERY, lambda event: None),
            stop=stop,
            report=lambda event: None,
        )
        run.run()
        run.sink.close()


def _forked(folder: Path) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _stream(folder)
            code = 0
        finally:
            os._exit(code)
    return child


def _lines(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "to.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in OF_THE_CLOCK} for line in lines]


def _write_lines(folder: Path) -> None:
    record = PROBLEM.records[0]
    rows = zip(record.t, record.u[:, 0], record.y[:, 0], strict=True)
    text = "".join(f"{t:.1f},{u:.4f},{y:.4f}\n" for t, u, y in rows)
    (folder / "lines.csv").write_text("t,u,y\n" + text)


@study("kills-streams", full=STREAMS, quick=QUICK_STREAMS)
def streams(count: int) -> Iterator[Row]:
    """Streams killed up to twice each, with checkpoints that follow each other closely."""
    rng = np.random.default_rng(0)
    same, failed, left, kills = 0, 0, 0, 0
    with TemporaryDirectory() as parent:
        whole = Path(parent) / "whole"
        whole.mkdir()
        _write_lines(whole)
        _stream(whole)
        expected = _lines(whole)
        begin = time.perf_counter()
        os.waitpid(_forked(_copied(whole, "timed")), 0)
        duration = time.perf_counter() - begin
        for number in range(count):
            folder = _copied(whole, str(number))
            for _ in range(KILLS):
                child = _forked(folder)
                time.sleep(rng.uniform(0.0, duration))
                os.kill(child, signal.SIGKILL)
                _, status = os.waitpid(child, 0)
                kills += os.WIFSIGNALED(status)
            _, status = os.waitpid(_forked(folder), 0)
            failed += status != 0
            same += status == 0 and _lines(folder) == expected
            left += len(left_beside(folder / "stream.h5", ("new", "link")))
    note = f"{kills} kills, {failed} that could not go on"
    yield Row("streams with the same lines", same, f"{count}", same == count, note)
    yield at_most("files left by killed processes", left, 0)


def _copied(whole: Path, name: str) -> Path:
    folder = whole.with_name(name)
    folder.mkdir()
    (folder / "lines.csv").write_bytes((whole / "lines.csv").read_bytes())
    return folder
