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


@smcpn.ode
def fed(x, u, *, k):
    """A state that decays, fed by an input and by doses."""
    return u - k * x


INPUTS = np.random.default_rng(0).normal(size=12)
FEEDS = [Dose(0.22, "x", 1.0), Dose(0.54, "x", 3.0), Dose(0.74, "x", 2.0)]
OPTIONS = {"solver": smcpn.RK4(4), "particles": 50, "seed": 1}


def fed_problem(doses, lags=None, **more):
    times = {"dt": 0.1} if "t" not in more else {"t": more.pop("t")}
    doses = [Dose(**vars(one) | (lags or {})) for one in doses]
    plan = smcpn.Record(u=INPUTS, y=np.ones(12), doses=doses, **times)
    prior = {"k": stats.lognorm(0.5, scale=0.3)} | more.pop("prior", {})
    return smcpn.Problem(fed, plan, observe="x", noise=0.5, prior=prior, initial={"x": 1.0}, **more)


def fed_stream(posed, times, doses):
    """Take samples at times of a clock; doses come by themselves before the sample that follows."""
    stream, last = smcpn.Online(posed, **OPTIONS), -np.inf
    for u, t in zip(INPUTS, times, strict=True):
        stream.give([one for one in doses if last <= one.time < t])
        stream.update(u, 1.0, t)
        last = t
    return stream.posterior()


def fed_record(posed):
    return smcpn.identify(posed, **OPTIONS, method="ibis", progress=False)


@pytest.mark.parametrize("axis", ["grid", "regular", "irregular"])
def test_doses_come_between_samples_whatever_the_record_that_tells_how_a_stream_is_sampled(axis):
    """On a grid the clock drifts and trembles; times that are regular in a record may be others."""
    rng, grid = np.random.default_rng(1), 0.1 * np.arange(12)
    clock = grid + np.append(0.0, rng.uniform(-0.015, 0.015, size=11))
    posed = fed_problem([Dose(0.2, "x", 1.0)], **({} if axis == "grid" else {"t": grid}))
    plan = {"t": clock} if axis == "irregular" else {} if axis == "grid" else {"t": grid}
    found = fed_stream(posed, grid if axis == "regular" else clock, FEEDS)
    assert found.log_evidence == fed_record(fed_problem(FEEDS, **plan)).log_evidence
    (one,) = found.problem.records
    np.testing.assert_allclose(one.t[~one.given], [0.22, 0.54, 0.74])


def test_a_dose_by_a_clock_that_is_before_the_grid_is_taken():
    stream = smcpn.Online(fed_problem([Dose(0.2, "x", 1.0)]), **OPTIONS)
    stream.update(0.0, 1.0, 0.0)
    stream.update(0.0, 1.0, 0.08)
    for _ in range(2):
        stream.give(Dose(0.09, "x", 1.0))
    assert stream.doses == (Dose(0.1, "x", 1.0),)
    with pytest.raises(InputError, match=r"given at 0\.07, and samples have come to 0\.1"):
        stream.give(Dose(0.07, "x", 1.0))
    stream.update(0.0, 1.0, 0.21, doses=[Dose(0.095, "x", 2.0), Dose(0.21, "x", 3.0)])
    assert stream.doses[1:] == (Dose(0.1, "x", 2.0), Dose(0.2, "x", 3.0))


def test_times_of_a_stream_need_not_be_regular_where_those_of_its_record_are():
    clock = np.cumsum(np.random.default_rng(2).uniform(0.07, 0.14, size=12))
    regular = fed_problem([], t=0.1 * np.arange(12))
    irregular = fed_problem([], t=clock)
    found = [fed_stream(one, clock, []) for one in (regular, irregular)]
    assert found[0].log_evidence == found[1].log_evidence
    # As many steps in every interval, so that the steps of the record are others.
    assert found[0].log_evidence == pytest.approx(fed_record(irregular).log_evidence, abs=1e-4)


@pytest.mark.parametrize(
    ("lags", "axis"),
    [
        ({}, "grid"),
        pytest.param({}, "irregular", marks=pytest.mark.nightly),
        pytest.param({"lag": "l"}, "grid", marks=pytest.mark.nightly),
        pytest.param({"lag": "l"}, "irregular", marks=pytest.mark.nightly),
    ],
)
def test_a_stream_with_doses_has_a_dead_time(lags, axis):
    clock = np.cumsum(np.random.default_rng(2).uniform(0.08, 0.11, size=12))
    more = {"prior": {"tau": stats.uniform(0.05, 0.1)}, "delay": {"u": "tau"}}
    if lags:
        more["prior"]["l"] = stats.uniform(0.0, 0.05)
    posed = fed_problem(FEEDS, lags, **more, **({} if axis == "grid" else {"t": clock}))
    times = 0.1 * np.arange(12) if axis == "grid" else clock
    doses = [Dose(**vars(one) | lags) for one in FEEDS]
    found, batch = fed_stream(posed, times, doses), fed_record(posed)
    assert found.log_evidence == pytest.approx(batch.log_evidence, abs=1e-9)
    np.testing.assert_allclose(found.theta, batch.theta, rtol=1e-8)


