"""Solutions of equations as operations of graphs: their values, lanes, and derivatives."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest
from llvmlite import ir
from scipy import stats

import smcpn
from smcpn.codegen.native import code
from smcpn.codegen.tangent import jacobian
from smcpn.codegen.terms import DOUBLE
from smcpn.likelihood.algebraic import AlgebraicEquations
from smcpn.model.compiled_function import compiled_function
from smcpn.model.expression import instructions


@smcpn.ode(algebraic=["a", "b"])
def binding(x, a, b, u, *, k):
    """Of the amounts x and u what is free, a and b, where k a b is bound."""
    return -a, a + k * a * b - x, b + k * a * b - u


def free_amounts(x, u, k):
    p = 1.0 + k * (u - x)
    a = 2.0 * x / (p + np.sqrt(p**2 + 4.0 * k * x))
    return a, u - (x - a)


@pytest.fixture(scope="module")
def equations():
    record = smcpn.Record(u=np.ones(3), y=np.zeros(3), dt=1.0)
    problem = smcpn.Problem(binding, record, observe="b", noise=1.0, prior={"k": stats.lognorm(1)})
    return problem.model, AlgebraicEquations(problem.model).state


def points(rng, number):
    return rng.uniform(0.1, 5.0, (3, number))


def evaluated(equations, graph, point):
    """A graph of the model at (x, u, k), begun at zero."""
    model, _ = equations
    function = ca.Function("of", [model.x, model.u, model.theta], [graph])
    x, u, k = point
    return np.array(function([x, 0.0, 0.0], u, k))


def test_they_are_the_solution(equations):
    for point in points(np.random.default_rng(0), 5).T:
        found = evaluated(equations, equations[1], point)[1:, 0]
        np.testing.assert_allclose(found, free_amounts(*point), rtol=1e-13)


def test_first_and_second_derivatives_are_those_of_the_solution(equations):
    model, state = equations
    x, u, k = symbols = [model.x[0], model.u, model.theta]
    p = 1 + k * (u - x)
    exact = 2 * x / (p + ca.sqrt(p**2 + 4 * k * x))
    point = (1.3, 0.7, 2.0)
    for differentiated in (ca.jacobian, jacobian):
        graphs = [state[1], exact]
        for _ in range(2):
            graphs = [differentiated(graph, ca.vertcat(*symbols)) for graph in graphs]
            found, wanted = (evaluated(equations, one, point) for one in graphs)
            np.testing.assert_allclose(found, wanted, rtol=1e-11)
            graphs = [ca.vec(ca.densify(graph)) for graph in graphs]


@pytest.mark.parametrize("width", [1, 4])
def test_machine_code_solves_every_lane(equations, width):
    state = equations[1]
    graph = ca.Function("graph", [ca.vertcat(*ca.symvar(state))], [state])
    name = next(one.operation for one in instructions(graph) if one.operation.startswith("call:"))
    of = compiled_function(name)

    def write(module):
        kind = ir.FunctionType(ir.VoidType(), [DOUBLE.as_pointer()] * 2)
        made, solve = (ir.Function(module, kind, one) for one in ("made", f"{name}.{width}"))
        builder = ir.IRBuilder(made.append_basic_block())
        builder.call(solve, made.args)
        builder.ret_void()

    names = [one.name() for one in ca.symvar(state[1])]
    values = dict(zip(["x_0", "u", "k"], points(np.random.default_rng(1), width), strict=True))
    # One lane has no solution.
    values["x_0"][-1] *= -1e3 if width > 1 else 1.0
    arguments = np.array([values.get(one, np.zeros(width)) for one in names])
    found = np.empty((2, width))
    code(f"solve {name} {width}", write).function("made", 2)(
        np.ascontiguousarray(arguments).ctypes.data, found.ctypes.data
    )
    wanted = np.array(free_amounts(*values.values()))
    np.testing.assert_allclose(found, of(arguments), rtol=1e-13)
    np.testing.assert_allclose(found[:, : width - 1 or 1], wanted[:, : width - 1 or 1], rtol=1e-13)
