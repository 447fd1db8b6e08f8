"""Searches over path and parameters: against dense algebra, exact cases, and hard records."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import smcpn
from smcpn import RK4
from smcpn.errors import InputError
from smcpn.estimate.log_density import LogDensity
from smcpn.estimate.path_search.homotopy import Homotopy, beginning, lifted_ends
from smcpn.estimate.path_search.linearisation import Field, Intervals, state_outputs
from smcpn.estimate.path_search.smoothing import Linear, smoothed
from smcpn.estimate.smoothed_outputs import difference_variances, output_variances


@smcpn.ode
def oscillator(x, v, u, *, c, k):
    """Linear oscillator of unit mass."""
    return v, u - c * v - k * x


@smcpn.ode
def duffing(x, v, u, *, c, k, b):
    """Oscillator with a cubic spring."""
    return v, u - c * v - k * x - b * x**3


@smcpn.ode
def sine(x, v, *, w):
    """Free oscillation at the angular frequency w."""
    return v, -(w**2) * x


@smcpn.ode
def lorenz(x, y, z, *, s, r, b):
    """Convection (Lorenz 1963)."""
    return s * (y - x), x * (r - z) - y, x * y - b * z


def log_density(problem: smcpn.Problem, target: str = "posterior") -> LogDensity:
    """One that is not compiled: lifted searches do not evaluate it."""
    function: Any = SimpleNamespace(problem=problem)
    return LogDensity(function, target)


def test_smoother_is_dense_least_squares():
    rng = np.random.default_rng(0)
    samples, n, d, q = 25, 3, 2, 2
    g = lambda *shape: rng.normal(size=shape)  # noqa: E731
    linear = Linear(
        a=0.5 * g(samples, n, n), b=g(samples, n, d), gap=g(samples, n), h=g(samples, q, n),
        slopes=g(samples, q, d), residual=g(samples, q),
        weight=rng.uniform(size=(samples, q)) * (rng.uniform(size=(samples, q)) > 0.2),
    )  # fmt: skip
    linear.a[[0, 11]] = 0.0
    error = rng.uniform(0.1, 1.0, size=(samples, n))
    blocks, rights = [], []
    for k in range(samples):
        here = np.zeros((q + n, samples, n))
        here[:q, k], here[q:, k] = linear.h[k], np.eye(n)
        if k:
            here[q:, k - 1] = -linear.a[k]
        right = np.zeros((q + n, 1 + d))
        right[:q, 0], right[:q, 1:] = linear.residual[k], -linear.slopes[k]
        right[q:, 0], right[q:, 1:] = linear.gap[k], linear.b[k]
        root = np.sqrt(np.append(linear.weight[k], 1 / error[k]))[:, None]
        blocks.append(root * here.reshape(q + n, -1))
        rights.append(root * right)
    matrix, right = np.concatenate(blocks), np.concatenate(rights)
    path = np.linalg.lstsq(matrix, right, rcond=None)[0]
    left = right - matrix @ path
    found = smoothed(linear, error)
    np.testing.assert_allclose(found.path.reshape(path.shape), path, atol=1e-12)
    np.testing.assert_allclose(found.residuals.T @ found.residuals, left.T @ left, atol=1e-11)


def test_without_model_error_the_path_is_a_trajectory():
    a = np.array([[1.0, 0.1], [-0.2, 0.9]])
    linear = Linear(
        a=np.stack([0 * a, a, a, a]), b=np.zeros((4, 2, 2)), gap=np.zeros((4, 2)),
        h=np.tile([[1.0, 0.0]], (4, 1, 1)), slopes=np.zeros((4, 1, 2)),
        residual=np.ones((4, 1)), weight=np.ones((4, 1)),
    )  # fmt: skip
    linear.b[0] = np.eye(2)
    path = smoothed(linear, np.zeros((4, 2))).path
    np.testing.assert_allclose(path[:, :, 0], 0.0, atol=1e-14)
    powers = [np.linalg.matrix_power(a, k) for k in range(4)]
    np.testing.assert_allclose(path[:, :, 1:], powers, atol=1e-14)


@pytest.mark.parametrize("hold", ["zoh", "foh"])
def test_flow_is_exact_for_a_linear_system(hold):
    rng = np.random.default_rng(1)
    t = np.cumsum(rng.uniform(0.05, 0.15, size=8))
    record = smcpn.Record(t=t, u=rng.normal(size=8), y=np.zeros(8), hold=hold)
    problem = smcpn.Problem(
        oscillator, [record, record[:5]], observe="x", noise=1.0,
        prior={"c": stats.lognorm(1.0), "k": stats.lognorm(1.0)},
    )  # fmt: skip
    model = problem.model.with_numbers()
    intervals = Intervals(Field(model, model.rhs), problem.records)
    intervals.steps = 16
    values = np.array([[0.3, 2.0], [0.1, 5.0]])
    x = rng.normal(size=(2, len(intervals.begin), 2))
    assert intervals.begin.tolist() == [*range(7), *range(8, 12)]
    flow = intervals.flow(x, values)
    np.testing.assert_array_equal(flow.end, intervals.ends(x, values))
    u = np.concatenate([record.u, record.u[:5]])[:, 0]
    both = np.concatenate([t, t[:5]])
    for s, (c, k) in enumerate(values):
        for place, begin in enumerate(intervals.begin):
            h = both[begin + 1] - both[begin]
            slope = (u[begin + 1] - u[begin]) / h if hold == "foh" else 0.0
            whole = np.zeros((4, 4))
            whole[:3, :4] = [[0, 1, 0, 0], [-k, -c, 1, 0], [0, 0, 0, 1]]
            end = expm(h * whole) @ [*x[s, place], u[begin], slope]
            np.testing.assert_allclose(flow.end[s, place], end[:2], atol=1e-9)
            np.testing.assert_allclose(
                flow.slopes[s, place, :, :2], expm(h * whole)[:2, :2], atol=1e-9
            )


def test_slopes_of_the_flow_are_differences():
    record = smcpn.Record(u=np.sin(np.arange(6.0)), y=np.zeros(6), dt=0.2)
    problem = smcpn.Problem(
        duffing, record, observe="x", noise=1.0,
        prior=dict.fromkeys("ckb", stats.lognorm(1.0)),
    )  # fmt: skip
    model = problem.model.with_numbers()
    intervals = Intervals(Field(model, model.rhs), problem.records)
    intervals.steps = 3
    rng = np.random.default_rng(2)
    x, values = rng.normal(size=(1, 5, 2)), np.array([[0.3, 1.0, 2.0]])
    slopes = intervals.flow(x, values).slopes
    for j in range(5):
        e = 1e-6 * (np.arange(5) == j)
        up = intervals.ends(x + e[:2], values + e[2:])
        down = intervals.ends(x - e[:2], values - e[2:])
        np.testing.assert_allclose(slopes[..., j], (up - down) / 2e-6, atol=1e-8)


def test_noise_by_differences():
    t = np.arange(2000) * 0.02
    y = np.sin(t) + 0.1 * np.random.default_rng(3).normal(size=2000)
    y[::7] = np.nan
    records = [smcpn.Record(y=y, t=t)]
    noise, spread = difference_variances(records), output_variances(records)
    assert noise[0] == pytest.approx(0.01, rel=0.2)
    assert spread[0] == pytest.approx(0.51, rel=0.1)


def test_noise_of_few_samples_a_period_with_gaps():
    """Differences of what is left as if it were in a row show a hundred times as much."""
    t = np.arange(2000) * 0.4
    y = np.sin(t) + 0.01 * np.random.default_rng(3).normal(size=2000)
    y[::3] = np.nan
    assert difference_variances([smcpn.Record(y=y, t=t)])[0] == pytest.approx(1e-4, rel=0.3)


def test_only_an_output_whose_density_peaks_at_it_tells_the_state():
    record = smcpn.Record(y=np.ones((5, 2)), dt=0.1)
    prior = {"w": stats.lognorm(1.0)}
    for noise, expected in (
        ([0.1, 0.1], [0, 1]),
        ([smcpn.StudentT(0.1), smcpn.Poisson()], [0]),
    ):
        problem = smcpn.Problem(sine, record, observe=["x", "v"], noise=noise, prior=prior)
        assert state_outputs(problem.model) == expected


@pytest.fixture(scope="module")
def linear() -> smcpn.Problem:
    """Linear in state and parameter: x' = a, from b."""

    @smcpn.ode
    def ramp(x, *, a):
        return a + 0.0 * x

    t = np.arange(30) * 0.1
    y = 0.7 * t + 0.4 + 0.1 * np.random.default_rng(4).normal(size=30)
    return smcpn.Problem(
        ramp, smcpn.Record(t=t, y=y), observe="x", noise=0.1,
        prior={"a": stats.norm(0.0, 2.0)}, initial=[stats.norm(1.0, 0.5)],
    )  # fmt: skip


