"""Gradients and Hessians of the likelihoods: finite differences, exact formulas, and kinks."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import casadi as ca
import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn import EKF0, EKF1, RK4, InputError, LogLikelihood, Poisson, Problem, Record, StudentT
from smcpn.codegen.tangent import derived
from smcpn.likelihood.lanes import CHUNK, LaneLikelihood
from smcpn.likelihood.registry import build_likelihood
from smcpn.run.identify import Settings
from smcpn.run.run import Run
from tests.codegen.test_codegen import EXPRESSIONS, A, B
from tests.models import (
    FITZHUGH_NAGUMO,
    FITZHUGH_NAGUMO_START,
    FREE_OSCILLATOR,
    PROBLEMS,
    bouc_wen_problem,
    duffing_problem,
    fitzhugh_nagumo,
    fitzhugh_nagumo_solution,
    forced_input,
    free_oscillator_problem,
    lotka_volterra_problem,
)
from tests.models import decay as fading
from tests.nightly import nightly_but

pytestmark = pytest.mark.numerics


@smcpn.ode
def friction(x, v, z, u, *, k, rub, n):
    """A mass with dry friction and hysteresis: every kink that a model may have."""
    drive = np.maximum(u, -0.5) + np.minimum(0.3 * v, 0.4)
    loss = rub * np.sign(v) * np.sqrt(np.abs(v) + 0.1) + np.where(x > 0, 0.2 * x, 0.1 * x)
    return v, drive - loss - k * x - z, v - 0.5 * np.abs(v) * np.abs(z) ** (n - 1) * z


@smcpn.ode
def decay(x, u, *, rate):
    return u - rate * x


def friction_problem() -> Problem:
    """Held input, noise a parameter, at rest in the kinks."""
    y = 0.2 * np.random.default_rng(0).normal(size=25)
    prior: dict[str, Any] = {name: stats.lognorm(1.0) for name in ("k", "rub", "n", "sigma")}
    record = Record(u=forced_input(25, 0.2), y=y, dt=0.2, hold="zoh")
    return Problem(friction, record, observe="x", noise="sigma", prior=prior)


def decay_problem(noise: Any = "sigma", **options: Any) -> Problem:
    """Two records, irregular times, a gap; noise, initial state and diffusion are parameters."""
    rng = np.random.default_rng(1)
    records = [
        Record(
            u=rng.normal(size=n),
            y=np.where(np.arange(n) == 3, np.nan, rng.poisson(2.0, size=n)),
            t=np.cumsum(rng.uniform(0.2, 0.5, n)),
            hold="zoh",
        )
        for n in (12, 7)
    ]
    prior: dict[str, Any] = {name: stats.lognorm(1.0) for name in ("rate", "kappa", "x0")}
    prior |= {name: stats.lognorm(1.0) for name in [noise] if isinstance(name, str)}
    return Problem(
        decay,
        records,
        observe="x",
        noise=noise,
        prior=prior | options,
        initial=["x0"],
        diffusion="kappa",
    )


def fitzhugh_nagumo_problem() -> Problem:
    """Eight parameters: of the model, two initial values, two noises and the diffusion."""
    noise = np.sqrt(0.005) * np.random.default_rng(0).normal(size=(41, 2))
    y = (fitzhugh_nagumo_solution() + noise)[:13]
    names = ("a", "b", "c", "V0", "R0", "s1", "s2", "kappa")
    prior: dict[str, Any] = {
        name: stats.norm(0, 3) if "0" in name else stats.lognorm(1.0) for name in names
    }
    return Problem(
        fitzhugh_nagumo,
        Record(y=y, dt=1.0),
        observe=["V", "R"],
        noise=["s1", "s2"],
        prior=prior,
        initial=["V0", "R0"],
        diffusion="kappa",
    )


def uncalibrated(problem: Problem) -> Problem:
    """The same problem where the solver's diffusion is no parameter."""
    prior = {n: d for n, d in problem.prior.distributions.items() if n != "kappa"}
    return Problem(
        problem.ode,
        list(problem.records),
        observe=problem.observe,
        noise=problem.noise,
        prior=prior,
        initial=problem.initial,
    )


