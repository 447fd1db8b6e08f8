"""A report of 131072 samples in a real browser.

``SMCPN_SCREENSHOTS`` names a folder for pictures of it. Needs chromium and playwright.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.rows import Row, at_most
from benchmarks.study import command, study
from smcpn import RK4, Problem, Record, identify, simulate
from smcpn.model.ode import ode

SAMPLES = 131072
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


@study("long")
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
            shoot(page, f"long-{width}-{scheme}.png")
        browser.close()


def shoot(page: Any, name: str) -> None:
    """Keep a picture of a page where a folder for them is named."""
    folder = os.environ.get("SMCPN_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(Path(folder) / name), full_page=True)


if __name__ == "__main__":
    sys.exit(command(__name__))
