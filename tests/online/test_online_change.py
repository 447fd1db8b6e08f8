"""A system that changes: alarm, false alarms, and a population that follows."""

from __future__ import annotations

from math import log

import numpy as np

import smcpn
from smcpn.online.change import ChangeTest
from tests import models


def test_false_alarms_are_as_rare_as_stated():
    rng = np.random.default_rng(0)
    test, alarms = ChangeTest(2000.0), 0
    for k in range(100_000):
        alarm = test(rng.standard_normal(1), k, float(k))
        if alarm is not None:
            alarms += 1
            test.reset()
    # At most 50 expected; three standard deviations of a Poisson number above.
    assert alarms <= 50 + 3 * 50**0.5


def test_a_change_of_sign_is_not_one_and_missing_samples_tell_nothing():
    test = ChangeTest(1e6)
    assert test(np.array([np.nan]), 0, 0.0) is None
    assert test.state.score == 0.0
    found = [test(np.array([4.0]), k, float(k)) for k in range(20)]
    alarms = [alarm for alarm in found if alarm is not None]
    assert len(alarms) == 1
    assert alarms[0].since_sample == 0
    assert alarms[0].score >= log(1e6)


@smcpn.ode
def stiffened(x, v, u, t, *, c, k):
    return v, u - c * v - k * (1 + 0.2 * np.heaviside(t - 40.0, 1.0)) * x


def test_a_jump_raises_an_alarm_and_is_followed():
    record = models.oscillator_record(stiffened, samples=800)
    problem = models.oscillator_problem(record)
    live = smcpn.Online(problem, solver=smcpn.RK4(4), particles=200, seed=1, forget="20 s")
    alarms, covered, state = [], [], None
    for u, y in zip(record.u, record.y, strict=True):
        state = live.update(u, y)
        assert state.approximate == "window 20 s"
        if state.alarm is not None:
            alarms.append(state.alarm.t)
        if state.t > 50.0:
            low, high = state.quantile("k", [0.005, 0.995])
            covered.append(low < 1.2 * models.OSCILLATOR_TRUTH["k"] < high)
    assert state is not None
    assert 40.0 <= alarms[0] <= 45.0
    assert np.mean(covered) > 0.9
    assert abs(state.mean["k"] - 1.2 * models.OSCILLATOR_TRUTH["k"]) < 0.1
    assert state.names == ("c", "k")
