"""Discoveries from records with dead times, doses, stated deviations and limits."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import signal, stats
from scipy.integrate import solve_ivp

import smcpn
from smcpn.discovery.equations.system import CandidateSystem
from smcpn.discovery.results.residuals import residuals_of
from smcpn.discovery.search.arrivals import Arrivals
from smcpn.errors import InputError
from smcpn.estimate.path_search.linearisation import LimitedMeasurements

NOISE = 0.02
T = 0.1 * np.arange(150)


def found_terms(found, exact):
    """The most probable model has these terms, and their coefficients to its deviations."""
    best = found.models[0]
    assert set(best.names) == set(exact)
    assert best.probability > 0.8
    off = best.mean - [exact[name] for name in best.names]
    assert np.all(np.abs(off) < 3.5 * best.sd)
    assert np.all(best.sd < 0.05)


def late_input(hold, late):
    """Inputs at samples, and outputs of x' = -x + 2 u(t - late), exact for the hold."""
    rng = np.random.default_rng(2)
    u = np.repeat(rng.normal(size=30), 5)
    if hold == "function":
        fine = np.arange(0.0, 14.9001, 0.001)
        x = signal.lsim(([2.0], [1.0, 1.0]), np.sin(2.1 * (fine - late)), fine)[1]
        return lambda t: np.sin(2.1 * t), x[::100]
    # Dead times are whole numbers of twentieths of an interval.
    fine = 0.005 * np.arange(20 * 149 + 1)
    at, ahead = fine - late, T - 10.0
    known = np.append(np.full(100, u[0]), u)
    every = np.append(ahead[:100], T)
    held = known[np.searchsorted(every, at + 1e-9, side="right") - 1]
    driven = held if hold == "zoh" else np.interp(at, every, known)
    x = signal.lsim(([2.0], [1.0, 1.0]), driven, fine, interp=hold != "zoh")[1]
    return u, x[::20]


@pytest.mark.parametrize(("hold", "late"), [("foh", 0.335), ("zoh", 0.4), ("function", 0.25)])
def test_an_input_that_is_late(hold, late):
    u, x = late_input(hold, late)
    y = x + NOISE * np.random.default_rng(0).normal(size=len(x))
    record = smcpn.Record(u=u, y=y, dt=0.1, hold="zoh" if hold == "zoh" else "foh")
    options = {"library": smcpn.polynomials(2), "states": ["x"], "delay": {"u": late}}
    found = smcpn.discover(record, **options)
    found_terms(found, {"x'[x]": -1.0, "x'[u]": 2.0})
    assert found.noise == pytest.approx([NOISE], rel=0.2)
    assert found.path.shape == (150, 1)
    assert found.settings["delay"] == {"u": late}
    # What is simulated has the dead time too.
    again = found.simulate(record, draws=20)
    assert again.rmse_of_mean[0] < 1.2 * NOISE


@smcpn.ode
def fed(x, u, w, *, k):
    return 2.0 * u + w - k * x


@pytest.mark.parametrize(
    ("hold", "kind"), [("zoh", "t"), ("foh", "cut"), ("bandlimited", "periodic")]
)
def test_inputs_that_arrive_are_those_of_a_problem_with_dead_times(hold, kind):
    rng = np.random.default_rng(0)
    u, late = np.cumsum(rng.normal(size=(120, 2)), axis=0), {"u": 0.3, "w": 0.17}
    times = {"t": np.cumsum(rng.uniform(0.05, 0.2, size=120))} if kind == "t" else {"dt": 0.1}
    if hold == "bandlimited":
        u = np.cos(2.0 * np.pi / 120.0 * np.outer(np.arange(120), [3, 7]))
    record = smcpn.Record(u=u, y=np.ones(120), hold=hold, periodic=kind == "periodic", **times)
    record = record[50:] if kind == "cut" else record
    system = CandidateSystem.of(smcpn.polynomials(1), ["x"], ["u", "w"])
    arrivals = Arrivals.of([record], system, late)
    options = {"observe": "x", "initial": [0.3], "steps": 20}
    exact = smcpn.simulate(fed, record, {"k": 0.5}, delay=late, **options)
    made = smcpn.simulate(fed, arrivals.records[0], {"k": 0.5}, **options)
    tolerance = 1e-8 if hold == "bandlimited" else 1e-12
    np.testing.assert_allclose(made[arrivals.given], exact, atol=tolerance)


