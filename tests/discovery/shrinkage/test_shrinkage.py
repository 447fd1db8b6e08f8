"""Continuous priors: closed forms against quadrature, and exact draws of their mixtures."""

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import exp1

from smcpn.discovery.shrinkage.priors import (
    HorseshoePrior,
    LaplacePrior,
    Shrinkage,
    _reciprocal_inverse_gaussian,
    _tilted,
    shrinkage,
)
from smcpn.errors import InputError

NOTHING = np.empty((1, 0))
LEAST_P = 1e-3
"""Of Kolmogorov-Smirnov tests with the seed that is there: one of a thousand fails by chance."""


def test_laplace_integrates_its_scale_out():
    prior, theta = LaplacePrior(shape=1.5, rate=0.7), np.array([0.3, -2.0, 1e-4])

    def integrand(scale):
        gamma = mpmath.mpf(0.7) ** 1.5 * scale**0.5 * mpmath.exp(-0.7 * scale) / mpmath.gamma(1.5)
        return gamma * mpmath.fprod(0.5 * scale * mpmath.exp(-scale * abs(v)) for v in theta)

    exact = float(mpmath.log(mpmath.quad(integrand, [0, 1, 10, mpmath.inf])))
    assert prior.log_density(theta[None], NOTHING)[0] == pytest.approx(exact, abs=1e-12)


def test_laplace_with_unit_hyperprior_is_the_factorial():
    theta = np.array([[0.5, -1.5, 0.25, 0.0]])
    expected = np.log(24.0 / 2**4 / (1.0 + 2.25) ** 5)
    assert LaplacePrior().log_density(theta, NOTHING)[0] == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize("size", [1e-3, 0.4, 3.0, 40.0, 1e5])
def test_horseshoe_integrates_local_scales_out(size):
    tau = 0.3
    theta = mpmath.mpf(size) * mpmath.mpf(tau)

    def integrand(log_scale):
        scale = mpmath.exp(log_scale)
        sd = scale * tau
        normal = mpmath.exp(-(theta**2) / (2 * sd**2)) / (sd * mpmath.sqrt(2 * mpmath.pi))
        return normal * 2 / (mpmath.pi * (1 + scale**2)) * scale

    exact = mpmath.log(mpmath.quad(integrand, [-40, *range(-10, 20, 2), 60]))
    exact += mpmath.log(2 / mpmath.pi / 2 / (1 + (mpmath.mpf(tau) / 2) ** 2) * tau)
    found = HorseshoePrior(scale=2.0).log_density(np.array([[float(theta)]]), np.log([[tau]]))
    assert found[0] == pytest.approx(float(exact), abs=1e-7)


@pytest.mark.parametrize("prior", [LaplacePrior(), HorseshoePrior()])
def test_density_of_one_coefficient_is_normalised(prior):
    log_tau = np.full((1, len(prior.scales)), 0.4)
    # Of the scale alone, whose density is a factor.
    rest = 0.0
    if prior.scales:
        tau = np.exp(0.4)
        rest = float(stats.halfcauchy.logpdf(tau) + 0.4)

    def density(log_theta):
        theta = np.array([[np.exp(log_theta)]])
        return 2.0 * np.exp(prior.log_density(theta, log_tau)[0] - rest + log_theta)

    parts = [integrate.quad(density, a, a + 10.0)[0] for a in range(-60, 60, 10)]
    assert sum(parts) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("prior", [LaplacePrior(shape=2.0, rate=3.0), HorseshoePrior(scale=0.5)])
def test_draws_have_the_density(prior):
    theta, log_scales = prior.sample(np.random.default_rng(1), 2000, 1)
    if prior.scales:
        theta = theta / np.exp(log_scales)

    def cumulative(size):
        grid = np.linspace(-40.0, np.log(size), 4001)
        points = np.exp(grid)[:, None]
        zero = np.zeros((len(grid), len(prior.scales)))
        base = HorseshoePrior() if prior.scales else prior
        rest = np.log(2 / np.pi / 2) if prior.scales else 0.0
        values = 2.0 * np.exp(base.log_density(points, zero) - rest + grid)
        return integrate.simpson(values, x=grid)

    sizes = np.abs(theta[:150, 0])
    found = stats.kstest(sizes, lambda x: np.array([cumulative(v) for v in x]))
    assert found.pvalue > LEAST_P


@pytest.mark.parametrize("rate", [1e-9, 0.3, 1.0, 7.0])
def test_local_scales_are_drawn_exactly(rate):
    eta = _tilted(np.random.default_rng(2), np.full(4000, rate))
    found = stats.kstest(eta, lambda x: 1.0 - exp1(rate * (1.0 + x)) / exp1(rate))
    assert found.pvalue > LEAST_P


@pytest.mark.parametrize(("ratio", "slope"), [(1e-12, 0.5), (0.3, 2.0), (40.0, 1.0)])
def test_variances_of_the_lasso_are_drawn_exactly(ratio, slope):
    ones = np.ones(4000)
    drawn = 1.0 / _reciprocal_inverse_gaussian(np.random.default_rng(3), ratio * ones, slope)
    shape = slope**2
    exact = stats.invgauss(1.0 / (ratio * shape), scale=shape)
    if ratio < 1e-6:  # Levy's density, to which it tends
        exact = stats.levy(scale=shape)
    assert stats.kstest(drawn, exact.cdf).pvalue > LEAST_P


def test_priors_are_known_by_name():
    assert isinstance(shrinkage("laplace"), LaplacePrior)
    given = HorseshoePrior(scale=0.1)
    assert shrinkage(given) is given
    assert isinstance(given, Shrinkage)


def test_bad_settings_are_refused():
    with pytest.raises(InputError, match="units"):
        LaplacePrior(units="metres")
    with pytest.raises(InputError, match="scale"):
        HorseshoePrior(scale=-1.0)
