"""Pages in a real browser: a report of 131072 samples, and the live page of a stream at 610 Hz.

``SMCPN_SCREENSHOTS`` names a folder for pictures of them. Needs chromium and playwright.
"""

from __future__ import annotations

import json
import os
import shutil
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
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks.rows import Row, at_least, at_most, command
from smcpn import RK4, Online, Problem, Record, identify, simulate
from smcpn.errors import InputError
from smcpn.io.channels import Sample
from smcpn.live.page import LivePage
from smcpn.model.ode import ode
from smcpn.online import State, real_time

Array = NDArray[np.float64]
SAMPLES = 131072
RATE = 610.35
VIEWERS = 5
UPDATE_SECONDS = 1.5e-4
"""That an update of the stream takes, about."""
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
TRUTH = {"c": 0.4, "k": 4.0}
NOISE = 0.02
DT = 0.1


@ode
def oscillator(x, v, u, *, c, k):
    """Linear oscillator of unit mass."""
    return v, u - c * v - k * x


def problem(samples: int, dt: float = DT) -> Problem:
    """An oscillator's record; its time is scaled so that a sample is a sixtieth of a period."""
    rng, scale = np.random.default_rng(0), DT / dt
    u = np.repeat(rng.normal(size=-(-samples // 4)), 4)[:samples] * scale**2
    truth = {"c": TRUTH["c"] * scale, "k": TRUTH["k"] * scale**2}
    clean = simulate(oscillator, Record(u=u, dt=dt), truth, observe="x", steps=4)
    record = Record(u=u, y=clean + NOISE * rng.normal(size=clean.shape), dt=dt, name="rig")
    prior: dict[str, Any] = {name: stats.lognorm(0.5, scale=value) for name, value in truth.items()}
    return Problem(oscillator, record, observe="x", noise=NOISE, prior=prior)


def long_report(quick: bool) -> Iterator[Row]:
    """A report of a record of 131072 samples, learned from and tested on."""
    if CHROMIUM is None:
        yield Row("report of 131072 samples", None, note="there is no chromium")
        return
    learned = problem(SAMPLES // 16 if quick else SAMPLES)
    posterior = identify(learned, solver=RK4(steps=2), particles=100, seed=1, progress=False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.html"
        begin = time.perf_counter()
        posterior.report(path, {"rig": problem(SAMPLES).records[0]})
        yield Row("report written, s", time.perf_counter() - begin)
        yield at_most("size, MB", path.stat().st_size / 1e6, 3.0)
        yield from _opened(path)


def _opened(path: Path) -> Iterator[Row]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        looks: tuple[tuple[int, Any], ...] = ((1200, "light"), (390, "dark"))
        for width, scheme in looks:
            window: Any = {"width": width, "height": 844}
            page = browser.new_context(viewport=window, color_scheme=scheme).new_page()
            page.goto("about:blank")
            begin = time.perf_counter()
            page.goto(path.as_uri())
            yield at_most(f"opens at {width}, s", time.perf_counter() - begin, 2.0)
            page.locator("figure.plot").first.scroll_into_view_if_needed()
            page.wait_for_selector("figure.plot.live")
            page.get_by_role("button", name="go to the largest error").first.click()
            low, high = page.evaluate("document.querySelector('.plot').group.range")
            yield at_most(f"zoomed at {width} to samples", (high - low) / DT + 1, 200)
            yield at_most(f"width at {width}", page.evaluate("document.body.scrollWidth"), width)
            _shoot(page, f"long-{width}-{scheme}.png")
        browser.close()


def live(quick: bool) -> Iterator[Row]:
    """A stream at 610 Hz with five viewers: five browsers, and one with four that only read.

    Browsers on this machine take processor time that those on other machines do not. What the
    machine itself allows beside five is told by updates that only wait.
    """
    if CHROMIUM is None:
        yield Row("live page", None, note="there is no chromium")
        return
    short = 20.0 if quick else 60.0
    try:
        with real_time():
            pass
    except InputError as error:
        yield Row("real-time priority", None, note=str(error))
    else:
        yield from _streamed("real time", short if quick else 600.0, VIEWERS, real_time)
    yield from _streamed("", short, 1)
    yield from _streamed("five browsers", short, VIEWERS, goal=None)
    yield from _streamed("five browsers, no work", short, VIEWERS, goal=None, works=False)


Update = Callable[[float, float], State]
"""From an input and an output to what is known after them."""


def _streamed(
    named: str,
    seconds: float,
    browsers: int,
    priority: Callable[[], AbstractContextManager[None]] = nullcontext,
    goal: float | None = 0.999,
    works: bool = True,
) -> Iterator[Row]:
    """Figures of a stream with so many browsers among its viewers."""
    whole = problem(int(seconds * RATE), 1 / RATE)
    record, few = whole.records[0], whole.with_records([whole.records[0][:100]])
    options: dict[str, Any] = {"solver": RK4(steps=1), "particles": 500, "seed": 1}
    Online(few, **options).update(record.u[0], record.y[0])
    stream = Online(few, budget="1.5 ms", forget="5 s", **options)
    page = LivePage("127.0.0.1:0", "610 Hz", few)
    viewers = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.report", "--look-on", page.url, str(seconds),
         str(browsers)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    first = stream.update(record.u[0], record.y[0])
    with priority():
        took, shown, sizes = _paced(stream.update if works else _waits(first), record, page)
    seen = json.loads(viewers.communicate(timeout=120)[0])
    page.close()
    kind = f", {named}" if named else ""
    load = f"load {os.getloadavg()[0]:.1f}, {VIEWERS} viewers, {browsers} chromium, {seconds:g} s"
    late = f"{int(np.sum(took > 1 / RATE))} late; {load}"
    name, share = "updates within the period" + kind, float(np.mean(took <= 1 / RATE))
    yield Row(name, share, note=late) if goal is None else at_least(name, share, goal, late)
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
    """Update at `RATE` from the second sample on.

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
            sizes.append([_resident(os.getpid()), _resident(page.server_process)])
    return took, shown, np.array(sizes)


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
        _shoot(pages[0], "live-1280-light.png")
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


def _shoot(page: Any, name: str) -> None:
    folder = os.environ.get("SMCPN_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(Path(folder) / name), full_page=True)


def _resident(process: int) -> float:
    """Bytes of memory that a process holds; Linux only."""
    text = Path(f"/proc/{process}/statm").read_text()
    return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--look-on"]:
        _look_on(sys.argv[2], float(sys.argv[3]), int(sys.argv[4]))
    else:
        sys.exit(command(__doc__, {"long": long_report, "live": live}))
