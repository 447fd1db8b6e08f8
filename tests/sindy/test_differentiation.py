"""Numerical derivatives: exact for polynomials, and those of pysindy."""

from __future__ import annotations

import numpy as np
import pytest

import smcpn.sindy as ps
from smcpn.errors import InputError

T = np.linspace(0.0, 2.0, 41) ** 1.2
X = np.stack([np.sin(T), np.exp(-T)], axis=1)


@pytest.mark.parametrize("order", [1, 2, 3, 4, 6])
def test_polynomials_are_differentiated_exactly(order):
    x = T**order
    found = ps.FiniteDifference(order=order)(x, T)
    np.testing.assert_allclose(found, order * T ** (order - 1), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    "settings", [{}, {"order": 1}, {"order": 4}, {"order": 2, "drop_endpoints": True}], ids=str
)
def test_differences_are_those_of_pysindy(settings):
    peer = pytest.importorskip("pysindy").FiniteDifference(**settings)
    np.testing.assert_allclose(ps.FiniteDifference(**settings)(X, T), peer(X, T), rtol=1e-8)


def test_smoothed_differences_are_those_of_pysindy():
    peer = pytest.importorskip("pysindy").SmoothedFiniteDifference()
    np.testing.assert_allclose(ps.SmoothedFiniteDifference()(X, 0.1), peer(X, 0.1), rtol=1e-8)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"d": 2}, "d is 2"), ({"order": 0}, "order"), ({"periodic": True}, "periodic")],
    ids=str,
)
def test_what_does_not_fit_is_told(settings, message):
    with pytest.raises(InputError, match=message):
        ps.FiniteDifference(**settings)
    with pytest.raises(InputError, match="3 samples"):
        ps.FiniteDifference(order=4)(X[:3], 0.1)
