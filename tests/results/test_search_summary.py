"""What is said of where searches ended."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.estimate.multistart import _better, _stays
from smcpn.estimate.search import CONVERGED, LIMIT, SearchEnd
from smcpn.results.method import as_high, heights, where_ended
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


def test_what_a_sum_over_many_samples_rounds_away_is_no_difference():
    assert heights([-4.4e11, -4.4e11 - 0.1, -4.4e11 - 2]) == [(-4.4e11, 2), (-4.4e11 - 2, 1)]
    assert not as_high(np.nan, -1.0)
    assert not as_high(-np.inf, -np.inf)


def test_of_two_ways_to_one_maximum_rounding_does_not_choose():
    """The path counts where it led higher; so many digits are another processor's."""
    point = np.zeros(1)
    shot = SearchEnd(point, -115961.06988180052, CONVERGED, 9, point[None], np.array([-2e5]))
    same = replace(shot, log_density=-115961.0698818005)
    higher = replace(shot, log_density=-115959.5)
    assert not _better(shot, same).lifted
    assert _better(shot, higher).lifted
    assert _better(replace(shot, reason=LIMIT), same).lifted


def test_a_far_end_that_diverges_by_other_steps_is_no_end():
    point = np.zeros(1)
    end = SearchEnd(point, -50.0, CONVERGED, 9, point[None], np.array([-50.0]))
    assert _stays(end, -60.0).success
    assert not _stays(end, -np.inf).success


def test_a_height_found_once_is_doubted():
    """Also where it explains the data: other modes may do so as well."""
    problem, starts = two_signs(), [[-0.8], [0.8]]
    right = smcpn.maximise(problem, solver=SOLVER, starts=starts)
    assert right.agreeing == 1
    assert right.doubt.startswith("of 2 searches 1 ended at log posterior")
    assert right.warnings[-1].endswith("a higher mode may be missed: take starts=20")
    record = problem.records[0]
    wrong = record.y + 3.0 * np.sin(np.arange(len(record)))[:, None]
    unlike = problem.with_records([smcpn.Record(y=wrong, dt=0.1)])
    found = smcpn.maximise(unlike, solver=SOLVER, starts=starts)
    assert (found.agreeing, found.independent) == (1, 1)
    assert found.doubt.startswith("residuals of the best fit are")
    assert found.doubt.endswith("take starts=20")
    assert found.ended in found.summary()
    twice = smcpn.maximise(unlike, solver=SOLVER, starts=[*starts, *starts])
    assert twice.agreeing == 2
    assert twice.doubt.endswith(
        "2 of 4 searches ended there: look at the model, its units and its inputs"
    )


def test_lifted_paths_that_agree_count_as_one_search():
    found = smcpn.maximise(decay_problem(), solver=SOLVER, starts=3, search="lifted")
    assert (found.agreeing, found.independent) == (3, 1)
    assert "3 of the highest with the model relaxed on the way" in found.summary()
    # Where such a path ends the data are explained.
    assert found.doubt == ""


def test_the_commands_begin_where_identify_does(tmp_path):
    from smcpn.cli.cases import Case
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
