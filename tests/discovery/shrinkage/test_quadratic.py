"""The linearised likelihood: exact where the outputs are linear."""

import numpy as np
from scipy import stats

import smcpn
from smcpn.discovery.shrinkage.quadratic import QuadraticLikelihood


@smcpn.ode
def drift(x, y, *, a, b):
    """Two ramps of different slopes, one of both coefficients."""
    return a, b - a


def test_it_is_the_likelihood_of_a_linear_model():
    t = np.array([0.0, 0.3, 1.0, 1.4, 2.5])
    y = np.random.default_rng(0).normal(size=(5, 2))
    y[2, 1] = np.nan
    record = smcpn.Record(y=y, t=t)
    prior = dict.fromkeys("ab", stats.norm()) | dict.fromkeys(["s", "r"], stats.lognorm(1.0))
    prior |= {"x0": stats.norm()}
    problem = smcpn.Problem(
        drift, record, observe=["x", "y"], noise=["s", "r"], prior=prior, initial={"x": "x0"}
    )
    exact = smcpn.LogLikelihood(problem, solver=smcpn.RK4(1))
    counts = np.isfinite(y).sum(axis=0).astype(float)
    centre, noise = np.array([0.4, -0.3, 0.1]), np.array([0.5, 0.8])
    linear = QuadraticLikelihood.of(exact, 2, centre, noise, counts)
    values = np.random.default_rng(1).normal(size=(7, 5))
    values[:, 2:4] = np.exp(values[:, 2:4])
    np.testing.assert_allclose(linear.total(values), exact(values), rtol=1e-9)
    state, total = linear.evaluate(values, 5)
    _, increments = linear.advance(values, state, 0, 5)
    np.testing.assert_allclose(increments.sum(axis=0), total)
    assert linear.evaluate(values, 3)[1].max() == 0.0
