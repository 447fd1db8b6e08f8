"""`smcpn.solve`: orders, exact special cases, step control, inputs, dense output, samples."""

from __future__ import annotations

from dataclasses import replace
from math import factorial

import numpy as np
import pytest
from scipy import linalg
from scipy.integrate import solve_ivp

import smcpn
from smcpn import EKF0, EKF1, InputError, Record
from tests.models import lotka_volterra, van_der_pol
from tests.reference.wiener import process_noise, transition


@smcpn.ode
def rotation(x, v, *, w):
    return v, -(w**2) * x


@smcpn.ode
def filtered(x, u, *, rate):
    return rate * (np.tanh(u) - x)


@smcpn.ode
def driven(x, v, u):
    return v, u - x - 0.3 * v


@smcpn.ode
def explosion(x):
    return x**2


@smcpn.ode
def root(x):
    return -np.sqrt(x) - 1.0


VALUES = {"a": 1.5, "b": 1.0, "c": 3.0, "d": 1.0}
START = [1.0, 1.0]


@pytest.fixture(scope="module")
def predators():
    """Lotka-Volterra over two units of time, to 1e-12."""
    return solve_ivp(
        lambda t, z: [1.5 * z[0] - z[0] * z[1], -3 * z[1] + z[0] * z[1]],
        (0.0, 2.0),
        START,
        method="DOP853",
        rtol=1e-13,
        atol=1e-13,
        dense_output=True,
    ).sol


def predator_solution(solver, **options):
    return smcpn.solve(lotka_volterra, (0.0, 2.0), VALUES, initial=START, solver=solver, **options)


@pytest.mark.parametrize("solver", [EKF0, EKF1])
@pytest.mark.parametrize("order", range(1, 6))
def test_order_of_convergence(solver, order, predators):
    counts = np.array([200, 400, 800]) if order < 5 else np.array([100, 200, 400])
    errors = []
    for steps in counts:
        description = solver(order=order, steps=int(steps), diffusion="fixed")
        solution = predator_solution(description)
        errors.append(np.abs(solution.mean - predators(solution.t).T).max())
    slope = -np.polyfit(np.log(counts), np.log(errors), 1)[0]
    assert slope == pytest.approx(order + 1, abs=0.3)


def process_covariance(order: int, times: np.ndarray) -> np.ndarray:
    """Covariance of x, x' at all times of an integrated Wiener process from zero, by hand."""
    size = order + 1
    transitions = [transition(order, h) for h in np.diff(times)]
    noises = [process_noise(order, h) for h in np.diff(times)]
    n = len(times)
    joint = np.zeros((n, size, n, size))
    for k in range(1, n):
        a = transitions[k - 1]
        joint[k, :, k] = a @ joint[k - 1, :, k - 1] @ a.T + noises[k - 1]
        following = joint[k, :, k]
        for later in range(k + 1, n):
            following = transitions[later - 1] @ following
            joint[later, :, k] = following
            joint[k, :, later] = following.T
    return joint[:, :2, :, :2]


