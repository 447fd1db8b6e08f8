"""Tables and figures of vectors with many entries."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.base.tables import Column, Table, words
from smcpn.report.parameters import _most_correlated, parameters_figure, plain_names
from smcpn.results.draws import Timing
from smcpn.results.posterior import Posterior
from smcpn.results.summary import shortened

SIZE = 13


@smcpn.ode(sizes={"x": 12, "k": SIZE})
def chain(x, *, k, c):
    return np.diff(k * np.diff(np.concatenate([[0.0], x, [0.0]]))) - c * x


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    """Draws around k = 1, 2, ..., 13, of which the fifth is fixed."""
    record = smcpn.Record(y=np.zeros((5, 12)), dt=0.1)
    prior = {"k": stats.lognorm(1.0, scale=5.0), "k[4]": 5.0, "c": stats.lognorm(1.0)}
    problem = smcpn.Problem(chain, record, observe="x", noise=0.1, prior=prior, initial={"x": 1.0})
    rng, n = np.random.default_rng(0), 400
    values = np.delete(np.append(np.arange(1.0, SIZE + 1), 0.5), 4) * np.exp(
        0.05 * rng.normal(size=(n, SIZE))
    )
    nothing = np.empty(0)
    return Posterior(
        problem=problem, solver=smcpn.RK4(1), theta=problem.prior.unconstrained(values),
        log_weights=np.zeros(n), log_likelihood=np.zeros(n), ancestor=np.arange(n),
        log_evidence=0.0, log_evidence_se=0.0, path_samples=np.empty(0, np.int64),
        ess_path=nothing, log_evidence_path=nothing, rejuvenations=(), shift=None,
        timing=Timing(0.0, 0.0, 0.0, 0), log_evidences=np.zeros(1),
        replicate=np.zeros(n, np.int64), r_hat=np.full(SIZE, np.nan), warnings=(),
    )  # fmt: skip


def test_a_vector_is_read_as_a_whole(posterior):
    k = posterior["k"]
    assert k.shape == (400, SIZE)
    np.testing.assert_array_equal(k[:, 4], 5.0)
    np.testing.assert_array_equal(k[:, 5], posterior["k[5]"])
    quantiles = posterior.quantile("k", [0.1, 0.9])
    assert quantiles.shape == (2, SIZE)
    np.testing.assert_array_equal(quantiles[:, 5], posterior.quantile("k[5]", [0.1, 0.9]))
    assert posterior.quantile("k", 0.5)[4] == 5.0
    with pytest.raises(smcpn.InputError, match="no parameter 'x"):
        posterior["x"]


@pytest.mark.slow
def test_a_long_vector_is_one_line_of_a_summary(posterior):
    table = smcpn.results.draws.WeightedDraws.summary(posterior).split("\n\n")[0].splitlines()
    assert len(table) == 3
    assert table[1].startswith("k[0] to k[12]  lognorm(1, scale=5)  ")
    means = [row.mean for row in posterior.table()][:-1]
    assert f"{min(means):.5g} to {max(means):.5g}" in table[1]
    assert table[2].startswith("c ")


def test_columns_of_text_are_counted():
    rows = [[f"k[{j}]", j, "flag" * (j > 9), f"norm({j})"] for j in range(SIZE)]
    table = Table([words(), Column(), words(), words()], rows)
    assert shortened(table, chain).rows == [
        ["k[0] to k[12]", "0 to 12", "flag (3 of 13)", "various (13 of 13)"]
    ]
    assert shortened(replace(table, rows=rows[:6]), chain).rows == rows[:6]


def test_figures_stay_readable(posterior):
    drawing = parameters_figure(posterior, {"k": np.arange(1.0, SIZE + 1)})
    assert len(drawing.axes) == 4
    drawn = drawing.axes[3].lines[0].get_xydata()
    np.testing.assert_array_equal(drawn[:, 0], np.delete(np.arange(SIZE), 4))
    np.testing.assert_allclose(drawn[:, 1], np.delete(np.arange(1.0, SIZE + 1), 4), rtol=0.02)
    names = plain_names(posterior)
    chosen = _most_correlated(names, posterior)
    assert len(chosen) == 12 < len(names)
    assert chosen == [name for name in names if name in chosen]
