"""Finite differences of expressions: right for large shifts, precise for tiny ones."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest
from mpmath import mp, mpf

from smcpn.likelihood.difference_filter import difference

pytestmark = pytest.mark.numerics

EXPRESSIONS = {
    "product": lambda f, x, y: x * y - 3.0 * x,
    "quotient": lambda f, x, y: (x + 2.0) / (y * y + 1.0),
    "inverse": lambda f, x, y: 1.0 / (x + 0.3 * y),
    "powers": lambda f, x, y: x**3 - y**2 * x + x**5,
    "root": lambda f, x, y: f.sqrt(x * x + y * y),
    "exponential": lambda f, x, y: f.exp(-x * y),
    "logarithm": lambda f, x, y: f.log(1.5 + x),
    "waves": lambda f, x, y: f.sin(2.0 * x) + f.cos(x * y) - f.tan(0.2 * y),
    "hyperbolic": lambda f, x, y: f.tanh(x) + f.sinh(y) * f.cosh(x),
}
AT = (0.7, 1.9)


@pytest.mark.parametrize("name", EXPRESSIONS)
@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-9, 1e-18])
def test_against_many_digits(name, size):
    x, y = ca.SX.sym("x"), ca.SX.sym("y")
    make, shift = EXPRESSIONS[name], (0.31 * size, -0.53 * size)
    change = difference(make(ca, x, y), ca.vertcat(x, y), ca.SX(list(AT)), ca.SX(list(shift)))
    found = float(ca.evalf(change))
    with mp.workdps(60):
        moved = [mpf(a) + mpf(d) for a, d in zip(AT, shift, strict=True)]
        expected = float(make(mp, *moved) - make(mp, *map(mpf, AT)))
    # Sums of changes cancel by a digit at most here.
    assert found == pytest.approx(expected, rel=1e-13)


def test_what_has_no_rule_is_subtracted():
    x = ca.SX.sym("x")
    change = difference(ca.vertcat(ca.atan(x), ca.floor(x)), x, ca.SX(0.5), ca.SX(0.75))
    expected = [np.arctan(1.25) - np.arctan(0.5), 1.0]
    np.testing.assert_allclose(np.array(ca.evalf(change)).ravel(), expected, rtol=1e-14)


@pytest.mark.parametrize(("at", "shift"), [(1.0, 0.5), (-2.0, 0.5), (-1.0, 3.0), (0.0, 0.0)])
def test_kinks(at, shift):
    x = ca.SX.sym("x")
    graph = ca.vertcat(ca.fabs(x), ca.fmax(x, 0.2), ca.sqrt(ca.fmax(x, 0.0)))
    found = np.array(ca.evalf(difference(graph, x, ca.SX(at), ca.SX(shift)))).ravel()
    values = [np.array([abs(v), max(v, 0.2), np.sqrt(max(v, 0.0))]) for v in (at, at + shift)]
    np.testing.assert_allclose(found, values[1] - values[0], atol=1e-15)


def test_what_does_not_move_has_no_change():
    x, a = ca.SX.sym("x"), ca.SX.sym("a")
    change = difference(ca.vertcat(a * a, x * a), x, ca.SX(2.0), ca.SX(0.25))
    assert change[0].is_zero()
    assert ca.is_equal(ca.simplify(change[1]), ca.SX(0.25) * a, 2)