FHN = np.array([*FITZHUGH_NAGUMO, *FITZHUGH_NAGUMO_START, 0.1, 0.08, 1.3])
DECAY = np.array([0.8, 1.5, 1.2, 0.9])
CASES = {
    "marginal, irregular": (
        lotka_volterra_problem, np.array([1.5, 1.0, 2.0, 1.0, 0.9]), "marginal", EKF0(3, 2),
    ),
    "classical, kinks": (friction_problem, np.array([2.0, 0.3, 1.7, 0.25]), "classical", RK4(3)),
    "filtering, driven, calibrated": (
        lambda: duffing_problem(30), np.array([1.0, 0.4, 2.0, 0.5]), "filtering",
        EKF0(3, 2, form="chain", diffusion="fixed"),
    ),
    "dalton, two records": (decay_problem, DECAY, "dalton", EKF1(2, 2, diffusion="kappa")),
    "fenrir, diagonal": (
        fitzhugh_nagumo_problem, FHN, "fenrir",
        EKF1(2, 10, diffusion="kappa", jacobian="diagonal"),
    ),
    "dalton, counts": (
        lambda: decay_problem(Poisson()), DECAY[:3], "dalton",
        EKF1(2, 2, diffusion="kappa"),
    ),
    "filtering, heavy tails": (
        lambda: decay_problem(StudentT("s", "df"), df=stats.lognorm(1), s=stats.lognorm(1)),
        np.array([0.8, 1.5, 1.2, 4.0, 1.1]), "filtering", EKF1(2, 2, diffusion="kappa"),
    ),
}  # fmt: skip
SLOW = {
    f"{name}, {solver}": (problem, theta, name, solver)
    for problem, theta, kinds in (
        (fitzhugh_nagumo_problem, FHN, {
            "filtering": (EKF0(2, 20, diffusion="kappa"), EKF1(2, 10, diffusion="kappa")),
            "dalton": (EKF0(2, 20, diffusion="kappa"), EKF1(2, 10, diffusion="kappa")),
            "fenrir": (EKF0(2, 20, diffusion="kappa"), EKF1(2, 10, diffusion="kappa")),
        }),
        (lambda: uncalibrated(fitzhugh_nagumo_problem()), FHN[:7], {
            "marginal": (EKF0(2, 20),),
            "filtering": (EKF1(2, 10, diffusion="fixed"), EKF0(2, 20, diffusion="fixed-diagonal")),
            "dalton": (EKF0(2, 20, diffusion=2.0),),
            "fenrir": (EKF0(2, 20, diffusion=2.0),),
            "classical": (RK4(10),),
        }),
        (free_oscillator_problem, FREE_OSCILLATOR, {
            "filtering": (EKF1(3, 2, form="chain", diffusion=2.0), EKF0(3, 2, form="chain")),
            "fenrir": (EKF1(2, 2, diffusion=2.0),),
            "classical": (RK4(2),),
            "marginal": (EKF0(2, 4),),
        }),
        (friction_problem, np.array([2.0, 0.3, 2.3, 0.25]), {
            "marginal": (EKF0(2, 3),),
            "filtering": (EKF1(1, 2, diffusion=0.5, jacobian="diagonal"),),
        }),
        (bouc_wen_problem, np.array([2.0, 10, 5e4, 5e4, 1e3, 0.8, -1.1, 3.0]), {
            "marginal": (EKF0(3, 2),),
            "classical": (RK4(1),),
        }),
    )
    for name, solvers in kinds.items()
    for solver in solvers
}  # fmt: skip
EVERY = CASES | SLOW


@cache
def log_likelihood(case: str) -> LogLikelihood:
    problem, _, name, solver = EVERY[case]
    return LogLikelihood(problem(), name, solver)


