"""`smcpn.solve` against the textbook in fifty digits: mean, covariance, log-likelihood to 1e-10."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

import smcpn
from tests.models import lotka_volterra
from tests.nightly import nightly_but
from tests.reference.textbook import (
    DIGITS,
    Field,
    Marginals,
    Textbook,
    initial_derivatives,
    textbook,
)

pytestmark = pytest.mark.numerics

TOLERANCE = 1e-10
STEPS = 8


@dataclass(frozen=True)
class Case:
    """The same problem for `smcpn.solve` and for the textbook."""

    model: smcpn.ODE
    field: Field
    theta: dict[str, float]
    x0: tuple[float, ...]
    end: float
    """Steps are coarse: the residuals keep their digits."""


@smcpn.ode
def fitzhugh_nagumo(v, r, *, a, b, c):
    return c * (v - v**3 / 3 + r), -(v - a - b * r) / c


CASES = {
    "lotka-volterra": Case(
        lotka_volterra,
        Field(
            lambda x, y: (1.5 * x - x * y, -3 * y + x * y),
            lambda x, y: ((1.5 - y, -x), (y, -3 + x)),
        ),
        {"a": 1.5, "b": 1.0, "c": 3.0, "d": 1.0},
        (1.0, 1.0),
        2.0,
    ),
    "fitzhugh-nagumo": Case(
        fitzhugh_nagumo,
        Field(
            lambda v, r: (3 * (v + r) - v * v * v, (v - 0.2 - 0.2 * r) * (-mpf(1) / 3)),
            lambda v, r: ((3 - 3 * v * v, 3), (-mpf(1) / 3, mpf(0.2) / 3)),
        ),
        {"a": 0.2, "b": 0.2, "c": 3.0},
        (-1.0, 1.0),
        1.6,
    ),
}
METHODS: dict[str, tuple[type, dict[str, Any]]] = {
    "no": (smcpn.EKF0, {}),
    "full": (smcpn.EKF1, {}),
    "diagonal": (smcpn.EKF1, {"jacobian": "diagonal"}),
}


EQUAL = 1e-300
"""Relative tolerance that leaves all states the same one, in which a diffusion that all share
counts, as in the paper."""


def settings() -> Iterator[tuple[str, int, str, str | float]]:
    """Every diffusion at order 3, the two families at the orders beside it."""
    for name in CASES:
        for linearised in METHODS:
            for order in (2, 5):
                for diffusion in ("fixed", "dynamic"):
                    yield name, order, linearised, diffusion
            for diffusion in (0.7, "fixed", "fixed-diagonal", "dynamic", "dynamic-diagonal"):
                if (linearised, diffusion) != ("full", "fixed-diagonal"):
                    yield name, 3, linearised, diffusion


def assert_marginals(mean: np.ndarray, covariance: np.ndarray, expected: Marginals) -> None:
    """Covariances are compared in units of the standard deviations."""
    np.testing.assert_allclose(mean, expected.mean, rtol=TOLERANCE, atol=TOLERANCE)
    deviation = np.sqrt(np.diagonal(expected.covariance, axis1=1, axis2=2))
    scale = deviation[:, :, None] * deviation[:, None, :] + (deviation == 0)[:, :, None]
    np.testing.assert_allclose(
        covariance / scale, expected.covariance / scale, rtol=0, atol=TOLERANCE
    )


@pytest.mark.parametrize(
    ("name", "order", "linearised", "diffusion"),
    nightly_but([s for s in settings() if s[0] == "lotka-volterra" or s[1] == 3], settings()),
)
def test_filter_and_smoother_have_the_values_of_the_textbook(name, order, linearised, diffusion):
    case, (kind, options) = CASES[name], METHODS[linearised]
    times = np.linspace(0.0, case.end, STEPS + 1)
    golden: Textbook = textbook(
        case.field, case.x0, times.tolist(), order, linearised=linearised, diffusion=diffusion
    )
    for smooth, expected in ((False, golden.filtered), (True, golden.smoothed)):
        solver = kind(order=order, steps=STEPS, diffusion=diffusion, smooth=smooth, **options)
        solution = smcpn.solve(
            case.model, (0.0, case.end), case.theta, initial=case.x0, solver=solver,
            rtol=EQUAL, atol=1.0,
        )  # fmt: skip
        assert_marginals(solution.mean, solution.covariance, expected)
        assert solution.log_likelihood == pytest.approx(golden.log_likelihood, rel=TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize("linearised", ["no", pytest.param("full", marks=pytest.mark.nightly)])
def test_order_eleven_has_the_deviations_of_the_textbook(linearised):
    """Down to 1e-18: variances of 1e-36 keep eight digits, which only square roots can."""
    case, (kind, options) = CASES["lotka-volterra"], METHODS[linearised]
    times = np.linspace(0.0, case.end, STEPS + 1)
    golden = textbook(case.field, case.x0, times.tolist(), 11, linearised=linearised, diffusion=0.7)
    for smooth, expected, accuracy in (
        (False, golden.filtered, 1e-10),
        (True, golden.smoothed, 1e-8),
    ):
        solver = kind(order=11, steps=1, diffusion=0.7, smooth=smooth, **options)
        solution = smcpn.solve(case.model, times, case.theta, initial=case.x0, solver=solver)
        exact = np.sqrt(np.diagonal(expected.covariance, axis1=1, axis2=2))
        np.testing.assert_allclose(solution.mean, expected.mean, rtol=0, atol=1e-9)
        np.testing.assert_allclose(solution.sd, exact, rtol=accuracy)
        assert exact[1:].min() < 1e-16


def test_taylor_series_of_the_textbook():
    """The derivatives of Lotka-Volterra printed with the Fenrir paper's problem."""
    field = Field(lambda x, y: (2 * x - x * y, -4 * y + x * y), lambda x, y: ())
    with mp.workdps(DIGITS):
        derivatives = initial_derivatives(field, (5.0, 3.0), 5).astype(float).reshape(6, 2)
    golden = [(5, 3), (-5, 3), (-10, -12), (100, -72), (170, 318), (-5120, 4188)]
    np.testing.assert_array_equal(derivatives, golden)
