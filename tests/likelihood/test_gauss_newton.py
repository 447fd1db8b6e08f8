"""Gauss-Newton steps against `scipy.optimize.least_squares`, of many searches at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize

from smcpn.likelihood.gauss_newton import (
    damped_steps,
    damping_after,
    halved,
    least_squares,
    promised,
)

Array = NDArray[np.float64]
T = np.linspace(0.0, 3.0, 40)
STARTS = np.array([[0.5, 0.1], [3.0, 4.0], [1.0, 1.0], [2.0, 0.2], [0.1, 3.0]])
DATA = np.stack([a * np.exp(-k * T) for a, k in [(2, 1), (1, 0.5), (3, 2), (0.7, 1.5), (1.5, 0.3)]])
DATA = DATA + 0.05 * np.random.default_rng(0).normal(size=DATA.shape)


def decay(x: Array) -> tuple[Array, Array]:
    """a exp(-k t) of rows (a, k), and its derivatives."""
    shape = np.exp(-x[:, 1, None] * T)
    value = x[:, 0, None] * shape
    return value, np.stack([shape, -T * value], axis=2)


def residuals(which: NDArray[np.intp], x: Array) -> tuple[Array, Array]:
    value, slopes = decay(x)
    return DATA[which] - value, slopes


def optimum(k: int) -> Array:
    """The point that scipy finds from a start."""

    def error(x: Array) -> Array:
        return residuals(np.array([k]), x[None])[0][0]

    return optimize.least_squares(error, STARTS[k], xtol=1e-14, ftol=1e-14, gtol=1e-14).x


def test_halved_steps_end_where_scipy_does_from_each_start():
    found = least_squares(residuals, STARTS)
    for k, x in enumerate(found):
        np.testing.assert_allclose(x, optimum(k), rtol=1e-4)
    np.testing.assert_array_equal(
        found[2:3], least_squares(lambda _, x: residuals(np.array([2]), x), STARTS[2:3])
    )


def test_damped_steps_end_where_scipy_does_and_hold_what_is_not_free():
    # To the root of the rounding of a sum of squares, which cannot tell better points.
    for k, start in enumerate(STARTS):
        for free in ([True, True], [True, False]):
            x, damping, growth = start, 1.0, 2.0
            while damping < 1e12:
                (error,), (slopes,) = residuals(np.array([k]), x[None])
                gradient, information = slopes.T @ error, slopes.T @ slopes
                (step,), _ = damped_steps(
                    gradient[None], information[None], np.array([free]), np.array([damping])
                )
                hoped = promised(gradient[None], information[None], step[None])[0]
                (after,), _ = residuals(np.array([k]), (x + step)[None])
                gain = 0.5 * (error @ error - after @ after) / max(hoped, 1e-300)
                damping, growth = damping_after(damping, growth, max(gain, 0.0))
                x = x + step if gain > 0.0 else x
            if free[1]:
                np.testing.assert_allclose(x, optimum(k), rtol=1e-6)
            else:
                shape = np.exp(-start[1] * T)
                assert x[1] == start[1]
                assert x[0] == pytest.approx(DATA[k] @ shape / (shape @ shape), rel=1e-6)


def test_an_undamped_step_is_the_solution_and_its_distance_is_that_of_the_maximum():
    rng = np.random.default_rng(1)
    root = rng.normal(size=(3, 4, 6))
    information, gradient = root @ root.swapaxes(1, 2), rng.normal(size=(3, 4))
    free = np.ones((3, 4), dtype=bool)
    step, distance = damped_steps(gradient, information, free, np.zeros(3))
    expected = np.linalg.solve(information, gradient[..., None])[..., 0]
    np.testing.assert_allclose(step, expected, rtol=1e-8)
    np.testing.assert_allclose(distance, (expected * gradient).sum(axis=1), rtol=1e-8)
    np.testing.assert_allclose(promised(gradient, information, step), distance / 2, rtol=1e-8)


def test_a_coordinate_of_little_information_is_damped_as_if_it_had_more():
    information, gradient = np.diag([2.0, 1e-6]), np.array([1.0, 1e-3])
    step, distance = damped_steps(
        gradient[None], information[None], np.ones((1, 2), dtype=bool), np.array([0.5]), 0.1
    )
    np.testing.assert_allclose(step[0], gradient / [3.0, 1e-6 + 0.05], rtol=1e-12)
    np.testing.assert_allclose(distance, gradient @ (gradient / [2.0, 1e-6]), rtol=1e-12)


def test_a_direction_of_which_errors_say_nothing_is_not_moved_along():
    def plane(_: Any, x: Array) -> tuple[Array, Array]:
        slopes = np.tile([1.0, 1.0], (len(x), 3, 1))
        return np.tile([2.0, 2.0, 5.0], (len(x), 1)) - (slopes @ x[:, :, None])[..., 0], slopes

    np.testing.assert_allclose(least_squares(plane, np.array([[1.0, -1.0]])), [[2.5, 0.5]])


def test_a_start_whose_errors_are_not_finite_stays():
    def lost(which: NDArray[np.intp], x: Array) -> tuple[Array, Array]:
        error, slopes = residuals(which, x)
        return np.where(which[:, None] == 1, np.nan, error), slopes

    found = least_squares(lost, STARTS)
    np.testing.assert_array_equal(found[1], STARTS[1])
    np.testing.assert_allclose(found[0], optimum(0), rtol=1e-4)


def test_only_steps_that_are_refused_are_halved():
    asked: list[list[float]] = []

    def accepted(which: NDArray[np.intp], share: Array) -> NDArray[np.bool_]:
        asked.append(share.tolist())
        return share <= np.array([1.0, 0.25, 0.0])[which]

    halved(accepted, 3, 4)
    assert asked == [[1.0, 1.0, 1.0], [0.5, 0.5], [0.25, 0.25], [0.125]]