def differences(log_likelihood: LogLikelihood, theta: np.ndarray) -> np.ndarray:
    """Gradient by central differences, extrapolated as far as that helps (Ridders 1982).

    Of each parameter the entry of the table that differs least from its neighbours is taken:
    steps that reach beyond a kink or are lost in rounding drop out.
    """
    d, halvings = len(theta), 0.5 ** np.arange(14)
    steps = 1e-2 * halvings[:, None] * np.abs(theta)
    shifts = np.concatenate([steps, -steps])[:, :, None] * np.eye(d)
    up, down = log_likelihood((theta + shifts).reshape(-1, d)).reshape(2, -1, d)
    column = (up - down) / (2 * steps)
    best, least = column[0], np.full(d, np.inf)
    for order in range(1, 5):
        finer = column[1:] + (column[1:] - column[:-1]) / (4**order - 1)
        errors = np.maximum(np.abs(finer - column[1:]), np.abs(finer - column[:-1]))
        rows = errors.argmin(axis=0)
        error, column = errors[rows, np.arange(d)], finer
        best = np.where(error < least, finer[rows, np.arange(d)], best)
        least = np.minimum(error, least)
    return best


@pytest.mark.parametrize("case", nightly_but(CASES.keys() - {"fenrir, diagonal"}, [*CASES, *SLOW]))
def test_the_gradient_is_that_of_finite_differences(case):
    _, theta, _, _ = EVERY[case]
    function = log_likelihood(case)
    value, gradient = function.value_and_gradient(theta[None, :])
    assert value[0] == pytest.approx(function(theta[None, :])[0], rel=1e-11)
    relative, expected = gradient[0] * theta, differences(function, theta) * theta
    floor = 1e-8 * np.abs(expected).max()
    np.testing.assert_allclose(relative, expected, rtol=1e-6, atol=floor)


def fading_problem(y: np.ndarray, t: np.ndarray) -> Problem:
    prior: dict[str, Any] = {
        "rate": stats.lognorm(1.0),
        "x0": stats.lognorm(1.0),
        "sd": stats.lognorm(1.0),
    }
    return Problem(fading, Record(y=y, t=t), observe="x", noise="sd", prior=prior, initial=["x0"])


def exact_log_density(rate: ca.SX, start: ca.SX, sd: ca.SX, y: np.ndarray, t: np.ndarray) -> ca.SX:
    residual = y - start * ca.exp(-rate * t)
    return -ca.sumsqr(residual) / (2 * sd**2) - len(y) * ca.log(sd)


@pytest.mark.parametrize(
    ("name", "solver"),
    [("classical", RK4(40)), ("fenrir", EKF1(4, 20, diffusion=1e-3))],
)
def test_a_linear_system_has_the_exact_gradient_and_hessian(name, solver):
    t, rng = np.arange(15) * 0.2, np.random.default_rng(2)
    y = 3e-5 * np.exp(-0.7 * t) + 1e-6 * rng.normal(size=15)
    theta = np.array([0.7, 3e-5, 1e-6])
    symbols = ca.SX.sym("theta", 3, 1)
    exact = exact_log_density(symbols[0], symbols[1], symbols[2], y, t)
    hessian, gradient = ca.hessian(exact, symbols)
    functions = ca.Function("exact", [symbols], [gradient, hessian])
    expected = [np.array(part) for part in functions(theta)]
    function = LogLikelihood(fading_problem(y, t), name, solver)
    # The solver's own error is a part of the likelihood: 1e-7 of it at these steps.
    _, found = function.value_and_gradient(theta[None, :])
    np.testing.assert_allclose(found[0] * theta, expected[0][:, 0] * theta, rtol=1e-5)
    scaled = np.outer(theta, theta)
    found = function.hessian(np.array([theta, 1.1 * theta]))
    assert np.array_equal(found, found.transpose(0, 2, 1))
    np.testing.assert_allclose(
        found[0] * scaled, expected[1] * scaled, rtol=1e-5, atol=1e-5 * np.abs(scaled).max()
    )


