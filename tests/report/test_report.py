"""A report is one file that needs no other, says what was found, and escapes what it is given."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from typer.testing import CliRunner

import smcpn
from smcpn.cases import CASES, Case
from smcpn.cases.case import PublishedScore
from smcpn.cli.app import app
from tests import models

TITLE = "rig <b>7</b> & co"


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


@pytest.fixture(scope="module")
def html(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("report") / "out.html"
    written = models.oscillator_posterior("right").report(
        path,
        {"fresh": models.oscillator_record(seed=9)},
        published={"fresh": PublishedScore(0.111, 0.222, 0.333)},
        truth=models.OSCILLATOR_TRUTH,
        title=TITLE,
    )
    assert written == path
    return path.read_text(encoding="utf-8")


def test_nothing_is_loaded_from_elsewhere(html):
    page = Page(html)
    assert not {tag for tag, _ in page.tags} & {"script", "link", "iframe", "object", "base", "a"}
    sources = [
        value
        for _, attributes in page.tags
        for name, value in attributes.items()
        if name in ("src", "href", "srcset", "action", "data", "background")
    ]
    assert sources
    assert all(source.startswith("data:image/svg+xml;base64,") for source in sources)
    bare = re.sub(r"base64,[A-Za-z0-9+/=]*", "", html)
    assert "//" not in bare
    assert "url(" not in bare
    assert "@import" not in bare


def test_pictures_are_whole_and_load_nothing(html):
    pictures = Page(html).pictures()
    assert len(pictures) == 7
    for source in pictures:
        svg = base64.b64decode(source.partition("base64,")[2], validate=True).decode()
        assert svg.rstrip().endswith("</svg>")
        links = re.findall(r'href="([^"]*)', svg)
        assert all(link.startswith(("#", "data:image/png;base64,")) for link in links)


def test_names_are_escaped(html):
    page = Page(html)
    assert "<b>" not in html
    assert TITLE in page.text
    assert "bench <1> & $x$" in page.text


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
    boxes = sum(attrs.get("class") == "scroll" for _, attrs in page.tags)
    wide = sum(tag in ("table", "img", "pre") for tag, _ in page.tags)
    assert boxes == wide


def test_without_tests_and_truth(tmp_path):
    path = models.oscillator_posterior("right").report(tmp_path / "out.html")
    page = Page(path.read_text(encoding="utf-8"))
    assert "Scores on test records" not in page.text
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


def test_noise_with_a_density_of_its_own_is_reported_without_innovations(tmp_path):
    record = models.oscillator_record(seed=3)[:60]
    problem = models.oscillator_problem(record, smcpn.StudentT(models.OSCILLATOR_NOISE))
    solver = smcpn.RK4(steps=2)
    posterior = smcpn.identify(problem, solver=solver, particles=50, seed=1, progress=False)
    page = Page(posterior.report(tmp_path / "out.html").read_text(encoding="utf-8"))
    assert "Not done: the noise has a density of its own" in page.text
