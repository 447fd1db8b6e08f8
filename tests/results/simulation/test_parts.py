"""Parts of a record: simulated from where the whole was learned from, and what was learned."""

import pickle

import numpy as np
import pytest
from scipy import stats

import smcpn

WHOLE, CUT = 200, 80


@smcpn.ode
def oscillator(x, v, u, *, c, k):
    """Lightly damped, so that the first state is seen for long."""
    return v, u - c * v - k * x


def record_of(seed):
    rng = np.random.default_rng(seed)
    blank = smcpn.Record(u=np.sin(0.3 * np.arange(WHOLE)) + rng.normal(size=WHOLE), dt=0.1)
    y = smcpn.simulate(oscillator, blank, {"c": 0.1, "k": 4.0}, observe="x")
    return smcpn.Record(u=blank.u, y=y + 0.01 * rng.normal(size=y.shape), dt=0.1)


@pytest.fixture(scope="module")
def whole():
    return record_of(0)


@pytest.fixture(scope="module")
def maximum(whole):
    problem = smcpn.Problem(
        oscillator,
        whole[:CUT],
        observe="x",
        noise=0.01,
        prior={"c": stats.lognorm(1.0), "k": stats.lognorm(1.0)},
    )
    return smcpn.maximise(problem, solver=smcpn.RK4(steps=2), starts=2, seed=1)


def test_the_first_state_of_a_part_follows_from_the_whole(maximum, whole):
    everything = maximum.simulate(whole)
    for part in (whole[CUT:], whole[CUT + 30 : 150], whole[20:][CUT:150], whole[CUT:].hide(0, 5)):
        found = maximum.simulate(part)
        assert found.warnings == ()
        assert found.record is part
        begin = round(part.t[0] / 0.1)
        expected = everything.mean[begin : begin + len(part)]
        np.testing.assert_allclose(found.mean, expected, rtol=1e-6, atol=1e-9)
        assert found.fit[0] > 90.0
        assert found.rmse.shape == everything.rmse.shape


def test_a_part_of_which_nothing_was_learned_says_so(maximum):
    other = record_of(1)
    (warning,) = maximum.simulate(other[CUT:]).warnings
    assert "its first state is not known" in warning
    assert "initialise=20" in warning
    assert maximum.simulate(other).warnings == ()
    assert maximum.simulate(other[CUT:], initialise=20).fit[0] > 90.0


def test_what_was_learned_from_is_known(maximum, whole):
    assert maximum.simulate(whole).learned == ((0, CUT),)
    assert maximum.simulate(whole[:CUT]).learned == ((0, CUT),)
    assert maximum.simulate(whole[30:]).learned == ((0, CUT - 30),)
    assert maximum.simulate(whole[CUT:]).learned == ()
    assert maximum.simulate(record_of(1)).learned == ()
    same_input = whole.with_outputs(whole.y + 1.0)
    assert maximum.simulate(same_input).learned == ()


def test_a_changed_part_is_not_taken_for_one_of_the_whole(maximum, whole):
    changed = smcpn.Record(u=whole.u[CUT:] + 1.0, y=whole.y[CUT:], dt=0.1, start=whole.t[CUT])
    assert maximum.simulate(changed).fit[0] < 90.0


def test_another_process_gets_a_part_without_the_whole(whole):
    part = whole[CUT:]
    assert part.cut.whole is whole
    assert pickle.loads(pickle.dumps(part)).cut is None