def test_linear_equation_is_conditioned_on_exactly():
    """All residuals at once, by the formula for a joint normal distribution; also off the grid."""
    order, w, known = 2, 1.3, 0.7
    grid = np.array([0.0, 0.3, 0.5, 0.9, 1.3])
    between = np.array([0.1, 0.42, 1.0])
    times = np.union1d(grid, between)
    a = np.array([[0.0, 1.0], [-(w**2), 0.0]])
    x0 = np.array([1.0, 0.5])
    n = len(times)
    covariance = np.zeros((n, 2, 2, n, 2, 2))
    single = known**2 * process_covariance(order, times)
    for i in range(2):
        covariance[:, i, :, :, i, :] = single
    derivatives = [x0, a @ x0, a @ a @ x0]
    mean = np.array([
        [[sum(derivatives[j + k][i] * t**j / factorial(j) for j in range(order + 1 - k))
          for k in range(2)] for i in range(2)] for t in times
    ])  # fmt: skip
    flat, prior = covariance.reshape(4 * n, 4 * n), mean.ravel()
    seen = np.zeros((len(grid) - 1, 2, n, 2, 2))
    for row, t in enumerate(grid[1:]):
        k = int(np.searchsorted(times, t))
        for i in range(2):
            seen[row, i, k, i, 1] += 1.0
            seen[row, i, k, :, 0] -= a[i]
    H = seen.reshape(-1, 4 * n)
    S = H @ flat @ H.T
    gain = np.linalg.solve(S, H @ flat).T
    posterior_mean = (prior - gain @ H @ prior).reshape(n, 2, 2)[:, :, 0]
    posterior = (flat - gain @ S @ gain.T).reshape(n, 2, 2, n, 2, 2)[:, :, 0, :, :, 0]
    residual = H @ prior
    log_density = -0.5 * (
        residual @ np.linalg.solve(S, residual)
        + np.linalg.slogdet(S)[1]
        + len(S) * np.log(2 * np.pi)
    )

    solver = EKF1(order=order, steps=1, diffusion=known, smooth=True)
    solution = smcpn.solve(rotation, grid, {"w": w}, initial=x0, solver=solver)
    smoothed, covariances = solution(times)
    np.testing.assert_allclose(smoothed, posterior_mean, rtol=1e-10)
    own = np.array([posterior[k, :, k] for k in range(n)])
    np.testing.assert_allclose(covariances, own, rtol=1e-7, atol=1e-14)
    assert solution.log_likelihood == pytest.approx(log_density, rel=1e-9)

    paths = solution.sample(np.random.default_rng(0), 20_000)
    check_joint_samples(paths[:, 1:], posterior_mean, posterior, np.searchsorted(times, grid[1:]))
    # Twice between the same points, out of order, and on the grid.
    anywhere = np.array([0.42, 0.1, 0.35, 1.3, 1.0, 0.31])
    known = np.isin(anywhere, times)
    paths = solution.sample(np.random.default_rng(1), 20_000, anywhere)[:, known]
    check_joint_samples(paths, posterior_mean, posterior, np.searchsorted(times, anywhere[known]))


def check_joint_samples(paths, mean, covariance, index):
    """Means and covariances of paths at some of the times, within 4.5 standard errors."""
    exact = covariance[index][:, :, index].reshape(2 * len(index), -1)
    drawn = paths.reshape(len(paths), -1)
    sd = np.sqrt(np.diag(exact))
    error = (drawn.mean(axis=0) - mean[index].ravel()) / sd
    assert np.abs(error).max() < 4.5 / np.sqrt(len(paths))
    correlation = exact / np.outer(sd, sd)
    # The standard error of a covariance of normals is below sqrt(2 / N) of the variances.
    found = np.cov(drawn.T) / np.outer(sd, sd)
    assert np.abs(found - correlation).max() < 4.5 * np.sqrt(2 / len(paths))


def test_linear_equation_against_the_matrix_exponential():
    solution = smcpn.solve(
        rotation, (0.0, 3.0), {"w": 2.0}, initial=[1.0, 0.0], solver=EKF1(order=7), rtol=1e-11,
        atol=1e-11,
    )  # fmt: skip
    exact = linalg.expm(3.0 * np.array([[0.0, 1.0], [-4.0, 0.0]])) @ [1.0, 0.0]
    np.testing.assert_allclose(solution.mean[-1], exact, atol=1e-10)


@pytest.mark.parametrize("control", ["P", "PI"])
def test_error_follows_the_tolerance(control, predators):
    errors, counts = [], []
    for tolerance in (1e-4, 1e-6, 1e-8, 1e-10):
        solution = predator_solution(EKF1(order=5), rtol=tolerance, atol=tolerance, control=control)
        errors.append(np.abs(solution.mean - predators(solution.t).T).max() / tolerance)
        counts.append(solution.stats.accepted)
        assert solution.stats.f_evaluations == solution.stats.steps + 1
        assert solution.stats.jacobian_evaluations == solution.stats.steps
    assert max(errors) < 10
    assert counts == sorted(counts)


def test_claimed_error_is_that_made(predators):
    """A dynamic diffusion under EKF0 is honest within a factor of some units."""
    for order in (3, 5):
        solution = predator_solution(EKF0(order=order, diffusion="dynamic"))
        statistic = solution.chi2(lambda t: predators(t).T, np.linspace(0.1, 2.0, 200))
        assert 0.05 < statistic < 20


