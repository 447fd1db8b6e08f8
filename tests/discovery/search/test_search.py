"""The search on systems whose equations are known, and its parts against plain formulas."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.signal import lfilter

import smcpn
from smcpn.discovery.equations.system import CandidateSystem
from smcpn.discovery.search.linearisation import LibraryPaths, LibraryRate
from smcpn.discovery.search.path_regression import PathRegression, _correlation_time
from smcpn.discovery.search.search import Search
from smcpn.errors import InputError
from smcpn.estimate.path_search.linearisation import Intervals
from smcpn.estimate.path_search.smoothing import smoothed
from smcpn.estimate.smoothed_outputs import (
    _smoothing_spline,
    first_path,
    noise_variances,
)
from tests.discoveries import finished

pytestmark = pytest.mark.numerics
search = partial(finished, Search)


def solution(rhs, x0, t):
    return solve_ivp(rhs, (t[0], t[-1]), x0, t_eval=t, rtol=1e-9, atol=1e-11).y.T


def lotka_volterra(t, x):
    return [x[0] - 0.1 * x[0] * x[1], -1.5 * x[1] + 0.75 * x[0] * x[1]]


def lorenz(t, x):
    return [10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]]


LORENZ = ("x'[x]", "x'[y]", "y'[x]", "y'[y]", "y'[x z]", "z'[z]", "z'[x y]")
LOTKA_VOLTERRA = ("x'[x]", "x'[x y]", "y'[y]", "y'[x y]")


def polynomials(degree, states="xy", **options):
    library = smcpn.polynomials(degree, constant=False)
    return CandidateSystem.of(library, list(states), **options)


def support(system, names):
    assert set(names) <= set(system.coefficients)
    return np.isin(system.coefficients, names)


def noisy(x, share, seed):
    return x + share * x.std(axis=0) * np.random.default_rng(seed).normal(size=x.shape)


@pytest.mark.parametrize(
    ("degree", "noise"), [(2, 0.02), pytest.param(5, 0.01, marks=pytest.mark.nightly)]
)
def test_lorenz(degree, noise):
    t = np.arange(0.0, 2.005, 0.01)
    x = solution(lorenz, [-8.0, 7.0, 27.0], t)
    y = x + noise * 15.98 * np.random.default_rng(1).normal(size=x.shape)
    system = polynomials(degree, "xyz")
    found = search([smcpn.Record(y=y, t=t)], system)
    true = support(system, LORENZ)
    np.testing.assert_array_equal(found.models[0].support, true)
    assert found.inclusion[true].min() > 0.9
    assert found.inclusion[~true].max() < 0.1
    # The standard error of a deviation of 201 samples is 5 %.
    np.testing.assert_allclose(found.noise, noise * 15.98, rtol=0.2)
    exact = np.zeros(true.shape)
    exact[true] = [-10.0, 10.0, 28.0, -1.0, -1.0, -8 / 3, 1.0]
    off = np.abs(found.models[0].coefficients - exact)[true]
    assert np.all(off < 4 * found.models[0].deviations[true])


def test_irregular_times_missing_samples_and_two_records():
    rng = np.random.default_rng(3)
    records = []
    for x0, samples in (([5.0, 5.0], 120), ([2.0, 8.0], 60)):
        t = np.sort(rng.uniform(0.0, 0.1 * samples, samples))
        y = noisy(solution(lotka_volterra, x0, t), 0.05, samples)
        y[rng.uniform(size=y.shape) < 0.2] = np.nan
        records.append(smcpn.Record(y=y, t=t))
    system = polynomials(3)
    found = search(records, system)
    np.testing.assert_array_equal(found.models[0].support, support(system, LOTKA_VOLTERRA))
    assert len(found.path) == 180


def test_few_samples_a_period_begin_with_a_large_model_error():
    t = np.linspace(0.0, 25.0, 56)
    y = noisy(solution(lotka_volterra, [5.0, 5.0], t), 0.03, 5)
    system = polynomials(3)
    found = search([smcpn.Record(y=y, t=t)], system)
    np.testing.assert_array_equal(found.models[0].support, support(system, LOTKA_VOLTERRA))


def duffing_record(seed, hold="foh"):
    t = np.linspace(0.0, 20.0, 401)
    u = lambda t: 0.8 * np.cos(1.1 * t) + 0.3 * np.sin(2.7 * t)  # noqa: E731
    rhs = lambda t, x: [x[1], u(t) - 0.3 * x[1] + x[0] - x[0] ** 3]  # noqa: E731
    return smcpn.Record(u=u, y=noisy(solution(rhs, [1.0, 0.0], t)[:, :1], 0.05, seed), t=t)


def test_input_and_hidden_velocity():
    system = polynomials(3, "xv", inputs=["u"], known={"x": "v"})
    found = search([duffing_record(0)], system, observe=np.array([[1.0, 0.0]]))
    true = support(system, ("v'[x]", "v'[v]", "v'[u]", "v'[x^3]"))
    np.testing.assert_array_equal(found.models[0].support, true)


def test_noise_free_data():
    t = np.linspace(0.0, 10.0, 401)
    system = polynomials(3)
    found = search([smcpn.Record(y=solution(lotka_volterra, [5.0, 5.0], t), t=t)], system)
    np.testing.assert_array_equal(found.models[0].support, support(system, LOTKA_VOLTERRA))
    exact = [1.0, -0.1, -1.5, 0.75]
    coefficients = found.models[0].coefficients[found.models[0].support]
    np.testing.assert_allclose(coefficients, exact, rtol=1e-4)


def test_states_far_from_zero():
    """The terms that an offset of 300 brings cancel to one part in 1e5."""
    t = np.linspace(0.0, 20.0, 401)
    rhs = lambda t, x: [x[0] - 0.5 * x[0] * x[1], 0.4 * x[0] * x[1] - 0.8 * x[1]]  # noqa: E731
    y = 300.0 + noisy(solution(rhs, [4.0, 1.0], t), 0.03, 1)
    system = CandidateSystem.of(smcpn.polynomials(2), ["x", "y"])
    found = search([smcpn.Record(y=y, t=t)], system)
    true = support(system, [f"{s}'[{term}]" for s in "xy" for term in ("1", "x", "y", "x y")])
    np.testing.assert_array_equal(found.models[0].support, true)
    best = found.models[0]
    exact = [-45300.0, 151.0, 150.0, -0.5, 36240.0, -120.0, -120.8, 0.4]
    assert np.all(np.abs(best.coefficients[true] - exact) < 4.0 * best.deviations[true])


@pytest.mark.parametrize("noise", [0.0, 1e-9])
def test_terms_that_cancel_without_noise(noise):
    t = np.linspace(0.0, 10.0, 151)
    rhs = lambda t, x: 0.1 * x + 0.04 * x**3 - 0.001 * x**5  # noqa: E731
    y = noisy(solution(rhs, [1.0], t), noise, 0)
    system = CandidateSystem.of(smcpn.polynomials(5), ["x"])
    found = search([smcpn.Record(y=y, t=t)], system)
    true = support(system, ("x'[x]", "x'[x^3]", "x'[x^5]"))
    np.testing.assert_array_equal(found.models[0].support, true)
    np.testing.assert_allclose(found.models[0].coefficients[true], [0.1, 0.04, -0.001], rtol=1e-3)


def test_terms_that_are_constant_on_the_trajectory():
    """x y^2 is .75 wherever x' = -2 x, y' = y has been: as good as the constant."""
    t = np.linspace(0.0, 1.0, 100)
    system = CandidateSystem.of(smcpn.polynomials(3), ["x", "y"])
    y = np.column_stack([3.0 * np.exp(-2.0 * t), 0.5 * np.exp(t)])
    found = search([smcpn.Record(y=y, t=t)], system)
    true = support(system, ("x'[x]", "y'[y]"))
    np.testing.assert_array_equal(found.models[0].support, true)
    np.testing.assert_allclose(found.models[0].coefficients[true], [-2.0, 1.0], rtol=1e-4)


def test_steps_are_not_refined_to_where_solutions_grow_without_bounds():
    """x' = x^2 from 1 has no value at 2: one long step has."""
    t = np.arange(3) * 2.0
    record, rate = smcpn.Record(y=np.ones((3, 1)), t=t), LibraryRate(polynomials(2, "x"))
    paths = LibraryPaths([record], rate, np.eye(1), np.ones((3, 1)))
    path, theta = np.ones((1, 3, 1)), np.array([[0.0, 1.0]])
    paths.refine(path, theta, np.array([1e-6]))
    assert np.isfinite(paths.cost(path, theta, np.ones((1, 1)), np.ones((3, 1))))


