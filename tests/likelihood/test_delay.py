"""Dead time of inputs, against matrix exponentials with the input moved."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import expm

import smcpn
from smcpn import EKF0, RK4, InputError
from smcpn.checkpoint.fingerprint import data_fingerprint, model_fingerprint
from smcpn.checkpoint.problem import StoredRecord
from smcpn.likelihood import inputs as kernel_inputs
from smcpn.likelihood import lanes
from smcpn.likelihood.gradient import LogLikelihood
from smcpn.likelihood.registry import build_likelihood
from smcpn.model.signal import RecordSamples
from smcpn.results.simulation import simulator
from tests.checkpoint.changed import document_of, problem_of

A = np.array([[0.0, 1.0], [-2.0, -0.3]])
DT, N = 0.1, 60
VALUES = {"c": 0.3, "k": 2.0}


@smcpn.ode
def oscillator(x, v, u, *, c, k):
    return v, u - c * v - k * x


@smcpn.ode
def pushed(x, v, a, b, w, *, c, k):
    return v, a + 0.5 * b - 2.0 * w - c * v - k * x


def inputs(n=N, columns=1, seed=0):
    return np.random.default_rng(seed).normal(size=(n, columns))


def exact(u, delays, gains, hold):
    """State x at the samples: the solution from one kink of any input to the next."""
    n = len(u)
    t = DT * np.arange(n)
    kinks = [DT * np.arange(-60, n) + delay for delay in delays]
    events = np.unique(np.round(np.concatenate([t, *kinks]), 10))
    events = events[(events >= 0) & (events <= t[-1] + 1e-9)]
    block = np.zeros((4, 4))
    block[:2, :2], block[1, 2], block[2, 3] = A, 1.0, 1.0
    x, states = np.zeros(2), [0.0]
    for a, b in pairwise(events):
        force = slope = 0.0
        for column, delay, gain in zip(u.T, delays, gains, strict=True):
            k = int(np.floor(((a + b) / 2 - delay) / DT))
            here, there = (column[max(j, 0)] for j in (k, k + 1))
            rise = (there - here) / DT if hold == "foh" else 0.0
            force += gain * (here + rise * (a - delay - k * DT))
            slope += gain * rise
        x = (expm(block * (b - a)) @ [*x, force, slope])[:2]
        if np.abs(t - b).min() < 1e-9:
            states.append(x[0])
    return np.array(states)


def problem(hold="foh", n=N, tau=0.137, noise=0.01, **changes):
    record = smcpn.Record(u=inputs(n), dt=DT, hold=hold)
    y = smcpn.simulate(oscillator, record, VALUES, observe="x", delay={"u": tau}, steps=4)
    y += noise * np.random.default_rng(1).normal(size=y.shape)
    given = {
        "observe": "x", "noise": noise, "delay": {"u": "tau"},
        "prior": {"c": stats.lognorm(1.0), "k": stats.lognorm(1.0), "tau": stats.uniform(0, 0.5)},
    }  # fmt: skip
    return smcpn.Problem(oscillator, record.with_outputs(y), **(given | changes))


@pytest.mark.parametrize("hold", ["zoh", "foh"])
def test_the_order_of_the_method_is_kept_whatever_part_of_an_interval_the_delay_is(hold):
    record = smcpn.Record(u=inputs(), dt=DT, hold=hold)
    for tau in (0.0, 0.04, 0.137, 0.3, 1.05):
        truth = exact(record.u, [tau], [1.0], hold)
        errors = [
            np.abs(
                smcpn.simulate(
                    oscillator, record, {**VALUES, "tau": tau}, observe="x", steps=steps,
                    delay={"u": "tau"},
                )[:, 0] - truth
            ).max()
            for steps in (2, 4, 8)
        ]  # fmt: skip
        assert errors[2] < 1e-8
        assert all(12 < coarse / fine < 20 for coarse, fine in pairwise(errors))


@pytest.mark.parametrize("delays", [(0.137, 0.23), (0.23, 0.137), (0.137, 0.137), (0.2, 0.05)])
def test_several_delays_beside_an_input_without(delays):
    record = smcpn.Record(u=inputs(columns=3), dt=DT, hold="foh")
    delay = {"a": "tau", "w": delays[1]}
    found = smcpn.simulate(
        pushed, record, {**VALUES, "tau": delays[0]}, observe="x", steps=8, delay=delay
    )
    truth = exact(record.u, [delays[0], 0.0, delays[1]], [1.0, 0.5, -2.0], "foh")
    np.testing.assert_allclose(found[:, 0], truth, atol=1e-8)


@pytest.mark.parametrize("solver", [RK4(2), EKF0(order=2, steps=2)])
def test_no_delay_is_the_likelihood_without(solver):
    delayed = problem(prior={"c": stats.lognorm(1.0), "tau": stats.uniform(0, 0.5), "k": 2.0})
    plain = smcpn.Problem(
        oscillator, delayed.records[0], observe="x", noise=0.01,
        prior={"c": stats.lognorm(1.0), "k": 2.0},
    )  # fmt: skip
    one = build_likelihood(delayed, solver).evaluate(np.array([[0.3, 0.0]]), N)[1]
    other = build_likelihood(plain, solver).evaluate(np.array([[0.3]]), N)[1]
    np.testing.assert_allclose(one, other, rtol=1e-11)


@pytest.mark.parametrize("hold", ["zoh", "foh"])
def test_the_marginal_likelihood_converges_to_the_classical_one(hold):
    delayed = problem(hold)
    theta = np.array([[0.3, 2.0, tau] for tau in (0.05, 0.1, 0.137, 0.49)])
    truth = build_likelihood(delayed, RK4(8)).evaluate(theta, N)[1]
    errors = [
        np.abs(build_likelihood(delayed, EKF0(order=2, steps=n)).evaluate(theta, N)[1] - truth)
        for n in (4, 8)
    ]
    assert (errors[1] < 1e-2 + 1e-4 * np.abs(truth)).all()
    assert errors[1].max() < errors[0].max() / 4


@pytest.mark.parametrize("hold", ["zoh", "foh"])
@pytest.mark.parametrize("solver", [RK4(2), EKF0(order=3, steps=8)])
def test_gradient_by_differences_within_and_across_a_sampling_interval(hold, solver):
    function = LogLikelihood(problem(hold), solver=solver)
    # At whole intervals the second derivative jumps, and the first one by the solver's error.
    for taus, tolerance in (((0.05, 0.137, 0.4321), 1e-7), ((0.1, 0.2, 0.3), 1e-4)):
        theta = np.array([[0.3, 2.0, tau] for tau in taus])
        _, slopes = function.value_and_gradient(theta)
        step = 1e-6 * np.eye(3)
        differences = [(function(theta + s) - function(theta - s)) / 2e-6 for s in step]
        scale = np.abs(slopes).max(axis=0)
        np.testing.assert_allclose(slopes / scale, np.array(differences).T / scale, atol=tolerance)


def test_seconds_are_no_place_among_the_parameters():
    record = smcpn.Record(u=inputs(columns=3), y=inputs(), dt=DT, hold="zoh")
    prior = {"c": 0.3, "k": stats.lognorm(1.0), "tau": stats.uniform(0, 0.5)}
    problem = smcpn.Problem(
        pushed, record, observe="x", noise=0.1, prior=prior, delay={"a": "tau", "w": 1, "b": 1.0}
    )
    assert problem.delay == {"a": "tau", "b": 1.0, "w": 1.0}
    found = build_likelihood(problem, RK4(8)).evaluate(np.array([[2.0, 0.137]]), N)[1]
    x = exact(record.u, [0.137, 1.0, 1.0], [1.0, 0.5, -2.0], "zoh")
    np.testing.assert_allclose(found, stats.norm.logpdf(record.y[:, 0], x, 0.1).sum(), rtol=1e-7)


def test_a_prior_over_many_intervals():
    delayed = problem("zoh", prior={"c": 0.3, "k": 2.0, "tau": stats.uniform(0.0, 4.9)})
    known = [0.137, 1.35, 2.08, 4.9]
    found = build_likelihood(delayed, RK4(2)).evaluate(np.array(known)[:, None], N)[1]
    for tau, one in zip(known, found, strict=True):
        y = smcpn.simulate(oscillator, delayed.records[0], VALUES, observe="x", steps=2,
                           delay={"u": tau})  # fmt: skip
        density = stats.norm.logpdf(delayed.records[0].y, y, 0.01).sum()
        np.testing.assert_allclose(one, density, rtol=1e-9)


def test_an_observed_derivative_sees_the_delayed_input():
    delayed = problem("foh")
    record = delayed.records[0]
    given = {"delay": {"u": 0.137}, "steps": 8}
    x, v, rate = (smcpn.simulate(oscillator, record, VALUES, observe=what, **given)[:, 0]
                  for what in ("x", "v", "v'"))  # fmt: skip
    times = np.maximum(record.t - 0.137, 0.0)
    np.testing.assert_allclose(
        rate, np.interp(times, record.t, record.u[:, 0]) - 0.3 * v - 2.0 * x, atol=1e-12
    )


@pytest.mark.parametrize("hold", ["zoh", "foh"])
def test_an_observed_input_is_that_of_whole_samples_before(hold):
    record = smcpn.Record(u=inputs(), dt=DT, hold=hold)
    # 0.3 / 0.1 is below 3.
    for tau, whole in ((0.0, 0), (0.1, 1), (0.3, 3), (0.7, 7)):
        found = smcpn.simulate(
            oscillator, record, VALUES, observe=lambda x, v, u: u + 0.0 * x, steps=1,
            delay={"u": tau},
        )  # fmt: skip
        expected = record.u[np.maximum(np.arange(N) - whole, 0)]
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_cut_record_knows_the_inputs_before_it():
    delayed = problem("zoh", prior={"c": stats.lognorm(1.0), "k": 2.0, "tau": 0.337})
    whole = delayed.records[0]
    recursion = build_likelihood(delayed, RK4(1))
    cut = recursion.with_records([whole[20:40]]).rows[0]
    known = recursion.rows[0].samples[20 : 40 + cut.before]
    np.testing.assert_array_equal(cut.samples[:, 1], known[:, 1])
    periodic = smcpn.Record(u=inputs(), dt=DT, periodic=True)
    around = RecordSamples(periodic).columns(-70, 1)
    np.testing.assert_array_equal(around[-N - 1 : -1, 1:2], periodic.u)


@smcpn.ode
def relaxation(x, u, *, k):
    return k * (u - x)


def test_a_cut_record_knows_when_the_inputs_before_it_were():
    """Held inputs at irregular times, whose response is an exponential from each arrival on."""
    t = np.cumsum(np.random.default_rng(0).uniform(0.05, 0.3, 14))
    whole, tau, k = smcpn.Record(u=inputs(14), t=t, hold="zoh"), 0.37, 2.0
    cut = StoredRecord.of(whole[2:][3:]).restored()
    edges = np.unique([*cut.t, *t + tau])
    x, exact = 0.0, [0.0]
    for a, b in pairwise(edges[(edges >= cut.t[0]) & (edges <= cut.t[-1])]):
        u = whole.u[np.searchsorted(t + tau, (a + b) / 2) - 1, 0]
        x = u + (x - u) * np.exp(-k * (b - a))
        exact += [x] if b in cut.t else []
    found = smcpn.simulate(
        relaxation, cut, {"k": k}, observe="x", initial=[0.0], delay={"u": tau}, steps=40
    )
    np.testing.assert_allclose(found[:, 0], exact, atol=1e-9)


def test_inputs_before_are_known_far_enough_and_a_part_of_the_data():
    known = {"prior": {"c": stats.lognorm(1.0), "k": 2.0}, "n": 140}
    far = problem("zoh", delay={"u": 8.0}, tau=8.0, **known)
    with pytest.raises(InputError, match="knows 64 samples before it"):
        far.with_records([far.records[0][100:]])
    near = problem("zoh", delay={"u": 0.3}, **known)
    whole = near.records[0]
    alone = smcpn.Record(u=whole.u[20:], y=whole.y[20:], t=whole.t[20:], hold="zoh")
    prints = {
        data_fingerprint([record], 50, near.model.delay)
        for record in (alone, whole[20:], whole[20:90])
    }
    assert len(prints) == 2


def test_rows_in_pieces_are_the_same(monkeypatch):
    delayed = problem("foh")
    theta = np.array([[0.3, 2.0, 0.137], [0.3, 2.0, 0.42]])
    for solver in (RK4(1), EKF0(order=2, steps=1)):
        whole = build_likelihood(delayed, solver).evaluate(theta, N)[1]
        with monkeypatch.context() as smaller:
            smaller.setattr(kernel_inputs, "LONG", 10)
            smaller.setattr(kernel_inputs, "PIECE", 1)
            smaller.setattr(kernel_inputs, "CHUNK", 7)
            smaller.setattr(lanes, "CHUNK", 7)
            pieces = build_likelihood(delayed, solver).evaluate(theta, N)[1]
        np.testing.assert_allclose(pieces, whole, rtol=1e-13)
    simulated = [smcpn.simulate(oscillator, delayed.records[0], VALUES, observe="x",
                                delay={"u": 0.137}, steps=2)]  # fmt: skip
    monkeypatch.setattr(simulator, "PIECE", 20)
    simulated.append(smcpn.simulate(oscillator, delayed.records[0], VALUES, observe="x",
                                    delay={"u": 0.137}, steps=2))  # fmt: skip
    np.testing.assert_array_equal(*simulated)


def test_identified_stored_and_followed(tmp_path):
    learned = problem("zoh", n=120)
    options = {"solver": RK4(1), "particles": 200, "seed": 1}
    path = tmp_path / "run.h5"
    posterior = smcpn.identify(learned, method="ibis", checkpoint=path, progress=False, **options)
    assert abs(posterior.mean["tau"] - 0.137) < 3 * posterior.sd["tau"] < 0.03
    again = smcpn.resume(path)
    assert again.mean == posterior.mean
    assert again.problem.delay == {"u": "tau"}
    record = learned.records[0]
    live = smcpn.Online(learned, **options)
    for k, (u, y) in enumerate(zip(record.u, record.y, strict=True)):
        if k == 70:
            live.save(tmp_path / "live.h5")
            live = smcpn.Online.load(tmp_path / "live.h5")
        state = live.update(u, y)
    assert state.log_evidence == posterior.log_evidence
    ahead = live.predict(record.u[:5])
    longer = smcpn.Record(u=np.concatenate([record.u, record.u[:5]]), dt=DT, hold="zoh")
    simulated = posterior.simulate(longer, steps=1)
    np.testing.assert_allclose(ahead.mean[:, 0], simulated.mean[-5:, 0], rtol=1e-9)


REFUSED = [
    ({"delay": {"w": "tau"}}, "no input"),
    ({"delay": "tau"}, "give a dict"),
    ({"delay": {"u": -0.1}}, "not negative"),
    ({"delay": {"u": 1e300}}, "shift the input"),
    ({"delay": {"u": "lag"}}, "no prior"),
    ({"prior": {"c": 1.0, "k": 1.0, "tau": stats.lognorm(1.0)}}, "needs bounds"),
    ({"prior": {"c": 1.0, "k": 1.0, "tau": stats.uniform(-0.1, 1)}}, "needs bounds"),
    ({"prior": {"c": 1.0, "k": 1.0, "tau": stats.uniform(0, 100)}}, "spans at most"),
]


@pytest.mark.parametrize(("changes", "words"), REFUSED)
def test_refused(changes, words):
    with pytest.raises(InputError, match=words):
        problem(**changes)


def test_what_cannot_delay_says_so():
    delayed = problem()
    with pytest.raises(InputError, match="forget"):
        smcpn.Online(delayed, solver=RK4(1), forget=1.0)
    t = np.cumsum(np.random.default_rng(0).uniform(0.05, 0.15, N))
    uneven = smcpn.Record(u=inputs(), y=inputs(), t=t, hold="zoh")
    stream = smcpn.Online(delayed.with_records([uneven]), solver=RK4(1), particles=20)
    stream.update(0.0, 0.0, 0.0)
    with pytest.raises(InputError, match="those of the problem's record, from"):
        stream.update(0.0, 0.0, 0.01)
    assert stream.update(0.0, 0.0, 0.1).sample == 2
    gap = smcpn.Record(u=inputs(), t=np.append(t[:-1], t[-1] + 5.0), hold="zoh")
    with pytest.raises(InputError, match="in its gap"):
        smcpn.simulate(oscillator, gap, VALUES, observe="x", delay={"u": 2.0})


def test_a_file_tells_the_delay_and_is_not_trusted():
    delayed = problem()
    document, arrays = document_of(delayed)
    again = problem_of(document, arrays, delayed.records)
    assert again.model.delay == delayed.model.delay
    other = problem(delay={"u": 0.2}, prior={"c": stats.lognorm(1.0), "k": stats.lognorm(1.0)})
    plain = problem(delay=None, prior={"c": stats.lognorm(1.0), "k": stats.lognorm(1.0)})
    assert model_fingerprint(other) != model_fingerprint(plain)
    for hostile in (
        {"u": 1e300},
        {"u": -1.0},
        {"w": 0.1},
        {"u": "c"},
        {"u": "lag"},
        {"u": None},
        3,
    ):
        given = {**document["given"], "delay": hostile}
        with pytest.raises(InputError):
            problem_of({**document, "given": given}, arrays, delayed.records)
