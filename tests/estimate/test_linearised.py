"""The linearised posterior: exact where outputs are linear, and what it says of a network."""

import casadi as ca
import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.errors import InputError
from smcpn.estimate.lifted.linearisation import _slopes_forward, _slopes_reverse
from smcpn.estimate.log_density import LogDensity
from smcpn.estimate.nuts.coordinates import Coordinates, check_bend

RK4 = smcpn.RK4(steps=1)
NOISE = 0.1
T = 0.1 * np.arange(31)


@smcpn.ode(sizes={"c": 3})
def integrated(x, u, *, c):
    return c[0] + c[1] * u + c[2] * u**2


smooth = smcpn.network("u", hidden=(7,), within=(-1, 1))


@smcpn.ode
def through_network(x, u, *, smooth):
    return smooth(u) - x


def problem_of(model, **prior):
    y = np.sin(T) + NOISE * np.random.default_rng(0).normal(size=len(T))
    record = smcpn.Record(u=np.cos(2.0 * T), y=y, dt=0.1)
    return smcpn.Problem(model, record, observe="x", noise=NOISE, initial={"x": 0.0}, prior=prior)


@pytest.fixture(scope="module")
def of_network():
    problem = problem_of(through_network)
    return smcpn.laplace(
        problem, solver=RK4, starts=1, search="shooting", iterations=30, curvature="gauss-newton"
    )


def test_is_linear_regression_where_outputs_are_linear():
    problem = problem_of(integrated, c=stats.norm(0.0, 2.0))
    found = smcpn.laplace(problem, solver=RK4, curvature="gauss-newton")
    record = problem.records[0]
    by = [smcpn.simulate(integrated, record, {"c": one}, observe="x")[:, 0] for one in np.eye(3)]
    design = np.stack(by, axis=1)
    covariance = np.linalg.inv(design.T @ design / NOISE**2 + np.eye(3) / 4.0)
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-6)
    exact = smcpn.laplace(problem, solver=RK4)
    assert found.log_evidence == pytest.approx(exact.log_evidence, abs=1e-5)
    # Linear as well: what nonlinear draws simulate, of the same draws.
    run = found.simulate(record, particles=100)
    same = exact.to_posterior(100).simulate(record)
    np.testing.assert_allclose(run.mean, same.mean, atol=1e-7)
    np.testing.assert_allclose(run.parameter_variance, same.parameter_variance, rtol=1e-5)
    assert run.rmse_of_mean == pytest.approx(same.rmse_of_mean)


def test_band_of_a_network_is_that_of_its_derivatives(of_network):
    at = np.linspace(-1.0, 1.0, 5)
    found = of_network.function("smooth", at, draws=1000)
    x, p = ca.SX.sym("x"), ca.SX.sym("p", len(smooth.priors))
    graph = smooth.graph([x], p)
    rows = ca.Function("rows", [x, p], [graph, ca.jacobian(graph, p)])
    mode = of_network.maximum.values
    slopes = of_network.problem.prior.slopes(of_network.mode[None, :])[0][0]
    value, by = map(np.vstack, zip(*(map(np.array, rows(one, mode)) for one in at), strict=True))
    sd = np.sqrt(np.diag((by * slopes) @ of_network.covariance @ (by * slopes).T))
    # The sd of 1000 draws has a relative standard error of 2.2 %: four of these.
    np.testing.assert_allclose(found.sd, sd, rtol=0.09)
    # Over the learned scale the mean is not the mode.
    mean = value[:, 0] + (by * slopes) @ (of_network.centre - of_network.mode)
    np.testing.assert_allclose(found.mean, mean, atol=4.0 * sd.max() / np.sqrt(1000))


def test_tells_of_the_function_and_of_its_visited_range(of_network):
    low, high = of_network.visited["smooth"].range[0]
    assert (low, high) == pytest.approx((-1.0, 1.0), abs=0.01)
    (line,) = [one for one in of_network.summary().splitlines() if one.startswith("smooth(u)")]
    assert "sd" in line


def test_refuses_draws_as_a_posterior_of_the_model_itself(of_network):
    with pytest.raises(InputError, match="use its own function, simulate"):
        of_network.to_posterior()


def test_chains_are_refused_where_the_gaussian_is_no_picture(of_network):
    density = LogDensity(of_network.maximum.function)
    fitting = Coordinates(of_network.mode, of_network.factor, of_network.start)
    check_bend(fitting, density)
    too_wide = Coordinates(of_network.mode, 1e3 * of_network.factor, of_network.start)
    with pytest.raises(InputError, match="curvature='gauss-newton'"):
        check_bend(too_wide, density)


@pytest.mark.parametrize("curvature", ["gauss", "Hessian"])
def test_refuses_another_curvature(curvature):
    with pytest.raises(InputError, match="curvature is"):
        smcpn.laplace(problem_of(through_network), solver=RK4, curvature=curvature)


def test_derivatives_of_many_parameters_are_those_of_few():
    model = problem_of(through_network).model
    directions = ca.vertcat(model.x, model.theta)
    graph = ca.vertcat(model.rhs, ca.fmax(model.rhs, 0.0), directions[1])
    both = [ca.densify(way(graph, directions)) for way in (_slopes_forward, _slopes_reverse)]
    free = ca.vertcat(*ca.symvar(graph))
    at = np.random.default_rng(0).normal(size=free.numel())
    forward, reverse = ca.Function("slopes", [free], both)(at)
    np.testing.assert_allclose(np.array(reverse), np.array(forward), rtol=1e-12, atol=1e-15)