def test_what_is_not_finite_is_told_in_one_sentence(monkeypatch):
    def diverges(*_):
        raise ValueError("the linear model has numbers that are not finite")

    monkeypatch.setattr(PathRegression, "linearised", diverges)
    record = smcpn.Record(y=np.random.default_rng(0).normal(size=(20, 1)), dt=0.1)
    with pytest.raises(InputError, match=r"no equation of these terms .* leave out terms"):
        search([record], polynomials(2, "x"))


def test_trajectories_of_a_loose_solver_have_no_more_terms():
    """Its error is a hundred times that of the data's digits; three more terms explain much."""
    t = np.linspace(0.0, 10.0, 501)
    rhs = lambda t, x: [x[1], 0.5 * (1 - x[0] ** 2) * x[1] - x[0]]  # noqa: E731
    y = solve_ivp(rhs, (0.0, 10.0), [2.0, 0.0], t_eval=t).y.T
    system = polynomials(3)
    found = search([smcpn.Record(y=y, t=t)], system)
    true = support(system, ("x'[y]", "y'[x]", "y'[y]", "y'[x^2 y]"))
    np.testing.assert_array_equal(found.models[0].support, true)
    best = found.models[0]
    off = best.coefficients[true] - [1.0, -1.0, 0.5, -0.5]
    assert np.all(np.abs(off) < 0.01)
    assert np.all(np.abs(off) < 6.0 * best.deviations[true])
    assert found.error > 1.0


