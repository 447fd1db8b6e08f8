from __future__ import annotations

import csv
import sys
from dataclasses import fields

import numpy as np
import pytest

import smcpn
from smcpn import RK4, InputError
from smcpn.base.tables import Column, Table, table_latex, words
from smcpn.results.nuts import ChainStatistics
from smcpn.results.summary import ParameterRow, parameter_rows
from smcpn.results.tables import ParameterTable
from tests.models import decay_problem, oscillator_problem, oscillator_record


@pytest.fixture(scope="module")
def posterior():
    return smcpn.identify(decay_problem(), solver=RK4(2), particles=400, seed=1)


@pytest.fixture(scope="module")
def laplace():
    return smcpn.laplace(decay_problem(), solver=RK4(2))


def chained(posterior):
    """The particles of a posterior as if two chains had drawn them."""
    ten, half = np.zeros((2, 200)), np.ones((2, 200), dtype=int)
    made = ChainStatistics(ten > 1, half, half, ten > 1, ten, ten, ten, tune=5, tune_steps=10)
    d = len(posterior.names)
    same = {field.name: getattr(posterior, field.name) for field in fields(smcpn.Posterior)}
    return smcpn.NutsPosterior(**same, statistics=made, ess_bulk=np.ones(d), ess_tail=np.ones(d))


def test_draws_of_equal_weight_are_those_of_the_posterior(posterior):
    pytest.importorskip("pandas")
    frame = posterior.to_dataframe()
    assert tuple(frame.columns) == posterior.names
    assert len(frame) == 400
    for name in posterior.names:
        # Systematic resampling: the mean moves by less than a multinomial standard error.
        assert abs(frame[name].mean() - posterior.mean[name]) < posterior.sd[name] / np.sqrt(400)
        assert np.isin(frame[name], posterior[name]).all()
    assert frame.equals(posterior.to_dataframe())


def test_chains_keep_their_order(posterior):
    pytest.importorskip("pandas")
    chains = chained(posterior)
    frame = chains.to_dataframe()
    assert tuple(frame.columns) == ("chain", "draw", *posterior.names)
    of_second = frame[frame["chain"] == 1].sort_values("draw")
    assert np.array_equal(of_second[list(posterior.names)], chains.chains[1])


def test_a_maximum_has_one_row_and_a_laplace_approximation_its_draws(laplace):
    pytest.importorskip("pandas")
    frame = laplace.maximum.to_dataframe()
    np.testing.assert_allclose(frame.to_numpy(), laplace.maximum.values[None], rtol=1e-12)
    assert len(laplace.to_dataframe()) == 1000
    assert r"parameter & prior & value \\" in laplace.maximum.to_latex()


def test_table_as_a_dataframe_and_as_csv(posterior, laplace, tmp_path):
    pytest.importorskip("pandas")
    for result in (posterior, laplace, laplace.maximum):
        frame = result.table().to_dataframe()
        assert frame["mean"].tolist() == [row.mean for row in result.table()]
        with result.to_csv(tmp_path / "table.csv").open() as file:
            read = list(csv.DictReader(file))
        assert [row["prior"] for row in read] == frame["prior"].tolist()
        for column in ("prior_sd", "mean", "sd", "low", "high", "correlation"):
            assert [float(row[column]) for row in read] == frame[column].tolist()


def test_files_and_libraries_that_there_are_not(posterior, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(InputError, match="pip install polars"):
        posterior.to_dataframe("polars")
    with pytest.raises(InputError, match="backend is 'excel': choose one of pandas, polars"):
        posterior.to_dataframe("excel")
    with pytest.raises(InputError, match="cannot be written"):
        posterior.to_csv(tmp_path / "no" / "table.csv")
    with pytest.raises(InputError, match="give the name of a file"):
        posterior.to_csv(3)


def test_latex_is_escaped():
    row = ParameterRow("k_3{%", "norm(0, 1)", 1.0, -1.25e-7, 0.02, -np.inf, np.nan)
    assert ParameterTable([row]).to_latex().split("\n") == [
        r"\begin{tabular}{llrrrr}",
        r"\toprule",
        r"parameter & prior & mean & sd & 2.5\,\% & 97.5\,\% \\",
        r"\midrule",
        r"k\_3\{\% & norm(0, 1) & $-1.25 \times 10^{-7}$ & $0.02$ & $-\infty$ & -- \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]
    any_table = Table([words("a\\b~c^d\n"), Column("", ".5g", "%")], [["", 123456.0]])
    head, cells = table_latex(any_table).split("\n")[2:6:2]
    named = r"a\textbackslash{}b\textasciitilde{}c\textasciicircum{}d\textbackslash{}n"
    assert head == named + r" &  \\"
    assert cells == r"-- & $1.2346 \times 10^{5}$\,\% \\"


def test_csv_quotes(tmp_path):
    row = ParameterRow('a,"b"', "x\ny", 1.0, 1 / 3, 0.0, np.nan, np.inf)
    path = ParameterTable([row]).to_csv(tmp_path / "t.csv")
    with path.open() as file:
        (read,) = csv.DictReader(file)
    assert read["name"] == 'a,"b"'
    assert float(read["mean"]) == 1 / 3
    assert read["low"] == "nan"


@pytest.mark.slow  # it imports ArviZ
def test_arviz_of_a_laplace_approximation(laplace):
    pytest.importorskip("arviz")
    tree = laplace.to_arviz()
    assert tree["posterior"]["rate"].shape == (1, 1000)


def test_a_search_is_not_saved(laplace, tmp_path):
    for result in (laplace, laplace.maximum):
        with pytest.raises(InputError, match=r"to_posterior\(\)\.save"):
            result.save(tmp_path / "a.h5")


def test_a_mean_outside_its_interval_is_flagged():
    row = ParameterRow("tau", "norm(0, 100)", 100.0, mean=15.2, sd=9.0, low=14.7, high=15.1)
    assert row.flag == "mean outside interval"
    assert ParameterRow("tau", "norm(0, 100)", 100.0, 15.0, 0.1, 14.7, 15.1).flag == ""


def test_a_parameter_where_the_prior_never_draws_is_flagged():
    prior = oscillator_problem(oscillator_record()).prior
    below, inside = {"c": 1e-6, "k": 4.0}, {"c": 2e-6, "k": 5.0}
    rows = parameter_rows(
        prior,
        mean={"c": 1.5e-6, "k": 4.5},
        sd={"c": 1e-7, "k": 0.1},
        interval={name: (below[name], inside[name]) for name in prior.names},
        correlation=np.eye(2),
    )
    assert [row.flag for row in rows] == ["far from its prior", ""]
    # A time in ms for one in s: the posterior is wider than the prior, and not its work.
    wide = ParameterRow("tau", "lognorm(1)", 2.0, 2340.0, 30.0, 2283.0, 2401.0, 0.01, 90.0)
    assert wide.flag == "far from its prior"