@pytest.mark.parametrize("target", ["posterior", "likelihood"])
def test_a_linear_problem_ends_in_generalised_least_squares(linear, target):
    density = log_density(linear, target)
    ends, of_start = lifted_ends(density, np.array([[5.0, -3.0], [-1.0, 4.0]]))
    record = linear.records[0]
    design = np.column_stack([record.t, np.ones(30)]) / 0.1
    right = record.y[:, 0] / 0.1
    if target == "posterior":
        design = np.vstack([design, np.diag([0.5, 2.0])])
        right = np.append(right, [0.0, 2.0])
    exact = np.linalg.lstsq(design, right, rcond=None)[0]
    assert of_start.tolist() == [0, 0]
    np.testing.assert_allclose(ends[0], exact, atol=1e-4)


def sine_record(seed: int = 0) -> smcpn.Record:
    """Twenty periods."""
    t = np.arange(801) * 0.05
    noise = np.random.default_rng(seed).normal(size=801)
    return smcpn.Record(t=t, y=np.sin(np.pi * t) + 0.1 * noise)


def sine_problem(**changes) -> smcpn.Problem:
    settings = {"observe": "x", "noise": 0.1, "initial": [0.0, stats.norm(0.0, 5.0)]}
    prior = {"w": stats.lognorm(1.0, scale=3.0), **changes.pop("prior", {})}
    record = changes.pop("record", sine_record())
    return smcpn.Problem(sine, record, prior=prior, **(settings | changes))