def test_correlation_time_of_an_autoregression():
    rng = np.random.default_rng(0)
    values = lfilter([1.0], [1.0, -0.8], rng.normal(size=(20000, 2)), axis=0)
    # (1 + .8) / (1 - .8) = 9, of which the standard error is .5.
    assert _correlation_time(values) == pytest.approx(9.0, abs=1.5)
    assert _correlation_time(rng.normal(size=(20000, 2))) == pytest.approx(1.0, abs=0.1)
    assert _correlation_time(np.zeros((5, 2))) == 1.0


def test_a_stiff_system():
    t = np.arange(0.0, 20.0, 0.04)
    rhs = lambda t, x: [x[1], 10.0 * (1 - x[0] ** 2) * x[1] - x[0]]  # noqa: E731
    x = solution(rhs, [-2.0, 1.0], t)
    system = polynomials(3)
    found = search([smcpn.Record(y=noisy(x, 0.02, 0), t=t)], system)
    true = support(system, ("x'[y]", "y'[x]", "y'[y]", "y'[x^2 y]"))
    np.testing.assert_array_equal(found.models[0].support, true)


def test_same_seed_same_answer():
    t = np.linspace(0.0, 10.0, 101)
    record = smcpn.Record(y=noisy(solution(lotka_volterra, [5.0, 5.0], t), 0.1, 0), t=t)
    first, second = (search([record], polynomials(2), seed=3) for _ in range(2))
    assert first.inclusion.tobytes() == second.inclusion.tobytes()
    assert first.models[0].log_evidence == second.models[0].log_evidence


def test_noise_alone_has_no_terms():
    y = np.random.default_rng(0).normal(size=(200, 2)) + 3.0
    found = search([smcpn.Record(y=y, dt=0.1)], polynomials(2))
    assert found.inclusion.max() < 0.5
    assert not found.models[0].support.any()


def test_hidden_state_that_nothing_tells():
    with pytest.raises(InputError, match="state y is neither observed"):
        search([duffing_record(0)], polynomials(2, inputs=["u"]), observe=np.array([[1.0, 0.0]]))


