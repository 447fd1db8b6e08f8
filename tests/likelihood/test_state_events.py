"""Events of the state within steps: their times, their derivatives, and their limits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import solve_ivp

import smcpn
from smcpn import RK4, Dose, InputError, Record, Rosenbrock
from smcpn.likelihood.registry import build_likelihood
from smcpn.likelihood.solver_choice import choose_solver
from smcpn.model.solver import LEAST_TOLERANCE

pytestmark = pytest.mark.numerics

TIMES = np.linspace(0.0, 6.0, 13)


@smcpn.ode(
    events=[
        smcpn.event(
            when=lambda x: x,
            then=lambda v, t, *, r: {"v": -r * v, "last": t},
            direction="falling",
        )
    ]
)
def pendulum(x, v, last, *, drag):
    """A pendulum that hits a wall where it hangs down."""
    return v, -np.sin(x) - drag * v * np.abs(v), 0.0


def problem(ode=pendulum, times=TIMES, observe="x", initial=(1.5, 0.0, 0.0), y=None, **values):
    values = values or {"drag": 0.2, "r": 0.8}
    y = np.zeros(len(times)) if y is None else y
    prior = {name: stats.norm(value, 0.1) for name, value in values.items()}
    record = Record(y=y, t=times)
    return smcpn.Problem(
        ode, record, observe=observe, noise=0.1, initial=list(initial), prior=prior
    )


def by_scipy(drag, r, times=TIMES):
    """The pendulum, restarted by hand at each event."""

    def wall(t, state):
        return state[0] if t > begin + 1e-6 else 1.0

    wall.terminal, wall.direction = True, -1
    begin, state, last = 0.0, np.array([1.5, 0.0]), 0.0
    out = np.empty((len(times), 3))
    while begin < times[-1]:
        found = solve_ivp(
            lambda t, s: [s[1], -np.sin(s[0]) - drag * s[1] * abs(s[1])],
            (begin, times[-1]), state, events=wall, rtol=1e-12, atol=1e-13, dense_output=True,
            method="DOP853",
        )  # fmt: skip
        within = (times >= begin) & (times <= found.t[-1])
        out[within] = np.column_stack([found.sol(times[within]).T, np.full(within.sum(), last)])
        begin = last = found.t[-1]
        state = found.y[:, -1] * [0.0, -r]
    return out


def path(*values, ode=pendulum, observe=("x", "v", "last"), times=TIMES, initial=(1.5, 0.0, 0.0)):
    """Outputs (T, q) by `simulate`."""
    record = Record(y=np.zeros((len(times), len(observe))), t=times)
    parameters = dict(zip(ode.parameters, values, strict=True))
    return smcpn.simulate(ode, record, parameters, observe=list(observe), initial=list(initial))


def test_events_are_where_a_restarted_solver_finds_them():
    exact = by_scipy(0.2, 0.8)
    assert len(np.unique(exact[:, 2])) == 3
    found = path(0.2, 0.8)
    assert np.abs(found - exact).max() < 10 * 1e-7


@pytest.mark.nightly
def test_gradient_has_the_jump_of_the_sensitivities():
    y = by_scipy(0.2, 0.8)[:, 0] + 0.1 * np.random.default_rng(0).normal(size=len(TIMES))
    function = smcpn.LogLikelihood(problem(y=y), solver=Rosenbrock(LEAST_TOLERANCE), threads=1)
    values = np.array([[0.2, 0.8]])
    gradient = function.value_and_gradient(values)[1][0]
    for k, slope in enumerate(gradient):
        h = 1e-4 * np.eye(2)[k]
        near, far = (function(values + s * h) - function(values - s * h) for s in (1, 2))
        assert slope == pytest.approx(((8 * near - far) / 12e-4)[0], rel=1e-6)


@smcpn.ode(
    algebraic=["i"],
    events=[
        smcpn.event(
            when=lambda i, *, least: i - least, then=lambda: {"on": 0.0}, direction="falling"
        ),
        smcpn.event(when=lambda v: v - 0.2, then=lambda: {"on": 1.0}, direction="falling"),
    ],
)
def relay(v, i, on, *, r, least):
    """A capacitor that a varistor charges until the current is too small."""
    return i - 0.5 * v, 2.0 * on - v - r * i - 0.1 * i**3, 0.0


def relayed(r, least, times=TIMES):
    """The relay with the current solved, restarted by hand at each event: v, i, on."""

    def real(v, on):
        """Root of 0.1 i^3 + r i = 2 on - v."""
        p, q = 10.0 * r, 10.0 * (v - 2.0 * on)
        return -2.0 * np.sqrt(p / 3) * np.sinh(np.arcsinh(1.5 * q / p * np.sqrt(3 / p)) / 3)

    begin, v, on, out = 0.0, 0.0, 1.0, np.empty((len(times), 3))
    while begin < times[-1]:
        end = (lambda t, s: real(s[0], 1.0) - least) if on else (lambda t, s: s[0] - 0.2)
        end.terminal, end.direction = True, -1
        found = solve_ivp(
            lambda t, s, on=on: [real(s[0], on) - 0.5 * s[0]], (begin, times[-1]), [v], events=end,
            rtol=1e-12, atol=1e-13, dense_output=True, method="DOP853",
        )  # fmt: skip
        within = (times >= begin) & (times <= found.t[-1])
        path = found.sol(times[within])[0]
        out[within] = [[one, real(one, on), on] for one in path]
        begin, v, on = found.t[-1], found.y[0, -1], 1.0 - on
    return out


def test_algebraic_variables_jump_with_the_states_and_call_events():
    exact = relayed(1.0, 0.7)
    assert len(np.unique(exact[:, 2])) == 2
    found = path(1.0, 0.7, ode=relay, observe=("v", "i", "on"), initial=(0.0, 0.5, 1.0))
    assert np.abs(found - exact).max() < 1e-6


@pytest.mark.nightly
def test_gradients_have_the_jumps_of_algebraic_variables():
    values = np.array([[1.0, 0.7]])
    y = relayed(1.0, 0.7)[:, 1] + 0.1 * np.random.default_rng(0).normal(size=len(TIMES))
    given = problem(relay, observe="i", initial=(0.0, 0.5, 1.0), y=y, r=1.0, least=0.7)
    function = smcpn.LogLikelihood(given, solver=Rosenbrock(LEAST_TOLERANCE), threads=1)
    value, gradient = function.value_and_gradient(values)
    score = lambda *at: stats.norm.logpdf(y, relayed(*at)[:, 1], 0.1).sum()  # noqa: E731
    assert value[0] == pytest.approx(score(1.0, 0.7), abs=1e-7)
    for k, slope in enumerate(gradient[0]):
        h = 1e-4 * np.eye(2)[k]
        near, far = (score(*(values[0] + s * h)) - score(*(values[0] - s * h)) for s in (1, 2))
        assert slope == pytest.approx((8 * near - far) / 12e-4, rel=1e-6)


def test_lanes_have_events_of_their_own():
    likelihood = build_likelihood(problem(), Rosenbrock(1e-8), 1)
    values = np.random.default_rng(0).uniform([0.0, 0.5], [0.5, 0.9], size=(21, 2))
    _, together = likelihood.evaluate(values, len(TIMES))
    alone = [likelihood.evaluate(one[None], len(TIMES))[1][0] for one in values]
    assert np.isfinite(together).all()
    assert together.tolist() == alone


def test_stream_and_resumed_run_know_the_events(tmp_path):
    y = by_scipy(0.2, 0.8)[:, 0] + 0.1 * np.random.default_rng(0).normal(size=len(TIMES))
    given = problem(y=y)
    assert isinstance(choose_solver(given).solver, Rosenbrock)
    options = {"solver": Rosenbrock(1e-6), "particles": 60, "seed": 0}
    file = tmp_path / "run.h5"
    run = smcpn.identify(given, method="ibis", checkpoint=file, progress=False, **options)
    assert smcpn.resume(file).log_evidence == run.log_evidence
    live = smcpn.Online(given, **options)
    for t, value in zip(TIMES, y, strict=True):
        state = live.update((), value, t=t)
    assert state.mean["r"] == pytest.approx(0.8, abs=0.1)


def test_runge_kutta_steps_find_events_to_their_order():
    y = by_scipy(0.2, 0.8)[:, 0] + 0.1 * np.random.default_rng(0).normal(size=len(TIMES))
    given, values = problem(y=y), np.array([[0.2, 0.8]])
    exact = stats.norm.logpdf(y, by_scipy(0.2, 0.8)[:, 0], 0.1).sum()
    functions = [smcpn.LogLikelihood(given, solver=RK4(n), threads=1) for n in (2, 4, 8)]
    off = np.abs([function(values)[0] - exact for function in functions])
    assert (off[:-1] > 12.0 * off[1:]).all()
    assert off[-1] < 1e-4
    fine = smcpn.LogLikelihood(given, solver=RK4(64), threads=1)
    stiff = smcpn.LogLikelihood(given, solver=Rosenbrock(LEAST_TOLERANCE), threads=1)
    np.testing.assert_allclose(
        fine.value_and_gradient(values)[1], stiff.value_and_gradient(values)[1], rtol=1e-6
    )


@pytest.mark.nightly
def test_runge_kutta_runs_streams_and_resumed_runs_know_the_events(tmp_path):
    y = by_scipy(0.2, 0.8)[:, 0] + 0.1 * np.random.default_rng(0).normal(size=len(TIMES))
    given, options = problem(y=y), {"solver": RK4(4), "particles": 60, "seed": 0}
    file = tmp_path / "run.h5"
    run = smcpn.identify(given, method="ibis", checkpoint=file, progress=False, **options)
    assert smcpn.resume(file).log_evidence == run.log_evidence
    live = smcpn.Online(given, **options)
    for t, value in zip(TIMES, y, strict=True):
        live.update((), value, t=t)
    np.testing.assert_array_equal(live.posterior().theta, run.theta)
    chosen = smcpn.identify(given, solver=RK4(), particles=60, seed=0, progress=False)
    assert isinstance(chosen.solver, RK4)


ON_DEMAND = smcpn.event(
    when=lambda c, *, limit: c - limit, then=lambda a: {"a": a + 1.0}, direction="falling"
)


@smcpn.ode(events=[ON_DEMAND])
def demand(a, c, *, ka, k):
    """A drug that is taken where there is too little of it, beside doses at known times."""
    return -ka * a, ka * a - k * c


DOSES = [
    Dose(1.3, "a", 2.0, lag="lag", fraction="F"),
    Dose(4.0, "c", -1.0),
    Dose(6.1, "c", 1.5, 2.0, lag="lag", fraction="F"),
]


def demanded(ka, k, limit, lag, F, times):
    """Amounts in c at times, and the number of events: restarted by hand at events and doses."""
    stops = [1.3 + lag, 4.0, 6.1 + lag, 8.1 + lag]
    state, begin, found, count = np.array([1.0, 1.0]), 0.0, {0.0: 1.0}, 0

    def too_little(t, x):
        return x[1] - limit

    too_little.terminal, too_little.direction = True, -1
    for stop in sorted({*stops, *times.tolist()}):
        while begin < stop:
            rate = F * 0.75 if stops[2] <= begin < stops[3] else 0.0
            path = solve_ivp(
                lambda t, x, rate=rate: [-ka * x[0], ka * x[0] - k * x[1] + rate],
                (begin, stop), state, events=too_little, rtol=1e-12, atol=1e-13, method="DOP853",
            )  # fmt: skip
            begin, state = path.t[-1], path.y[:, -1].copy()
            state[0] += path.status
            count += path.status
        found[stop] = state[1]
        if stop == stops[0]:
            state[0] += 2.0 * F
        elif stop == stops[1]:
            crossed = state[1] > limit >= state[1] - 1.0
            state += [float(crossed), -1.0]
            count += crossed
    return np.array([found[t] for t in times.tolist()]), count


@pytest.mark.parametrize(
    "solver", [pytest.param(RK4(64), marks=pytest.mark.nightly), Rosenbrock(1e-10)]
)
def test_doses_and_events_go_together_with_gradients(solver):
    times, values = np.linspace(0.0, 10.0, 21), np.array([1.2, 0.4, 0.5, 0.37, 0.6])
    exact, count = demanded(*values, times)
    assert count == 2
    y = exact + 0.05 * np.random.default_rng(0).normal(size=len(times))
    names = ("ka", "k", "limit", "lag", "F")
    prior = {name: stats.norm(v, 0.1) for name, v in zip(names, values, strict=True)}
    given = smcpn.Problem(
        demand, Record(t=times, y=y, doses=DOSES), observe="c", noise=0.05, initial=[1.0, 1.0],
        prior=prior | {"lag": stats.uniform(0.0, 1.0)},
    )  # fmt: skip
    order = [given.names.index(name) for name in names]
    point = values[np.argsort(order)]
    function = smcpn.LogLikelihood(given, solver=solver, threads=1)

    def plain(at):
        return stats.norm.logpdf(y, demanded(*at, times)[0], 0.05).sum()

    found, gradient = function.value_and_gradient(point[None])
    assert found[0] == pytest.approx(plain(values), abs=1e-7)
    h = 1e-4 * np.eye(5)
    slopes = [
        (
            8 * (plain(values + d) - plain(values - d))
            - plain(values + 2 * d)
            + plain(values - 2 * d)
        )
        / 12e-4
        for d in h
    ]
    np.testing.assert_allclose(gradient[0][order], slopes, rtol=1e-6)


def counter(**given):
    event = smcpn.event(then=lambda n: {"n": n + 1.0}, **given)

    @smcpn.ode(events=[event])
    def equation(x, n, *, k):
        return -k * x, 0.0 * n

    return equation


def test_no_crossing_is_stepped_over_though_the_states_do_not_ask_for_steps():
    w = 60.0
    ode = counter(when=lambda t: np.sin(w * t) - 0.5, direction="rising")
    times = np.linspace(0.0, 10.0, 6)
    counts = path(1.0, ode=ode, observe=["n"], times=times, initial=[1.0, 0.0])
    assert counts[:, 0].tolist() == (np.floor((w * times - np.pi / 6) / (2 * np.pi)) + 1).tolist()


def test_zero_at_the_start_is_no_crossing_and_no_event_happens_twice():
    times = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    start = counter(when=lambda t: t * (t - 2.0))
    counts = path(1.0, ode=start, observe=["n"], times=times, initial=[1.0, 0.0])
    assert counts[:, 0].tolist() == [0, 0, 1, 1, 1]
    either = counter(when=lambda x: x - 0.5)
    counts = path(1.0, ode=either, observe=["n"], times=times, initial=[1.0, 0.0])
    assert counts[:, 0].tolist() == [0, 1, 1, 1, 1]


@pytest.mark.nightly
def test_an_event_and_an_input_that_jump_call_others():
    @smcpn.ode(
        events=[
            smcpn.event(when=lambda z: z - 0.5, then=lambda w: {"w": w + 1.0}, direction="rising"),
            smcpn.event(when=lambda x, *, limit: x - limit, then=lambda x: {"x": 0.0, "z": 1.0}),
            smcpn.event(when=lambda u: u - 0.5, then=lambda s: {"s": s + 1.0}, direction="rising"),
        ]
    )
    def chain(x, z, w, s, u, *, rate):
        # What was called goes on by itself, so that its time counts.
        return rate * (1.0 + x), 0.0 * z, w, 0.0 * s

    u = np.array([0.0, 0.0, 1.0, 0.0, 1.0, 0.0])
    record = Record(u=u, y=np.zeros(6), dt=0.2, hold="zoh")
    values = {"rate": 1.0, "limit": 0.7}
    found = smcpn.simulate(chain, record, values, observe=["x", "z", "w", "s"], initial=[0.0] * 4)
    at = np.log(1.7)
    assert found[-1] == pytest.approx([np.exp(1 - at) - 1, 1.0, np.exp(1 - at), 2.0], rel=1e-6)
    given = smcpn.Problem(
        chain, record, observe="w", noise=0.1, initial=[0.0] * 4,
        prior={"rate": stats.norm(1, 1), "limit": stats.norm(0.7, 1)},
    )  # fmt: skip
    function = smcpn.LogLikelihood(given, solver=Rosenbrock(1e-10), threads=1)
    values = np.array([[1.0, 0.7]])
    gradient = function.value_and_gradient(values)[1][0]
    h = 1e-5
    for k, slope in enumerate(gradient):
        step = h * np.eye(2)[k]
        assert slope == pytest.approx(
            ((function(values + step) - function(values - step)) / (2 * h))[0], rel=1e-5
        )


def test_no_path_is_lost_where_a_step_ends_just_at_an_event():
    """With a lag that is fixed one in seven was: the search divided by a difference of zero."""
    low, high = (
        smcpn.event(when=lambda x, *, low: x - low, then=lambda: {"on": 1.0}, direction="falling"),
        smcpn.event(
            when=lambda x, *, low: x - low - 0.5, then=lambda: {"on": 0.0}, direction="rising"
        ),
    )

    @smcpn.ode(events=[low, high])
    def heater(x, on, u, *, low, k):
        return 2.0 * on - k * (x - u), 0.0

    values = np.random.default_rng(0).uniform([0.5, 0.3], [1.5, 1.0], (500, 2))
    found = []
    for lag, more in ((0.31, {}), ("late", {"late": 0.31})):
        doses = [Dose(2.0, "x", 1.0, lag=lag)]
        record = Record(dt=0.4, u=np.zeros(40), y=np.zeros(40), hold="zoh", doses=doses)
        given = smcpn.Problem(
            heater, record, observe="x", noise=0.1, initial=[0.9, 1.0],
            prior={"low": stats.uniform(0.5, 1.0), "k": stats.uniform(0.3, 0.7)} | more,
        )  # fmt: skip
        found.append(smcpn.LogLikelihood(given, solver=Rosenbrock(1e-8))(values))
    np.testing.assert_allclose(*found, rtol=1e-5)


def test_infinitely_many_events_have_no_likelihood_and_are_told():
    @smcpn.ode(
        events=[smcpn.event(when=lambda x: x, then=lambda v: {"v": -0.5 * v}, direction="falling")]
    )
    def ball(x, v, *, g):
        return v, -g

    @smcpn.ode(
        events=[
            smcpn.event(when=lambda x: x, then=lambda v, *, r: {"v": -r * v}, direction="falling")
        ]
    )
    def dull(x, v, *, r, g):
        return v, -g

    # The ball is at rest from t = 3.
    late, early = np.linspace(0.0, 4.0, 9), np.linspace(0.0, 2.5, 6)
    options = {"ode": ball, "initial": [0.5, 0.0], "g": 1.0}
    function = smcpn.LogLikelihood(problem(times=late, **options), solver=Rosenbrock(1e-6))
    assert not np.isfinite(function(np.array([[1.0]]))).any()
    function = smcpn.LogLikelihood(problem(times=early, **options), solver=Rosenbrock(1e-6))
    assert np.isfinite(function(np.array([[1.0]]))).all()
    with pytest.raises(InputError, match="more than 100 events between two samples"):
        path(1.0, ode=ball, observe=["x"], times=late, initial=[0.5, 0.0])
    # It fell through the floor, as its hops were soon shorter than what steps resolve.
    with pytest.raises(InputError, match="more than 100 events between two samples"):
        path(0.01, 1.0, ode=dull, observe=["x"], times=late, initial=[0.5, 0.0])
