"""Model comparison: one table over the same measurements."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn import InputError
from tests.models import LINE_SOLVER, line, line_answer


@pytest.fixture(scope="module")
def results():
    """The line that made the data, and a line through a known point it does not go through."""
    problem = line()
    pinned = smcpn.Problem(
        problem.ode,
        problem.records[0],
        observe="x",
        noise=0.3,
        initial=["x0"],
        prior={"rate": stats.norm(0.0, 3.0), "x0": stats.norm(-3.0, 0.1)},
    )
    likely = smcpn.maximise(problem, solver=LINE_SOLVER, target="likelihood")
    return {
        "line": [
            smcpn.identify(problem, solver=LINE_SOLVER, seed=1, progress=False),
            smcpn.laplace(problem, solver=LINE_SOLVER),
            likely,
        ],
        "pinned": smcpn.laplace(pinned, solver=LINE_SOLVER),
    }


def test_figures_are_those_of_the_results(results):
    table = smcpn.compare(results)
    row = table["line"]
    posterior, approximation, likely = results["line"]
    assert row.parameters == 2
    assert row.measurements == 21
    assert row.log_evidence == posterior.log_evidence
    assert row.log_evidence_se == posterior.log_evidence_se
    assert row.laplace_log_evidence == approximation.log_evidence
    assert row.laplace_log_evidence == pytest.approx(line_answer()[2], abs=1e-6)
    assert row.log_likelihood == likely.log_likelihood
    assert row.at == "maximum"
    assert row.aic == pytest.approx(4 - 2 * likely.log_likelihood)
    assert row.bic == pytest.approx(2 * np.log(21) - 2 * likely.log_likelihood)


def test_the_better_model_leads(results):
    table = smcpn.compare(results)
    for figure in ("laplace_log_evidence", "aic", "bic"):
        relative = table.relative(figure)
        assert relative["line"] == 0.0
        assert abs(relative["pinned"]) > 5.0
    assert table["pinned"].at == "mode"
    assert np.isnan(table.relative("log_evidence")["pinned"])
    text = table.summary()
    assert len(text.splitlines()) == 5
    assert text.splitlines()[-1].startswith("'line' wins by Laplace log-evidence")
    assert "+-" in text


@pytest.mark.parametrize("number", [0, 1, 2])
def test_one_result_is_enough(results, number):
    one = results["line"][number]
    row = smcpn.compare({"line": one})["line"]
    assert row.at == ("particle", "mode", "maximum")[number]
    best = results["line"][2].log_likelihood
    assert best - 1.0 < row.log_likelihood <= best


def test_other_data_are_refused(results):
    other = smcpn.laplace(line(seed=1), solver=LINE_SOLVER)
    with pytest.raises(InputError, match="'other' is of other measurements than 'line'"):
        smcpn.compare({"line": results["line"], "other": other})
    with pytest.raises(InputError, match="'line' is of other measurements"):
        smcpn.compare({"line": [*results["line"], other]})


def test_bad_input_is_refused(results):
    with pytest.raises(InputError, match="give a mapping of name to result"):
        smcpn.compare([results["pinned"]])  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"models\['line'\] is 3: give what"):
        smcpn.compare({"line": 3})  # type: ignore[dict-item]
    with pytest.raises(InputError, match="no model 'cubic': choose one of pinned"):
        smcpn.compare({"pinned": results["pinned"]})["cubic"]
