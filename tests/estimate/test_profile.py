"""Profiles of parameters, against a model that is linear in them."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.estimate.profile import UNFINISHED

T = np.linspace(0.0, 2.0, 21)
NOISE = 0.1
Y = 1.0 + 0.5 * T + NOISE * np.random.default_rng(0).normal(size=T.shape)


@smcpn.ode
def line(x, *, slope):
    return (slope + 0.0 * x,)


@smcpn.ode
def sum_of_two(x, *, a, b):
    return (a + b + 0.0 * x,)


@cache
def profiled(target: str = "likelihood") -> smcpn.Profiles:
    prior = {"slope": stats.norm(0.0, 0.2), "x0": stats.norm(0.0, 10.0)}
    problem = smcpn.Problem(
        line, smcpn.Record(t=T, y=Y), observe="x", noise=NOISE, initial=["x0"], prior=prior
    )
    solver = smcpn.RK4(1)
    return smcpn.profile(smcpn.maximise(problem, solver=solver, target=target, seed=0))


def test_profile_of_a_line_is_that_of_least_squares():
    fit = stats.linregress(T, Y)
    sd = NOISE / (T.std() * np.sqrt(len(T)))
    one = profiled()["slope"]
    np.testing.assert_allclose(one.drop, 0.5 * ((one.values - fit.slope) / sd) ** 2, atol=1e-3)
    ends = fit.slope + np.array([-1.96, 1.96]) * sd
    np.testing.assert_allclose([one.low, one.high], ends, atol=1e-3 * sd)


def test_prior_of_the_parameter_itself_is_left_out():
    without, penalised = profiled()["slope"], profiled("posterior")["slope"]
    assert abs(penalised.low - without.low) < 2e-3
    assert abs(penalised.high - without.high) < 2e-3


@cache
def flat() -> smcpn.Profiles:
    prior = {"a": stats.uniform(0.0, 1.0), "b": stats.uniform(-1.0, 2.0)}
    problem = smcpn.Problem(
        sum_of_two, smcpn.Record(t=T, y=Y), observe="x", noise=NOISE, initial=[1.0], prior=prior
    )
    found = smcpn.maximise(problem, solver=smcpn.RK4(1), target="likelihood", seed=0)
    return smcpn.profile(found, "a")


def test_what_the_data_do_not_tell_is_flat_to_the_ends_of_its_prior():
    one = flat()["a"]
    assert one.interval == "not bounded by the data"
    assert one.drop.max() < 1e-6
    assert one.values[0] < 0.01
    assert one.values[-1] > 0.99
    assert one.open_ends.count("the end of its prior") == 2
    np.testing.assert_allclose(one.others.sum(axis=1), one.others[0].sum(), atol=1e-6)
    assert "not bounded by the data" in flat().summary()


def test_figure_shows_the_drop_that_ends_the_interval():
    drawing = profiled().plot()
    axes, _ = drawing.axes
    assert axes.get_xlabel() == "slope"
    assert axes.get_title() == profiled()["slope"].interval
    assert axes.get_ylim()[0] < -1.92


@smcpn.ode
def turn(x, v, *, w):
    return v, -(w**2) * x


def test_another_mode_on_the_way_is_told():
    problem = smcpn.Problem(
        turn, smcpn.Record(t=T, y=np.cos(3.0 * T)), observe="x", noise=2.0, initial=[1.0, 0.0],
        prior={"w": stats.uniform(0.5, 8.0)},
    )  # fmt: skip
    found = smcpn.maximise(problem, solver=smcpn.RK4(4), starts=[[7.5]], target="likelihood")
    (warning,) = smcpn.profile(found).warnings
    assert warning.startswith("the profile of w leads 2 higher")
    assert warning.endswith("with more starts")


def test_profile_that_is_followed_no_further_does_not_name_the_end_of_the_prior(monkeypatch):
    monkeypatch.setattr("smcpn.estimate.profile.STEPS", 1)
    (row,) = smcpn.profile(smcpn.maximise(_line())).rows
    assert row.reached == (UNFINISHED, UNFINISHED)
    assert row.interval == "not bounded by the data"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: smcpn.profile(profiled(), "slope"), "result is"),
        (lambda: smcpn.profile(smcpn.maximise(_line()), "k"), "no parameter 'k': choose of slope"),
        (lambda: smcpn.profile(smcpn.maximise(_line()), []), "names is empty: choose of slope"),
        (lambda: profiled()["k"], "name is 'k'"),
    ],
)
def test_mistakes_are_refused(call, message):
    with pytest.raises(smcpn.InputError, match=message):
        call()


def _line() -> smcpn.Problem:
    return smcpn.Problem(
        line, smcpn.Record(t=T, y=Y), observe="x", noise=NOISE, initial=[1.0],
        prior={"slope": stats.norm()},
    )  # fmt: skip
