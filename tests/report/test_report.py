"""A report is one file that needs no other, says what was found, and escapes what it is given."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from urllib.parse import unquote

import numpy as np
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

import smcpn
from smcpn.cli.app import app
from smcpn.cli.cases import CASES, Case
from smcpn.cli.cases.case import PublishedScore
from smcpn.report.comparison import write_comparison
from smcpn.report.page import Gallery
from smcpn.report.plots import RoundedArray, packed
from smcpn.report.style import NARROW, figure
from tests import models

HOSTILE = """"'></figure></script><script>alert(1)</script><img src=x onerror=alert(1)>"""


class Page(HTMLParser):
    """The elements of a page, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data + "\n"

    def pictures(self) -> list[str]:
        return [attrs["src"] or "" for tag, attrs in self.tags if tag == "img"]

    def plots(self) -> list[dict]:
        return [json.loads(attrs["data-plot"]) for _, attrs in self.tags if "data-plot" in attrs]


@pytest.fixture(scope="module")
def html(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("report") / "out.html"
    fresh = models.oscillator_record(seed=9)
    named = smcpn.Record(u=fresh.u, y=fresh.y, dt=fresh.dt, y_unit="mm", name=HOSTILE)
    written = models.oscillator_posterior("right").report(
        path,
        {"fresh": named},
        published={"fresh": PublishedScore(0.111, 0.222, 0.333)},
        truth=models.OSCILLATOR_TRUTH,
        title=HOSTILE,
    )
    assert written == path
    return path.read_text(encoding="utf-8")


@pytest.mark.slow
def test_nothing_is_loaded_from_elsewhere(html):
    page = Page(html)
    assert not {tag for tag, _ in page.tags} & {"link", "iframe", "object", "base", "a"}
    sources = [
        value
        for _, attributes in page.tags
        for name, value in attributes.items()
        if name in ("src", "href", "srcset", "action", "data", "background")
    ]
    assert sources
    assert all(source.startswith("data:image/svg+xml,") for source in sources)
    # But for the comment of uPlot that says where it comes from.
    bare = re.sub(r'data:image[^"]*|data-plot="[^"]*"|/\*.*?\*/', "", html, flags=re.DOTALL)
    assert "//" not in bare
    assert "url(" not in bare
    assert "@import" not in bare


def test_pictures_are_whole_and_load_nothing(html):
    pictures = Page(html).pictures()
    assert len(pictures) == 7
    for source in pictures:
        svg = unquote(source.partition(",")[2], errors="strict")
        assert svg.rstrip().endswith("</svg>")
        links = re.findall(r'href="([^"]*)', svg)
        assert all(link.startswith(("#", "data:image/png;base64,")) for link in links)


def test_the_policy_names_the_script_and_the_style_of_the_page_and_no_other(html):
    (policy,) = (
        attrs["content"]
        for _, attrs in Page(html).tags
        if attrs.get("http-equiv") == "Content-Security-Policy"
    )
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for element in ("script", "style"):
        (text,) = re.findall(rf"<{element}>(.*?)</{element}>", html, flags=re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{element}-src 'sha256-{digest}'" in policy


def test_models_are_compared_on_one_page(tmp_path):
    posteriors = {
        HOSTILE: models.oscillator_posterior("right"),
        "again": models.oscillator_posterior("right", steps=4),
    }
    record = models.oscillator_record()
    simulations = {"rig": {name: one.simulate(record) for name, one in posteriors.items()}}
    path = write_comparison(smcpn.compare(posteriors), posteriors, simulations, tmp_path / "a.html")
    page = Page(path.read_text(encoding="utf-8"))
    assert "wins by log-evidence" in page.text or "as good as each other" in page.text
    (plot,) = page.plots()
    labels = [curve["label"] for curve in plot["panels"][0]["curves"]]
    assert labels == ["measured", HOSTILE, "again"]
    assert sum(tag == "script" for tag, _ in page.tags) == 1
    for simulation in simulations["rig"].values():
        assert f"{simulation.rmse_of_mean[0]:.4g}\n" in page.text


def test_what_is_vendored_is_what_was_published():
    folder = resources.files("smcpn.report").joinpath("uplot")
    noted = re.findall(r"^([0-9a-f]{64})  (\S+)$", folder.joinpath("VERSION").read_text(), re.M)
    assert len(noted) == 3
    for digest, name in noted:
        assert hashlib.sha256(folder.joinpath(name).read_bytes()).hexdigest() == digest


def unpacked(array: dict) -> np.ndarray:
    """What plots.js does."""
    planes = np.frombuffer(zlib.decompress(base64.b64decode(array["deflated"])), np.uint8)
    words = planes.reshape(4, array["n"]).T.copy()
    if not array["step"]:
        return words.view("<f4")[:, 0].astype(float)
    signed = words.view("<u4")[:, 0].astype(int)
    return array["step"] * np.cumsum(np.where(signed % 2, -(signed + 1) // 2, signed // 2))


def test_samples_are_in_the_page(html):
    record = models.oscillator_record(seed=9)
    shown, innovations = Page(html).plots()
    np.testing.assert_array_equal(unpacked(shown["arrays"]["y"]), np.float32(record.y[:, 0]))
    simulation = models.oscillator_posterior("right").simulate(record)
    mean, half = (shown["arrays"][name] for name in ("mean", "half"))
    assert np.abs(unpacked(mean) - simulation.mean[:, 0]).max() <= 0.51 * mean["step"]
    assert half["step"] < 1e-3 * simulation.sd.min()
    assert shown["t"] == {"n": len(record), "start": 0.0, "step": pytest.approx(record.dt)}
    assert [panel["label"] for panel in shown["panels"]] == ["x (mm)", "error (mm)"]
    assert innovations["arrays"]["v"]["n"] == len(record)


def test_packed_samples_are_exact_or_as_fine_as_asked():
    values = np.array([0.0, -1e30, 300.001, np.nan, 5e-9])
    np.testing.assert_array_equal(unpacked(packed(values)), np.float32(values))
    np.testing.assert_array_equal(unpacked(packed(RoundedArray(values, 0.1))), np.float32(values))
    walk = np.random.default_rng(0).normal(size=1000).cumsum() - 7e3
    found = packed(RoundedArray(walk, 1e-4))
    assert found["step"] == 1e-4
    np.testing.assert_allclose(unpacked(found), walk, rtol=0, atol=0.51e-4)


def test_hostile_names_stay_text(html):
    page = Page(html)
    assert sum(tag == "script" for tag, _ in page.tags) == 1
    assert not any("onerror" in attrs or "style" in attrs for _, attrs in page.tags)
    assert page.text.count(HOSTILE) >= 3
    assert "bench <1> & $x$" in page.text


def empty() -> Figure:
    drawing = figure(1.0)
    drawing.subplots()
    return drawing


def test_figures_are_files_too_where_a_folder_is_named(tmp_path):
    gallery = Gallery(tmp_path)
    for name in ("pairs", "run"):
        picture = gallery.picture(name, empty, "What it shows.", reflow=False)
        assert not picture.narrow
    files = {path.name: path.read_bytes()[:5] for path in tmp_path.iterdir()}
    svg, pdf = b"<?xml", b"%PDF-"
    assert files == {"01-pairs.svg": svg, "01-pairs.pdf": pdf, "02-run.svg": svg, "02-run.pdf": pdf}


def test_a_folder_of_figures_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(smcpn.InputError, match="is no folder"):
        models.oscillator_posterior("right").report(tmp_path / "a.html", figures=tmp_path / "file")


def test_every_picture_says_what_it_is(html):
    assert all(attrs.get("alt") for tag, attrs in Page(html).tags if tag == "img")


def test_the_tables_hold_the_results(html):
    posterior, text = models.oscillator_posterior("right"), Page(html).text
    for row in posterior.table():
        assert f"{row.mean:.5g}\n" in text
        assert row.prior in text
    simulation = posterior.simulate(models.oscillator_record(seed=9))
    assert f"{simulation.rmse_of_mean[0]:.3g}\n" in text
    assert f"{100 * simulation.coverage[0]:.1f} %" in text
    for published in ("0.111", "0.222", "0.333"):
        assert f"{published}\n" in text
    assert str(posterior.validate()) in text
    assert f"{posterior.log_evidence:.2f}" in text


def test_settings_versions_and_fingerprints(html):
    posterior, text = models.oscillator_posterior("right"), Page(html).text
    assert str(posterior.solver) in text
    assert np.__version__ in text
    assert smcpn.__version__ in text
    record = posterior.problem.records[0]
    for values in (record.t, record.u, record.y):
        assert hashlib.sha256(values.astype("<f8").tobytes()).hexdigest() in text
    assert hashlib.sha256(models.oscillator_record(seed=9).y.tobytes()).hexdigest() in text


def test_it_is_made_for_phones(html):
    assert 'name="viewport"' in html
    page = Page(html)
    narrow = [attrs["srcset"] for tag, attrs in page.tags if tag == "source"]
    assert len(narrow) == len(page.pictures()) - 1, "that of the record is drawn by the script"
    assert not any(" " in source for source in narrow)
    widths = {float(re.search(r"width='([\d.]+)pt'", unquote(one))[1]) for one in narrow}
    assert widths == {72 * NARROW}
    heads = [attrs.get("data-head") for tag, attrs in page.tags if tag == "td"]
    assert {"mean", "97.5 %", "SHA-256"} <= set(heads)


@pytest.mark.slow
def test_without_tests_and_truth(tmp_path):
    path = models.oscillator_posterior("right").report(tmp_path / "out.html", [])
    page = Page(path.read_text(encoding="utf-8"))
    assert "Free simulation of every particle" not in page.text
    assert "oscillator" in page.text
    assert len(page.pictures()) == 5


@pytest.fixture(scope="module")
def coarse() -> smcpn.Simulation:
    return models.oscillator_posterior("wrong").simulate(models.oscillator_record(seed=9), steps=3)


@pytest.fixture(scope="module")
def of_wrong_model(coarse, tmp_path_factory) -> Page:
    posterior = models.oscillator_posterior("wrong")
    path = tmp_path_factory.mktemp("wrong") / "out.html"
    posterior.report(path, {"coarse": coarse}, robust=posterior.robust())
    return Page(path.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_a_simulation_already_made_is_used(of_wrong_model, coarse):
    assert f"{coarse.rmse_of_mean[0]:.3g}\n" in of_wrong_model.text


def test_robust_standard_deviations_are_a_table(of_wrong_model):
    assert "Robust standard deviations" in of_wrong_model.text
    assert "not judged" not in of_wrong_model.text
    assert "of 400 samples" in of_wrong_model.text


def test_a_path_that_cannot_be_written_is_refused(tmp_path):
    posterior = models.oscillator_posterior("right")
    with pytest.raises(smcpn.InputError, match="is a folder: name a file in it"):
        posterior.report(tmp_path)
    with pytest.raises(smcpn.InputError, match="folder that does not exist"):
        posterior.report(tmp_path / "no" / "out.html")


@pytest.fixture
def small_case(monkeypatch):
    def build(**_):
        return Case(
            name="bench",
            problem=models.oscillator_problem(models.oscillator_record()),
            tests={"fresh": models.oscillator_record(seed=9)},
            published={},
            steps=8,
            truth=models.OSCILLATOR_TRUTH,
        )

    monkeypatch.setitem(CASES, "bench", build)


@pytest.mark.slow
def test_the_command_writes_a_report(small_case, tmp_path):
    path = tmp_path / "out.html"
    arguments = ["identify", "bench", "--particles", "50", "--json", "--report", str(path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert result.stdout.strip().startswith("{")
    assert result.stdout.strip().endswith("}")
    assert str(path) in result.stderr
    assert len(Page(path.read_text(encoding="utf-8")).pictures()) == 7


def test_the_command_refuses_a_bad_path_before_it_runs(small_case, tmp_path, monkeypatch):
    monkeypatch.setattr("smcpn.identify", lambda *_, **__: pytest.fail("it ran"))
    arguments = ["identify", "bench", "--report", str(tmp_path / "no" / "out.html")]
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, smcpn.InputError)


@pytest.mark.slow
def test_a_report_without_innovations_and_with_the_warnings_of_the_run(tmp_path):
    def shifted(y, output):
        return -0.5 * ((y - output) / models.OSCILLATOR_NOISE - 1.0) ** 2

    record = models.oscillator_record(seed=3)[:60]
    problem = models.oscillator_problem(record, shifted)
    solver = smcpn.RK4(steps=2)
    posterior = smcpn.identify(problem, solver=solver, particles=50, seed=1, progress=False)
    posterior = replace(posterior, warnings=("acceptance fell below <0.1>",))
    page = Page(posterior.report(tmp_path / "out.html").read_text(encoding="utf-8"))
    assert "acceptance fell below <0.1>." in page.text
    # Without a test the scores are those of the record learned from, and say so.
    assert "Free simulation of every particle" in page.text
    assert f"{record.name} (trained on)" in page.text
    assert "Not done: the noise has a density that is not about the output" in page.text