PERIODS = [(1 / 2.4, 3.0), (1.7, 3.0), (0.6, 3.0)]


def test_a_sine_with_wrong_periods_at_the_start_is_found():
    problem = sine_problem()
    starts = {"w": [np.pi * share for share, _ in PERIODS], "v(0)": [v for _, v in PERIODS]}
    found = smcpn.maximise(problem, solver=RK4(steps=2), starts=starts)
    assert all(abs(one.values[0] - np.pi) < 0.01 for one in found.starts)
    shot = smcpn.maximise(problem, solver=RK4(steps=2), starts=starts, search="shooting")
    assert not any(abs(one.values[0] - np.pi) < 0.01 for one in shot.starts)
    assert found.log_density > shot.log_density + 100.0


def nonlinear(x, v):
    """Exponential of the deflection."""
    return np.exp(0.5 * x)


@pytest.mark.parametrize("kind", ["learned noise", "missing", "nonlinear", "student", "records"])
def test_observations_of_any_kind(kind):
    record = sine_record()
    y = record.y.copy()
    changes = {}
    if kind == "learned noise":
        changes = {"noise": "sd", "prior": {"sd": stats.lognorm(1.0)}}
    elif kind == "missing":
        y[np.random.default_rng(1).uniform(size=len(y)) < 0.5] = np.nan
        y[300:350] = np.nan
        changes = {"record": smcpn.Record(t=record.t, y=y)}
    elif kind == "nonlinear":
        x = np.sin(np.pi * record.t)
        y = np.exp(0.5 * x) + (y[:, 0] - x)
        changes = {"record": smcpn.Record(t=record.t, y=y), "observe": nonlinear}
    elif kind == "student":
        y[::20] += 3.0
        changes = {"record": smcpn.Record(t=record.t, y=y), "noise": smcpn.StudentT(0.1)}
    else:
        second = smcpn.Record(t=record.t[:300], y=sine_record(5).y[:300])
        changes = {"record": [record, second]}
    problem = sine_problem(**changes)
    density = log_density(problem)
    start = problem.prior.unconstrained(
        np.array([[5.0 if name == "w" else 1.0 for name in problem.names]])
    )
    ends, of_start = lifted_ends(density, start)
    values = dict(zip(problem.names, density.prior.natural(ends)[of_start[0]], strict=True))
    assert values["w"] == pytest.approx(np.pi, abs=0.01)
    if kind != "records":
        assert values["v(0)"] == pytest.approx(np.pi, abs=0.15)
    if kind == "learned noise":
        assert values["sd"] == pytest.approx(0.1, rel=0.15)


