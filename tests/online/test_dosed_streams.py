"""Doses while the data come: the posterior of the record, killed and resumed to the same bytes."""

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn import Dose, InputError
from smcpn.model.dosing import as_given

TIMES = np.array([0, 1, 2, 3.1, 4, 5, 6, 7, 8, 9, 10, 11, 12.0])
DOSES = [
    Dose(0.0, "gut", 100.0, lag="tlag", fraction="F"),
    Dose(3.3, "gut", 50.0, lag="tlag", fraction="F"),
    Dose(6.9, "gut", 70.0, duration=1.0, lag="tlag", fraction="F"),
    Dose(5.0, "central", 20.0),
    Dose(7.1, "central", 30.0, duration=4.5, lag=0.25),
]
PRIOR = {
    "ka": stats.lognorm(0.3), "ke": stats.lognorm(0.3, scale=0.3), "tlag": stats.uniform(0, 1),
    "F": stats.uniform(0.1, 0.9),
}  # fmt: skip


@smcpn.ode
def compartments(gut, central, u, *, ka, ke):
    return -ka * gut, ka * gut + u - ke * central


def record(function=None):
    rng = np.random.default_rng(0)
    u = function or rng.uniform(size=len(TIMES))
    plan = smcpn.Record(t=TIMES, u=u, doses=DOSES)
    truth = {"ka": 1.2, "ke": 0.3, "tlag": 0.4, "F": 0.7}
    y = smcpn.simulate(compartments, plan, truth, observe="central")[:, 0]
    y += rng.normal(size=len(y))
    low = y < 25.0
    return smcpn.Record(
        t=TIMES, u=u, doses=DOSES, y=np.where(low, np.nan, y), y_upper=np.where(low, 25.0, np.nan)
    )


def problem(one):
    return smcpn.Problem(compartments, one, observe="central", noise=1.0, prior=PRIOR)


def live(one, **options):
    return smcpn.Online(problem(one), solver=smcpn.RK4(steps=4), particles=100, seed=1, **options)


def samples(one, first, last):
    """Arguments of updates: doses come with the sample before which they are given."""
    for k in range(first, last):
        since = one.t[k - 1] if k else -np.inf
        given = [d for d in DOSES if since <= d.time < one.t[k]]
        yield (one.u[k], one.y[k], one.t[k]), {"y_upper": one.y_upper[k], "doses": given}


@pytest.mark.parametrize("function", [None, pytest.param(np.sin, marks=pytest.mark.nightly)])
def test_a_stream_with_doses_ends_as_the_record_killed_and_resumed(tmp_path, function):
    one = record(function)
    batch = smcpn.identify(
        problem(one), solver=smcpn.RK4(steps=4), particles=100, seed=1, method="ibis",
        progress=False,
    )  # fmt: skip
    stream = live(one)
    for arguments, named in samples(one, 0, 6):
        stream.update(*arguments, **named)
    ends, ways = [], [stream]
    if function is None:
        stream.save(tmp_path / "stream.h5")
        ways.append(smcpn.Online.load(tmp_path / "stream.h5"))
    for way in ways:
        for arguments, named in samples(one, 6, len(TIMES)):
            way.update(*arguments, **named)
        ends.append(way.posterior())
    for end in ends:
        assert end.log_evidence == batch.log_evidence
        np.testing.assert_array_equal(end.theta, batch.theta)
        held = as_given(end.problem.records[0])
        assert held.doses == as_given(batch.problem.records[0]).doses == one.doses
        np.testing.assert_array_equal(end.simulate(held).mean, batch.simulate(one).mean)
    coming = stream.predict(2 if function else [0.1, 0.2], [13.0, 14.0])
    assert coming.mean.shape == (2, 1)
    assert coming.mean[1, 0] < coming.mean[0, 0]


