"""Power series against the graph of Lie derivatives, operation by operation."""

from __future__ import annotations

from math import factorial

import casadi as ca
import numpy as np
import pytest

from smcpn.errors import InputError
from smcpn.pn.iwp import taylor_derivatives
from smcpn.pn.series import series_program
from tests.models import lotka_volterra

ORDER = 6
X, U, T, P = ca.SX.sym("x", 2), ca.SX.sym("u", 1), ca.SX.sym("t"), ca.SX.sym("p", 1)
SYMBOLS = [X, U, T, P]
AT = np.array([0.6, -0.4])
INPUT = np.array([[0.5], [0.2], [-0.1], [0.3], [0.05], [0.01]])
TIME, PARAMETER = 0.7, np.array([1.7])
a, b = X[0], X[1]
RATES = {
    "arithmetic": (a * b - a / (2 - b), -a + U * T - 1 / (3 + a)),
    "powers": (ca.sqrt(1 + a**2) + a**3, (2 + b) ** P + (2 + b) ** a + a**-2),
    "exponentials": (ca.exp(-a * b) + ca.expm1(b), ca.log(2 + a) + ca.log1p(a)),
    "circle": (ca.sin(a) + ca.tan(b), ca.cos(a * b) + ca.sin(b)),
    "hyperbola": (ca.sinh(a) - ca.cosh(b), ca.tanh(3 * a)),
    "inverse circle": (ca.asin(a), ca.acos(b) + ca.atan(2 * b)),
    "inverse hyperbola": (ca.asinh(a) + ca.acosh(2 + b), ca.atanh(b)),
    "plane": (ca.atan2(a, b), ca.hypot(a, b) + ca.atan2(b, -a)),
    "bell": (ca.erf(a), ca.exp(-b * b)),
    "branches": (ca.fabs(b) + ca.fmax(a, b), ca.if_else(a > 0, a * b, a) + ca.fmin(a, b)),
    "steps": (ca.sign(b) * a + ca.floor(3 * a) * b, ca.fmod(5 * a, 1) - ca.ceil(b) + (a >= b)),
    "logic": (
        ca.logic_and(a > 0, b < 0) * a + ca.logic_not(b) * a + ca.logic_or(a < 0, b < 0) * b,
        ca.copysign(a, b) * b + (a == b) + (a != b) * a,
    ),
    "constant": (ca.SX(1.0), P + 0 * a),
}


def by_graph(rhs, x=AT, parameter=PARAMETER, order=ORDER):
    derivatives, rates = taylor_derivatives(X, U, T, rhs, order)
    function = ca.Function("f", [X, ca.vertcat(U, *rates), T, P], [ca.horzcat(*derivatives)])
    powers = np.array([float(factorial(k)) for k in range(order + 1)])
    u = INPUT[:order, 0] * powers[:order]
    return np.array(function(x, u, TIME, parameter)) / powers


@pytest.mark.parametrize("name", RATES)
def test_against_lie_derivatives(name):
    rhs = ca.vertcat(*RATES[name])
    series = series_program(SYMBOLS, rhs)(AT, INPUT, TIME, PARAMETER, ORDER)
    np.testing.assert_allclose(series, by_graph(rhs), rtol=1e-11, atol=1e-13)


def test_zero_to_a_whole_power():
    rhs = ca.vertcat(1 + a**5, b ** (P + 1))
    arguments = np.zeros(2), np.array([2.0])
    series = series_program(SYMBOLS, rhs)(arguments[0], INPUT, TIME, arguments[1], ORDER)
    np.testing.assert_allclose(series[0], [0, 1, 0, 0, 0, 0, 1 / 6], atol=1e-15)
    np.testing.assert_array_equal(series[1], 0.0)


def test_modulus_takes_the_side_it_goes_to():
    """At rest |x| has no derivative; just after it has that of the direction taken."""
    rhs = ca.vertcat(ca.SX(-1.0), ca.fabs(a))
    series = series_program(SYMBOLS, rhs)(np.zeros(2), INPUT, TIME, PARAMETER, 3)
    np.testing.assert_allclose(series[1], [0, 0, 0.5, 0])


def test_derivatives_that_do_not_exist_count_as_zero():
    rhs = ca.vertcat(1 - ca.sqrt(a), ca.SX(0.0))
    series = series_program(SYMBOLS, rhs)(np.zeros(2), INPUT, TIME, PARAMETER, 3)
    np.testing.assert_array_equal(series[0], [0, 1, 0, 0])


def test_golden_values_of_lotka_volterra():
    x, theta = ca.SX.sym("x", 2), ca.SX.sym("theta", 4)
    symbols = [x, ca.SX.sym("u", 0), ca.SX.sym("t"), theta]
    program = series_program(symbols, lotka_volterra.rhs(*symbols))
    series = program(np.array([5.0, 3.0]), np.empty((1, 0)), 0.0, np.array([2.0, 1, 4, 1]), 5)
    golden = [(5, 3), (-5, 3), (-10, -12), (100, -72), (170, 318), (-5120, 4188)]
    factors = np.array([float(factorial(k)) for k in range(6)])
    np.testing.assert_allclose((series * factors).T, golden, rtol=1e-14)


def test_operations_without_a_rule_are_named(monkeypatch):
    monkeypatch.delattr("smcpn.pn.series._Translation._erf")
    with pytest.raises(InputError, match="operation erf"):
        series_program(SYMBOLS, ca.vertcat(ca.erf(a), b))