def test_more_doses_in_an_interval_than_a_dead_time_has_places_for_are_refused():
    stream = smcpn.Online(fed_problem(FEEDS[:1], delay={"u": 0.05}), **OPTIONS)
    stream.update(0.0, 1.0, 0.0)
    with pytest.raises(InputError, match="2 doses arrive between two samples of a stream"):
        stream.update(0.0, 1.0, 0.1, doses=[Dose(0.03, "x", 1.0), Dose(0.06, "x", 1.0)])
    assert stream.t == 0.0


N = 90
BETWEEN = [
    Dose(0.0, "x", 1.0), *[Dose(2.01 + 0.001 * k, "x", 0.02) for k in range(70)],
    Dose(3.0, "x", 2.0), Dose(4.44, "x", 1.0, duration=1.13), Dose(8.87, "x", 3.0),
]  # fmt: skip
"""At the first sample, more between two than an input is known ahead, at one, and near the end."""


def smooth_problem(doses, function=None, **more):
    rng = np.random.default_rng(0)
    u, y = rng.normal(size=N), np.where(rng.uniform(size=N) < 0.2, np.nan, rng.normal(size=N))
    times = {"t": 0.1 * np.arange(N)} if function else {"dt": 0.1, "hold": "bandlimited"}
    plan = smcpn.Record(u=function or u, y=y, doses=doses, **times)
    prior = {"k": stats.lognorm(0.5, scale=0.3)} | more.pop("prior", {})
    return smcpn.Problem(fed, plan, observe="x", noise=0.5, prior=prior, initial={"x": 1.0}, **more)


def follow(live, one, saved=None):
    """Take all samples of a stream, which is kept in a file on the way."""
    last = -np.inf
    for k, t in enumerate(0.1 * np.arange(N)):
        live.update(one.u[k], one.y[k], t, doses=[d for d in one.doses if last < d.time <= t])
        last = t
        if saved is not None and k == 75:
            live.save(saved)
            live = type(live).load(saved)
    return live, live.finish()


@pytest.mark.parametrize(
    ("solver", "more"),
    [
        (smcpn.EKF0(2, 2), {}),
        pytest.param(smcpn.RK4(2), {}, marks=pytest.mark.nightly),
        pytest.param(
            smcpn.RK4(2), {"delay": {"u": "tau"}, "prior": {"tau": stats.uniform(0.02, 0.2)}},
            marks=pytest.mark.nightly,
        ),
    ],
    ids=["probabilistic", "classical", "dead time"],
)  # fmt: skip
def test_doses_come_beside_a_band_limited_input(tmp_path, solver, more):
    options = {"solver": solver, "particles": 20, "seed": 1}
    # Where dead times are learned few may arrive in one interval.
    posed = smooth_problem([one for one in BETWEEN if not more or one.amount > 0.1], **more)
    (one,) = posed.records
    live, _ = follow(smcpn.Online(posed, **options), as_given(one), tmp_path / "stream.h5")
    batch = smcpn.identify(posed, **options, method="ibis", progress=False)
    end = live.posterior()
    assert end.log_evidence == pytest.approx(batch.log_evidence, abs=1e-9)
    np.testing.assert_allclose(end.theta, batch.theta, rtol=1e-9)
    (found,) = end.problem.records
    np.testing.assert_allclose(found.u, one.u, atol=1e-13)


@pytest.mark.nightly
def test_a_nested_filter_takes_doses_beside_a_band_limited_input(tmp_path):
    """Its input is that which the whole record has between samples, given as a function."""
    options = {"solver": smcpn.RK4(2), "particles": 20, "state_particles": 32, "seed": 1}
    noise = {"process_noise": {"x": 0.3}}
    smooth = smooth_problem(BETWEEN, **noise)
    (whole,) = smooth.records
    function = smooth_problem(BETWEEN, whole.u_function.__call__, **noise)
    _, expected = follow(smcpn.NestedFilter(function, **options), as_given(whole))
    live, found = follow(
        smcpn.NestedFilter(smooth, **options), as_given(whole), tmp_path / "filter.h5"
    )
    assert found.sample == expected.sample > N + 69
    assert found.log_evidence == pytest.approx(expected.log_evidence, abs=1e-9)
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-9)
    assert len(live._state.last) < 140
