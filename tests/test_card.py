"""What objects show of themselves: short text, and HTML with a picture."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import smcpn
from benchmarks.attack.arguments import world
from smcpn.base.tables import LONGEST, ROWS, Card, Column, Table, WithCard, words
from smcpn.results.summary import ParameterRow
from smcpn.results.tables import ParameterTable

SIZE = 60


@smcpn.ode(sizes={"x": SIZE, "k": SIZE})
def many(x, *, k, c):
    """As many states and parameters as no text should list."""
    return c - k * x


@pytest.fixture(scope="module")
def shown():
    y = np.ones((3, SIZE))
    records = [smcpn.Record(y=y, dt=0.1, name="a record with a long name " * 9) for _ in range(8)]
    prior = {"k": stats.lognorm(1.0), "c": stats.norm()}
    problem = smcpn.Problem(many, records, observe="x", noise=0.1, prior=prior)
    row = ParameterRow("k", "norm(0, 1)", 1.0, 0.5, 0.1, 0.3, 0.7)
    return [*world().values(), problem, problem.prior, many, ParameterTable([row] * SIZE)]


@pytest.mark.slow
def test_text_is_short_however_large_the_object(shown):
    for one in shown:
        text = repr(one)
        assert len(text) <= 2000, type(one)
        assert text.count("\n") < 24, type(one)


def test_notebooks_have_a_table_and_a_picture_of_what_can_be_drawn(shown):
    pictured = {
        type(one).__name__: one._repr_html_() for one in shown if isinstance(one, smcpn.Record)
    } | {name: world()[name]._repr_html_() for name in ("Posterior", "ModelComparison")}
    pictured["Validation"] = world()["Posterior"].validate()._repr_html_()
    for html in pictured.values():
        assert 'src="data:image/png;base64,' in html
        assert len(html) < 120_000
    assert "<td" in pictured["Posterior"]


def test_a_notebook_shows_a_figure_without_pyplot():
    assert world()["Posterior"].plot_parameters()._repr_png_().startswith(b"\x89PNG")


def test_cells_of_others_are_no_html():
    table = Table([words("a")], [["<b>"]], "<script>", ["\x1b[2J" + "x" * 10_000])
    card = Card(table)
    assert "<script>" not in card.html
    assert "<b></td>" not in card.html
    assert "\x1b" not in card.text
    assert len(card.text) < LONGEST


def test_rows_left_out_are_counted():
    card = Card(Table([Column("head")], [[k] for k in range(100)]))
    assert f"... and {100 - ROWS} more" in card.text
    assert f"... and {100 - ROWS} more" in card.html


def test_results_and_data_of_a_user_have_cards():
    kinds = ("Problem", "Record", "Posterior", "Maximum", "Laplace", "Simulation", "Discovery",
             "ModelComparison")  # fmt: skip
    assert all(issubclass(getattr(smcpn, kind), WithCard) for kind in kinds)
