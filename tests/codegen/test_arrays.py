"""Graphs evaluated on arrays, against CasADi's own evaluation."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest

from smcpn.codegen.arrays import ArrayFunction, RowFunction
from smcpn.model.expression import BINARY, UNARY, applied

X = np.array([-1.7, -0.6, -0.2, 0.0, 0.3, 0.8, 1.0, 2.5])
Y = np.array([0.4, -0.6, 2.0, 1.0, 0.3, -3.0, 0.0, 1.5])


@pytest.mark.parametrize("operation", sorted(UNARY | BINARY))
def test_every_operation_is_casadis(operation):
    x, y = ca.SX.sym("x"), ca.SX.sym("y")
    graph = applied(operation, [x] if operation in UNARY else [x, y])
    symbols = ca.vertcat(x, y)
    expected = np.array(ca.Function("f", [symbols], [graph])(np.stack([X, Y]))).ravel()
    found = np.broadcast_to(np.asarray(ArrayFunction(symbols, graph)([X, Y])[0], float), X.shape)
    # CasADi's inverse of the error function is good to eight digits.
    rtol = 1e-7 if operation == "erfinv" else 1e-14
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-300)


def test_arguments_broadcast_and_a_constant_is_a_number():
    x, p = ca.SX.sym("x"), ca.SX.sym("p")
    graph = ca.vertcat(p * ca.sin(x), 3.0, p, (x < p) - (p < x))
    function = ArrayFunction(ca.vertcat(x, p), graph)
    p_values = np.array([[0.5], [2.0]])
    product, three, alone, sign = function([X, p_values])
    assert three == 3.0
    np.testing.assert_allclose(product, p_values * np.sin(X))
    np.testing.assert_array_equal(alone, p_values)
    np.testing.assert_array_equal(sign, np.sign(p_values - X))


def test_rows_that_are_zero_or_a_symbol_are_copied():
    symbols = ca.SX.sym("x", 3)
    graph = ca.vertcat(symbols[2], symbols[0] * symbols[2], ca.SX(1, 1), 2.5, symbols[0])
    rows = np.arange(12.0).reshape(3, 4)
    found = RowFunction(symbols, graph)(rows[:1], rows[1:])
    expected = [rows[2], rows[0] * rows[2], np.zeros(4), np.full(4, 2.5), rows[0]]
    np.testing.assert_array_equal(found, expected)


def test_a_graph_of_no_rows_has_none():
    assert RowFunction(ca.SX.sym("x", 2), ca.SX(0, 1))(np.ones((2, 3))).shape == (0, 3)