DOSES = [
    smcpn.Dose(0.0, "gut", 4.0),
    smcpn.Dose(3.13, "gut", 6.0, lag=0.5, fraction=0.8),
    smcpn.Dose(6.04, "central", 3.0, duration=1.53),
    smcpn.Dose(9.0, "gut", -1.0),
]


def compartments():
    """States of gut' = -1.2 gut, central' = 1.2 gut - .4 central, from one event to the next."""
    jumps = {0.0: [4.0, 0.0], 3.63: [4.8, 0.0], 9.0: [-1.0, 0.0]}
    edges = [0.0, 3.63, 6.04, 7.57, 9.0, T[-1]]
    x, states = np.array([0.5, 2.0]), np.empty((len(T), 2))
    states[0] = x
    for begin, end in pairwise(edges):
        x = x + jumps.get(begin, [0.0, 0.0])
        flow = 3.0 / 1.53 if begin == 6.04 else 0.0
        rhs = lambda t, x, flow=flow: [-1.2 * x[0], 1.2 * x[0] - 0.4 * x[1] + flow]  # noqa: E731
        ends = solve_ivp(rhs, (begin, end), x, dense_output=True, rtol=1e-10, atol=1e-12)
        within = (begin < T) & (end + 1e-12 > T)
        states[within] = ends.sol(T[within]).T
        x = ends.y[:, -1]
    return states


def test_doses_enter_the_states_at_their_times(tmp_path):
    y = compartments() + NOISE * np.random.default_rng(3).normal(size=(len(T), 2))
    record = smcpn.Record(y=y, dt=0.1, doses=DOSES)
    kept = tmp_path / "doses.h5"
    states = ["gut", "central"]
    found = smcpn.discover(record, library="poly(2)", states=states, checkpoint=kept)
    assert smcpn.resume(kept).models[0].log_evidence == found.models[0].log_evidence
    exact = {"gut'[gut]": -1.2, "central'[gut]": 1.2, "central'[central]": -0.4}
    found_terms(found, exact)
    assert found.noise == pytest.approx([NOISE, NOISE], rel=0.2)
    np.testing.assert_allclose(found.path, compartments(), atol=0.02)
    again = found.simulate(record, draws=20)
    assert again.rmse_of_mean.max() < 1.2 * NOISE
    assert len(again.record) > len(record)


@pytest.mark.parametrize("what", ["late", pytest.param("doses", marks=pytest.mark.nightly)])
@pytest.mark.filterwarnings("ignore::smcpn.SamplerWarning")
def test_draws_under_a_prior_that_shrinks_know_them_too(what):
    if what == "late":
        exact, states, (u, x) = {"x'[x]": -1.0, "x'[u]": 2.0}, ["x"], late_input("zoh", 0.235)
        given, options = {"u": u, "hold": "zoh"}, {"delay": {"u": 0.235}}
    else:
        exact = {"gut'[gut]": -1.2, "central'[gut]": 1.2, "central'[central]": -0.4}
        states, x, given, options = ["gut", "central"], compartments(), {"doses": DOSES}, {}
    y = x + NOISE * np.random.default_rng(3).normal(size=x.shape)
    found = smcpn.discover(
        smcpn.Record(y=y, dt=0.1, **given), library="poly(1)", states=states, prior="laplace",
        particles=100, **options,
    )  # fmt: skip
    for name, value in exact.items():
        one = found.coefficients[name]
        assert abs(one.mean - value) < 3.5 * one.sd < 0.05


