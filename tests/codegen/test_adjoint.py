"""Products with transposed Jacobians, and what a particle computes once."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest

from smcpn.codegen.adjoint import hoisted, transposed
from smcpn.codegen.lower import LaneProgram
from tests.codegen.test_codegen import EXPRESSIONS, A, B

pytestmark = pytest.mark.numerics


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_a_transposed_product_is_that_of_casadi_at_regular_points(name):
    graph, weights = ca.vec(EXPRESSIONS[name]), ca.SX.sym("weights", 1)
    expected = ca.jtimes(graph, ca.vertcat(A, B), weights, True)
    found = ca.vertcat(*transposed(graph, [A, B], weights))
    function = ca.Function("both", [A, B, weights], [found, expected])
    for a, b in np.random.default_rng(0).uniform(0.1, 0.9, (40, 2)):
        one, other = (np.array(part).ravel() for part in function(a, b, 0.7))
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("graph", "a", "expected"),
    [
        pytest.param(ca.if_else(A > 0, ca.sqrt(A), 0.5 * A), -2.0, (0.5, 0.0), id="branch"),
        pytest.param(ca.if_else(A > 0, A * ca.log(A), B), -2.0, (0.0, 1.0), id="inside a branch"),
        pytest.param(ca.sqrt(A**2) + B, 0.0, (0.0, 1.0), id="infinite, by nothing"),
        pytest.param(ca.fabs(A) ** B, 0.0, (0.0, 0.0), id="power of nothing"),
        pytest.param(ca.sign(A) * B, 0.0, (0.0, 0.0), id="sign"),
    ],
)
def test_there_is_a_product_beside_a_singularity(graph, a, expected):
    found = ca.vertcat(*transposed(graph, [A, B], ca.SX(1.0)))
    value = ca.Function("slopes", [A, B], [found])(a, 1.5)
    assert tuple(np.array(value).ravel()) == expected


def test_a_product_of_several_outputs_is_a_weighted_sum_and_empty_where_nothing_moves():
    symbols, weights, other = ca.SX.sym("x", 3), ca.SX.sym("w", 2), ca.SX.sym("z", 2)
    graph = ca.vertcat(symbols[0] * symbols[2], ca.sin(symbols[0]))
    by_symbols, by_other = transposed(graph, [symbols, other], weights)
    assert by_symbols.nnz() == 2
    assert by_other.shape == (2, 1)
    assert by_other.nnz() == 0
    found = ca.Function("f", [symbols, weights], [by_symbols])([0.3, 9.0, 2.0], [5.0, 7.0])
    expected = [5.0 * 2.0 + 7.0 * np.cos(0.3), 0.0, 5.0 * 0.3]
    np.testing.assert_allclose(np.array(found).ravel(), expected, rtol=1e-15)


def test_what_depends_on_parameters_alone_leaves_the_step():
    theta, state, row, known = ca.SX.sym("p", 2), ca.SX.sym("x"), ca.SX.sym("r"), ca.SX.sym("c")
    once = known * ca.exp(theta[0]) + theta[1] ** 2
    program = LaneProgram(
        theta=theta,
        state=state,
        constants=known,
        constant_values=(2.0,),
        start_row=ca.SX(0, 1),
        step_row=row,
        gain_row=ca.SX(0, 1),
        sample_row=ca.SX(0, 1),
        start=theta[1],
        step=once * state + row * theta[0] + known,
        emitted=ca.sin(state) + once,
    )
    found = hoisted(program)
    assert found.numbers.numel() == 2
    assert not ca.depends_on(ca.vertcat(found.program.step, found.program.emitted), theta)
    inputs = [theta, state, row, known]
    graphs = ca.vertcat(found.program.step, found.program.emitted)
    again = ca.substitute(graphs, found.program.theta, found.numbers)
    both = ca.Function("both", inputs, [again, ca.vertcat(program.step, program.emitted)])
    one, other = both([0.2, 0.7], 1.1, 0.4, 2.0)
    np.testing.assert_array_equal(np.array(one), np.array(other))