@pytest.mark.parametrize("smooth", [False, True])
def test_dense_output_meets_the_grid(smooth, predators):
    solution = predator_solution(EKF1(order=4, smooth=smooth))
    nearby = solution.grid[1:-1] * (1 + 1e-13)
    mean, covariance = solution(nearby)
    on_grid = solution(solution.grid[1:-1])
    np.testing.assert_allclose(mean, on_grid[0], rtol=1e-11)
    np.testing.assert_allclose(covariance, on_grid[1], rtol=1e-6, atol=1e-22)
    between = np.linspace(0.0, 2.0, 300)
    assert np.abs(solution(between)[0] - predators(between).T).max() < 1e-5
    single = solution(0.7)
    assert single[0].shape == (2,)
    assert single[1].shape == (2, 2)


def test_times_asked_for_are_grid_points():
    at = [0.3, 0.71, 1.9]
    solution = predator_solution(EKF0(order=3, diffusion="dynamic"), at=at)
    np.testing.assert_array_equal(solution.t, at)
    assert set(at) <= set(solution.grid)
    assert solution.mean.shape == (3, 2)
    assert solution.sd.shape == (3, 2)
    assert solution.sample(np.random.default_rng(0), 2).shape == (2, 3, 2)


@pytest.mark.parametrize("form", ["first", "chain"])
def test_samples_scatter_as_the_moments_say_anywhere(form):
    """Restarts of a held input, inserted points next to them, two processes in chain form."""
    record = Record(u=[1.0, -1.0, 0.5, 0.0], t=[0.0, 0.3, 0.5, 1.0], hold="zoh")
    solver = EKF1(order=3, form=form, diffusion="fixed", smooth=True)
    solution = smcpn.solve(driven, record, initial=[0.3, 0.0], solver=solver, rtol=1e-3)
    t = np.array([0.05, 0.3, 0.31, 0.32, 0.499, 0.77, 1.0])
    mean, covariance = solution(t)
    paths = solution.sample(np.random.default_rng(0), 4000, t)
    sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    error = (paths - mean) / sd
    assert np.abs(error.mean(axis=0)).max() < 4.5 / np.sqrt(4000)
    # The variance of a normal's sample variance is 2 / N.
    np.testing.assert_allclose(error.var(axis=0), 1.0, atol=4.5 * np.sqrt(2 / 4000))


def known_input(t):
    return np.sin(3 * t) + 0.5 * t


HOLDS = {
    "zoh": lambda record, t: record.u[np.searchsorted(record.t, t, side="right") - 1, 0],
    "foh": lambda record, t: np.interp(t, record.t, record.u[:, 0]),
    "function": lambda record, t: known_input(t),
}


@pytest.mark.parametrize("hold", HOLDS)
@pytest.mark.parametrize("solver", [EKF0, EKF1])
def test_inputs_between_samples(hold, solver):
    """Against a classical solver that starts anew at every sample; off the grid, smoothed too."""
    u = np.random.default_rng(1).normal(size=9)
    record = Record(
        u=known_input if hold == "function" else u, t=0.25 * np.arange(9.0),
        hold="foh" if hold == "function" else hold,
    )  # fmt: skip
    solution = smcpn.solve(
        filtered, record, {"rate": 2.0}, initial=[0.5], rtol=1e-9, atol=1e-9,
        solver=solver(order=4, diffusion="dynamic", smooth=True),
    )  # fmt: skip
    x, t = [0.5], record.t
    for k in range(8):
        middle = 1e-12
        part = solve_ivp(
            lambda s, z: 2.0
            * (np.tanh(HOLDS[hold](record, np.clip(s, t[k], t[k + 1] - middle))) - z),  # noqa: B023
            (t[k], t[k + 1]), [x[-1]], method="DOP853", rtol=1e-12, atol=1e-12,
        )  # fmt: skip
        x.append(float(part.y[0, -1]))
    np.testing.assert_array_equal(solution.t, record.t)
    np.testing.assert_allclose(solution.mean[:, 0], x, atol=1e-7)
    assert np.isfinite(solution(np.linspace(0.0, 2.0, 77))[1]).all()


