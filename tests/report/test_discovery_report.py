"""Figures and the report of a discovery."""

from __future__ import annotations

import discoveries
import numpy as np
import pytest

import smcpn
from smcpn.discovery.equations.system import CandidateSystem
from smcpn.errors import InputError
from smcpn.report.discovery import MOST_TERMS, inclusion_figure, path_figure


def test_probable_terms_are_drawn_and_the_others_counted():
    axes = inclusion_figure(discoveries.oscillator()).axes
    assert [label.get_text() for label in axes[0].get_yticklabels()] == ["x", "v", "x^3"]
    assert [bar.get_width() for bar in axes[0].patches] == pytest.approx([1.0, 1.0, 0.1])
    assert axes[0].get_title(loc="left") == "v'  (7 other terms below 0.02)"
    assert len(axes) == 1


def test_a_large_library_stays_readable():
    system = CandidateSystem.of(smcpn.polynomials(5), ["x", "y", "z"])
    every = dict.fromkeys(system.coefficients, 1.0)
    one = discoveries.model(system, every, 0.1, 1.0, np.zeros(3))
    axes = inclusion_figure(discoveries.discovery(system, [one], np.ones((9, 3)), 0.1, 1.0)).axes
    assert sum(len(part.get_yticklabels()) for part in axes) == MOST_TERMS


def test_measurements_and_the_path_are_drawn_for_every_state():
    found = discoveries.oscillator(hidden=True)
    above, below = path_figure(found).axes
    assert [line.get_label() for line in above.lines] == ["measured", "fitted"]
    assert [line.get_label() for line in below.lines] == ["fitted"]
    np.testing.assert_array_equal(below.lines[0].get_ydata(), found.path[:, 1])


@pytest.mark.slow
def test_the_report_is_one_file_with_equations_models_and_figures(tmp_path):
    found = discoveries.decay((0.7, 0.3))
    object.__setattr__(found, "warnings", ("Something <b>is</b> doubtful",))
    text = found.report(tmp_path / "out.html", {"again": found.records[0]}).read_text("utf-8")
    assert found.equations()[0].replace("'", "&#39;") in text
    for part in ("Models", "again", "Fit", "Free simulation", "SHA-256"):
        assert part in text
    assert "Something &lt;b&gt;is&lt;/b&gt; doubtful." in text
    assert text.count('src="data:image/svg+xml,') == 5
    named = text.replace("http://www.w3.org", "").replace("http-equiv", "")
    assert named.count("http") == 1, "where uPlot comes from"


def test_a_report_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        discoveries.decay().report(tmp_path / "no" / "out.html")
