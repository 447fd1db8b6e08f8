"""Doses against the superposition of their responses, of linear compartments."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn import Dose, InputError
from smcpn.checkpoint.problem import StoredRecord
from tests.executors import UnreliableExecutor

KA, KE, LAG, F = 1.2, 0.3, 0.4, 0.7
pytestmark = pytest.mark.numerics

TIMES = np.array([0, 0.5, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15.0])
DOSES = [
    Dose(0.0, "gut", 100.0, lag="tlag", fraction="F"),
    Dose(3.3, "gut", 50.0, lag="tlag", fraction="F"),
    Dose(6.9, "gut", 70.0, duration=1.0, lag="tlag", fraction="F"),
    Dose(5.0, "central", 20.0),
    Dose(7.1, "central", 30.0, duration=2.5, lag=0.25),
]
NAMES = ("ka", "ke", "tlag", "F", "sigma")
VALUES = np.array([[KA, KE, LAG, F, 0.5]])


@smcpn.ode
def compartments(gut, central, *, ka, ke):
    return -ka * gut, ka * gut - ke * central


@smcpn.ode
def driven(x, u, *, k):
    return u - k * x


def superposed(t):
    """Amount in the central compartment, dose by dose; a sample is taken before a dose."""

    def bolus(s, state):
        s = np.maximum(s, 0.0)
        if state == "central":
            return np.exp(-KE * s) * (s > 0)
        return KA / (KA - KE) * (np.exp(-KE * s) - np.exp(-KA * s))

    def step(s, state):
        s = np.maximum(s, 0.0)
        slow, fast = ((1 - np.exp(-k * s)) / k for k in (KE, KA))
        return slow if state == "central" else KA / (KA - KE) * (slow - fast)

    total = np.zeros(len(t))
    for one in DOSES:
        share = F if one.fraction == "F" else 1.0
        s = t - one.time - (LAG if one.lag == "tlag" else one.lag)
        if one.duration:
            rate = share * one.amount / one.duration
            total += rate * (step(s, one.state) - step(s - one.duration, one.state))
        else:
            total += share * one.amount * bolus(s, one.state)
    return total


def record(**changes):
    y = superposed(TIMES) + 0.5 * np.random.default_rng(0).normal(size=len(TIMES))
    return smcpn.Record(**{"t": TIMES, "y": y, "doses": DOSES} | changes)


def problem(**changes):
    prior = {
        "ka": stats.lognorm(1), "ke": stats.lognorm(1), "tlag": stats.uniform(0, 1),
        "F": stats.uniform(0.1, 0.9), "sigma": stats.lognorm(1),
    }  # fmt: skip
    given = {"observe": "central", "noise": "sigma", "prior": prior}
    return smcpn.Problem(compartments, record(), **given | changes)


def exact():
    return stats.norm(superposed(TIMES), 0.5).logpdf(record().y[:, 0]).sum()


SOLVERS = [
    (smcpn.RK4(steps=64), "classical", 1e-6),
    (smcpn.EKF0(order=4, steps=64), "marginal", 1e-6),
    (smcpn.EKF0(order=4, steps=64, diffusion=1e-3), "filtering", 1e-6),
    (smcpn.EKF1(order=4, steps=32, diffusion=1e-3), "dalton", 1e-6),
    (smcpn.Rosenbrock(tolerance=1e-9), "rosenbrock", 1e-6),
    (smcpn.AdaptiveEKF1(order=4, tolerance=1e-8), "adaptive", 1e-6),
]


@pytest.mark.parametrize(("solver", "likelihood", "tolerance"), SOLVERS)
def test_every_likelihood_is_that_of_the_superposition(solver, likelihood, tolerance):
    found = smcpn.LogLikelihood(problem(), likelihood, solver)(VALUES)[0]
    assert found == pytest.approx(exact(), abs=tolerance)


@pytest.mark.parametrize(
    ("kind", "factor"), [(lambda n: smcpn.RK4(steps=n), 14), (lambda n: smcpn.EKF0(3, n), 7)]
)
def test_the_order_of_convergence_stays(kind, factor):
    errors = [
        smcpn.LogLikelihood(problem(), solver=kind(n))(VALUES)[0] - exact() for n in (16, 32, 64)
    ]
    assert abs(errors[0]) > factor * abs(errors[1]) > factor**2 * abs(errors[2])


def test_gradients_are_those_of_differences_by_lag_and_fraction_too():
    likelihood = smcpn.LogLikelihood(problem(), solver=smcpn.RK4(steps=8))
    _, gradient = likelihood.value_and_gradient(VALUES)
    shift = 1e-5 * np.eye(5)
    ends = likelihood(VALUES + shift), likelihood(VALUES - shift)
    np.testing.assert_allclose(gradient[0], (ends[0] - ends[1]) / 2e-5, rtol=1e-5)


INPUTS = {
    "foh": {"t": np.array([0.0, 1.0, 2.5, 3.0])},
    "zoh": {"t": np.array([0.0, 1.0, 2.5, 3.0]), "hold": "zoh"},
    "bandlimited": {"dt": 0.25, "hold": "bandlimited"},
    "periods": {"dt": 0.25, "hold": "bandlimited", "periodic": True},
    "periodic": {"dt": 0.25, "periodic": True},
    "function": {"t": np.linspace(0.0, 3.0, 7), "u": lambda t: np.sin(4.0 * t)},
}


@pytest.mark.parametrize("kind", INPUTS)
def test_an_input_goes_on_between_samples_beside_a_dose_with_a_lag(kind):
    u = np.array([0.0, 1.0, -1.0, 2.0]) if "t" in INPUTS[kind] else np.cos(np.arange(12.0))
    doses = [Dose(0.7, "x", 2.0, lag="lag"), Dose(0.8, "x", 1.0, duration=0.5)]
    plain = smcpn.Record(**{"u": u, **INPUTS[kind]})
    dosed, t = smcpn.Record(**{"u": u, **INPUTS[kind]}, doses=doses), plain.t

    def run(one, **more):
        return smcpn.simulate(driven, one, {"k": 0.5, **more}, observe="x", steps=64)[:, 0]

    for lag in (0.1, 0.35, 1.5):
        s, inside = t - 0.7 - lag, np.clip(t - 0.8, 0, 0.5)
        response = 2.0 * np.exp(-0.5 * s) * (s > 0)
        after = np.maximum(t - 1.3, 0.0)
        response += (1 - np.exp(-0.5 * inside)) / 0.5 / 0.5 * np.exp(-0.5 * after)
        np.testing.assert_allclose(run(dosed, lag=lag) - run(plain), response, atol=1e-8)
        whole, (dose, _) = run(dosed, lag=lag), doses
        known = smcpn.Record(**{"u": u, **INPUTS[kind]}, doses=[replace(dose, lag=lag), doses[1]])
        np.testing.assert_allclose(run(known), whole, atol=1e-9)


@pytest.mark.parametrize(
    "solver", [smcpn.RK4(32), pytest.param(smcpn.Rosenbrock(1e-10), marks=pytest.mark.nightly)]
)
def test_a_band_limited_input_beside_doses_is_that_of_the_whole_record(solver):
    """Its Fourier series is a cosine here, whose response is known."""
    n, at, k, lag = 12, 0.9, 0.5, 0.17
    t, w = 0.25 * np.arange(n), 2.0 * np.pi / (0.25 * n)
    response = (k * np.cos(w * t) + w * np.sin(w * t) - k * np.exp(-k * t)) / (k**2 + w**2)
    response += 2.0 * np.exp(-k * (t - at - lag)) * (t > at + lag)
    given = smcpn.Record(
        u=np.cos(w * t), y=response, dt=0.25, hold="bandlimited", periodic=True,
        doses=[Dose(at, "x", 2.0, lag="lag")],
    )  # fmt: skip
    prior = {"k": stats.norm(k, 1.0), "lag": stats.uniform(0.0, 0.5)}
    posed = smcpn.Problem(driven, given, observe="x", noise=1e-3, prior=prior)
    found = smcpn.LogLikelihood(posed, solver=solver)(np.array([[k, lag]]))[0]
    assert found == pytest.approx(n * stats.norm.logpdf(0.0, 0.0, 1e-3), abs=1e-6)
    read = StoredRecord.of(posed.records[0]).restored()
    np.testing.assert_array_equal(read.u, posed.records[0].u)
    between = np.linspace(0.0, t[-1], 50)
    assert read.u_function is not None
    np.testing.assert_array_equal(read.u_function(between), posed.records[0].u_function(between))
    with pytest.raises(InputError, match="the lag of a dose is learned takes no"):
        smcpn.Online(posed)


def test_a_part_of_a_record_on_a_grid_has_the_samples_of_the_whole():
    """Times of a part begin anew, and are those of the whole but for rounding."""
    whole = smcpn.Record(u=np.ones(14), dt=0.2, hold="zoh", doses=[Dose(1.03, "x", 1.0)])
    found = smcpn.simulate(driven, whole[5:], {"k": 0.5}, observe="x", steps=32)[:, 0]
    s = 0.2 * np.arange(9)
    exact = 2.0 * (1.0 - np.exp(-0.5 * s)) + np.exp(-0.5 * (s - 0.03)) * (s > 0.03)
    np.testing.assert_allclose(found, exact, atol=1e-9)


def test_a_sample_is_taken_before_the_dose_of_its_time():
    @smcpn.ode
    def still(x, *, k):
        return 0.0 * k * x

    for dose_time in (1.0, 1.0 + 1e-13):
        doses = [Dose(0.0, "x", 1.0), Dose(dose_time, "x", 1.0)]
        dosed = smcpn.Record(t=[0.0, 1.0, 2.0], doses=doses)
        found = smcpn.simulate(still, dosed, {"k": 1.0}, observe="x", initial=[5.0])
        np.testing.assert_allclose(found[:, 0], [5.0, 6.0, 7.0], rtol=1e-15)


def test_a_part_of_a_record_goes_on_from_what_came_before():
    whole = problem()
    posterior = smcpn.identify(whole, particles=50, seed=1, method="tempering", progress=False)
    simulated = posterior.simulate(record()).mean
    assert len(simulated) == len(TIMES)
    np.testing.assert_array_equal(posterior.simulate(record()[4:]).mean, simulated[4:])
    # An initial state is that of the sample, with all that has arrived before it.
    later = smcpn.Problem(
        compartments, smcpn.Record(t=TIMES, y=record().y, doses=DOSES[3:])[8:],
        observe="central", noise=0.5, initial=[0.0, 50.0],
        prior={"ka": stats.lognorm(1), "ke": stats.lognorm(1)},
    )  # fmt: skip
    values = smcpn.LogLikelihood(later, solver=smcpn.RK4(steps=64))(VALUES[:, :2])[0]
    y, left = record().y[8:, 0], 9.85 - 8.0
    t = TIMES[8:] - 8.0
    here = 50.0 * np.exp(-KE * t)
    rising = 12.0 / KE * (1 - np.exp(-KE * np.minimum(t, left)))
    here += rising * np.exp(-KE * np.maximum(t - left, 0.0))
    assert values == pytest.approx(stats.norm(here, 0.5).logpdf(y).sum(), abs=1e-6)


def test_states_with_process_noise_are_whole_ones():
    tight = {n: stats.norm(v, 1e-6 * v) for n, v in zip(NAMES, VALUES[0], strict=True)}
    tight["tlag"] = stats.uniform(LAG - 1e-7, 2e-7)
    noisy = problem(prior=tight, process_noise={"gut": 1e-4, "central": 1e-4})
    solver = smcpn.RK4(steps=16)
    posterior = smcpn.identify(
        noisy, particles=50, seed=1, method="tempering", likelihood="kalman", solver=solver,
        progress=False,
    )  # fmt: skip
    found = posterior.states(record(), draws=2)
    at = np.isin(found.record.t, TIMES)
    np.testing.assert_allclose(found.filtered_mean[at, 1], superposed(TIMES), atol=0.02)
    np.testing.assert_allclose(found.mean[at, 1], superposed(TIMES), atol=0.02)


def test_a_run_that_is_resumed_or_shared_has_the_same_bytes(tmp_path):
    options = {"particles": 60, "seed": 3, "method": "tempering", "progress": False}
    solver = smcpn.RK4(steps=4)
    alone = smcpn.identify(problem(), solver=solver, checkpoint=tmp_path / "run.h5", **options)
    again = smcpn.resume(tmp_path / "run.h5")
    with UnreliableExecutor() as executor:
        shared = smcpn.identify(problem(), solver=solver, executor=executor, **options)
    for other in (again, shared):
        assert other.log_evidence == alone.log_evidence
        np.testing.assert_array_equal(other.theta, alone.theta)


@pytest.mark.parametrize(
    ("dose", "sentence"),
    [
        ({"time": 99.0, "state": "gut", "amount": 1.0}, "reaches from 0 to 15"),
        ({"time": 1.0, "state": "liver", "amount": 1.0}, "names state 'liver'"),
        ({"time": 1.0, "state": "gut", "amount": np.nan}, "amount is nan"),
        ({"time": 1.0, "state": "gut", "amount": 1.0, "duration": -1.0}, "duration is -1"),
        ({"time": 1.0, "state": "gut", "amount": 1.0, "lag": "when"}, "lag of a dose is 'when'"),
        ({"time": 1.0, "state": "gut", "amount": 1.0, "lag": "ka"}, "reaches from 0 to inf"),
        ({"time": 1.0, "state": "gut"}, "a dose is"),
        ({"time": 1.0, "state": "gut", "amount": 1.0, "fraction": "50%"}, "fraction is '50%'"),
        ({"time": 1.0, "state": "gut", "amount": 1e300, "duration": 1e-10}, "beyond all numbers"),
    ],
)
def test_what_is_no_dose_is_refused_in_a_sentence(dose, sentence):
    with pytest.raises(InputError, match=sentence):
        smcpn.Problem(
            compartments, record(doses=[dose]), observe="central", noise=0.5,
            prior={"ka": stats.lognorm(1), "ke": stats.lognorm(1)},
        )  # fmt: skip