@pytest.mark.parametrize("case", ["dalton, two records", "fenrir, diagonal"])
def test_the_hessian_is_that_of_second_differences(case):
    _, theta, _, _ = EVERY[case]
    function, steps = log_likelihood(case), 1e-3 * np.abs(theta)
    points = np.concatenate([theta + sign * np.diag(steps) for sign in (1, -1, 0.5, -0.5)])
    up, down, up_half, down_half = function.value_and_gradient(points)[1].reshape(
        4, *[len(theta)] * 2
    )
    expected = (8 * (up_half - down_half) - (up - down)) / (6 * steps[:, None])
    scaled = np.outer(theta, theta)
    found = function.hessian(theta[None, :])[0] * scaled
    floor = 1e-7 * np.abs(found).max()
    np.testing.assert_allclose(found, expected * scaled, rtol=1e-5, atol=floor)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_hessian_is_that_of_differences_of_fourth_order(name):
    """To 2e-6 of the curvature: a sixth of the square of the step times the fourth derivative."""
    found = smcpn.maximise(PROBLEMS[name](), solver=EKF0(3, 2), starts=2, search="shooting")
    function, values = found.function, found.values[None, :]
    gradient, hessian = function.gradient_and_hessian(values)
    assert np.array_equal(gradient, function.value_and_gradient(values)[1])
    steps = 1e-3 / np.sqrt(-np.diag(hessian[0]))
    nodes = (values + node * np.diag(steps) for node in (-2, -1, 1, 2))
    low, before, after, high = (function.value_and_gradient(node)[1] for node in nodes)
    expected = (8.0 * (after - before) - (high - low)) / (12.0 * steps[:, None])
    assert np.abs((hessian[0] - expected) * np.outer(steps, steps)).max() < 2e-6 * 1e-6


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_the_rules_are_those_of_casadi_at_regular_points(name):
    graph, along = ca.vec(EXPRESSIONS[name]), ca.SX.sym("along", 2, 1)
    symbols = ca.vertcat(A, B)
    value, found = derived(graph, symbols, along)
    expected = ca.jtimes(graph, symbols, along)
    function = ca.Function("both", [A, B, along], [found, expected, value, graph])
    points = np.random.default_rng(0).uniform(0.1, 0.9, (2, 40))
    for a, b in points.T:
        found, expected, value, graph = (
            np.array(part).ravel() for part in function(a, b, [0.7, -0.4])
        )
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
        np.testing.assert_array_equal(value, graph)


@pytest.mark.parametrize(
    ("graph", "a", "along", "expected"),
    [
        pytest.param(ca.if_else(A > 0, ca.sqrt(A), 0.5 * A), -2.0, (1, 0), 0.5, id="branch"),
        pytest.param(ca.fmax(ca.sqrt(A), B), 0.0, (1, 1), 1.0, id="maximum"),
        pytest.param(ca.sqrt(A) + B, 0.0, (0, 1), 1.0, id="still"),
        pytest.param(ca.fabs(A) ** B, 0.0, (0, 1), 0.0, id="power of nothing"),
        pytest.param(ca.sign(A) * B, 0.0, (1, 1), 0.0, id="sign"),
    ],
)  # fmt: skip
def test_there_is_a_derivative_beside_a_singularity(graph, a, along, expected):
    _, slope = derived(graph, ca.vertcat(A, B), ca.SX(ca.DM(along)))
    assert float(ca.Function("slope", [A, B], [slope])(a, 1.5)) == expected


def test_directions_are_one_for_each_row_and_gradients_any_number_of_rows():
    _, theta, _, _ = EVERY["fenrir, diagonal"]
    function = log_likelihood("fenrir, diagonal")
    values = theta * np.array([1.0, 0.97, 1.02])[:, None]
    direction = np.random.default_rng(0).normal(size=values.shape)
    value, slope = function.derivative(values, direction)
    total, gradient = function.value_and_gradient(values)
    np.testing.assert_array_equal(value, total)
    np.testing.assert_allclose(slope, np.sum(gradient * direction, axis=1), rtol=1e-9)
    one = function.value_and_gradient(values[1:2])
    assert np.array_equal(one[0], total[1:2])
    assert np.array_equal(one[1], gradient[1:2])
    none = function.value_and_gradient(values[:0])
    assert none[0].shape == (0,)
    assert none[1].shape == (0, 8)
    assert function.hessian(values[:0]).shape == (0, 8, 8)