def test_a_dose_that_comes_too_late_is_refused_and_the_sample_not_taken_in():
    one = record()
    stream = live(one)
    for arguments, named in samples(one, 0, 3):
        stream.update(*arguments, **named)
    for dose, sentence in (
        (Dose(1.5, "central", 1.0), "samples have come to 2"),
        (Dose(2.5, "central", 1.0, fraction="F"), "the problem is posed for"),
    ):
        with pytest.raises(InputError, match=sentence):
            stream.update(0.0, 1.0, 3.0, doses=[dose])
        assert stream.t == 2.0
    assert stream.update(0.0, 1.0, 3.0).status == "assimilated"
    assert stream.update(0.0, 1.0, 3.0, doses=[DOSES[0]]).status == "duplicate"
    with pytest.raises(InputError, match="samples have come to 3"):
        stream.update(0.0, 1.0, 3.0, doses=[Dose(2.5, "central", 1.0)])
    later = Dose(3.5, "central", 1.0)
    assert stream.update(0.0, 1.0, 3.0, doses=[later]).status == "duplicate"
    assert later in stream.doses


def test_a_window_has_the_doses_that_a_parameter_of_its_first_states_comes_before():
    """The places of lag and fraction among the parameters move where those of the start go."""
    times = np.arange(0.0, 12.0, 0.5)
    doses = [Dose(a, "gut", 10.0, fraction="F") for a in np.arange(0.5, 12.0, 2.0)]
    plan, start = smcpn.Record(t=times, u=np.zeros(24), doses=doses), {"gut": 0.0, "central": 2.0}
    truth = {"ka": 1.0, "ke": 0.3, "F": 0.7}
    y, gut = smcpn.simulate(
        compartments, plan, truth, observe=["central", "gut"], initial=start
    ).T  # fmt: skip
    prior = {
        "c0": stats.uniform(1.5, 1.0), "ka": stats.lognorm(0.05), "ke": PRIOR["ke"],
        "F": stats.uniform(0.6, 0.2),
    }  # fmt: skip
    posed = smcpn.Problem(
        compartments, plan.with_outputs(y), observe="central", noise=0.05, prior=prior,
        initial={"gut": 0.0, "central": "c0"},
    )  # fmt: skip
    stream = smcpn.Online(posed, solver=smcpn.RK4(4), particles=100, seed=1, forget=3.0)
    last = -np.inf
    for k, t in enumerate(times):
        given = [one for one in doses if last < one.time <= t]
        summary, last = stream.update(0.0, y[k], t, doses=given), t
    assert "c0" not in summary.mean
    end = stream.posterior()
    (record,) = end.problem.records
    assert 0 < sum(one.time < record.t[0] for one in record.doses) < len(record.doses) == 6
    again = end.problem.with_records([as_given(record)]).records[0]
    np.testing.assert_array_equal(again.u[1:], record.u[1:])
    assert abs(summary.state_mean["gut"] - gut[-1]) < 0.1 * gut[-1]


def test_a_nested_filter_moves_what_has_arrived_where_lags_and_fractions_move():
    one = record()
    posed = smcpn.Problem(
        compartments, one.with_outputs(np.where(np.isnan(one.y), 20.0, one.y)), observe="central",
        noise=1.0, prior=PRIOR, process_noise={"central": 0.5},
    )  # fmt: skip
    nested = smcpn.NestedFilter(
        posed, solver=smcpn.RK4(2), particles=20, state_particles=32, seed=1
    )
    for k in range(5):
        given = [d for d in DOSES if (one.t[k - 1] if k else -1.0) <= d.time < one.t[k]]
        state = nested.update(one.u[k], one.y[k], one.t[k], doses=given)
    held, last = nested._state, nested._state.last
    other = posed.prior.sample(np.random.default_rng(2), 20)
    values = posed.prior.natural(other)
    filters = nested._with_arrived(held.filters, values, last[-1])
    assert np.abs(filters - held.filters).max() > 1.0
    moments = nested._filters.state_moments(values, filters.T, last, len(last) - 1)
    np.testing.assert_allclose(moments[0], state._hidden.mean, rtol=1e-12)
