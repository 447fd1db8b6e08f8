"""`smcpn.discover`: what a user gives, and what comes back."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import smcpn
from smcpn.errors import InputError

PENDULUM = smcpn.polynomials(1) + smcpn.terms(np.sin)


@pytest.fixture(scope="module")
def swinging():
    t = np.linspace(0.0, 10.0, 201)
    rhs = lambda t, x: [x[1], -8.91 * np.sin(x[0]) - 0.2 * x[1]]  # noqa: E731
    x = solve_ivp(rhs, (0.0, 10.0), [-1.193, -3.876], t_eval=t, rtol=1e-9, atol=1e-11).y.T
    return smcpn.Record(y=x + 0.05 * np.random.default_rng(0).normal(size=x.shape), t=t)


@pytest.fixture(scope="module")
def found(swinging):
    position = smcpn.Record(y=swinging.y[:, :1], t=swinging.t)
    return smcpn.discover(position, library=PENDULUM, known={"x": "v"})


def test_pendulum_from_its_position(found):
    best = found.models[0]
    assert best.names == ("v'[v]", "v'[sin(x)]")
    assert np.all(np.abs(best.mean - [-0.2, -8.91]) < 4 * best.sd)
    assert found.noise == pytest.approx([0.05], rel=0.2)
    assert best.initial == pytest.approx(np.array([[-1.193, -3.876]]), abs=0.2)
    assert set(found.inclusion) == {"v'[1]", "v'[x]", "v'[v]", "v'[sin(x)]", "v'[sin(v)]"}


def test_coefficients_are_averaged_over_models(found):
    one = found.coefficients["v'[sin(x)]"]
    assert abs(one.mean + 8.91) < 4 * one.sd
    assert one.lower < one.mean < one.upper
    assert one.inclusion == found.inclusion["v'[sin(x)]"] > 0.99
    draws = found.draws(2000, seed=1)
    share = np.mean(draws != 0.0, axis=0)
    # A share of 2000 draws has a standard error of at most .011.
    np.testing.assert_allclose(share, list(found.inclusion.values()), atol=0.05)


def test_the_equation_of_a_model(found):
    ode = found.ode()
    assert ode.parameters == found.models[0].names
    assert ode.defaults == dict(zip(ode.parameters, found.models[0].mean.tolist(), strict=True))
    with pytest.raises(InputError, match="rank"):
        found.ode(len(found.models))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"library": "poly(2"}, "library"),
        ({"observe": ["y"]}, "observe"),
        ({"states": ["x", "v", "w"]}, "known|observe|states"),
        ({"inputs": ["u"]}, "inputs"),
        ({"method": "guess"}, "method"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_told(given, message, swinging):
    arguments = {"library": PENDULUM, "known": {"x": "v"}} | given
    with pytest.raises(InputError, match=message):
        smcpn.discover(swinging, **arguments)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"method": "smc"}, "method is 'smc': leave it out"),
        ({"particles": 100}, "particles is 100.*leave particles out.*prior"),
        ({"threads": 2}, "threads is 2.*leave threads out"),
        ({"executor": "lokki:2"}, "executor is 'lokki:2'"),
        ({"existing": "append"}, "existing is 'append'"),
        ({"progress": 3}, "progress is 3"),
        ({"prior": "laplace", "solver": "fast"}, "solver"),
        ({"prior": "laplace", "likelihood": "best"}, "likelihood"),
        ({"prior": "laplace", "noise": "relative"}, "noise is 'relative'.*spike-and-slab"),
    ],
    ids=str,
)
def test_what_is_of_draws_is_refused_where_there_are_none(given, message):
    y = np.exp(-0.1 * np.arange(30)) + 0.01 * np.random.default_rng(0).normal(size=30)
    with pytest.raises(InputError, match=message):
        smcpn.discover(smcpn.Record(y=y, dt=0.1), library="poly(1)", **given)
