"""Gaussian processes by features against their kernels."""

import numpy as np
import pytest
from scipy.integrate import quad

import smcpn
from smcpn.errors import InputError
from smcpn.model.functions.gaussian_process import GaussianProcess


def covariance(function: GaussianProcess, points, lengths, scale: float) -> np.ndarray:
    """Covariance matrix at points of weights that are N(0, scale^2)."""
    count = len(function.scales)
    parameters = np.hstack([scale * np.eye(count), np.tile([scale, *lengths], (count, 1))])
    values = function.values(points, parameters)
    return values.T @ values


@pytest.mark.parametrize("length", [0.18, 0.4, 0.6])
def test_covariance_is_the_kernel(length) -> None:
    """To 1 % of the variance from 3.5 / features of half the interval to 0.6 of it."""
    function = smcpn.gaussian_process("v", within=(2.0, 6.0))
    points = np.linspace(2.0, 6.0, 33)
    distance = points[:, None] - points
    exact = 2.25 * np.exp(-0.5 * (distance / (2.0 * length)) ** 2)
    found = covariance(function, points, [2.0 * length], 1.5)
    assert np.abs(found - exact).max() < 0.01 * 2.25


def test_covariance_of_two_variables_is_the_product_of_kernels() -> None:
    function = smcpn.gaussian_process("a", "b", within=[(-1, 1), (0, 10)])
    rng = np.random.default_rng(0)
    points = np.array([0.0, 5.0]) + np.array([1.0, 5.0]) * rng.uniform(-1, 1, (12, 2))
    difference = (points[:, None] - points) / np.array([0.5, 2.5])
    exact = np.exp(-0.5 * (difference**2).sum(axis=2))
    found = covariance(function, points, [0.5, 2.5], 1.0)
    assert np.abs(found - exact).max() < 0.02


def test_weights_are_the_spectral_density() -> None:
    """The variance at the middle is the sum over odd sines of the spectral density over L."""
    function = smcpn.gaussian_process("v", within=(-1, 1), features=5)

    def density(w: float) -> float:
        return quad(lambda d: np.cos(w * d) * np.exp(-0.5 * (d / 0.3) ** 2), -4, 4)[0]

    expected = sum(density(j * np.pi / 4) / 2.0 for j in (1, 3, 5))
    assert covariance(function, [0.0], [0.3], 1.0)[0, 0] == pytest.approx(expected, rel=1e-9)


def test_function_becomes_constant_with_the_prior_band() -> None:
    function = smcpn.gaussian_process("v", within=(-1, 1))
    far = covariance(function, [0.0, 3.0, 10.0], [0.4], 1.0)
    assert far[1, 1] == pytest.approx(1.0, abs=0.25)
    assert far[2, 2] == pytest.approx(far[1, 1], rel=1e-3)
    step = np.array([-1e-4, 0.0, 1e-4])
    values = function.values(1.0 + step, np.ones((1, len(function.priors))))[0]
    assert np.diff(values, n=2) == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"within": [(0, 1), (0, 1)]}, "2 intervals"),
        ({"within": (0, 1), "features": 2}, "from 4"),
        ({"within": (0, 1), "lengthscale": 0.0}, "above 0"),
        ({"within": (0, 1), "lengthscale": (0.1, 0.2)}, "2 entries"),
    ],
)
def test_what_cannot_be_is_refused(arguments, message) -> None:
    with pytest.raises(InputError, match=message):
        smcpn.gaussian_process("v", **arguments)


def test_features_of_two_variables_are_bounded() -> None:
    with pytest.raises(InputError, match="at most 20"):
        smcpn.gaussian_process("a", "b", within=[(0, 1), (0, 1)], features=50)
