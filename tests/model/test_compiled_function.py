"""Equations that numba has compiled: the same numbers as traced ones, and what they refuse."""

import pickle
import subprocess
import sys

import casadi as ca
import numba
import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.model.compiled_function import CompiledFunction
from smcpn.model.expression import ExpressionTable, instructions
from smcpn.results.exports.c_source import ModelSource

CHAINED = {"states": ["x", "v"], "inputs": ["u"], "parameters": ["c", "k", "b"],
           "chains": {"x": "v"}}  # fmt: skip
TABLE = np.linspace(0.0, 2.0, 21)
SQUARES = TABLE**2


@numba.njit
def duffing(x, u, t, p, out):
    out[0] = x[1]
    out[1] = u[0] - p[0] * x[1] - p[1] * x[0] - p[2] * x[0] ** 3


@numba.njit
def bent(x, u, t, p, out):
    total = 0.0
    for _k in range(3):
        total += p[0] * x[0] / 3.0
    if x[0] < 0.0:
        raise ValueError("never below zero")
    out[0] = -total - np.interp(x[0], TABLE, SQUARES)


@smcpn.ode
def traced(x, v, u, *, c, k, b):
    return v, u - c * v - k * x - b * x**3


def a_problem(ode, seed=0):
    rng = np.random.default_rng(seed)
    t = 0.1 * np.arange(60)
    u = np.sin(1.3 * t) + 0.5 * np.sin(0.7 * t)
    clean = smcpn.simulate(traced, smcpn.Record(u=u, dt=0.1), {"c": 0.3, "k": 1.0, "b": 0.5},
                           observe="x")  # fmt: skip
    record = smcpn.Record(u=u, y=clean + 0.02 * rng.normal(size=clean.shape), dt=0.1)
    prior = {name: stats.lognorm(0.5, scale=1.0) for name in ("c", "k", "b")}
    return smcpn.Problem(ode, record, observe="x", noise=0.02, prior=prior)


@pytest.fixture(scope="module")
def compiled():
    return smcpn.ode(duffing, **CHAINED)


@pytest.fixture(scope="module")
def values():
    return np.exp(0.3 * np.random.default_rng(1).normal(size=(40, 3)))


@pytest.mark.slow
def test_the_classical_likelihood_is_that_of_the_traced_equation(compiled, values):
    by = [
        smcpn.LogLikelihood(a_problem(ode), solver=smcpn.RK4(steps=2)) for ode in (traced, compiled)
    ]
    np.testing.assert_allclose(by[1](values), by[0](values), rtol=1e-12)


@pytest.mark.parametrize(
    "solver", [smcpn.EKF0(steps=2), pytest.param(smcpn.EKF1(steps=2), marks=pytest.mark.nightly)]
)
def test_a_probabilistic_one_differs_by_that_of_its_derivatives(compiled, values, solver):
    by = [smcpn.LogLikelihood(a_problem(ode), solver=solver) for ode in (traced, compiled)]
    np.testing.assert_allclose(by[1](values), by[0](values), rtol=1e-6)


@pytest.mark.nightly
def test_its_derivatives_are_right_in_any_unit():
    """Of metres and of micrometres: no step is as long as what moves."""
    t, values = 0.1 * np.arange(30), np.array([[0.35, 1.1, 2.2]])
    for unit in (1.0, 1e-6):
        record = smcpn.Record(u=unit * np.sin(1.3 * t), y=unit * np.sin(t), dt=0.1)
        prior = {"c": stats.lognorm(1.0), "k": stats.lognorm(1.0),
                 "b": stats.lognorm(1.0, scale=unit**-2)}  # fmt: skip
        exact, found = (
            smcpn.LogLikelihood(
                smcpn.Problem(ode, record, observe="x", noise=0.1 * unit, prior=prior),
                solver=smcpn.EKF1(steps=1),
            )(values / [1.0, 1.0, unit**2])
            for ode in (traced, smcpn.ode(duffing, **CHAINED))
        )
        np.testing.assert_allclose(found, exact, rtol=1e-8)


def test_gradients_are_those_of_the_traced_equation(compiled, values):
    solver = smcpn.RK4(steps=2)
    by = [smcpn.LogLikelihood(a_problem(ode), solver=solver) for ode in (traced, compiled)]
    (_, exact), (_, found) = (one.value_and_gradient(values[:4]) for one in by)
    np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-5)