def test_flow_has_the_derivatives_of_differences():
    constraints = ["x'[x] = 0.5 x'[y] + 0.3", "x'[u] = -2 y'[x u]", "y'[u] = 1"]
    system = polynomials(2, inputs=["u"], constraints=constraints)
    rate = LibraryRate(system.scaled(np.array([2.0, 0.5]), np.array([3.0])))
    record = duffing_record(0)[:6]
    rng = np.random.default_rng(0)
    theta, x = 0.3 * rng.normal(size=len(rate.unit)), rng.normal(size=(5, 2))
    intervals = Intervals(rate, [record])
    slopes = intervals.flow(x[None], theta[None]).slopes[0]
    h = 1e-6
    for k in range(len(theta)):
        step = h * (np.arange(len(theta)) == k)
        ends = [intervals.ends(x[None], (theta + s * step)[None])[0] for s in (1, -1)]
        np.testing.assert_allclose(slopes[..., 2 + k], (ends[0] - ends[1]) / (2 * h), atol=1e-8)


def test_rate_is_that_of_the_scaled_system():
    constraints = ["x'[x] = 0.5 x'[y] + 0.3", "x'[u] = -2 x'[x u]", "y'[u] = 1"]
    system = polynomials(2, inputs=["u"], constraints=constraints)
    scale = np.array([2.0, 0.5])
    rate = LibraryRate(system.scaled(scale, np.array([3.0])))
    rng = np.random.default_rng(0)
    phi = rng.normal(size=len(system.coefficients))
    x, u = rng.normal(size=(4, 2)), rng.normal(size=(4, 1))
    found = rate.value(x[None] / scale, u, np.zeros(4), (phi / rate.unit)[None])[0] * scale
    ode = system.equation()
    exact = [np.array(ode.rhs(x[k], u[k], 0.0, phi)).ravel() for k in range(4)]
    np.testing.assert_allclose(found, exact, rtol=1e-12)
    by, fixed = rate.columns(x / scale, u, np.zeros(4))
    np.testing.assert_allclose((by @ (phi / rate.unit) + fixed) * scale, exact, rtol=1e-12)


def test_restricted_is_the_same_with_zeros():
    system = polynomials(3)
    rate = LibraryRate(system)
    columns = np.array([1, 4, 12])
    x, u, t = np.random.default_rng(0).normal(size=(1, 7, 2)), np.empty((7, 0)), np.zeros(7)
    theta = np.zeros((1, len(rate.unit)))
    theta[0, columns] = [1.0, -2.0, 0.5]
    whole = rate.with_derivatives(x, u, t, theta)
    part = rate.restricted(columns).with_derivatives(x, u, t, theta[:, columns])
    np.testing.assert_allclose(part[0], whole[0], rtol=1e-14)
    np.testing.assert_allclose(part[1][..., 2:], whole[1][..., 2 + columns], rtol=1e-14)


def test_regression_is_the_likelihood_of_dense_covariances():
    """Squares and determinant of a linear system with model error, against the covariance of y."""
    rate = LibraryRate(polynomials(1, constraints=["x'[x] = 0"]))
    t = np.array([0.0, 0.1, 0.25, 0.3])
    y = np.random.default_rng(0).normal(size=(4, 1))
    y[1] = np.nan
    path, theta = np.zeros((4, 2)), np.array([1.0, -2.0, -0.3])
    observe, variances = np.array([[1.0, 0.5]]), np.array([0.04])
    paths = LibraryPaths([smcpn.Record(y=y, t=t)], rate, observe, np.zeros((4, 2)))
    error = np.tile([0.01, 0.02], (4, 1))
    (linear,) = paths.linear(path[None], theta[None], variances[None])
    found = smoothed(linear, error)
    covariance, blocks = np.zeros((8, 8)), np.eye(8)
    for k in range(1, 4):
        blocks[2 * k : 2 * k + 2, : 2 * k] = linear.a[k] @ blocks[2 * k - 2 : 2 * k, : 2 * k]
    covariance = blocks @ np.diag(error.ravel()) @ blocks.T
    seen = np.kron(np.eye(4), observe)[np.isfinite(y[:, 0])]
    total = seen @ covariance @ seen.T + 0.04 * np.eye(3)
    measured = y[np.isfinite(y)]
    square = measured @ np.linalg.solve(total, measured)
    assert found.residuals[:, 0] @ found.residuals[:, 0] == pytest.approx(square)
    log_determinant = np.linalg.slogdet(total / 0.04)[1]
    assert found.log_determinant == pytest.approx(log_determinant)


