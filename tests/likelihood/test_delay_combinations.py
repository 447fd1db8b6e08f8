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
from smcpn import EKF0, EKF1, RK4, AdaptiveEKF1, Rosenbrock
from smcpn.likelihood.gradient import LogLikelihood
from smcpn.likelihood.growing import growing_likelihood
from smcpn.likelihood.history import History
from smcpn.likelihood.particle.stream import stream_estimate
from smcpn.likelihood.registry import build_estimate, build_likelihood
from smcpn.model.signal import sinc_taps
from smcpn.results.simulation.closed_loop import predict_particles
from smcpn.results.simulation.simulation import simulate_particles
from tests.nightly import nightly_but
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


def record(hold="foh", when="even", u=U, y=None, doses=()):
    t = TIMES[when]
    times = {"dt": DT} if when == "even" and not callable(u) else {"t": t}
    y = np.random.default_rng(1).normal(size=(N, 1)) if y is None else y
    return smcpn.Record(u=u, y=y, hold=hold, doses=list(doses), **times)


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
def plain_solution(signal, tau, doses=()):
    """State x of the model at the samples by SciPy, from one kink of the input to the next.

    Doses are pairs of a time of arrival and an amount that enters x.
    """
    one = record(*SIGNALS[signal])
    smooth = one.u_function is not None or one.hold == "bandlimited"
    kinks = one.t if smooth else np.concatenate([one.t, one.t + tau])
    kinks, given = np.append(kinks, [at for at, _ in doses]), dict(doses)
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
        state = np.add(state, [given.get(b, 0.0), 0.0])
    return np.array(states)


WALL, LEVEL = -0.4, 0.3
STIFF = Rosenbrock(tolerance=1e-9)


@smcpn.ode(
    events=[
        smcpn.event(
            when=lambda x: x - WALL, then=lambda v, *, q: {"v": -q * v}, direction="falling"
        ),
        smcpn.event(when=lambda u: u - LEVEL, then=lambda on: {"on": 1.0 - on}),
    ]
)
def switched(x, v, on, u, *, a, q):
    """Oscillator beside a wall, whose damping an input switches that crosses a level."""
    return v, u - a * (1.0 + on) * v - 2.0 * x, 0.0


def solution_with_events(one, tau, a, q):
    """States of `switched` at the samples by SciPy, from kink to kink and event to event."""
    u, kinks = moved(one, tau), np.unique(np.concatenate([one.t, one.t + tau]).round(12))
    kinks = kinks[kinks <= one.t[-1] + 1e-9]
    state, states = np.zeros(3), [np.zeros(3)]
    side = np.sign(u(kinks[0] + 1e-11)[0] - LEVEL)
    for begin, end in pairwise(kinks):
        inside = lambda s, b=begin, e=end: u(np.clip(s, b + 1e-11, e - 1e-11))[0]  # noqa: E731
        now = begin
        if np.sign(inside(now) - LEVEL) == -side:
            state, side = state * [1, 1, -1] + [0, 0, 1], -side
        while True:

            def rate(s, x, inside=inside):
                return [x[1], inside(s) - a * (1 + x[2]) * x[1] - 2 * x[0], 0.0]

            wall = lambda s, x: x[0] - WALL  # noqa: E731
            level = lambda s, x, inside=inside: inside(s) - LEVEL  # noqa: E731
            wall.terminal = level.terminal = True
            wall.direction, level.direction = -1, -side
            found = solve_ivp(
                rate, (now, end), state, "DOP853", rtol=1e-10, atol=1e-10, events=[wall, level],
                max_step=0.02,
            )  # fmt: skip
            now, state = found.t[-1], found.y[:, -1]
            if found.status == 0:
                break
            if found.t_events[0].size:
                state = state * [1, -q, 1]
            else:
                state, side = state * [1, 1, -1] + [0, 0, 1], -side
        if np.abs(one.t - end).min() < 1e-9:
            states.append(state)
    return np.array(states)