@pytest.mark.slow
def test_a_lane_that_raises_is_excluded_alone():
    equation = smcpn.ode(bent, states=["x"], parameters=["k"])
    record = smcpn.Record(y=[1.0, 0.7, 0.5], dt=0.2)
    problem = smcpn.Problem(equation, record, observe="x", noise=0.1,
                            prior={"k": stats.norm()}, initial={"x": 1.0})  # fmt: skip
    # Large steps of a large rate overshoot to below zero.
    found = smcpn.LogLikelihood(problem, solver=smcpn.RK4(steps=1))([[1.0], [40.0], [1.0]])
    assert found[0] == found[2]
    assert np.isfinite(found).tolist() == [True, False, True]


def test_derivatives_of_its_graph_are_differences_of_it():
    of = CompiledFunction(duffing, 2, 1, 3)
    z, direction = ca.SX.sym("z", 7), ca.SX.sym("d", 7)
    graph = of.graph(1, 1.0, z)
    exact = traced.rhs(z[:2], z[2], z[3], z[4:])[1]
    rng = np.random.default_rng(0)
    at, along = rng.normal(size=(2, 7))
    for derivative in (ca.jtimes(graph, z, direction), ca.dot(ca.gradient(graph, z), direction)):
        wanted = ca.jtimes(exact, z, direction)
        found, true = ca.Function("f", [z, direction], [derivative, wanted])(at, along)
        assert float(found) == pytest.approx(float(true), rel=1e-6)


def test_the_table_of_its_graph_is_the_graph():
    of = CompiledFunction(duffing, 2, 1, 3)
    z = ca.SX.sym("z", 7)
    function = ca.Function("f", [z], [ca.vertcat(of.graph(0, 1.0, z), of.graph(1, 1.0, z) + z[0])])
    table = ExpressionTable.of(function)
    again = table.function("f")
    assert list(instructions(again)) == list(instructions(function))
    assert ExpressionTable.of(again).same_as(table)


def test_a_problem_crosses_to_another_process(compiled):
    values = np.ones((1, 3))
    problem = a_problem(compiled)
    here = smcpn.LogLikelihood(problem, solver=smcpn.RK4(steps=1))(values)
    again = smcpn.LogLikelihood(pickle.loads(pickle.dumps(problem)), solver=smcpn.RK4(steps=1))(
        values
    )
    np.testing.assert_array_equal(again, here)


@pytest.mark.slow
def test_a_file_has_no_code_and_says_so(compiled, tmp_path):
    posterior = smcpn.identify(a_problem(compiled), particles=64, seed=0,
                               method="tempering", solver=smcpn.RK4(steps=1))  # fmt: skip
    path = tmp_path / "posterior.h5"
    posterior.save(path)
    assert smcpn.load(path).problem.names == posterior.problem.names
    script = (
        f"import smcpn\ntry: smcpn.load({str(path)!r})\n"
        "except smcpn.InputError as error: print(error)"
    )
    called = [sys.executable, "-c", script]
    said = subprocess.run(called, capture_output=True, text=True, check=True)
    assert "files hold no code" in said.stdout


def test_what_needs_more_than_its_values_refuses_it(compiled):
    problem = a_problem(compiled)
    with pytest.raises(smcpn.InputError, match="no Taylor series"):
        smcpn.solve(compiled, problem.records[0], {"c": 0.3, "k": 1.0, "b": 0.5})
    with pytest.raises(smcpn.InputError, match="cannot hold"):
        ModelSource.of(problem, np.array([0.3, 1.0, 0.5]), 2)


@numba.njit
def beyond(x, u, t, p, out):
    out[0] = x[3]


@numba.njit
def unwritten(x, u, t, p, out):
    out[0] = x[0]


@numba.njit
def failing(x, u, t, p, out):
    raise ValueError("never")


@pytest.mark.parametrize(
    ("function", "named", "words"),
    [
        (duffing, {}, "has no names"),
        (lambda x: x, {"states": ["x"]}, "numba has not compiled it"),
        (beyond, {"states": ["x"]}, "index is out of bounds"),
        (unwritten, {"states": ["x", "v"]}, r"does not write out\[1\]"),
        (failing, {"states": ["x"]}, "ValueError: never"),
        (duffing, {"states": "xv"}, "give a list of names"),
        (duffing, {"states": ["x", "x"]}, "twice"),
        (duffing, {"inputs": ["u"]}, "no states"),
        (duffing, CHAINED | {"chains": {"v": "x"}}, "writes something else"),
    ],
)
def test_what_fits_no_equation_is_refused(function, named, words):
    with pytest.raises(smcpn.InputError, match=words):
        smcpn.ode(**named)(function) if named else smcpn.ode(function)
