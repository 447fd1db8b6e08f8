"""A report of a long record in a real browser: it opens, zooms to the samples, and fits a phone."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

import smcpn
from smcpn.base.tables import Column, Table, words
from smcpn.report.page import Gallery, rendered, write_page
from smcpn.report.plots import simulation_figure
from smcpn.report.style import figure
from smcpn.results.simulation.simulation import Simulation
from smcpn.results.validation.verdict import Verdict

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
SAMPLES = 131072
DT = 0.01
PLACE = 100_000
"""Sample of the largest error."""

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")


def simulated() -> Simulation:
    rng = np.random.default_rng(0)
    mean = np.sin(0.1 * np.arange(SAMPLES))[:, None]
    y = mean + 0.02 * rng.normal(size=mean.shape)
    y[PLACE] += 0.5
    some = np.full_like(mean, 1e-6)
    scores = np.array([0.02]), np.array([97.0]), np.array([0.95])
    return Simulation(
        smcpn.Record(y=y, dt=DT, name="rig </script>"), mean, some, 0 * some, np.array([4e-4]),
        0 * some, np.full((1, 1), 0.02), *scores, np.ones(1), 1,
    )  # fmt: skip


def empty() -> Figure:
    drawing = figure(1.0)
    drawing.subplots()
    return drawing


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    """A report of which only the test record is there."""
    gallery, nothing = Gallery(), Table(list(map(words, "abcdef")))
    small = gallery.picture("run", empty, "Nothing.")
    plot = simulation_figure(gallery, simulated(), 0, "Measured and simulated.")
    rows = [["a long name of a record", *["0.123456789"] * 7]]
    table = Table([words("record"), *map(Column, "abcdefg")], rows)
    page = rendered(
        "report.html", title="A long record", description="", facts=[("samples", str(SAMPLES))] * 5,
        parameters=table, parameter_pictures=[small], functions=[], scores=table, doubts=(),
        tests=[("rig </script>", (), [plot])], likelihoods=nothing, robust=nothing, effective="",
        states=[], validation="a line of the validation " * 8, validation_pictures=[], run=[small],
        settings=Table.of_pairs({"solver": "RK4" * 30}), versions=Table(), data=table,
        verdict=Verdict("usable"), computation="particles 1000",
        run_facts=[("particles", "1000")],
    )  # fmt: skip
    return write_page(tmp_path_factory.mktemp("browser") / "out.html", page)


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    """Where screenshots are kept: SMCPN_SCREENSHOTS, if it is set."""
    folder = Path(os.environ.get("SMCPN_SCREENSHOTS") or tmp_path_factory.mktemp("screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark")])
def test_a_long_record_zooms_to_its_samples(page_file, browser, pictures, width, scheme):
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page, said = context.new_page(), []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(page_file.as_uri())
    page.locator("figure.plot").scroll_into_view_if_needed()
    page.wait_for_selector("figure.plot.live")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    whole = page.evaluate("document.querySelector('.plot').group.range")
    assert whole == pytest.approx([0.0, (SAMPLES - 1) * DT])
    over = page.locator(".plot .u-over").first.bounding_box()
    page.mouse.move(over["x"] + 0.25 * over["width"], over["y"] + 50)
    page.mouse.down()
    page.mouse.move(over["x"] + 0.5 * over["width"], over["y"] + 50, steps=3)
    page.mouse.up()
    dragged = page.evaluate("document.querySelector('.plot').group.plots.map(p => p.scales.x.min)")
    assert dragged == pytest.approx([0.25 * whole[1]] * 2, rel=0.02)
    page.get_by_role("button", name="go to the largest error").click()
    page.screenshot(path=pictures / f"report-{width}-{scheme}.png", full_page=True)
    low, high = page.evaluate("document.querySelector('.plot').group.range")
    assert low < PLACE * DT < high < low + 2.0
    y = page.evaluate(f"document.querySelector('.plot').group.plots[0].data[3][{PLACE}]")
    assert y == np.float32(simulated().record.y[PLACE, 0])
    assert not said
    assert not [url for url in requests if not url.startswith(("file:", "data:"))]
    context.close()


LEGIBLE = """() => {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = "12px system-ui, sans-serif";
  const wrong = [];
  for (const figure of document.querySelectorAll("figure.plot")) for (const plot of figure.group.plots)
    plot.axes.forEach((axis, i) => {
      const ticks = axis._values.filter((one) => one);
      if (new Set(ticks).size < ticks.length || ticks.length < 2) wrong.push(["ticks", ...ticks]);
      const widest = Math.max(...ticks.map((one) => pen.measureText(one).width));
      if (i && widest > axis._size) wrong.push(["cut", ...ticks]);
      if (!i && widest * ticks.length > plot.bbox.width / devicePixelRatio) wrong.push(["close", ...ticks]);
    });
  for (const one of document.querySelectorAll("h1, h2, h3, p, dt, dd, .label, figcaption, .u-legend, img"))
    if (one.scrollWidth > one.clientWidth + 1 || one.getBoundingClientRect().right > innerWidth) wrong.push(["text", one.outerHTML.slice(0, 80)]);
  return wrong;
}"""  # noqa: E501


@pytest.fixture(scope="module")
def sizes_file(tmp_path_factory):
    """A report of records of very different sizes, whose pictures are static and for zooming."""
    gallery, nothing = Gallery(), Table(list(map(words, "abcdef")))
    tests = [
        (f"of {size:g} about {mean:g}", (), [simulation_figure(gallery, one, 0, "Simulated.")])
        for size, mean in SIZES
        for one in [sized(size, mean)]
    ]
    page = rendered(
        "report.html", title="Sizes", description="", facts=[("fit, a long name", "98 %")] * 5,
        parameters=nothing, parameter_pictures=[], functions=[], scores=nothing, doubts=(),
        tests=tests, likelihoods=nothing, robust=nothing, effective="", states=[],
        validation="", validation_pictures=[], run=[], settings=Table(), versions=Table(),
        data=nothing, verdict=Verdict("usable"), computation="", run_facts=[],
    )  # fmt: skip
    return write_page(tmp_path_factory.mktemp("sizes") / "out.html", page)


SIZES = [(1e-9, 0.0), (2e-5, 0.0), (0.3, 0.0), (1.5e8, 0.0), (1e-3, 1e5), (1e-6, 0.0)]
"""Size and mean of what is measured."""


def sized(size: float, mean: float) -> Simulation:
    whole = simulated()
    record = smcpn.Record(
        y=mean + size * whole.record.y[:500], dt=size * 1e3, y_unit="Pa", name="rig"
    )
    small, noise = np.zeros((500, 1)), np.array([(0.02 * size) ** 2])
    return replace(
        whole, record=record, mean=mean + size * whole.mean[:500], parameter_variance=small,
        process_variance=small, noise_variance=noise, solver_variance=small,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, pytest.param(1400, marks=pytest.mark.nightly)])
def test_nothing_is_cut_and_no_two_ticks_are_alike(sizes_file, browser, pictures, width):
    context = browser.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    page.goto(sizes_file.as_uri())
    for plot in page.locator("figure.plot").all():
        plot.scroll_into_view_if_needed()
    page.wait_for_function("() => !document.querySelector('figure.plot:not(.live)')")
    page.screenshot(path=pictures / f"sizes-{width}.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(LEGIBLE) == []
    context.close()
