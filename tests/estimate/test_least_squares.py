"""Levenberg-Marquardt: information, steps of noise, pieces of a record, singular and hard cases."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn import EKF1, RK4, LogLikelihood, Problem, Record
from smcpn.estimate import least_squares
from smcpn.estimate.least_squares import climbed
from smcpn.estimate.log_density import LogDensity
from smcpn.likelihood.derivatives import BLOCK, products
from smcpn.likelihood.gradient import _information, _predicted
from tests.models import (
    LINE_SOLVER,
    decay,
    decay_problem,
    drift,
    oscillator_problem,
    oscillator_record,
    two_modes,
)


@smcpn.ode
def spring(x, v, u, *, c, k):
    """Linear oscillator of unit mass."""
    return v, u - c * v - k * x


def spring_problem(n: int = 60, noise=("sx", "sv"), hold: str = "foh") -> Problem:
    """Two outputs with noise that is learned, values missing, two records of different lengths."""
    rng, prior = np.random.default_rng(1), {"c": 0.3, "k": 2.0}
    records = []
    for samples in (n, n // 2):
        u = np.sin(0.05 * np.arange(samples) ** 1.3)
        y = smcpn.simulate(spring, Record(u=u, dt=0.1, hold=hold), prior, observe=["x", "v"])
        y = y + rng.normal(size=y.shape) * [0.02, 0.05]
        y[3, 0] = y[5] = np.nan
        records.append(Record(u=u, y=y, dt=0.1, hold=hold))
    scales = {name: stats.lognorm(1.0, scale=0.05) for name in noise if isinstance(name, str)}
    return Problem(
        spring, records, observe=["x", "v"], noise=list(noise),
        prior={"c": stats.lognorm(1.0), "k": stats.lognorm(1.0), **scales},
    )  # fmt: skip


SOLVERS = [RK4(steps=2), smcpn.EKF0(order=2, steps=1)]


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
def test_information_is_that_of_the_predicted_moments(solver):
    """Against dense algebra on means and covariances with their derivatives, sample by sample."""
    problem = spring_problem()
    function = LogLikelihood(problem, solver=solver)
    values = np.array([[0.4, 1.5, 0.03, 0.06], [0.2, 2.5, 0.1, 0.02]])
    total, gradient, information = function.expansion(values)
    np.testing.assert_allclose(total, function(values), rtol=1e-12)
    np.testing.assert_array_equal(gradient, function.value_and_gradient(values)[1])
    present = np.concatenate([np.isfinite(record.y) for record in problem.records])
    predicted = _predicted(function)
    for row, expected in zip(values, information, strict=True):
        pairs = np.hstack([np.tile(row, (4, 1)), np.eye(4)])
        _, emitted = predicted.emitted(pairs, predicted.start(pairs), 0, predicted.n_samples)
        own, slopes = emitted[:, :6, 0], emitted[:, 6:]
        change = slopes[:, 2:].transpose(0, 2, 1).reshape(-1, 4, 2, 2)
        plain = _information(slopes[:, :2], own[:, 2:].reshape(-1, 2, 2), change, present)
        np.testing.assert_allclose(expected, plain, rtol=1e-9, atol=1e-9 * np.abs(plain).max())


def test_a_share_is_the_beginning_of_each_record():
    problem = spring_problem(60)
    function, values = (
        LogLikelihood(problem, solver=RK4(steps=2)),
        np.array([[0.4, 1.5, 0.03, 0.06]]),
    )
    short = problem.with_records([problem.records[0][:30], problem.records[1][:15]])
    expected = LogLikelihood(short, solver=RK4(steps=2)).expansion(values)
    for one, other in zip(function.expansion(values, share=0.5), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("samples", [1, BLOCK, BLOCK + 1, 3 * BLOCK - 1])
def test_products_are_sums_over_all_samples(samples):
    rows = np.random.default_rng(0).normal(size=(samples, 3, 4))
    np.testing.assert_allclose(products(rows), np.einsum("mni,mnj->nij", rows, rows), rtol=1e-12)


def test_noise_takes_one_step_to_the_mean_square_of_the_residuals():
    """Undamped, with a flat prior and the parameters at their best: sigma is exact at once."""
    problem = decay_problem()
    density = LogDensity(LogLikelihood(problem, solver=RK4(steps=4)), "likelihood")
    assert density.noise == [problem.names.index("sigma")]
    best = smcpn.maximise(problem, density.log_likelihood, target="likelihood")
    for factor in (1e-3, 1e2):
        # A step leads to a fifth of the noise at least.
        begin = best.theta + np.where(np.array(problem.names) == "sigma", np.log(factor), 0.0)
        rounds = 1 if factor < 1 else 4
        end = climbed(density, begin[None, :], [[1]], rounds, damping=1e-12)[0]
        assert end.theta[1] == pytest.approx(best.theta[1], abs=1e-4)


@pytest.mark.parametrize("factor", [1e-4, 1e2])
def test_noise_that_is_far_off_moves_alone_first(factor):
    """Where it is a ten-thousandth of the residuals, trajectories gain what they should not."""
    problem = decay_problem()
    density = LogDensity(LogLikelihood(problem, solver=RK4(steps=4)))
    (noise,) = density.noise
    best = smcpn.maximise(problem, density.log_likelihood)
    begin = best.theta + 0.5
    begin[noise] = best.theta[noise] + np.log(factor)
    [climb] = climbed(density, begin[None], [list(range(len(begin)))], 100)
    first = climb.path[1] - climb.path[0]
    np.testing.assert_array_equal(np.flatnonzero(first), [noise])
    assert climb.evaluations < 20
    np.testing.assert_allclose(climb.theta, best.theta, atol=1e-4)


def test_a_parameter_of_noise_and_motion_is_no_noise_column():
    record = Record(t=np.arange(5.0), y=np.arange(5.0))
    problem = Problem(
        drift, record, observe="x", noise="rate", initial=[0.0], prior={"rate": stats.lognorm(1.0)}
    )
    function = LogLikelihood(problem, solver=LINE_SOLVER)
    assert LogDensity(function).noise == []
    assert smcpn.maximise(problem, function).success


def test_the_whole_record_follows_a_piece_of_it(monkeypatch):
    """Same mode; the starts meet on the piece, so that the whole is searched from once."""
    problem = decay_problem(200)
    function = LogLikelihood(problem, solver=RK4(steps=4))
    whole = smcpn.maximise(problem, function, starts=6, seed=1)
    monkeypatch.setattr(least_squares, "LONG", 100)
    parts = smcpn.maximise(problem, function, starts=6, seed=1)
    np.testing.assert_allclose(parts.values, whole.values, rtol=1e-5)
    assert parts.agreeing == whole.agreeing
    assert parts.evaluations < 0.6 * whole.evaluations
    for start in parts.starts:
        assert (np.diff(start.path_log_density) >= 0).all()
        np.testing.assert_allclose(start.path[-1], start.values, rtol=1e-9)


def test_a_start_that_knew_the_whole_record_is_not_left_for_the_piece(monkeypatch):
    problem = decay_problem(200)
    function = LogLikelihood(problem, solver=RK4(steps=4))
    best = smcpn.maximise(problem, function)
    monkeypatch.setattr(least_squares, "LONG", 100)
    again = smcpn.maximise(problem, function, starts=best.values)
    assert len(again.path) <= 2
    np.testing.assert_allclose(again.values, best.values, rtol=1e-5)


def test_starts_that_diverge_on_the_piece_are_rows_with_a_reason(monkeypatch):
    monkeypatch.setattr(least_squares, "LONG", 5)
    found = smcpn.maximise(two_modes(), solver=RK4(steps=4), starts={"a": [1e5, 0.1, 0.1]})
    assert [start.reason for start in found.starts] == [
        "the solution diverges at the start", "converged", "converged"
    ]  # fmt: skip
    assert found.starts[2].evaluations == 0


def test_a_parameter_that_does_nothing_keeps_its_prior_and_is_told():
    """Its column of the Jacobian is zero: the information is singular."""
    problem = decay_problem()
    idle = Problem(
        smcpn.ode(lambda x, *, rate, idle: -rate * x + 0.0 * idle), problem.records[0],
        observe="x", noise=0.05, initial=[1.0],
        prior={"rate": stats.lognorm(1.0), "idle": stats.norm(2.0, 0.5)},
    )  # fmt: skip
    mode = smcpn.maximise(idle, solver=RK4(steps=4))
    assert mode.success
    assert mode["idle"] == pytest.approx(2.0, abs=1e-6)
    likely = smcpn.maximise(idle, solver=RK4(steps=4), target="likelihood", starts=[[1.0, 3.0]])
    assert likely.success
    assert likely["idle"] == 3.0
    for found in (mode, likely):
        assert any("idle" in warning and "nothing" in warning for warning in found.warnings)


def test_parameters_of_which_only_the_product_counts():
    """The likelihood has a ridge; the search ends on it, wherever it is."""
    problem = decay_problem()
    both = Problem(
        smcpn.ode(lambda x, *, p, q: -p * q * x), problem.records[0], observe="x", noise=0.05,
        initial=[1.0], prior={"p": stats.lognorm(1.0), "q": stats.lognorm(1.0)},
    )  # fmt: skip
    ends = smcpn.maximise(both, solver=RK4(steps=4), target="likelihood", starts=4)
    assert all(start.success for start in ends.starts)
    products_found = [start.values.prod() for start in ends.starts]
    np.testing.assert_allclose(products_found, products_found[0], rtol=1e-4)


def test_methods_agree_on_an_oscillator_with_learned_noise():
    problem = spring_problem(150)
    function = LogLikelihood(problem, solver=smcpn.EKF0(order=2, steps=1))
    one = smcpn.maximise(problem, function, starts=6, seed=2)
    other = smcpn.maximise(problem, function, starts=6, seed=2, method="l-bfgs-b")
    assert one.method == "levenberg-marquardt"
    assert one.log_density >= other.log_density - 1e-6
    assert one.agreeing >= other.agreeing
    np.testing.assert_allclose(one.values, other.values, rtol=1e-3)
    gradient = LogDensity(function).value_and_gradient(one.theta[None, :])[1][0]
    covariance = np.linalg.inv(LogDensity(function).expansion(one.theta[None, :])[2][0])
    assert gradient @ covariance @ gradient < 1e-8


def test_coloured_noise_is_searched_by_the_innovations():
    problem = decay_problem(60)
    noise = smcpn.AR1("sigma", "rho")
    coloured = Problem(
        decay, problem.records[0], observe="x", noise=noise, initial=[1.0],
        prior={"rate": stats.lognorm(1.0), "sigma": stats.lognorm(1.0, scale=0.1),
               "rho": stats.uniform(0.0, 1.0)},
    )  # fmt: skip
    function = LogLikelihood(coloured, solver=RK4(steps=4))
    assert LogDensity(function).noise == [1]
    one = smcpn.maximise(coloured, function)
    other = smcpn.maximise(coloured, function, method="l-bfgs-b")
    assert one.log_density == pytest.approx(other.log_density, abs=1e-4)


def heavy_tailed(samples: int = 40) -> Problem:
    """A decay with Student's noise: no sum of squares."""
    return Problem(
        decay, decay_problem(samples).records[0], observe="x", noise=smcpn.StudentT(0.05),
        initial=[1.0], prior={"rate": stats.lognorm(1.0)},
    )  # fmt: skip


