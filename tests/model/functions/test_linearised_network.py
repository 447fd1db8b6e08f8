"""Networks that are linear in their weights: against derivatives, and what runs make of them."""

import casadi as ca
import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.checkpoint.codec import read_again
from smcpn.checkpoint.problem import restored_function, stored_function
from smcpn.errors import InputError
from smcpn.model.functions.network import linearised_network

RK4 = smcpn.RK4(steps=1)
NOISE = 0.05
T = 0.1 * np.arange(100)
small = smcpn.network("u", hidden=(3,), within=(-1, 1))


@smcpn.ode
def through_network(x, u, *, smooth=small):
    return smooth(u) - x


@smcpn.ode
def true(x, u):
    return np.tanh(2.0 * u) - x


def problem_of(**prior):
    u = np.cos(T + 0.1 * T**2)
    y = smcpn.simulate(true, smcpn.Record(u=u, dt=0.1), {}, observe="x")[:, 0]
    y += NOISE * np.random.default_rng(0).normal(size=len(T))
    record = smcpn.Record(u=u, y=y, dt=0.1)
    return smcpn.Problem(through_network, record, observe="x", noise=NOISE, prior=prior)


def linearised(network, seed=0):
    """A network with weights of its prior, and these weights."""
    rng = np.random.default_rng(seed)
    weights = [float(prior.rvs(random_state=rng)) for prior in network.priors.values()]
    made = linearised_network(
        *network.arguments, hidden=network.hidden, activation=network.activation,
        within=network.within, weights=weights, domain=network.within,
    )  # fmt: skip
    return made, np.array(weights)


def by_weights(network, points, weights):
    """Values (m,) and derivatives by the weights but the scale, (m, w)."""
    at, of = ca.SX.sym("at", len(network.arguments)), ca.SX.sym("of", len(weights))
    graph = network.graph(ca.vertsplit(at), of)
    rows = ca.Function("rows", [at, of], [ca.densify(ca.horzcat(graph, ca.jacobian(graph, of)))])
    found = np.vstack([np.array(rows(one, weights)) for one in points.reshape(len(points), -1)])
    return found[:, 0], found[:, 1:-1]


FAMILIES = {
    "one variable": smcpn.network("u", hidden=(9, 8), within=(-1, 3)),
    "softplus": smcpn.network("u", hidden=(5,), activation="softplus", within=(-1, 1)),
    "two variables": smcpn.network("u", "v", hidden=(6, 5), within=[(-1, 1), (0, 2)]),
}


@pytest.fixture(params=FAMILIES.values(), ids=FAMILIES)
def network(request):
    return request.param


def points_of(network):
    low, high = np.array(network.within).T
    return np.random.default_rng(1).uniform(low, high, size=(40, len(low)))


def test_is_the_network_at_its_weights(network):
    function, weights = linearised(network)
    points = points_of(network)
    expected = network.values(points, [weights])[0]
    found = function.values(points, [function.maximum])[0]
    np.testing.assert_allclose(found, expected, atol=1e-7 * np.abs(expected).max())
    step = 1e-4
    slopes = [
        (of.values(points + step, [at])[0] - of.values(points - step, [at])[0]) / (2.0 * step)
        for of, at in ((function, function.maximum), (network, weights))
    ]
    np.testing.assert_allclose(*slopes, atol=2e-6 * np.abs(slopes[1]).max())


@pytest.mark.parametrize("scale", [0.3, 2.0])
def test_functions_have_the_covariance_of_the_prior_of_all_weights(network, scale):
    function, weights = linearised(network)
    weights[-1] = 1.0
    points = points_of(network)
    _, slopes = by_weights(network, points, weights)
    names = [name for name in network.priors if name != ".scale"]
    sd = np.array([network.priors[name].std() for name in names])
    sd *= np.where([name in network.scales for name in names], scale, 1.0)
    expected = (slopes * sd) @ (slopes * sd).T
    scaled = [
        scale if f"[{k}]" in function.scales else 1.0 for k in range(len(function.priors) - 1)
    ]
    ones = np.append(np.diag(scaled), np.zeros((1, len(scaled))), axis=0).T
    origin = function.values(points, [np.zeros(len(scaled) + 1)])
    by = (function.values(points, ones) - origin).T
    np.testing.assert_allclose(by @ by.T, expected, atol=1e-3 * np.abs(expected).max())
    assert len(function.priors) < len(network.priors)


def test_comes_back_from_a_document(network):
    function, _ = linearised(network)
    stored = read_again(stored_function("f", function))
    assert restored_function(stored) == function


