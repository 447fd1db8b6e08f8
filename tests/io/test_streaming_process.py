"""The command as a process of its own: killed, resumed, cut off, fed with noise."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from small_stream import Server

from tests.models import oscillator_record

MODEL = """\
from tests.models import oscillator_record, oscillator_problem as problem_of

problem = problem_of(oscillator_record())
"""
RECORD = oscillator_record()
LINES = [
    f"{float(t)!r},{float(u)!r},{float(y)!r}\n".encode()
    for t, u, y in zip(RECORD.t, RECORD.u[:, 0], RECORD.y[:, 0], strict=True)
]
OPTIONS = ["--particles", "64", "--steps", "2", "--order", "2"]
CLOCK = ("latency", "projected", "late")
"""What a line says of the time it took."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("process")
    (folder / "model.py").write_text(MODEL)
    (folder / "log.csv").write_bytes(b"".join(LINES))
    return folder


def smcpn(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    tests = Path(__file__).parents[1]
    search = os.pathsep.join([str(tests.parent), str(tests), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-m", "smcpn", "stream", "model.py", *OPTIONS, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": search},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def done(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    assert b"Traceback" not in err, err.decode()
    return process.returncode, out.decode(), err.decode()


def posteriors(text: str) -> list[dict]:
    lines = [json.loads(line) for line in text.splitlines()]
    return [{key: line[key] for key in line if key not in CLOCK} for line in lines]


@pytest.fixture(scope="module")
def whole(folder) -> list[dict]:
    """The posteriors of a run that nothing disturbs."""
    code, out, err = done(smcpn(folder, "--from", "log.csv"))
    assert code == 0
    assert err.startswith("smcpn: end: log.csv has ended\nsmcpn: final: 400 samples, c 0.39")
    return posteriors(out)


@pytest.mark.slow
def test_a_line_for_every_sample(whole):
    assert len(whole) == len(LINES)
    last = whole[-1]
    assert last["mean"]["k"] == pytest.approx(4.0, rel=0.02)
    assert last["quantiles"]["k"][0] < last["mean"]["k"] < last["quantiles"]["k"][2]


@pytest.mark.nightly
def test_noise_on_standard_input_and_a_writer_that_dies_change_nothing(folder, whole):
    process = smcpn(folder)
    assert process.stdin is not None
    for k, line in enumerate(LINES):
        process.stdin.write(line + (b"\xff noise \x00\n" if k % 100 == 50 else b""))
    process.stdin.write(LINES[-1][:9])
    code, out, err = done(process)
    assert code == 0
    assert posteriors(out) == whole
    bad = [line.split()[2] for line in err.splitlines() if "bad-line" in line]
    assert bad == ["52:", "153:", "254:", "355:", "405:"]


SIGNALS = [
    pytest.param(signal.SIGTERM, 143, marks=pytest.mark.nightly),
    pytest.param(signal.SIGINT, 130, marks=pytest.mark.nightly),
    (signal.SIGKILL, -9),
]


def stopped_and_resumed(folder: Path, out: Path, number: signal.Signals, code: int) -> list[dict]:
    """Posteriors in the output of a run that a signal stops and another one ends.

    The server, too, goes on after the interruption with what it finds right.
    """

    def script(connection: socket.socket, attempt: int) -> None:
        connection.sendall(b"".join(LINES[:200] if attempt == 0 else LINES))
        while connection.recv(1):
            pass

    live = out.with_suffix(".h5")
    arguments = ["--to", str(out), "--checkpoint", str(live), "--checkpoint-every", "0.05"]
    with Server(script) as server:
        arguments += ["--from", server.address]
        first = smcpn(folder, *arguments)
        wait_until(lambda: lines_in(out) >= 120 and live.exists(), first)
        first.send_signal(number)
        ended, _, err = done(first)
        assert ended == code
        if number != signal.SIGKILL:
            assert f"stopped by {number.name} after" in err
            assert f"resume with --checkpoint {live}" in err
        second = smcpn(folder, *arguments)
        wait_until(lambda: lines_in(out) == len(LINES), second)
        second.send_signal(signal.SIGTERM)
        assert done(second)[0] == 143
    return posteriors(out.read_text())


def lines_in(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def wait_until(reached: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    while not reached():
        if process.poll() is not None:
            raise AssertionError(done(process))
        time.sleep(0.01)


@pytest.mark.parametrize(("number", "code"), SIGNALS)
@pytest.mark.slow
@pytest.mark.nightly
def test_stopped_and_resumed_it_ends_in_the_same_posterior(folder, whole, tmp_path, number, code):
    resumed = stopped_and_resumed(folder, tmp_path / "out.jsonl", number, code)
    assert resumed == whole


@pytest.mark.slow
@pytest.mark.nightly
def test_a_reader_that_has_seen_enough_ends_it_quietly(folder):
    process = smcpn(folder, "--from", "log.csv")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(60) == 141
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.stdin is not None
    process.stdin.close()
