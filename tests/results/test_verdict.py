"""The verdict that ends a summary, and what it says first; modes, bounds, exchanged parameters."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.base.tables import Card, Table
from smcpn.model.prior import Prior
from smcpn.results.exchange import Exchange, ordered
from smcpn.results.laplace import exchanged
from smcpn.results.modes import posterior_modes
from smcpn.results.scores import Score, with_tests
from smcpn.results.summary import bounds_reached
from smcpn.results.validation import whiteness
from smcpn.results.validation.verdict import NOT_JUDGED, Verdict, judge
from tests.models import oscillator_posterior

RNG = np.random.default_rng(4)
WHITE = RNG.normal(size=400)
SLOW = np.sin(np.arange(400) / 20.0)
SAME = np.full(2000, 1 / 2000)


def judged(errors, learned=False):
    return judge([whiteness([errors], [np.empty((400, 0))])], [learned])


def test_noise_that_cannot_be_as_stated_is_said_first():
    small = judged(50.0 * WHITE)
    assert small.level == "look again"
    assert small.reasons[0].startswith("look at the noise: errors are 52 times")
    assert "times larger than noise= says, or y is in another unit" in small.reasons[0]
    assert small.reduced_chi2[0] == pytest.approx(2500, rel=0.2)
    both = judged(50.0 * WHITE + 1000.0 * SLOW)
    assert both.level == "wrong"
    assert both.reasons[0].startswith("look at the noise")
    assert both.reasons[1].startswith("errors are correlated in time")
    large = judged(WHITE / 5)
    assert large.reasons[0].startswith("look at the noise: errors are 4.9")
    assert "times smaller than noise= says" in large.reasons[0]


def test_an_error_of_the_model_is_not_taken_for_noise():
    assert judged(WHITE + 20.0 * SLOW).reasons[0].startswith("errors are correlated in time")
    assert judged(50.0 * WHITE, learned=True).level == "usable"


def test_the_level_of_whiteness_holds_in_short_records():
    rng = np.random.default_rng(0)
    nothing = [np.empty((100, 0))]
    p = np.array([whiteness([rng.normal(size=100)], nothing).whiteness_p for _ in range(600)])
    # Standard errors .009 and .004; by chi^2 of 25 degrees of freedom .080 and .030 fall below.
    assert abs((p < 0.05).mean() - 0.05) < 0.027
    assert (p < 0.01).mean() < 0.025


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["steps", "pulse", "two"])
def test_independence_of_the_input_is_rejected_as_often_as_it_says(kind):
    rng = np.random.default_rng(1)
    pulse = np.repeat([0.0, 1.0, 0.0], (50, 5, 45))[:, None]
    makes = {
        "steps": lambda: np.repeat(rng.normal(size=(10, 1)), 10, axis=0),
        "pulse": lambda: pulse,
        "two": lambda: rng.normal(size=(100, 2)),
    }
    tests = [whiteness([rng.normal(size=100)], [makes[kind]()]) for _ in range(300)]
    # The standard error is .017; a bound may be rejected less often.
    assert 0.02 < np.mean([one.independence_p < 0.1 for one in tests]) < 0.15


def test_an_input_that_acts_is_seen():
    rng = np.random.default_rng(2)
    u = np.repeat(rng.normal(size=(40, 1)), 5, axis=0)
    assert whiteness([rng.normal(size=200) + 0.5 * u[:, 0]], [u]).independence_p < 1e-4


def test_what_is_suspected_is_said_first_where_errors_have_structure():
    nothing = [np.empty((400, 0))]
    slow, white = (whiteness([errors], nothing) for errors in (WHITE + 3 * SLOW, WHITE))
    told = judge([slow], [True], first=["k ends"], suspected=["look at the noise"])
    assert told.reasons[:2] == ("look at the noise", "k ends")
    assert judge([white], [True], suspected=["look at the noise"]).level == "usable"


@pytest.mark.slow
def test_noise_that_its_prior_hardly_expects_is_suspected():
    posterior = smcpn.laplace(problem_with("sigma", 10.0), seed=0)
    assert posterior.verdict.level == "wrong"
    assert posterior.verdict.reasons[0].startswith("look at the noise: sigma is")
    assert "more than its prior lognorm" in posterior.verdict.reasons[0]
    assert smcpn.laplace(problem_with("sigma", 1.0), seed=0).verdict.level == "usable"


def test_json_has_the_verdict_as_a_sentence():
    found = Verdict("look again", ("a reason",), (90.0,), (1.0,)).document()
    assert found["level"] == "look again"
    assert found["sentence"] == "look again, fit 90 %, reduced chi^2 1: a reason"


@pytest.mark.parametrize("kind", ["posterior", "laplace", "maximum"])
def test_every_summary_and_card_ends_in_the_verdict(kind):
    posterior = oscillator_posterior("wrong")
    found = smcpn.maximise(posterior.problem, solver=smcpn.RK4(4), starts=[[0.4, 4.0]])
    result = {"posterior": posterior, "maximum": found, "laplace": smcpn.laplace(found)}[kind]
    assert result.verdict.level == "wrong"
    for text in (result.summary(), repr(result)):
        assert text.endswith("\n".join(result.verdict.lines))
    assert result.verdict.lines[0].startswith("verdict          wrong, fit ")


def test_warnings_of_a_run_are_a_reason():
    doubted = replace(oscillator_posterior("right"), warnings=("few particles",))
    assert doubted.verdict.level == "look again"
    assert doubted.verdict.reasons == ("read the warnings (.warnings in Python)",)


def test_a_posterior_at_another_power_is_not_judged():
    assert replace(oscillator_posterior("right"), learning_rate=0.5).verdict.level == NOT_JUDGED


def test_modes_have_weight_mean_and_deviation():
    rng = np.random.default_rng(1)
    second = np.arange(2000) < 200
    theta = rng.normal(size=(2000, 3)) * 0.1
    theta[:, 2] += np.where(second, 3.0, 0.0)
    high, low = posterior_modes(theta, np.exp(theta), SAME)
    assert (high.weight, low.weight) == pytest.approx((0.9, 0.1))
    np.testing.assert_allclose(low.mean, np.exp(theta[second]).mean(axis=0))
    np.testing.assert_allclose(low.sd, np.exp(theta[second]).std(axis=0))


def test_what_hangs_together_is_one_mode():
    rng = np.random.default_rng(2)
    bent = np.column_stack([rng.normal(size=2000), 0.05 * rng.normal(size=2000)])
    bent[:, 1] += bent[:, 0] ** 2
    assert len(posterior_modes(bent, bent, SAME)) == 1
    for sample in (rng.uniform(size=2000), rng.standard_t(3, 2000), rng.exponential(size=2000)):
        assert len(posterior_modes(sample[:, None], sample[:, None], SAME)) == 1
    part = np.where(np.arange(200) < 10, 50.0, 0.0) + 0.1 * rng.normal(size=200)
    assert len(posterior_modes(part[:, None], part[:, None], np.full(200, 1 / 200))) == 2
    few = np.where(np.arange(2000) < 10, 50.0, 0.0) + 0.1 * rng.normal(size=2000)
    assert len(posterior_modes(few[:, None], few[:, None], SAME)) == 1


def test_a_posterior_ends_at_a_bound_where_it_is_cut_off():
    prior = Prior({name: stats.uniform(0, 1) for name in "abc"} | {"d": stats.lognorm(1)})
    rng = np.random.default_rng(3)
    values = np.column_stack([
        1.0 - 0.01 * rng.exponential(size=2000), 0.5 + 0.1 * rng.normal(size=2000),
        np.abs(0.05 * rng.normal(size=2000)), np.exp(rng.normal(size=2000)),
    ])  # fmt: skip
    assert bounds_reached(prior, values, SAME) == {"a": 1.0, "c": 0.0}
    single = np.vstack([np.full((1, 4), 1e-6), np.full((400, 4), 0.5)])
    weights = np.append(1e-200, np.full(400, 1 / 400))
    assert bounds_reached(prior, single + 0.01 * rng.random(single.shape), weights) == {}
    points = np.array([[0.9999, 0.98, 0.5, 1.0]])
    assert bounds_reached(prior, points, np.ones(1)) == {"a": 1.0}


def test_exchanged_pairs_come_in_ascending_order():
    theta = np.array([[2.0, 1.0, 20.0, 10.0, 7.0], [1.0, 2.0, 10.0, 20.0, 7.0]])
    pairs = Exchange((1, 0, 3, 2, 4))
    np.testing.assert_array_equal(ordered(theta, [pairs]), theta[[1, 1]])
    swaps = [Exchange((1, 0, 2)), Exchange((0, 2, 1)), Exchange((2, 1, 0))]
    three = np.array([[3.0, 2.0, 1.0], [2.0, 3.0, 1.0], [1.0, 2.0, 3.0]])
    np.testing.assert_array_equal(ordered(three, swaps), np.tile([1.0, 2.0, 3.0], (3, 1)))


@smcpn.ode
def lags(a, b, u, *, tau1, tau2):
    """Two lags in series."""
    return (u - a) / tau1, (a - b) / tau2


@cache
def problem():
    return problem_with(0.05, 1.0)


def problem_with(noise, scale):
    """Lags whose outputs are so many times as large as the model says."""
    rng = np.random.default_rng(0)
    u = np.repeat(rng.normal(size=20), 10)
    truth, record = {"tau1": 2.0, "tau2": 0.4}, smcpn.Record(u=u, dt=0.1, hold="zoh")
    y = smcpn.simulate(lags, record, truth, observe="b") + 0.05 * rng.normal(size=(200, 1))
    prior = {name: stats.lognorm(1.0) for name in truth}
    prior |= {"sigma": stats.lognorm(1.0, scale=0.2)} if noise == "sigma" else {}
    return smcpn.Problem(
        lags, smcpn.Record(u=u, y=scale * y, dt=0.1, hold="zoh"), observe="b", noise=noise,
        prior=prior, initial=[0.0, 0.0],
    )  # fmt: skip


def test_lags_that_may_be_exchanged_are_shown_in_order():
    posterior = smcpn.identify(problem(), particles=300, seed=1, progress=False)
    first, second = posterior.table()
    assert abs(first.mean - 0.4) < 4 * first.sd < 0.2
    assert abs(second.mean - 2.0) < 4 * second.sd < 0.6
    assert len(posterior.modes) == 1
    text = posterior.summary()
    assert "exchangeable     tau1 and tau2: exchanged, they explain the record as well" in text
    assert "trades off" not in text
    assert posterior.verdict.level == "usable"
    # The posterior itself stays that of both orders.
    assert len(posterior_modes(posterior.theta, posterior.values, posterior.weights)) == 2


def test_a_gaussian_of_exchangeable_lags_leaves_no_mode_out():
    found = smcpn.laplace(problem(), seed=0)
    assert len(found.modes) == 2
    assert not found.several_modes
    assert not any("modes" in one for one in found.warnings)


def test_a_gaussian_of_exchangeable_lags_is_shown_in_order():
    found = smcpn.laplace(problem(), seed=0)
    other = replace(
        found,
        maximum=exchanged(found.maximum, np.array([1, 0])),
        covariance=found.covariance[::-1, ::-1],
    )
    ends = {round(float(one.maximum.values[0]), 1) for one in (found, other)}
    assert ends == {0.4, 2.0}
    for one in (found, other):
        first, second = one.table()
        assert abs(first.mean - 0.4) < 4 * first.sd < 0.2
        assert abs(second.mean - 2.0) < 4 * second.sd < 0.6
        assert "tau1 and tau2: exchanged" in one.summary()
        # Draws about one mode that the other explains say nothing of the Gaussian.
        assert not one.warnings
        assert one.verdict.level == "usable"


def test_tests_that_the_band_misses_are_looked_at():
    usable = Verdict("usable", (), (90.0,), (1.0,))
    fine, missed = (
        Score(1.0, 1.0, 1.0, 1.0, "K", fit, coverage, 200, 100, 0.0)
        for fit, coverage in ((80.0, 0.95), (38.0, 0.87))
    )
    good = with_tests(usable, {"test": fine})
    assert (
        str(good)
        == "usable, fit 90 %, reduced chi^2 1; on test fit 80 %, 95 % inside the 95 % band"
    )
    bad = with_tests(usable, {"test": fine, "cold": missed})
    assert bad.level == "look again"
    assert "on cold fit 38 %, 87 % inside the 95 % band" in str(bad)
    assert bad.reasons[0].startswith("the 95 % band holds less than it says of cold")


def test_of_many_tests_the_worst_are_named():
    usable = Verdict("usable", (), (90.0,), (1.0,))
    tests = {
        f"run {k}": Score(1.0, 1.0, 1.0, 1.0, "K", 90.0 - 5 * k, 0.95 - 0.05 * k, 200, 100, 0.0)
        for k in range(7)
    }
    found = with_tests(usable, tests)
    assert found.tests == (
        "on 7 tests fit 60 to 90 %, worst run 6 (60 %), run 5 (65 %), run 4 (70 %)",
    )
    assert found.reasons[0].startswith(
        "the 95 % band holds less than it says of 5 of 7 tests, "
        "worst run 6 (65 %), run 5 (70 %), run 4 (75 %): the model"
    )


def test_reduced_chi2_is_printed_where_the_noise_is_known():
    white = whiteness([WHITE], [np.empty((400, 0))])
    assert judge([white], [True], fit=[90.0]).head == "usable, fit 90 %"
    mixed = judge([white, white], [False, True])
    assert mixed.reduced_chi2[1] is None
    assert mixed.head == f"usable, reduced chi^2 {white.reduced_chi2:.3g}, noise learned"


def test_ten_samples_of_which_eight_are_inside_tell_nothing_against_a_band():
    usable = Verdict("usable", (), (90.0,), (1.0,))
    few, none = (
        Score(1.0, 1.0, 1.0, 1.0, "K", 54.0, coverage, 10, 100, 0.0) for coverage in (0.8, 0.3)
    )
    assert with_tests(usable, {f"subject {k}": few for k in range(12)}).level == "usable"
    assert with_tests(usable, {"subject 1": few, "subject 2": none}).level == "look again"


def test_a_card_keeps_its_verdict_however_long_it_is():
    card = Card(Table(title="a", notes=["line"] * 40), ["verdict          usable", "- a reason"])
    assert card.text.splitlines()[-2:] == ["verdict          usable", "- a reason"]
    assert "usable" in card.html
