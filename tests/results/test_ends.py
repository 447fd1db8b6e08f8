"""What is said of where searches ended."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.results.ends import heights, where_ended
from tests.models import decay_problem
from tests.run.test_started_runs import SOLVER, two_signs


def test_ends_that_are_as_high_count_together():
    assert heights([-5.0, 1.0, 1.005, -5.0]) == [(1.005, 2), (-5.0, 2)]


@pytest.mark.parametrize(
    ("searches", "ends", "said"),
    [
        (4, [2.0, 2.0, 2.0, 2.0], "4 ended at log posterior 2"),
        (4, [2.0, -3.5], "1 ended at log posterior 2, 1 at -3.5, 2 did not converge"),
        (6, [5, 4, 3, 2, 1, 1], "1 ended at log posterior 5, 1 at 4, 1 at 3, 3 lower"),
        (2, [], "2 did not converge"),
    ],
)
def test_every_search_is_told(searches, ends, said):
    assert where_ended(searches, ends) == said


def test_a_height_found_once_is_doubted_unless_it_explains_the_data():
    problem, starts = two_signs(), [[-0.8], [0.8]]
    right = smcpn.maximise(problem, solver=SOLVER, starts=starts)
    assert (right.agreeing, right.doubt, right.warnings) == (1, "", ())
    record = problem.records[0]
    wrong = record.y + 3.0 * np.sin(np.arange(len(record)))[:, None]
    unlike = problem.with_records([smcpn.Record(y=wrong, dt=0.1)])
    found = smcpn.maximise(unlike, solver=SOLVER, starts=starts)
    assert (found.agreeing, found.independent) == (1, 1)
    assert found.doubt.startswith("of 2 searches 1 ended at log posterior")
    assert found.warnings[-1].endswith("a higher mode may be missed: take starts=20")
    assert found.ended in found.summary()
    twice = smcpn.maximise(unlike, solver=SOLVER, starts=[*starts, *starts])
    assert (twice.agreeing, twice.doubt) == (2, "")


def test_lifted_paths_that_agree_count_as_one_search():
    found = smcpn.maximise(decay_problem(), solver=SOLVER, starts=3, search="lifted")
    assert (found.agreeing, found.independent) == (3, 1)
    assert "3 of the highest along lifted paths" in found.summary()


def test_the_commands_begin_where_identify_does(tmp_path):
    from smcpn.cases import Case
    from smcpn.cli.fitting import fitted

    problem = decay_problem(prior={"rate": stats.lognorm(0.5), "sigma": 0.05, "start": 2.0})
    case = Case("decay", problem, {}, {}, steps=4, note="simulated")
    options = {"seed": 5, "likelihood": "classical"}
    fit = fitted(case, options, None, "auto", robust=False).laplace
    solver = smcpn.RK4(4)
    posterior = smcpn.identify(
        problem, solver=solver, start="auto", seed=5, particles=50, progress=False
    )
    assert posterior.method is not None
    assert posterior.method.ends == fit.maximum.ends
    file = tmp_path / "p.h5"
    posterior.save(file)
    again = smcpn.load(file).method
    assert again is not None
    assert again.ends == posterior.method.ends
