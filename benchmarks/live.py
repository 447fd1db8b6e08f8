"""The live page of a stream at 610 Hz: updates in time, frames and memory, with five viewers.

``SMCPN_SCREENSHOTS`` names a folder for a picture of it. Needs chromium and playwright. Browsers on
this machine take processor time that those on other machines do not; what it allows beside them is
told by updates that compute nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.memory import resident_memory
from benchmarks.report import CHROMIUM, problem, shoot
from benchmarks.rows import Row, at_least, at_most
from benchmarks.study import command, study
from smcpn import RK4, Online, Problem, Record
from smcpn.errors import InputError
from smcpn.io.channels import Sample
from smcpn.online import State, real_time
from smcpn.report.live.page import LivePage

Array = NDArray[np.float64]
RATE = 610.35
VIEWERS = 5
BUDGET, FORGET, PARTICLES = "1.5 ms", "5 s", 500
UPDATE_SECONDS = 1.5e-4
"""That an update takes, about."""
Update = Callable[[float, float], State]
"""From an input and an output to what is known after them."""
READY_SECONDS = 120.0
"""Within which the command is to have loaded and compiled its model."""


@study("page")
def page(quick: bool) -> Iterator[Row]:
    """`Online` and `LivePage` in a loop, updated at 610 Hz."""
    if quick:
        # Updates come in time where others leave the machine alone: that is judged in full.
        yield from _updated("five browsers", 12.0, VIEWERS, goal=None)
        return
    if _real_time_allowed():
        yield from _updated("real time", 600.0, VIEWERS, real_time)
    yield from _updated("four viewers without a picture", 60.0, 1)
    yield from _updated("five browsers", 60.0, VIEWERS, goal=None)
    yield from _updated("five browsers, no work", 60.0, VIEWERS, goal=None, works=False)


@study("stream")
def stream(quick: bool) -> Iterator[Row]:
    """The command ``smcpn stream --serve``, whose standard input a line comes to at 610 Hz."""
    seconds = 6.0 if quick else 60.0
    if not quick and _real_time_allowed():
        yield from _commanded("real time", seconds, ["--real-time"], 0.999)
    yield from _commanded("", seconds, [], None)


def _real_time_allowed() -> bool:
    try:
        with real_time():
            return True
    except InputError as error:
        print(f"without real-time priority: {error}", file=sys.stderr)
        return False


def template() -> Problem:
    """The problem of the stream, with a short record that tells how it is sampled."""
    whole = problem(100, 1 / RATE)
    return whole.with_records([whole.records[0][:100]])


def _in_time(kind: str, took: Array, goal: float | None, note: str) -> Row:
    """The row of the share of updates that took no longer than a sampling period."""
    name, share = "updates within the period" + kind, float(np.mean(took <= 1 / RATE))
    note = f"{int(np.sum(took > 1 / RATE))} late; load {os.getloadavg()[0]:.1f}, {note}"
    return Row(name, share, note=note) if goal is None else at_least(name, share, goal, note)


def _updated(
    named: str,
    seconds: float,
    browsers: int,
    priority: Callable[[], AbstractContextManager[None]] = nullcontext,
    goal: float | None = 0.999,
    works: bool = True,
) -> Iterator[Row]:
    """Figures of a stream with so many browsers among its viewers."""
    record, few = problem(int(seconds * RATE), 1 / RATE).records[0], template()
    options: dict[str, Any] = {"solver": RK4(steps=1), "particles": PARTICLES, "seed": 1}
    Online(few, **options).update(record.u[0], record.y[0])
    stream = Online(few, budget=BUDGET, forget=FORGET, **options)
    page = LivePage("127.0.0.1:0", "610 Hz", few)
    viewers = _viewers(page.url, seconds, browsers)
    first = stream.update(record.u[0], record.y[0])
    with priority():
        took, shown, sizes = _paced(stream.update if works else _waits(first), record, page)
    seen = json.loads(viewers.communicate(timeout=120)[0])
    page.close()
    kind = f", {named}" if named else ""
    note = f"{VIEWERS} viewers, {browsers} chromium, {seconds:g} s"
    yield _in_time(kind, took, goal, note)
    if not works:
        return
    yield Row("processor time of the page a sample, us" + kind, 1e6 * float(shown.mean()))
    yield Row("processor of the browsers, of one core" + kind, seen["processor"])
    yield at_least("frames a second, slowest viewer" + kind, min(seen["frames"]), 5.0)
    for grown, size in zip(("stream", "server"), sizes.T, strict=True):
        growth = float(size[-5:].mean() - size[:5].mean()) / 1e6
        yield at_most(f"growth of the {grown} in the last two thirds, MB" + kind, growth, 8.0)
    yield at_most("growth of a page's heap, MB" + kind, seen["growth"], 16.0)


def _waits(state: State) -> Update:
    """What takes as long as an update does, and computes nothing."""

    def update(u: float, y: float) -> State:
        begin = time.perf_counter()
        while time.perf_counter() - begin < UPDATE_SECONDS:
            pass
        return state

    return update


def _paced(update: Update, record: Record, page: LivePage) -> tuple[Array, Array, Array]:
    """Update at 610 Hz from the second sample on.

    Returns
    -------
    took, shown : ndarray, (T - 1,)
        Seconds of an update with its page; processor seconds of the page.
    sizes : ndarray, (k, 2)
        Bytes of this process and of the server, once a second in the last two thirds.
    """
    took, shown, sizes = np.empty(len(record) - 1), np.empty(len(record) - 1), []
    begin = time.perf_counter()
    for k in range(1, len(record)):
        while (left := begin + k / RATE - time.perf_counter()) > 0:
            if left > 3e-4:
                time.sleep(left - 2e-4)
        start, (u, y) = time.perf_counter(), (record.u[k], record.y[k])
        state, spent = update(u, y), time.thread_time()
        page.sample(Sample(k, None, u, y), k / RATE, state, 0)
        shown[k - 1] = time.thread_time() - spent
        took[k - 1] = time.perf_counter() - start
        if k > len(record) // 3 and k % 610 == 0:
            sizes.append([resident_memory(), resident_memory(page.server_process)])
    return took, shown, np.array(sizes)


def _commanded(kind: str, seconds: float, options: list[str], goal: float | None) -> Iterator[Row]:
    """Figures of the command with five browsers, as its lines tell them."""
    record = problem(int(seconds * RATE), 1 / RATE).records[0]
    lines = [
        f"{k / RATE:.9f},{u:.12g},{y:.12g}\n".encode()
        for k, (u, y) in enumerate(zip(record.u[:, 0], record.y[:, 0], strict=True))
    ]
    with tempfile.TemporaryDirectory() as folder:
        rig, out = Path(folder) / "rig.py", Path(folder) / "out.jsonl"
        rig.write_text("from benchmarks.live import template\n\nproblem = template()\n")
        run = subprocess.Popen(
            [sys.executable, "-m", "smcpn", "stream", str(rig), "--steps", "1", "--particles",
             str(PARTICLES), "--seed", "1", "--budget", BUDGET, "--forget", FORGET,
             "--likelihood", "classical", "--serve", "0", "--to", str(out), *options],
            stdin=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert run.stdin is not None
        assert run.stderr is not None
        url = run.stderr.readline().split()[-1].decode()
        threading.Thread(target=run.stderr.read, daemon=True).start()
        _await(out)
        viewers = _viewers(url, seconds, VIEWERS)
        _feed(run.stdin, lines)
        seen = json.loads(viewers.communicate(timeout=120)[0])
        run.stdin.close()
        run.wait(timeout=60)
        told = [json.loads(line) for line in out.read_text().splitlines()]
    samples = {line["n"]: line["latency"] for line in told}
    took = np.array(list(samples.values()))
    kind = f", {kind}" if kind else ""
    yield at_least("samples assimilated" + kind, len(took) / len(lines), 1.0)
    yield _in_time(kind, took, goal, f"{VIEWERS} chromium, {seconds:g} s")
    yield at_least("frames a second, slowest viewer" + kind, min(seen["frames"]), 5.0)


def _await(path: Path) -> None:
    """Wait for a file that the command opens when it is ready."""
    end = time.monotonic() + READY_SECONDS
    while not path.exists():
        if time.monotonic() > end:
            raise TimeoutError(f"smcpn stream has not begun within {READY_SECONDS:g} s")
        time.sleep(0.1)


def _feed(pipe: IO[bytes], lines: list[bytes]) -> None:
    """Write a line every sampling period."""
    pipe.write(b"t,u,y\n")
    begin = time.perf_counter()
    for k, line in enumerate(lines):
        time.sleep(max(0.0, begin + k / RATE - time.perf_counter()))
        pipe.write(line)
        pipe.flush()


def _viewers(url: str, seconds: float, browsers: int) -> subprocess.Popen[str]:
    """Start a process that looks at a page and prints what it saw as JSON."""
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.live", "--look-on", url, str(seconds), str(browsers)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def _look_on(url: str, seconds: float, browsers: int) -> None:
    """Look on for so long; print frames a second of each browser, and how the first one grew."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        pages = [browser.new_context().new_page() for _ in range(browsers)]
        for page in pages:
            page.goto(url)
        for _ in range(VIEWERS - browsers):
            threading.Thread(target=_read_on, args=(url,), daemon=True).start()
        heap = partial(pages[0].evaluate, "performance.memory.usedJSHeapSize / 1e6")
        time.sleep(seconds / 3)
        before, counts, begin = heap(), _drawn(pages), time.perf_counter()
        worked = _processor_time(os.getpid())
        time.sleep(seconds / 2)
        passed = time.perf_counter() - begin
        frames = [(b - a) / passed for a, b in zip(counts, _drawn(pages), strict=True)]
        processor = (_processor_time(os.getpid()) - worked) / passed
        growth = heap() - before
        shoot(pages[0], "live-1280-light.png")
        browser.close()
    print(json.dumps({"frames": frames, "growth": growth, "processor": processor}))


def _read_on(url: str) -> None:
    """Read the frames of a page, as a viewer without a picture."""
    with urllib.request.urlopen(url + "events") as lines:
        for _ in lines:
            pass


def _processor_time(process: int) -> float:
    """Seconds of processor that a process and what it started have taken; Linux only."""
    folder = Path(f"/proc/{process}")
    try:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        children = [c for task in folder.glob("task/*/children") for c in task.read_text().split()]
    except OSError:
        return 0.0
    ticks = int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK") + sum(_processor_time(int(one)) for one in children)


def _drawn(pages: list[Any]) -> list[int]:
    return [page.evaluate("window.drawn") for page in pages]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--look-on"]:
        _look_on(sys.argv[2], float(sys.argv[3]), int(sys.argv[4]))
    elif CHROMIUM is None:
        sys.exit("the live page is looked at by chromium: install it")
    else:
        sys.exit(command(__name__))