def test_the_value_is_that_of_the_likelihood_and_threads_do_not_matter():
    problem, theta, name, solver = EVERY["dalton, two records"]
    values = theta * np.exp(0.1 * np.random.default_rng(0).normal(size=(3000, 4)))
    one, two = (LogLikelihood(problem(), name, solver, threads=n) for n in (1, 2))
    likelihood = build_likelihood(problem(), solver, likelihood=name)
    np.testing.assert_array_equal(one(values), likelihood.evaluate(values, likelihood.n_samples)[1])
    for ours, theirs in zip(*(f.value_and_gradient(values) for f in (one, two)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_record_longer_than_a_chunk_adds_up():
    t = 0.01 * np.arange(CHUNK + 50)
    y = np.random.default_rng(5).normal(size=len(t))
    function = LogLikelihood(fading_problem(y, t), "classical", RK4(1))
    theta = np.array([0.05, 1.0, 1.1])
    gradient = function.value_and_gradient(theta[None, :])[1][0]
    np.testing.assert_allclose(gradient, differences(function, theta), rtol=1e-6)


def test_a_value_alone_does_not_compile_the_tangent(monkeypatch):
    problem, theta, name, solver = EVERY["dalton, two records"]
    function = LogLikelihood(problem(), name, solver)

    def refuse(self):
        raise AssertionError

    monkeypatch.setattr(LaneLikelihood, "tangent", refuse)
    assert np.isfinite(function(theta[None, :])).all()


def test_what_diverges_is_excluded_without_a_warning():
    function = log_likelihood("fenrir, diagonal")
    values = np.tile(FHN, (3, 1))
    values[0, 2], values[1, 0] = -1e6, np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value, gradient = function.value_and_gradient(values)
        hessian = function.hessian(values)
        assert function(values)[:2].tolist() == [-np.inf, -np.inf]
    assert value[:2].tolist() == [-np.inf, -np.inf]
    assert np.isnan(gradient[:2]).all()
    assert np.isfinite(gradient[2]).all()
    assert np.isfinite(hessian[2]).all()


def test_steps_are_chosen_as_for_a_run():
    t = 0.1 * np.arange(10)
    problem = fading_problem(np.exp(-t), t)
    function = LogLikelihood(problem)
    run = Run(problem, Settings(method="ibis", particles=10).resolved(problem))
    assert function.solver == run.solver
    assert function.likelihood == "marginal"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([0.1, 0.2], "values has shape (2,)"),
        (np.zeros((3, 5)), "values has shape (3, 5)"),
        ([["a", "b", "c", "d"]], "give numbers"),
    ],
)
def test_values_of_another_shape_are_refused(values, text):
    function = log_likelihood("dalton, two records")
    for method in (function, function.value_and_gradient, function.hessian):
        with pytest.raises(InputError) as error:
            method(values)
        assert text in str(error.value)


def test_what_does_not_fit_is_refused():
    problem, theta, name, solver = EVERY["dalton, two records"]
    function = log_likelihood("dalton, two records")
    with pytest.raises(InputError, match="directions has 2 rows but values has 1"):
        function.derivative(theta[None, :], np.zeros((2, 4)))
    with pytest.raises(InputError, match="likelihood is 'exact': choose one of"):
        LogLikelihood(problem(), "exact")
    with pytest.raises(InputError, match="does not go with"):
        LogLikelihood(problem(), name, RK4(2))
    with pytest.raises(InputError, match="problem is <function"):
        LogLikelihood(problem, name, solver)  # type: ignore[arg-type]