def test_noise_by_differences_at_any_times():
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, 10.0, 2000))
    y = np.column_stack([np.sin(t), 5.0 + t**3]) + [0.1, 2.0] * rng.normal(size=(2000, 2))
    # Overlapping sixth differences: relative standard error of a variance about 5 %.
    found = noise_variances([smcpn.Record(y=y, t=t)])
    np.testing.assert_allclose(found, [0.01, 4.0], rtol=0.25)


def test_spline_leaves_the_noise():
    t = np.linspace(0.0, 6.0, 300)
    y = np.sin(t) + 0.1 * np.random.default_rng(0).normal(size=300)
    spline = _smoothing_spline(t, y, 0.0093)
    assert np.mean((y - spline(t)) ** 2) == pytest.approx(0.0093, rel=0.02)
    assert np.sqrt(np.mean((spline(t) - np.sin(t)) ** 2)) < 0.04


def test_hidden_velocity_is_the_slope():
    t = np.linspace(0.0, 10.0, 500)
    record = smcpn.Record(y=np.sin(t) + 1e-3 * np.random.default_rng(0).normal(size=500), t=t)
    rate = LibraryRate(polynomials(1, "xv", known={"x": lambda v: 2.0 * v}))
    start = first_path([record], np.array([[1.0, 0.0]]), np.array([1e-6]), rate.equations())
    np.testing.assert_allclose(start.path[20:-20, 1], 0.5 * np.cos(t[20:-20]), atol=0.02)


def test_a_parameter_of_the_known_part_without_a_value():
    system = polynomials(2, "xv", known={"x": lambda v, *, gain: gain * v})
    with pytest.raises(InputError, match=r"gain=1\.0"):
        search([duffing_record(0)], system, observe=np.array([[1.0, 0.0]]))


def test_a_conserved_sum():
    """Transitions S -> I -> R with s' + i' + r' = 0: the equation of s is that of the others."""
    t = np.linspace(0.0, 30.0, 121)
    rhs = lambda t, x: [-0.8 * x[0] * x[1], 0.8 * x[0] * x[1] - 0.25 * x[1], 0.25 * x[1]]  # noqa: E731
    y = noisy(solution(rhs, [0.98, 0.02, 0.0], t), 0.02, 1)
    system = polynomials(2, "sir", constraints=["s' + i' + r' = 0"])
    found = search([smcpn.Record(y=y, t=t)], system).models[0]
    theta = system.matrix(found.coefficients)
    np.testing.assert_allclose(theta.sum(axis=0), 0.0, atol=1e-12)
    np.testing.assert_array_equal(found.support, support(system, ("i'[i]", "i'[s i]", "r'[i]")))


def test_a_coefficient_of_the_wrong_sign_is_not_allowed():
    t = np.linspace(0.0, 10.0, 101)
    decay = 3.0 * np.exp(-0.5 * t)[:, None]
    record = smcpn.Record(y=noisy(decay, 0.02, 0), t=t)
    free, growth = (
        search([record], polynomials(2, "x", constraints=signs)).models[0]
        for signs in (["x'[x] < 0"], ["x'[x] > 0"])
    )
    np.testing.assert_array_equal(free.support, [True, False])
    assert not growth.support[0]


def test_noise_that_is_told():
    t = np.linspace(0.0, 10.0, 101)
    record = smcpn.Record(y=noisy(solution(lotka_volterra, [5.0, 5.0], t), 0.1, 0), t=t)
    found = search([record], polynomials(2), noise=np.array([0.2, 1.0]))
    np.testing.assert_allclose(found.noise, [0.2, 1.0], rtol=1e-12)
    np.testing.assert_array_equal(found.models[0].support, support(polynomials(2), LOTKA_VOLTERRA))