def test_band_limited_input_is_met_between_samples():
    """A periodic record's input is a known sine, whose response is known."""
    t = np.arange(32) / 4
    record = Record(u=np.sin(2 * np.pi * t / 4), dt=0.25, hold="bandlimited", periodic=True)

    @smcpn.ode
    def follow(x, u):
        return u - x

    w = np.pi / 2
    solution = smcpn.solve(
        follow, record, initial=[-w / (1 + w**2)], rtol=1e-11, atol=1e-11, solver=EKF1(order=5)
    )
    exact = (np.sin(w * t) - w * np.cos(w * t)) / (1 + w**2)
    np.testing.assert_allclose(solution.mean[:, 0], exact, atol=1e-9)


@pytest.mark.parametrize("solver", [EKF0(order=5, diffusion="dynamic"), EKF1(order=5)])
def test_chain_form_solves_the_same_equation(solver):
    arguments = dict(initial=[1.0, 0.0], rtol=1e-8, atol=1e-8)
    exact = np.array([np.cos(6.0), -2.0 * np.sin(6.0)])
    for form in ("first", "chain"):
        solution = smcpn.solve(
            rotation, (0.0, 3.0), {"w": 2.0}, solver=replace(solver, form=form), **arguments
        )
        np.testing.assert_allclose(solution.mean[-1], exact, atol=2e-6)


def test_stiff_equation_needs_few_steps():
    """Explicit steps would have to be shorter than 1e-5."""
    solution = smcpn.solve(
        van_der_pol, (0.0, 2.0), {"mu": 1e5}, initial=[2.0, 0.0], solver=EKF1(order=5), rtol=1e-3,
        atol=1e-6,
    )  # fmt: skip
    assert solution.success
    assert solution.stats.steps < 3000
    np.testing.assert_allclose(solution.mean[-1, 0], 1.7084078, atol=1e-3)
    assert np.isfinite(solution.covariance).all()


@pytest.mark.parametrize(
    "solver",
    [EKF1(order=11), EKF1(order=11, diffusion="fixed"), EKF0(order=6, diffusion="dynamic")],
)
def test_high_order_and_tight_tolerance_keep_positive_definiteness(solver, predators):
    solution = predator_solution(replace(solver, smooth=True), rtol=1e-12, atol=1e-12)
    assert solution.success
    assert np.abs(solution.mean - predators(solution.t).T).max() < 1e-10
    values = np.linalg.eigvalsh(solution.covariance[1:])
    assert (values > 0).all()


def test_step_control_starts_where_it_is_told():
    solution = predator_solution(EKF1(order=3), first_step=1e-3)
    assert solution.grid[1] == 1e-3


def test_failures_are_values():
    pole = smcpn.solve(explosion, (0.0, 2.0), initial=[1.0], solver=EKF1(order=4))
    assert not pole.success
    assert "pole" in pole.message
    assert pole.grid[-1] == pytest.approx(1.0, abs=1e-3)
    assert len(pole.mean) == len(pole.grid)
    spent = predator_solution(EKF0(order=3), max_steps=5)
    assert not spent.success
    assert "max_steps" in spent.message
    assert spent.stats.steps == 5
    fixed = smcpn.solve(explosion, (0.0, 2.0), initial=[1.0], solver=EKF0(order=3, steps=50))
    assert not fixed.success
    negative = smcpn.solve(root, (0.0, 2.0), initial=[1.0], solver=EKF0(order=2))
    assert not negative.success
    nowhere = smcpn.solve(root, (0.0, 2.0), initial=[-1.0], solver=EKF0(order=2))
    assert not nowhere.success


def test_a_state_that_stays_is_solved_exactly():
    for solver in (EKF0(order=3, diffusion="dynamic-diagonal"), EKF1(order=3, smooth=True)):
        solution = smcpn.solve(rotation, (0.0, 1.0), {"w": 1.0}, initial="rest", solver=solver)
        assert solution.success
        np.testing.assert_array_equal(solution.mean, 0.0)
        np.testing.assert_array_equal(solution.covariance, 0.0)
        assert np.isfinite(solution(np.linspace(0, 1, 7))[0]).all()
        np.testing.assert_array_equal(solution.sample(np.random.default_rng(0)), 0.0)