def test_refuses_weights_of_another_network():
    with pytest.raises(InputError, match="give the 11 parameters"):
        linearised_network("u", hidden=(3,), weights=[1.0] * 10, domain=(-1, 1))


@pytest.fixture(scope="module")
def maximum():
    return smcpn.maximise(problem_of(), solver=RK4, search="lifted", starts=1, iterations=15)


@pytest.fixture(scope="module")
def found(maximum):
    return smcpn.laplace(maximum)


@pytest.mark.slow
def test_linearises_about_a_maximum(maximum, found):
    function = found.problem.ode.functions["smooth"].function
    assert function.weights == tuple(maximum["smooth"])
    assert found.problem.records is maximum.problem.records
    assert found.solver == RK4
    assert found.success
    low, high = found.visited["smooth"].range[0]
    assert (low, high) == pytest.approx((-1.0, 1.0), abs=0.01)
    at = np.linspace(low, high, 9)
    function = found.function("smooth", at)
    assert np.all(np.abs(function.mean - np.tanh(2.0 * at)) < 4.0 * function.sd)
    assert "linear in its 10 weights" in found.summary()


@pytest.mark.nightly
def test_identify_samples_the_linearised_problem(found, tmp_path, monkeypatch):
    problem, file = problem_of(), tmp_path / "run.h5"
    options = {"solver": RK4, "particles": 200, "seed": 1, "progress": False}
    posterior = smcpn.identify(problem, checkpoint=file, **options)
    at = np.linspace(-0.9, 0.9, 5)
    function = posterior.function("smooth", at)
    near = found.function("smooth", at, draws=2000)
    np.testing.assert_allclose(function.sd, near.sd, rtol=0.4)
    np.testing.assert_allclose(function.mean, near.mean, atol=near.sd.max())
    assert "linear in its 10 weights" in str(posterior.method)
    assert "linear in its 10 weights" in posterior.summary()
    again = smcpn.resume(file, progress=False)
    assert again.theta.tobytes() == posterior.theta.tobytes()
    assert again.function("smooth", at).mean == pytest.approx(function.mean, rel=1e-12)
    monkeypatch.delattr("smcpn.run.plan.laplace")
    same = smcpn.identify(problem, checkpoint=file, **options)
    assert same.theta.tobytes() == posterior.theta.tobytes()
    with pytest.raises(InputError, match="seed"):
        smcpn.identify(problem, checkpoint=file, **{**options, "seed": 2})
    records = problem.records
    other = smcpn.Problem(through_network, records, observe="x", noise=2.0 * NOISE, prior={})
    with pytest.raises(InputError, match="another model or other priors"):
        smcpn.identify(other, checkpoint=file, **options)


def test_a_start_of_another_problem_is_refused(found):
    with pytest.raises(InputError, match="another problem"):
        smcpn.identify(problem_of(), start=found)
    records = found.problem.records
    other = smcpn.Problem(through_network, records, observe="x", noise=10.0 * NOISE, prior={})
    with pytest.raises(InputError, match="another problem"):
        smcpn.identify(other, start=found)


def test_settings_are_refused_before_the_search(monkeypatch):
    monkeypatch.delattr("smcpn.run.plan.laplace")
    with pytest.raises(InputError, match="particles is 3"):
        smcpn.identify(problem_of(), particles=3)


def test_refuses_priors_of_single_weights():
    problem = problem_of(**{"smooth[2]": stats.norm(0, 2)})
    maximum = smcpn.maximise(problem, solver=RK4, starts=1, search="shooting", iterations=2)
    with pytest.raises(InputError, match=r"prior 'smooth\[2\]'"):
        smcpn.linearise_networks(maximum)


def test_another_scale_stays():
    problem = problem_of(smooth={"scale": stats.lognorm(0.1, scale=3.0)})
    maximum = smcpn.maximise(problem, solver=RK4, starts=1, search="shooting", iterations=2)
    linear = smcpn.linearise_networks(maximum)
    assert linear.prior.distributions["smooth.scale"].kwds == {"scale": 3.0}
    fixed = problem_of(smooth={"scale": 3.0})
    maximum = smcpn.maximise(fixed, solver=RK4, starts=1, search="shooting", iterations=2)
    assert smcpn.linearise_networks(maximum).fixed == {"smooth.scale": 3.0}


def test_a_problem_with_other_functions():
    problem = problem_of()
    other = problem.with_functions({"smooth": smcpn.spline("u", within=(-1, 1))})
    assert other.names[:2] == ("smooth[0]", "smooth[1]")
    with pytest.raises(InputError, match="functions is 'rough'"):
        problem.with_functions({"rough": small})
    assert other.with_records([other.records[0][:50]]).with_functions({}).n_samples == 50