def test_lynx_and_hare_with_noise_that_multiplies():
    """Pelts of the Hudson's Bay Company, 1900 to 1920, in thousands (Howard 2009)."""
    pelts = np.array(
        [
            [30, 47.2, 70.2, 77.4, 36.3, 20.6, 18.1, 21.4, 22, 25.4, 27.1,
            40.3, 57, 76.6, 52.3, 19.5, 11.2, 7.6, 14.6, 16.2, 24.7],
            [4, 6.1, 9.8, 35.2, 59.4, 41.7, 19, 13, 8.3, 9.1, 7.4,
            8, 12.3, 19.5, 45.7, 51.1, 29.7, 15.8, 9.7, 10.1, 8.6],
        ]
    )  # fmt: skip
    system = polynomials(2)
    record = smcpn.Record(y=pelts.T, dt=1.0)
    found = search([record], system, relative=True)
    np.testing.assert_array_equal(found.models[0].support, support(system, LOTKA_VOLTERRA))
    theta = found.models[0].coefficients[found.models[0].support]
    # Carpenter (2018) finds .55, -.028, -.80, .024 without disturbances of the states.
    np.testing.assert_allclose(theta, [0.55, -0.028, -0.80, 0.024], rtol=0.25)


def test_relative_noise_of_what_is_not_positive():
    record = smcpn.Record(y=np.linspace(-1.0, 1.0, 20), dt=0.1)
    with pytest.raises(InputError, match="an output that is not positive"):
        search([record], polynomials(2, "x"), relative=True)


@cache
def found_in_units(x, y, second):
    t = np.linspace(0.0, 6.0, 61)
    values = noisy(solution(lotka_volterra, [5.0, 5.0], t), 0.02, 0) * [x, y]
    return search([smcpn.Record(y=values, t=t * second)], polynomials(2)).models


UNIT = st.floats(-8.0, 8.0).map(lambda k: 10.0**k)


@settings(max_examples=3)
@given(UNIT, UNIT, UNIT)
def test_units_change_the_coefficients_and_nothing_else(x, y, second):
    first, other = found_in_units(1.0, 1.0, 1.0), found_in_units(x, y, second)
    assert len(first) == len(other)
    free = support(polynomials(2), LOTKA_VOLTERRA)
    np.testing.assert_array_equal(other[0].support, free)
    # x' = a x + b x y, y' = c y + d x y
    factor = np.array([1.0, 1.0 / y, 1.0, 1.0 / x]) / second
    expected = first[0].coefficients[free] * factor
    np.testing.assert_allclose(other[0].coefficients[free], expected, rtol=1e-4)
    assert other[0].probability == pytest.approx(first[0].probability, abs=1e-3)


@pytest.mark.parametrize("value", [0.0, 1e-300])
def test_an_output_that_is_constant_has_no_terms(value):
    t = np.linspace(0.0, 10.0, 101)
    y = noisy(solution(lotka_volterra, [5.0, 5.0], t), 0.02, 0)
    y[:, 1] = value
    system = polynomials(1)
    model = search([smcpn.Record(y=y, t=t)], system).models[0]
    assert not (model.support & support(system, ("y'[x]", "y'[y]"))).any()


def test_too_few_samples_to_tell_the_noise():
    record = smcpn.Record(y=np.ones((6, 1)), dt=0.1)
    with pytest.raises(InputError, match="6 samples, which"):
        search([record], polynomials(2, "x"))


def test_greedy_steps_that_end_at_other_equations_begin_again():
    """Four of four terms would have to change at once: greedy steps alone are 19 nats below."""
    library = smcpn.polynomials(2)
    rhs = lambda t, x: [x[0] - 0.5 * x[0] * x[1], 0.25 * x[0] * x[1] - 0.8 * x[1]]  # noqa: E731
    t = 0.25 * np.arange(120)
    y = solution(rhs, [4.0, 1.0], t) + 0.4 * np.random.default_rng(2).normal(size=(120, 2))
    found = search([smcpn.Record(y=y, t=t)], CandidateSystem.of(library, ["h", "f"]))
    names = np.array(CandidateSystem.of(library, ["h", "f"]).coefficients)
    assert set(names[found.models[0].support]) == {"h'[h]", "h'[h f]", "f'[f]", "f'[h f]"}
    assert found.models[0].probability > 0.9
