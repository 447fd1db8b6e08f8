"""Dead times with what else a model may have, against plain computations of the moved input."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise, product

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import smcpn
from smcpn import EKF0, EKF1, RK4, AdaptiveEKF1, InputError, Rosenbrock
from smcpn.likelihood.gradient import LogLikelihood
from smcpn.likelihood.growing import growing_likelihood
from smcpn.likelihood.history import History
from smcpn.likelihood.particle.stream import stream_estimate
from smcpn.likelihood.registry import build_estimate, build_likelihood
from smcpn.model.signal import sinc_taps
from tests.reference.kalman import Disturbed, extended_kalman

N, DT, NOISE = 20, 0.1, 0.2
VALUES = {"a": 0.7, "q": 0.4}
PRIOR = {name: stats.lognorm(0.5) for name in VALUES}
RNG = np.random.default_rng(0)
U = RNG.normal(size=N)
TIMES = {"even": DT * np.arange(N), "uneven": DT * np.cumsum(RNG.uniform(0.3, 2.5, N))}


@smcpn.ode
def spiking(x, w, u, *, a, q):
    """FitzHugh and Nagumo."""
    return x - x**3 / 3 - w + u, a * (x + 0.7 - 0.8 * w)


@smcpn.ode
def driven(x, v, u, *, a, q):
    """Damped oscillator."""
    return v, u - a * v - 2.0 * x


@smcpn.sde
def shaken(x, v, u, *, a, q):
    """Damped oscillator, shaken where it is displaced."""
    return (v, u - a * v - 2.0 * x), (0.0, q * (1.0 + x**2))


def record(hold="foh", when="even", u=U, y=None):
    t = TIMES[when]
    times = {"dt": DT} if when == "even" and not callable(u) else {"t": t}
    y = np.random.default_rng(1).normal(size=(N, 1)) if y is None else y
    return smcpn.Record(u=u, y=y, hold=hold, **times)


def moved(one, tau):
    """The input as a function of time, ``tau`` later."""
    t, u = one.t, one.u[:, 0]

    def value(s):
        s = s - tau
        if one.u_function is not None:
            return one.u_function(np.array([s]))
        if one.hold == "foh":
            return np.array([np.interp(s, t, u)])
        if one.hold == "zoh":
            return u[[max(np.searchsorted(t, s, side="right") - 1, 0)]]
        k = int(np.floor(s / DT))
        near = np.clip(np.arange(k - 63, k + 65), 0, N - 1)
        return np.array([sinc_taps(s / DT - k) @ u[near]])

    return value


@lru_cache
def plain_solution(signal, tau):
    """State x of the model at the samples by SciPy, from one kink of the input to the next."""
    one = record(*SIGNALS[signal])
    smooth = one.u_function is not None or one.hold == "bandlimited"
    kinks = one.t if smooth else np.concatenate([one.t, one.t + tau])
    events = np.unique(kinks.round(12))
    events, u = events[events <= one.t[-1] + 1e-9], moved(one, tau)
    state, states = np.array([0.0, 0.0]), [0.0]
    for a, b in pairwise(events):

        def rate(s, x, a=a, b=b):
            force = u(np.clip(s, a + 1e-11, b - 1e-11))[0]
            return [x[0] - x[0] ** 3 / 3 - x[1] + force, 0.7 * (x[0] + 0.7 - 0.8 * x[1])]

        state = solve_ivp(rate, (a, b), state, "DOP853", rtol=1e-8, atol=1e-9).y[:, -1]
        if np.abs(one.t - b).min() < 1e-9:
            states.append(state[0])
    return np.array(states)


SIGNALS = {
    "held, uneven": ("zoh", "uneven", U),
    "linear, uneven": ("foh", "uneven", U),
    "band-limited": ("bandlimited", "even", U),
    "function": ("zoh", "even", np.sin),
    "function, uneven": ("zoh", "uneven", np.sin),
}


@pytest.mark.parametrize("signal", SIGNALS)
def test_a_delayed_input_is_the_moved_one(signal):
    hold, when, u = SIGNALS[signal]
    one = record(hold, when, u)
    for tau in (0.137, 0.5):
        found = smcpn.simulate(spiking, one, VALUES, observe="x", delay={"u": tau}, steps=8)
        np.testing.assert_allclose(found[:, 0], plain_solution(signal, tau), atol=1e-6)


SURE = {"order": 3, "steps": 12, "diffusion": 1e-3}
SOLVERS = {
    "classical": RK4(8), "marginal": EKF0(order=3, steps=12), "filtering": EKF1(**SURE),
    "dalton": EKF1(**SURE), "fenrir": EKF1(**SURE), "adaptive": AdaptiveEKF1(tolerance=1e-6),
    "rosenbrock": Rosenbrock(tolerance=1e-8),
}  # fmt: skip


def learned(one, delay="tau", **prior):
    prior = {"a": PRIOR["a"], "q": 1.0} | prior
    return smcpn.Problem(spiking, one, observe="x", noise=NOISE, delay={"u": delay}, prior=prior)


OFTEN = {
    ("filtering", "linear, uneven"), ("rosenbrock", "band-limited"), ("rosenbrock", "held, uneven"),
    *product(("classical", "marginal"), SIGNALS),
}  # fmt: skip


@pytest.mark.parametrize(
    ("likelihood", "signal"),
    [
        pytest.param(*pair, marks=[] if pair in OFTEN else pytest.mark.nightly)
        for pair in product(SOLVERS, SIGNALS)
    ],
)
def test_a_learned_dead_time_has_the_likelihood_of_the_moved_input(likelihood, signal):
    one, solver = record(*SIGNALS[signal]), SOLVERS[likelihood]
    taus = np.array([0.0, 0.137, 0.5])
    values = np.column_stack([np.full(3, VALUES["a"]), taus])
    problem = learned(one, tau=stats.uniform(0, 0.5))
    found = build_likelihood(problem, solver, 1, likelihood).evaluate(values, N)[1]
    outputs = [plain_solution(signal, tau) for tau in taus]
    expected = [stats.norm.logpdf(one.y[:, 0], x, NOISE).sum() for x in outputs]
    np.testing.assert_allclose(found, expected, atol=2e-3 if solver.probabilistic else 1e-4)


@pytest.mark.parametrize(
    "likelihood",
    [
        pytest.param(one, marks=[] if one in ("filtering", "rosenbrock") else pytest.mark.nightly)
        for one in SOLVERS
    ],
)
def test_no_dead_time_is_the_likelihood_without_and_its_gradient_is_that_of_differences(likelihood):
    one, solver = record(), SOLVERS[likelihood]
    plain = smcpn.Problem(spiking, one, observe="x", noise=NOISE, prior={"a": PRIOR["a"], "q": 1.0})
    function = LogLikelihood(
        learned(one, tau=stats.uniform(0, 0.5)), solver=solver, likelihood=likelihood
    )
    expected = build_likelihood(plain, solver, 1, likelihood).evaluate(np.array([[0.7]]), N)[1]
    values = np.array([[0.7, tau] for tau in (0.0, 0.137, 0.45)])
    _, slopes = function.value_and_gradient(values)
    np.testing.assert_allclose(function(values[:1]), expected, atol=1e-4)
    step = np.array([0.0, 1e-6])
    differences = (function(values[1:] + step) - function(values[1:] - step)) / 2e-6
    # Steps that particles choose are given numbers of a gradient.
    tolerance = 1e-3 if solver.adaptive else 1e-6
    np.testing.assert_allclose(slopes[1:, 1], differences, rtol=tolerance, atol=tolerance)


def disturbed(one, tau=None, **changes):
    given = {"delay": {"u": "tau"}} if tau is None else {"delay": {"u": tau}}
    prior = PRIOR | ({"tau": stats.uniform(0, 0.5)} if tau is None else {})
    given |= {"noise": NOISE, "process_noise": {"v": "q"}, "prior": prior, "observe": "x"}
    return smcpn.Problem(driven, one, **(given | changes))


def textbook(one, tau, steps):
    """The linear model by an extended Kalman filter in numpy, with the moved input."""
    u, t, n = moved(one, tau), one.t, 2
    slope, spread = np.array([[0.0, 1.0], [-2.0, -VALUES["a"]]]), np.diag([0.0, VALUES["q"] ** 2])

    def covariance(x, force, at, h):
        power = expm(np.block([[-slope, spread], [np.zeros((n, n)), slope.T]]) * h)
        return power[n:, n:].T @ power[:n, n:]

    system = Disturbed(
        lambda x, force, at: slope @ x + np.array([0.0, force[0]]),
        lambda x, force, at: x[:1],
        covariance,
        np.array([NOISE**2]),
        np.zeros(n),
    )

    def inputs(k, share):
        inside = 1e-9 * (1.0 - 2.0 * share)
        return u(t[k] + share * (t[k + 1] - t[k]) + inside)

    return extended_kalman(system, t, one.y, inputs, steps)


@pytest.mark.parametrize("solver", [RK4(4), EKF0(order=1, steps=4)])
@pytest.mark.parametrize("likelihood", ["kalman", "kalman-iterated"])
def test_whole_samples_move_the_input_of_a_disturbed_model(solver, likelihood):
    one = record()
    u = np.concatenate([np.full(2, U[0]), U[:-2]])
    plain = smcpn.Problem(
        driven, record(u=u), observe="x", noise=NOISE, process_noise={"v": "q"}, prior=PRIOR
    )
    values = np.array([[0.7, 0.4], [0.9, 0.2]])
    found = build_likelihood(disturbed(one, 2 * DT), solver, 1, likelihood).evaluate(values, N)[1]
    expected = build_likelihood(plain, solver, 1, likelihood).evaluate(values, N)[1]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("signal", ["linear", *SIGNALS])
def test_the_kalman_filter_of_a_delayed_input_is_that_of_a_textbook(signal):
    one = record(*SIGNALS.get(signal, ("foh",)))
    # Jumps and bends at whole steps of the filter in numpy.
    tau = 0.14 if one.uniform else 0.0
    found = build_likelihood(disturbed(one), RK4(8), 1, "kalman")
    values = np.array([[*VALUES.values(), tau]])
    increments = found.advance(values, found.start(values), 0, N)[1][:, 0]
    expected = textbook(one, tau, 50).increments
    np.testing.assert_allclose(increments, expected, atol=1e-6)


def test_filters_that_look_ahead_are_exact_for_a_linear_model():
    problem = disturbed(record())
    values = np.array([[*VALUES.values(), tau] for tau in (0.0, 0.137, 0.5)])
    kalman = build_likelihood(problem, RK4(2), 1, "kalman").evaluate(values, N)[1]
    filters = build_estimate(problem, RK4(2), 1, "particle").with_state_particles(32)
    keys = np.arange(3, dtype=np.uint64)[:, None]
    np.testing.assert_allclose(filters.evaluate(values, N, keys)[1], kalman, rtol=1e-9)


@pytest.mark.parametrize("signal", ["linear", "band-limited"])
def test_a_stream_has_the_increments_of_the_record(signal):
    one = record(*SIGNALS.get(signal, ("foh",)))
    keys = np.arange(2, dtype=np.uint64)[:, None]
    for likelihood in ("kalman", "particle-bootstrap", "filtering", "rosenbrock"):
        problem, solver = disturbed(one), SOLVERS.get(likelihood, RK4(2))
        values = np.array([[*VALUES.values(), tau] for tau in (0.0, 0.137)])
        if likelihood in SOLVERS:
            problem, values = learned(one, tau=stats.uniform(0, 0.5)), values[:, [0, 2]]
        make, build = growing_likelihood, build_likelihood
        if likelihood == "particle-bootstrap":
            make, build = stream_estimate, build_estimate
        record_of, history = build(problem, solver, 1, likelihood), History(1, 1, intervals=8)
        stream = make(problem, solver, history, threads=1, likelihood=likelihood)
        for a in range(0, N, 3):
            stream.stream.append(one.t[a : a + 3], one.u[a : a + 3], one.y[a : a + 3])
        stream.stream.finish()
        expected, found = (
            each.advance(values, each.start(values), 0, N, keys)[1] for each in (record_of, stream)
        )
        np.testing.assert_array_equal(found, expected)


def test_noise_that_depends_on_the_state_takes_the_moved_input():
    """Whole samples, against the moved input without delay: the same steps and normals."""
    moved_u, found = np.concatenate([np.full(2, U[0]), U[: N - 2]]), []
    for u, delay in ((U, 2 * DT), (moved_u, 0.0)):
        problem = smcpn.Problem(
            shaken, record(u=u), observe="x", noise=NOISE, delay={"u": delay}, prior=PRIOR
        )
        filters = build_estimate(problem, RK4(2), 1, "particle").with_state_particles(32)
        values, keys = np.array([[0.7, 0.4]]), np.ones((1, 1), dtype=np.uint64)
        found.append(filters.evaluate(values, N, keys)[1])
    np.testing.assert_allclose(*found, rtol=1e-8)


def test_doses_beside_a_delayed_input():
    """Whole samples, against the moved input; a lag that is a parameter is refused."""
    moved_u, found = np.concatenate([np.full(2, U[0]), U[: N - 2]]), []
    for u, given in ((U, {"delay": {"u": 2 * DT}}), (moved_u, {})):
        dose = smcpn.Dose(0.73, "x", 0.5)
        one = smcpn.Record(u=u, y=np.zeros(N), dt=DT, hold="foh", doses=[dose])
        plain = {"observe": "x", "noise": NOISE, "prior": {"a": PRIOR["a"], "q": 1.0}}
        problem = smcpn.Problem(driven, one, **plain, **given)
        found.append(build_likelihood(problem, RK4(8)).evaluate(np.array([[0.7]]), N)[1])
    np.testing.assert_allclose(*found, rtol=1e-6)
    late = smcpn.Dose(0.73, "x", 0.5, lag="late")
    plain["prior"] |= {"late": stats.uniform(0, 0.1)}
    one = smcpn.Record(u=U, y=np.zeros(N), dt=DT, hold="foh", doses=[late])
    with pytest.raises(InputError, match="lag of doses"):
        smcpn.Problem(driven, one, **plain, delay={"u": 0.1})


def test_paths_states_and_predictions_are_those_of_the_moved_input():
    moved_u, found = np.concatenate([np.full(2, U[0]), U[: N - 2]]), []
    for u, delay in ((U, 2 * DT), (moved_u, 0.0)):
        problem = disturbed(record(u=u), delay)
        posterior = smcpn.identify(problem, solver=RK4(2), particles=100, seed=1, progress=False)
        one = problem.records[0]
        states = posterior.states(draws=2, parameters=4)
        ahead = posterior.predict(one, horizon=3)
        free = posterior.simulate(one, steps=2)
        path = smcpn.simulate(
            driven, one, VALUES, observe="x", delay={"u": delay}, process_noise={"v": "q"}, seed=1
        )
        found.append(
            [states.mean, states.draws, ahead.mean, free.mean, free.process_variance, path]
        )
    for late, plain in zip(*found, strict=True):
        np.testing.assert_allclose(late, plain, atol=1e-7)