@pytest.mark.parametrize(
    ("signal", "solver"),
    nightly_but(
        ((("zoh", "even"), STIFF), (("foh", "uneven"), RK4(64))),
        product((("zoh", "even"), ("foh", "even"), ("foh", "uneven")), (STIFF, RK4(64))),
    ),
)
def test_events_of_a_model_with_a_delayed_input(signal, solver):
    one = record(*signal, y=np.random.default_rng(1).normal(size=(N, 2)))
    prior = PRIOR | {"tau": stats.uniform(0, 0.5)}
    problem = smcpn.Problem(
        switched, one, observe=["x", "on"], noise=NOISE, delay={"u": "tau"}, prior=prior
    )
    taus = np.array([0.0, 0.1, 0.137, 0.3, 0.5])
    values = np.array([[0.7, 0.8, tau] for tau in taus])
    found = build_likelihood(problem, solver, 1).evaluate(values, N)[1]
    outputs = [solution_with_events(one, tau, 0.7, 0.8)[:, [0, 2]] for tau in taus]
    assert len({tuple(each[:, 1]) for each in outputs}) > 1
    expected = [stats.norm.logpdf(one.y, each, NOISE).sum() for each in outputs]
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize(
    "solver", [pytest.param(Rosenbrock(tolerance=1e-9), marks=pytest.mark.nightly), RK4(16)]
)
def test_events_move_with_the_dead_time_and_streams_know_them(solver):
    one = record()
    prior = PRIOR | {"tau": stats.uniform(0, 0.5)}
    problem = smcpn.Problem(
        switched, one, observe="x", noise=NOISE, delay={"u": "tau"}, prior=prior
    )
    function, values = LogLikelihood(problem, solver=solver), np.array([[0.7, 0.8, 0.137]])
    _, slopes = function.value_and_gradient(values)
    for k, step in enumerate(1e-5 * np.eye(3)):
        difference = (function(values + step) - function(values - step)) / 2e-5
        np.testing.assert_allclose(slopes[0, k], difference[0], rtol=1e-3)
    stream = growing_likelihood(problem, solver, History(1, 1), threads=1)
    stream.stream.append(one.t, one.u, one.y)
    found = stream.advance(values, stream.start(values), 0, N)[1]
    whole = build_likelihood(problem, solver, 1)
    expected = whole.advance(values, whole.start(values), 0, N)[1]
    np.testing.assert_array_equal(found, expected)


@smcpn.ode(events=[smcpn.event(when=lambda u, w: u - w - 0.05, then=lambda on: {"on": on + 1.0})])
def compared(x, on, u, w, *, a):
    return u - w - a * x, 0.0


@pytest.mark.parametrize("late", [{"u": 2 * DT}, {"u": 0.23 + 1e-12, "w": 0.03}])
def test_inputs_that_jump_together_call_no_event_by_what_is_between(late):
    arrived = np.concatenate([np.full(2, U[0]), U[:-2]])
    one = smcpn.Record(u=np.column_stack([U, arrived]), dt=DT, hold="zoh")
    assert not smcpn.simulate(compared, one, {"a": 1.0}, observe="on", delay=late).any()


@pytest.mark.parametrize("hold", ["zoh", "foh"])
def test_outputs_that_an_input_moves_see_it_delayed(hold):
    one = record(hold, "uneven")
    observe = ["x", "v", "v'"]
    x, v, rate = smcpn.simulate(driven, one, VALUES, observe=observe, delay={"u": 0.137}).T
    expected = [moved(one, 0.137)(t)[0] for t in one.t]
    np.testing.assert_allclose(rate + 0.7 * v + 2.0 * x, expected, atol=1e-12)


@smcpn.ode(algebraic=["z"])
def limited(x, z, u, *, a, q):
    """Flow through a resistance that grows with it, z + q z^3 = u - x, into a store."""
    return a * z, u - x - z - q * z**3


def flow(difference, q):
    """Solution of the cubic equation."""
    root = np.sqrt(3 * q)
    return 2 / root * np.sinh(np.arcsinh(1.5 * root * difference) / 3)


