"""Many weights: which posteriors chains are refused, and derivatives by their number."""

import casadi as ca
import numpy as np
import pytest

import smcpn
from smcpn.errors import InputError
from smcpn.estimate.log_density import LogDensity
from smcpn.estimate.nuts.sampler import Coordinates, check_bend
from smcpn.estimate.path_search.linearisation import _slopes_forward, _slopes_reverse
from smcpn.smc.start import Modes

RK4 = smcpn.RK4(steps=1)
NOISE = 0.1
T = 0.1 * np.arange(31)


smooth = smcpn.network("u", hidden=(7,), within=(-1, 1))


@smcpn.ode
def through_network(x, u, *, smooth):
    return smooth(u) - x


def problem_of(model, **prior):
    y = np.sin(T) + NOISE * np.random.default_rng(0).normal(size=len(T))
    record = smcpn.Record(u=np.cos(2.0 * T), y=y, dt=0.1)
    return smcpn.Problem(model, record, observe="x", noise=NOISE, initial={"x": 0.0}, prior=prior)


def test_chains_are_refused_where_the_gaussian_is_no_picture():
    function = smcpn.LogLikelihood(problem_of(through_network), solver=RK4)
    density = LogDensity(function)
    centre, scale = density.centre, np.diag(density.scale)
    one = Modes(np.ones(1), centre[None, :], scale[None], 1, 0.0)
    check_bend(Coordinates(centre, 1e-3 * scale, one), density)
    with pytest.raises(InputError, match="is bent"):
        check_bend(Coordinates(centre, 1e3 * scale, one), density)


def test_derivatives_of_many_parameters_are_those_of_few():
    model = problem_of(through_network).model
    directions = ca.vertcat(model.x, model.theta)
    graph = ca.vertcat(model.rhs, ca.fmax(model.rhs, 0.0), directions[1])
    both = [ca.densify(way(graph, directions)) for way in (_slopes_forward, _slopes_reverse)]
    free = ca.vertcat(*ca.symvar(graph))
    at = np.random.default_rng(0).normal(size=free.numel())
    forward, reverse = ca.Function("slopes", [free], both)(at)
    np.testing.assert_allclose(np.array(reverse), np.array(forward), rtol=1e-12, atol=1e-15)