@pytest.mark.parametrize(
    "what", ["equal", pytest.param("as if missing", marks=pytest.mark.nightly)]
)
@pytest.mark.filterwarnings("ignore::smcpn.SamplerWarning")
def test_draws_under_a_prior_that_shrinks_know_deviations(what):
    """Those that are equal are the noise itself; what is hardly known at all is as if missing."""
    rng, some = np.random.default_rng(3), np.arange(150) % 3 < (3 if what == "equal" else 2)
    y = 3.0 * np.exp(-0.3 * T) + 0.05 * rng.normal(size=150)
    options = {"library": "poly(1)", "states": ["x"], "prior": "laplace", "particles": 100}
    kept = smcpn.Record(y=np.where(some, y, np.nan), dt=0.1)
    expected = smcpn.discover(kept, **options, noise=[0.05]).coefficients
    told = smcpn.Record(y=y, dt=0.1, y_sd=np.where(some, 0.05, 50.0))
    found = smcpn.discover(told, **options, noise="y_sd").coefficients
    mean, sd = (1e-6, 1e-6) if what == "equal" else (0.5, 0.4)
    for name, one in expected.items():
        assert abs(found[name].mean - one.mean) < mean * one.sd
        assert found[name].sd == pytest.approx(one.sd, rel=sd)


def test_what_has_entered_is_that_of_a_problem():
    """Jumps and rates between samples add up to the amounts that a likelihood knows."""
    system = CandidateSystem.of(smcpn.polynomials(1), ["gut", "central"])
    arrivals = Arrivals.of([smcpn.Record(y=np.ones((150, 2)), dt=0.1, doses=DOSES)], system, {})
    (record,) = arrivals.records
    lasting = np.diff(record.t)[:, None]
    jumps, rates = arrivals.entering
    total = np.cumsum(jumps + rates * lasting, axis=0)
    np.testing.assert_allclose(total, arrivals.entered[1:], atol=1e-12)
    np.testing.assert_allclose(total[-1], [4.0 + 4.8 - 1.0, 3.0])
    np.testing.assert_array_equal(record.t[arrivals.given], T)
    np.testing.assert_allclose(record.t[~arrivals.given], [3.63, 6.04, 7.57])


def test_values_count_by_their_own_deviations():
    rng = np.random.default_rng(4)
    sd = np.where(np.arange(150) % 3 == 0, 0.01, 0.5)
    y = 3.0 * np.exp(-0.3 * T) + sd * rng.normal(size=150)
    record = smcpn.Record(y=y, dt=0.1, y_sd=sd)
    found = smcpn.discover(record, library="poly(2)", states=["x"], noise="y_sd")
    found_terms(found, {"x'[x]": -0.3})
    # Of precise values alone it is as well known.
    design = np.stack([np.exp(-0.3 * T), -3.0 * T * np.exp(-0.3 * T)], axis=1) / sd[:, None]
    expected = np.sqrt(np.linalg.inv(design.T @ design)[1, 1])
    assert found.models[0].sd[0] == pytest.approx(expected, rel=0.2)
    assert found.noise == pytest.approx(np.mean(sd**-2.0) ** -0.5)


def test_the_noise_of_outputs_without_deviations_is_learned():
    """Of two equations that do not touch: each is known as well as by itself."""
    sd = np.stack([np.where(np.arange(150) % 3 == 0, 0.01, 0.5), np.full(150, 0.05)], axis=1)
    y = 3.0 * np.exp(np.outer(T, [-0.3, -0.2])) + sd * np.random.default_rng(0).normal(
        size=sd.shape
    )
    record = smcpn.Record(y=y, dt=0.1, y_sd=np.where([True, False], sd, np.nan))
    found = smcpn.discover(record, library="poly(1)", states=["x", "v"], noise="y_sd")
    found_terms(found, {"x'[x]": -0.3, "v'[v]": -0.2})
    alone = smcpn.discover(smcpn.Record(y=y[:, 1], dt=0.1), library="poly(1)", states=["v"])
    known = np.mean(sd[:, 0] ** -2.0) ** -0.5
    np.testing.assert_allclose(found.noise, [known, *alone.noise], rtol=1e-6)
    assert found.models[0].mean[1] == pytest.approx(alone.models[0].mean[0], rel=1e-4)
    residuals = y[::3, 0] - found.paths[0][::3, 0]
    np.testing.assert_allclose(residuals_of(found)[0][::3, 0], residuals * known / 0.01)