def solution_with_flow(one, tau, a, q, doses=()):
    """States of `limited` at the samples by SciPy, from one kink of the input to the next."""
    u, given = moved(one, tau), dict(doses)
    kinks = np.unique(np.concatenate([one.t, one.t + tau, [*given]]).round(12))
    kinks, x, states = kinks[kinks <= one.t[-1] + 1e-9], 0.0, []
    for begin, end in pairwise([kinks[0], *kinks]):
        # A held input has the value of the sample that arrives just then.
        inside = lambda s, b=begin, e=end: u(np.clip(s, b + 1e-11, e - 1e-11))[0]  # noqa: E731
        if end > begin:
            rate = lambda s, x, inside=inside: a * flow(inside(s) - x, q)  # noqa: E731
            x = solve_ivp(rate, (begin, end), [x], "DOP853", rtol=1e-10, atol=1e-10).y[0, -1]
        x += given.get(end, 0.0)
        if np.abs(one.t - end).min() < 1e-9:
            states.append([x, flow(u(end + 1e-11)[0] - x, q)])
    return np.array(states)


@pytest.mark.parametrize(
    ("signal", "amount"),
    nightly_but(
        ((("foh", "uneven"), 0.5),),
        product((("zoh", "even"), ("foh", "even"), ("foh", "uneven")), (0.0, 0.5)),
    ),
)
def test_algebraic_equations_under_a_delayed_input_and_doses(signal, amount):
    doses = [(0.73, amount), (1.11, amount)] if amount else []
    given = [smcpn.Dose(time, "x", size) for time, size in doses]
    one = record(*signal, y=np.random.default_rng(1).normal(size=(N, 2)), doses=given)
    prior = PRIOR | {"tau": stats.uniform(0, 0.5)}
    problem = smcpn.Problem(
        limited, one, observe=["x", "z"], noise=NOISE, delay={"u": "tau"}, prior=prior
    )
    taus = np.array([0.0, 0.1, 0.137, 0.3, 0.5])
    values = np.array([[2.0, 0.8, tau] for tau in taus])
    likelihood = build_likelihood(problem, Rosenbrock(tolerance=1e-9), 1)
    found = likelihood.evaluate(values, likelihood.n_samples)[1]
    outputs = [solution_with_flow(one, tau, 2.0, 0.8, doses) for tau in taus]
    expected = [stats.norm.logpdf(one.y, each, NOISE).sum() for each in outputs]
    np.testing.assert_allclose(found, expected, atol=1e-4)


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


@pytest.mark.parametrize(("likelihood", "signal"), nightly_but(OFTEN, product(SOLVERS, SIGNALS)))
def test_a_learned_dead_time_has_the_likelihood_of_the_moved_input(likelihood, signal):
    one, solver = record(*SIGNALS[signal]), SOLVERS[likelihood]
    taus = np.array([0.0, 0.137, 0.5])
    values = np.column_stack([np.full(3, VALUES["a"]), taus])
    problem = learned(one, tau=stats.uniform(0, 0.5))
    found = build_likelihood(problem, solver, 1, likelihood).evaluate(values, N)[1]
    outputs = [plain_solution(signal, tau) for tau in taus]
    expected = [stats.norm.logpdf(one.y[:, 0], x, NOISE).sum() for x in outputs]
    np.testing.assert_allclose(found, expected, atol=2e-3 if solver.probabilistic else 1e-4)


@pytest.mark.parametrize("likelihood", nightly_but(("filtering", "rosenbrock"), SOLVERS))
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


@pytest.mark.parametrize(
    "signal", nightly_but(("linear", "band-limited", "function, uneven"), ("linear", *SIGNALS))
)
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


@pytest.mark.parametrize(
    "signal", ["linear", pytest.param("band-limited", marks=pytest.mark.nightly)]
)
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


