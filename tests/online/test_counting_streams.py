"""Streams of what has accumulated since the last sample."""

import numpy as np
import pytest
from scipy import stats

import smcpn


@smcpn.ode
def emptied(volume, collected, *, k):
    """A vessel that is emptied, and what has come out of it."""
    return -k * volume, k * volume


def test_no_sample_is_put_into_a_gap_in_which_a_count_goes_on():
    t = np.array([0.0, 1.0, 2.0, 3.0, 7.0, 8.0, 9.0, 13.0])
    volume = 10.0 * np.exp(-0.2 * t)
    y = np.append(0.0, -np.diff(volume))
    problem = smcpn.Problem(
        emptied.accumulating("collected"), smcpn.Record(t=t, y=y), observe="collected",
        noise=0.05, initial={"volume": 10.0, "collected": 0.0}, prior={"k": stats.lognorm(0.5)},
    )  # fmt: skip
    online = smcpn.Online(problem, seed=1, particles=64)
    for time, value in zip(t, y, strict=True):
        state = online.update([], [value], t=time)
    assert (state.sample, state.missing) == (len(t), 0)
    assert abs(state.mean["k"] - 0.2) < 0.02


def test_a_solution_over_a_record_refuses_counts():
    record = smcpn.Record(t=np.arange(3.0))
    counting = emptied.accumulating("collected")
    with pytest.raises(smcpn.InputError, match="collected begin anew") as error:
        smcpn.solve(counting, record, {"k": 0.2}, initial=[10.0, 0.0])
    assert error.value.argument == "over"
    found = smcpn.solve(counting, np.arange(3.0), {"k": 0.2}, initial=[10.0, 0.0])
    np.testing.assert_allclose(found.mean[-1, 1], 10 - 10 * np.exp(-0.4), rtol=1e-5)