def test_named_diffusion_is_a_parameter():
    named = smcpn.solve(
        rotation, (0.0, 1.0), {"w": 1.0, "kappa": 3.0}, initial=[1.0, 0.0],
        solver=EKF1(order=3, diffusion="kappa"),
    )  # fmt: skip
    number = smcpn.solve(
        rotation, (0.0, 1.0), {"w": 1.0}, initial=[1.0, 0.0], solver=EKF1(order=3, diffusion=3.0)
    )
    np.testing.assert_array_equal(named.covariance, number.covariance)


REFUSED = {
    "parameter 'c'": dict(parameters={"a": 1.0, "b": 1.0}),
    "'e' belongs to no": dict(parameters={**VALUES, "e": 1.0}),
    "parameters is": dict(parameters=[1.0]),
    "initial": dict(initial=[1.0]),
    "initial x": dict(initial=[np.nan, 1.0]),
    "initial names 'q'": dict(initial=["q", 1.0]),
    "rtol": dict(rtol=0.0),
    "atol": dict(atol=np.nan),
    "first_step": dict(first_step=-1.0),
    "max_steps": dict(max_steps=0),
    "control": dict(control="PID"),
    "solver": dict(solver=smcpn.RK4()),
    "over is": dict(over=(1.0, 0.0)),
    "over is 3": dict(over=3.0),
    "at is": dict(at=[3.0]),
    "diffusion is the parameter": dict(solver=EKF0(diffusion="kappa")),
    "order is 1": dict(over=(0.0, 1.0), ode=rotation, parameters={"w": 1.0},
                       solver=EKF0(order=1, form="chain")),
    "has inputs": dict(ode=filtered, parameters={"rate": 1.0}, initial=[1.0]),
    "has 2 columns": dict(over=Record(u=np.ones((4, 2)), dt=0.1)),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_refused_in_a_sentence(message):
    arguments = dict(ode=lotka_volterra, over=(0.0, 1.0), parameters=VALUES, initial=START)
    with pytest.raises(InputError, match=message):
        smcpn.solve(**{**arguments, **REFUSED[message]})


def test_a_solution_refuses_too():
    solution = predator_solution(EKF0(order=2, diffusion="dynamic"))
    with pytest.raises(InputError, match="t is"):
        solution(3.0)
    with pytest.raises(InputError, match="rng"):
        solution.sample(1)
    with pytest.raises(InputError, match="t is"):
        solution.sample(np.random.default_rng(0), t=[0.5, 3.0])
    with pytest.raises(InputError, match="reference has shape"):
        solution.chi2(np.zeros((3, 2)))
    assert "lotka_volterra" in repr(solution)


def test_plot_has_a_panel_for_each_state():
    figure = predator_solution(EKF1(order=3, smooth=True)).plot()
    assert len(figure.axes) == 3


@pytest.mark.parametrize("solver", [EKF1(order=5), EKF1(3, 4), EKF0(3)])
def test_a_solution_is_the_same_in_other_units(solver):
    """Of time and of each state."""

    def solution(time: float, x: float, y: float) -> smcpn.Solution:
        rates = {"a": 1.5, "b": 1.0 / y, "c": 2.0, "d": 1.0 / x}
        return smcpn.solve(
            lotka_volterra, np.linspace(0.0, 3.0, 7) * time,
            {name: rate / time for name, rate in rates.items()},
            initial=[x, 1.5 * y], solver=solver, rtol=1e-6, atol=1e-300,
        )  # fmt: skip

    here = solution(1.0, 1.0, 1.0)
    for time, x, y in ((1e12, 1e-12, 1.0), (1e-12, 1e6, 1e12), (1e-6, 1e-9, 1e9)):
        there = solution(time, x, y)
        assert there.stats == here.stats
        np.testing.assert_allclose(there.mean / [x, y], here.mean, rtol=1e-9)
        np.testing.assert_allclose(there.sd[1:] / [x, y], here.sd[1:], rtol=1e-3)