@pytest.mark.parametrize("known", [False, True])
def test_values_known_by_limits(known):
    """Of x' = c with many values below a limit, against the posterior on a grid."""
    rng = np.random.default_rng(5)
    t = np.linspace(0.0, 2.0, 200)
    y = 1.0 - t + 0.3 * rng.normal(size=200)
    low = y < 0.2
    record = smcpn.Record(
        t=t, y=np.where(low, np.nan, y), y_upper=np.where(low, 0.2, np.nan),
        y_sd=np.full(200, 0.3) if known else None,
    )  # fmt: skip
    # A slab so wide does not pull.
    found = smcpn.discover(
        record, library="poly(0)", states=["x"], noise="y_sd" if known else [0.3], slabs=[100.0]
    )
    (best,) = [one for one in found.models if one.names]
    start, slope = np.meshgrid(np.linspace(0.8, 1.2, 161), np.linspace(-1.3, -0.7, 161))
    mean = start[..., None] + slope[..., None] * t
    below, measured = stats.norm.logcdf((0.2 - mean) / 0.3), -0.5 * ((y - mean) / 0.3) ** 2
    logs = np.where(low, below, measured).sum(axis=-1)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    expected = np.sum(weights * slope)
    sd = np.sqrt(np.sum(weights * (slope - expected) ** 2))
    assert best.mean[0] == pytest.approx(expected, abs=0.12 * sd)
    assert best.sd[0] == pytest.approx(sd, rel=0.1)


@pytest.mark.parametrize("g", [-6.0, 0.3, 30.0])
def test_limits_are_expanded_as_their_log_probability(g):
    lower, upper = np.array([[-np.inf, -1.0, 0.1]]), np.array([[0.5, np.inf, 0.4]])
    measured = LimitedMeasurements(np.full((1, 3), np.nan), lower, upper, np.full((1, 3), 2.0))
    variances, h = np.full((1, 3), 0.25), 1e-4

    def cost(off):
        return np.array([
            measured.cost(np.full((1, 1, 3), g) + off * (np.arange(3) == j), variances)[0]
            for j in range(3)
        ])  # fmt: skip

    sf = stats.norm.logcdf([0.5 - g, 1.0 + g])
    inside = np.log(np.diff(stats.norm.cdf([0.1, 0.4], loc=g))[0]) if g < 20 else None
    total = cost(0.0)[0]
    if inside is not None:
        assert total == pytest.approx(-(sf.sum() + inside))
    residual, weight = measured.expansion(np.full((1, 1, 3), g), variances)
    slope = (cost(h) - cost(-h)) / (2 * h)
    bend = (cost(h) - 2.0 * cost(0.0) + cost(-h)) / h**2
    np.testing.assert_allclose(-(weight * residual)[0, 0], slope, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(weight[0, 0], bend, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ({"y_sd": np.ones(30)}, {}, "noise is 'unknown', and record 'record' has y_sd"),
        ({}, {"noise": "y_sd"}, "noise is 'y_sd', and record 'record' has no y_sd"),
        ({}, {"delay": {"u": "tau"}}, "delay of 'u' is 'tau', and a discovery learns no dead time"),
        ({}, {"delay": {"w": 0.3}}, "delay names 'w', which is no input"),
        ({}, {"delay": {"u": -1.0}}, "delay of 'u' is -1"),
        ({}, {"delay": 3.0}, "delay is 3"),
        ({"doses": [smcpn.Dose(1.0, "x", 2.0, lag="l")]}, {}, "a dose has lag 'l'"),
        ({"doses": [smcpn.Dose(1.0, "z", 2.0)]}, {}, "a dose names state 'z'"),
        ({"doses": [smcpn.Dose(1.0, "x", 2.0)]}, {"noise": "relative"}, "has doses"),
        ({"y_lower": np.full(30, np.nan)}, {"noise": "relative"}, "has limits"),
        ({"y_lower": np.full(30, np.nan)}, {"prior": "laplace"}, "draws do not know limits"),
    ],
    ids=str,
)
def test_what_a_discovery_would_pass_over_is_refused(given, options, message):
    record = smcpn.Record(u=np.ones(30), y=np.exp(-0.1 * np.arange(30)), dt=0.1, **given)
    with pytest.raises(InputError, match=message):
        smcpn.discover(record, library="poly(1)", states=["x"], inputs=["u"], **options)