def test_few_samples_that_are_not_gaussian_are_searched_with_exact_curvature():
    one, other = (
        smcpn.maximise(heavy_tailed(), solver=RK4(steps=4), method=method)
        for method in ("auto", "l-bfgs-b")
    )
    assert one.method == "levenberg-marquardt"
    assert one.log_density == pytest.approx(other.log_density, abs=1e-8)
    assert all(start.success for start in one.starts)


def test_the_size_of_a_curvature_has_no_sign():
    density = LogDensity(LogLikelihood(two_modes(), solver=LINE_SOLVER))
    theta = np.random.default_rng(0).normal(size=(5, len(density.names)))
    sizes = density._sizes_of_curvature(theta) * density.scale[:, None] * density.scale
    curvature = density.hessian(theta) * density.scale[:, None] * density.scale
    eigenvalues = np.linalg.eigvalsh(curvature)
    assert (eigenvalues > 0.0).any()
    assert (eigenvalues < 0.0).any()
    np.testing.assert_allclose(
        np.linalg.eigvalsh(sizes), np.sort(np.abs(eigenvalues), axis=1), rtol=1e-8, atol=1e-8
    )


def test_many_samples_that_are_not_gaussian_are_left_to_quasi_newton(monkeypatch):
    monkeypatch.setattr(least_squares, "EXACT", 0)
    assert smcpn.maximise(heavy_tailed(), solver=RK4(steps=4)).method == "l-bfgs-b"
    with pytest.raises(smcpn.InputError, match="does not suit the classical likelihood"):
        smcpn.maximise(heavy_tailed(), solver=RK4(steps=4), method="levenberg-marquardt")


def test_the_filtering_likelihood_is_searched_as_least_squares():
    """To the maximum of the quasi-Newton search, with a fraction of its evaluations."""
    problem = oscillator_problem(oscillator_record(samples=60))
    function = smcpn.LogLikelihood(problem, "filtering", EKF1(3, 2, form="chain"))
    found, other = (
        smcpn.maximise(problem, function, starts=4, method=method, search="shooting")
        for method in ("auto", "l-bfgs-b")
    )
    assert found.method == "levenberg-marquardt"
    assert found.log_density > other.log_density - 1e-6
    assert 2 * found.evaluations < other.evaluations