def lorenz_problem(observe: list[str], seed: int = 0) -> smcpn.Problem:
    """Ten seconds, about nine Lyapunov times, with noise of 6 %."""
    t = np.arange(501) * 0.02
    right = lambda _, p: (10 * (p[1] - p[0]), p[0] * (28 - p[2]) - p[1], p[0] * p[1] - 8 / 3 * p[2])  # noqa: E731
    states = solve_ivp(right, (0, 10), [5.0, 6.0, 22.0], t_eval=t, rtol=1e-10, atol=1e-10).y.T
    y = states[:, ["xyz".index(name) for name in observe]]
    y = y + 0.5 * np.random.default_rng(seed).normal(size=y.shape)
    scales = {"s": 10.0, "r": 28.0, "b": 8 / 3}
    return smcpn.Problem(
        lorenz, smcpn.Record(t=t, y=y), observe=observe, noise=0.5,
        prior={name: stats.lognorm(0.5, scale=scale) for name, scale in scales.items()},
        initial=[stats.norm(0, 10), stats.norm(0, 10), stats.norm(25, 10)],
    )  # fmt: skip


@pytest.mark.parametrize("observe", [["x"], ["x", "y", "z"]])
def test_chaos_is_found_from_any_draw_of_the_prior(observe):
    problem = lorenz_problem(observe)
    density = log_density(problem)
    starts = problem.prior.sample(np.random.default_rng(0), 8)
    ends, of_start = lifted_ends(density, starts)
    assert (of_start == 0).all()
    values = density.prior.natural(ends)[0]
    np.testing.assert_allclose(values[:3], [10.0, 28.0, 8 / 3], rtol=0.05)


@pytest.mark.nightly
def test_the_user_of_maximise_need_not_know():
    problem = lorenz_problem(["x"])
    found = smcpn.maximise(problem, solver=RK4(steps=16))
    np.testing.assert_allclose(found.values[:3], [10.0, 28.0, 8 / 3], rtol=0.05)
    assert found.success
    residuals = -2 * (found.log_likelihood + 501 * np.log(0.5 * np.sqrt(2 * np.pi))) / 501
    assert residuals == pytest.approx(1.0, abs=0.2)


def test_an_undoubted_mode_is_not_searched_again(linear, monkeypatch):
    def refuse(*_):
        raise AssertionError

    monkeypatch.setattr("smcpn.estimate.multistart.lifted_ends", refuse)
    assert smcpn.maximise(linear, solver=RK4(steps=1), starts=3).success
    with pytest.raises(AssertionError):
        smcpn.maximise(linear, solver=RK4(steps=1), starts=3, search="lifted")


def test_a_path_that_is_not_finite_leads_nowhere():
    @smcpn.ode
    def explosion(x, *, a):
        return a * x**3

    record = smcpn.Record(y=[0.0] + 9 * [np.nan], dt=1.0)
    problem = smcpn.Problem(
        explosion, record, observe="x", noise=0.1, prior={"a": stats.lognorm(0.1)}, initial=[1e200]
    )
    density = log_density(problem)
    homotopy = Homotopy(density, problem)
    ends, of_start = homotopy(np.zeros((2, 1)))
    assert of_start.tolist() == [-1, -1]
    assert ends.shape == (0, 1)


def test_a_long_record_is_searched_by_its_beginning():
    problem = sine_problem(record=[sine_record(), sine_record(1)])
    assert beginning(problem, 5000) is problem
    assert [len(record) for record in beginning(problem, 801).records] == [500, 500]


def test_the_ends_do_not_depend_on_the_company():
    problem = sine_problem()
    density = log_density(problem)
    starts = problem.prior.sample(np.random.default_rng(2), 3)
    together, of_start = lifted_ends(density, starts)
    alone = [lifted_ends(density, start[None, :])[0][0] for start in starts]
    np.testing.assert_allclose(together[of_start], alone, atol=1e-3)


def test_search_is_checked():
    with pytest.raises(InputError, match="search is 'lift': choose one of auto, shooting, lifted"):
        smcpn.maximise(sine_problem(), search="lift")
