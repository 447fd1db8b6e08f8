"""Arithmetic of the benchmarks of discovery: systems, what counts as exact, reliability."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.stats import norm

from benchmarks.discovery import grids, planar, reliability
from benchmarks.discovery.answers import Answer, difference
from benchmarks.discovery.peers import _as_ours, _names
from benchmarks.discovery.records import HIDDEN
from benchmarks.discovery.systems import GRIDS, LORENZ
from smcpn.discovery.equations.system import CandidateSystem
from smcpn.discovery.search.supports import SLABS, BetaBinomial

SYSTEMS = {**GRIDS, "E-SINDy": LORENZ}
TRUTH = frozenset(LORENZ.truth)


@pytest.mark.parametrize("name", SYSTEMS)
def test_true_coefficients_are_those_of_the_equations(name):
    system = SYSTEMS[name]
    candidates = CandidateSystem.of(system.library, system.states)
    free = np.array([system.truth.get(name, 0.0) for name in candidates.coefficients])
    assert np.count_nonzero(free) == len(system.truth)
    x = np.random.default_rng(0).normal(size=(5, len(system.states)))
    rate = candidates.candidates.values(x) @ candidates.matrix(free).T
    np.testing.assert_allclose(rate, [system.rhs(0.0, row) for row in x], atol=1e-12)


@pytest.mark.parametrize("name", HIDDEN)
def test_true_terms_of_a_hidden_system_are_candidates(name):
    system = HIDDEN[name]
    inputs = ["u"] if system.input else []
    known = CandidateSystem.of(system.library(), ("x", "v"), inputs, known={"x": "v"})
    assert system.truth < set(known.coefficients)


def test_noise_is_the_share_of_the_spread_and_new_for_every_seed():
    system = GRIDS["van der Pol"]
    one, other = (system.record(4.0, 0.1, seed).y - system.trajectory(4.0) for seed in (0, 1))
    # 802 numbers: the standard error of a deviation is 2.5 %, checked at four.
    assert one.std() == pytest.approx(0.145, rel=0.1)
    assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.15


def test_an_answer_knows_its_best_model_and_the_place_of_another():
    one = Answer((TRUTH | {"x'[1]"}, TRUTH), (0.7, 0.3), TRUTH, 1.0)
    assert one.rank(TRUTH) == 2
    assert one.rank({"x'[1]"}) is None
    assert difference(one.best, TRUTH) == "+x'[1]"
    assert difference(frozenset(), {"y'[x]"}) == "-y'[x]"
    assert Answer((), (), frozenset(), 0.0).best not in (frozenset(), TRUTH)


def test_rows_of_a_cell_count_exact_supports_and_name_wrong_ones():
    right = Answer((TRUTH,), (1.0,), TRUTH, 1.0)
    wrong = Answer((TRUTH | {"x'[1]"}, TRUTH), (0.7, 0.3), TRUTH, 5.0)
    theirs = [{"a": True, "b": False}, {"a": False, "b": True}, {"a": True, "b": False}]
    rows = list(grids.rows(grids.E_SINDY[0], [right, wrong, right], theirs))
    assert [row.value for row in rows] == pytest.approx([2 / 3, 1.0, 2 / 3])
    assert [row.met for row in rows] == [False, True, None]
    assert "+x'[1] (1); truth second or third: 1" in rows[0].note
    assert "by inclusion > .5: 1.00" in rows[0].note
    found = list(grids.rows(grids.ODR_BINDY[0], [right, wrong, right], theirs))
    assert found[0].met
    assert found[0].target == ">= 0.666667"


def test_names_of_the_peer_are_ours():
    assert _as_ours("z x^2", ("x", "y", "z")) == "x^2 z"
    matrix = np.array([[0.0, 2.0], [-1.0, 0.0]])
    assert _names(GRIDS["van der Pol"], ["1", "y x"], matrix) == {"x'[x y]", "y'[1]"}


def test_reliability_error():
    inclusion = np.repeat([[0.25, 0.75]], 8, axis=0)
    present = np.arange(8)[:, None] < [2, 6]
    assert reliability.reliability_error(inclusion, present) == pytest.approx(0.0)
    assert reliability.reliability_error(inclusion, ~present) == pytest.approx(0.5)
    assert reliability.reliability_error(np.ones(4), np.zeros(4, dtype=bool)) == 1.0


def test_drawn_trajectories_and_their_prior():
    theta = np.zeros((1, 12))
    # x' = y, y' = -x - 0.1 y
    theta[0, [2, 7, 8]] = 1.0, -1.0, -0.1
    path = planar.simulated(theta, np.array([[1.0, 0.5]]))
    t = planar.INTERVAL * np.arange(planar.SAMPLES)
    rhs = lambda t, s: [s[1], -s[0] - 0.1 * s[1]]  # noqa: E731
    exact = solve_ivp(rhs, (0.0, t[-1]), [1.0, 0.5], t_eval=t, rtol=1e-9, atol=1e-9).y.T
    np.testing.assert_allclose(path[:, 0], exact, atol=1e-5)
    rate = np.array(rhs(0.0, exact.T)).T
    unit = np.sqrt(np.mean(rate**2, axis=0))[:, None] / np.sqrt(np.mean(exact**2, axis=0))
    values, units = np.array([1.0, -1.0, -0.1]), unit[[0, 1, 1], [1, 0, 1]]
    slabs = np.multiply.outer(SLABS, units)
    density = np.mean(np.prod(norm.pdf(values, scale=slabs), axis=1))
    found = reliability.log_prior(theta, path)[0] - 1.5 * np.log(2 * np.pi)
    assert found == pytest.approx(np.log(density), abs=1e-4)


def test_prior_of_supports_is_that_of_the_search():
    supports, probabilities = reliability._supports(reliability.candidate_system())
    assert len(np.unique(supports, axis=0)) == 4096
    assert probabilities.sum() == pytest.approx(1.0)
    prior = BetaBinomial(np.tile([0, 1, 1, 2, 2, 2], 2))
    np.testing.assert_allclose(
        np.log(probabilities[[5, 4000]]), [prior.log_probability(supports[k]) for k in (5, 4000)]
    )


def test_trajectories_that_escape_are_left_out():
    theta = np.zeros((2, 12))
    theta[:, [2, 7]] = 1.0, -1.0
    theta[1, 3] = 5.0
    path = planar.simulated(theta, np.ones((2, 2)))
    np.testing.assert_array_equal(planar.kept(path), [True, False])