@pytest.mark.parametrize("signal", ["linear, uneven", "held, uneven"])
def test_a_stream_at_uneven_times_has_the_likelihood_of_the_moved_input(signal):
    """Of other intervals than its own, as long as they are within those of the problem's record."""
    one, times = record(*SIGNALS[signal]), np.cumsum([0.0, *np.tile([0.03, 0.25], 10)])
    like = smcpn.Record(u=np.zeros(21), y=np.zeros(21), t=times, hold=one.hold)
    problem = learned(like, tau=stats.uniform(0, 0.5))
    stream = growing_likelihood(problem, RK4(8), History(1, 1), threads=1)
    stream.stream.append(one.t, one.u, one.y)
    taus = np.array([0.0, 0.137, 0.5])
    values = np.column_stack([np.full(3, VALUES["a"]), taus])
    found = stream.advance(values, stream.start(values), 0, N)[1].sum(axis=0)
    outputs = [plain_solution(signal, tau) for tau in taus]
    expected = [stats.norm.logpdf(one.y[:, 0], x, NOISE).sum() for x in outputs]
    np.testing.assert_allclose(found, expected, atol=1e-4)


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


DOSES = (0.33, 0.41, 1.05)
LAGGED = {("filtering", "linear, uneven"), ("rosenbrock", "held, uneven")}


@pytest.mark.parametrize(
    ("likelihood", "signal"),
    nightly_but(LAGGED, product(("classical", "marginal", "filtering", "rosenbrock"), SIGNALS)),
)
def test_learned_lags_of_doses_beside_a_learned_dead_time(likelihood, signal):
    hold, when, u = SIGNALS[signal]
    given = [smcpn.Dose(at, "x", 0.3, lag="lag") for at in DOSES]
    one, solver = record(hold, when, u, doses=given), SOLVERS[likelihood]
    problem = learned(one, tau=stats.uniform(0, 0.5), lag=stats.uniform(0, 0.3))
    pairs = [(0.0, 0.0), (0.137, 0.123), (0.5, 0.3), (0.02, 0.21)]
    values = np.array([[VALUES["a"], *pair] for pair in pairs])
    made = build_likelihood(problem, solver, 1, likelihood)
    found = made.evaluate(values, made.n_samples)[1]
    outputs = [
        plain_solution(signal, tau, tuple((round(at + lag, 12), 0.3) for at in DOSES))
        for tau, lag in pairs
    ]
    expected = [stats.norm.logpdf(one.y[:, 0], x, NOISE).sum() for x in outputs]
    np.testing.assert_allclose(found, expected, atol=2e-3 if solver.probabilistic else 1e-4)
    function = LogLikelihood(problem, solver=solver, likelihood=likelihood)
    _, slopes = function.value_and_gradient(values[1:2])
    for k, step in enumerate(1e-5 * np.eye(3)):
        ends = [function(values[1:2] + sign * step) for sign in (1.0, -1.0)]
        np.testing.assert_allclose(slopes[0, k], (ends[0] - ends[1]) / 2e-5, rtol=1e-3)


@pytest.mark.nightly
def test_predictions_with_a_filter_of_the_users():
    """Whole samples, against the moved input; one window of the whole record is a free run."""
    assumed, found = smcpn.StateFilter((0.1, 0.2), (0.1, 0.2), (0.3, 0.1)), []
    dose = smcpn.Dose(0.73, "x", 0.5)
    for u, delay in ((U, 2 * DT), (np.concatenate([np.full(2, U[0]), U[: N - 2]]), 0.0)):
        one = record(u=u, y=np.random.default_rng(1).normal(size=(N, 2)), doses=[dose])
        problem = smcpn.Problem(
            driven, one, observe=["x", "v"], noise=NOISE, delay={"u": delay},
            prior={"a": PRIOR["a"], "q": 1.0},
        )  # fmt: skip
        values = np.array([[0.7], [0.9]])
        given = (problem, one, values, np.array([0.5, 0.5]))
        ahead = predict_particles(*given, 3, assumed, DT / 8)
        assert len(ahead.record) == N
        found.append([ahead.mean, ahead.parameter_variance])
        known = smcpn.StateFilter(0.1, (0.1, 0.2), (0.0, 0.0))
        whole = predict_particles(*given, N, known, DT / 8)
        np.testing.assert_allclose(whole.mean, simulate_particles(*given, steps=8).mean, atol=1e-6)
    for late, plain in zip(*found, strict=True):
        np.testing.assert_allclose(late, plain, atol=1e-6)


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
