"""The sandwich against the exact variance of least squares under coloured noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.signal import lfilter
from scipy.stats import lognorm, norm, t

from smcpn import Prior
from smcpn.results.validation.sandwich import ALARM, drift_p, of_scores, prior_precision, scores
from tests.targets import LinearRegression

SAMPLES, SEEDS = 1500, 60
NO_PRIOR = np.zeros((2, 2))
STUDENT = t.ppf(0.975, 15) / norm.ppf(0.975)


def smooth(rng, rho, size):
    white = rng.normal(size=(SAMPLES + 200, *size))
    return lfilter([np.sqrt(1 - rho**2)], [1.0, -rho], white, axis=0)[200:]


def regression(seed: int, rho: float, records: int = 1, missing: float = 0.0):
    """Scores by record, posterior covariance, and the exact variance of the estimate.

    y = X b + e, with AR(1) regressors and errors of variance one that the model takes as white.
    """
    rng = np.random.default_rng(seed)
    series, precision, middle = [], np.zeros((2, 2)), np.zeros((2, 2))
    parts = []
    for _ in range(records):
        seen = rng.random(SAMPLES) >= missing
        x, e = smooth(rng, rho, (2,)) * seen[:, None], smooth(rng, rho, ())
        precision += x.T @ x
        middle += x.T @ toeplitz(rho ** np.arange(SAMPLES)) @ x
        parts.append((x, e))
    plain = np.linalg.inv(precision)
    error = plain @ sum(x.T @ e for x, e in parts)
    series = [x * (e - x @ error)[:, None] for x, e in parts]
    return series, plain, plain @ middle @ plain


# Sixteen blocks are short for errors that are correlated over ten samples, by a seventh of the
# variance; Student's t of 15 degrees of freedom adds a sixth.
@pytest.mark.parametrize(
    ("rho", "records", "missing"),
    [(0.6, 1, 0.0), (0.9, 1, 0.0), (0.6, 3, 0.0), (0.6, 1, 0.3)],
)
def test_least_squares_under_coloured_noise(rho, records, missing):
    ratios = []
    for seed in range(SEEDS):
        series, plain, exact = regression(seed, rho, records, missing)
        found = of_scores(series, plain, NO_PRIOR)
        assert found.judged.all()
        assert found.degrees_of_freedom == 15
        ratios.append(np.diag(found.covariance) / np.diag(exact))
    assert 0.9 < np.mean(ratios) < STUDENT**2 + 0.1  # the standard error is .03


def test_white_noise_leaves_the_posterior_as_it_is():
    found = [of_scores(*regression(seed, 0.0)[:2], NO_PRIOR) for seed in range(SEEDS)]
    assert np.mean([one.drifts for one in found]) == pytest.approx(ALARM, abs=0.12)  # se .056
    assert all(one.learning_rate == 1.0 for one in found if not one.drifts)
    assert np.mean([one.factor for one in found]) == pytest.approx(1.0, abs=0.05)


def test_the_test_of_drift_has_its_level_and_finds_a_slow_change():
    rng = np.random.default_rng(0)
    x, e = rng.normal(size=(200, 300, 2)), rng.normal(size=(200, 300))

    def p(noise, x):
        error = noise - x @ np.linalg.lstsq(x, noise)[0]
        return drift_p(x * error[:, None])

    white = np.array([p(one, of) for one, of in zip(e, x, strict=True)])
    assert np.mean(white < ALARM) == pytest.approx(ALARM, abs=0.09)  # three standard errors
    change = np.sin(np.arange(300) / 40.0)
    assert (
        np.median([p(a + change * b[:, 0], b) for a, b in zip(e[:50], x[:50], strict=True)]) < 1e-6
    )


def test_of_too_few_samples_nothing_is_judged():
    series, plain, _ = regression(0, 0.9)
    found = of_scores([series[0][:15]], plain, NO_PRIOR)
    assert np.isnan(found.drift_p)
    assert not found.judged.any()
    np.testing.assert_array_equal(found.covariance, plain)


def test_few_lengths_of_correlation_are_few_degrees_of_freedom():
    series, plain, _ = regression(0, 0.6)
    many, few = (of_scores(series, plain, NO_PRIOR, memory=length) for length in (1.0, 15.0))
    assert few.degrees_of_freedom == SAMPLES / 50 / 15
    expected = t.ppf(0.975, few.degrees_of_freedom) / t.ppf(0.975, 15)
    np.testing.assert_allclose(few.factor, expected * many.factor)


def test_units_do_not_matter():
    series, plain, _ = regression(0, 0.6)
    scale = np.array([1e-9, 1e6])
    found = of_scores([part / scale for part in series], plain * np.outer(scale, scale), NO_PRIOR)
    np.testing.assert_allclose(found.factor, of_scores(series, plain, NO_PRIOR).factor, rtol=1e-9)


def test_learning_rate_is_the_mean_ratio_of_variances():
    series, plain, _ = regression(0, 0.9)
    found = of_scores(series, plain, NO_PRIOR)
    ratio = np.trace(np.linalg.solve(plain, found.covariance)) / 2
    assert found.learning_rate == pytest.approx(1 / ratio)
    assert found.learning_rate < 0.3


def test_what_only_the_first_samples_tell_is_not_judged():
    series, plain, _ = regression(0, 0.6)
    series[0][12:, 1] = 0.0
    found = of_scores(series, plain, NO_PRIOR)
    assert found.judged.tolist() == [True, False]
    assert found.covariance[1, 1] == plain[1, 1]
    assert found.factor[0] > 1.2


def test_a_parameter_that_only_the_prior_knows_keeps_its_width():
    series, plain, _ = regression(0, 0.6)
    wide = np.diag([plain[0, 0], 4.0])
    series[0][:, 1] *= 1e-9
    found = of_scores(series, wide, np.diag([0.0, 1 / 4.0]))
    assert found.factor[1] == pytest.approx(1.0)


def test_scores_are_the_derivatives_at_the_centre():
    """Exact for a quadratic log density, by particles in pairs about the centre."""
    target = LinearRegression(n=40, d=3)
    mean, covariance = target.moments()
    away = np.random.default_rng(0).normal(size=(50, 3)) @ np.linalg.cholesky(covariance).T
    theta = np.concatenate([mean + away, mean - away])
    found = scores(
        target, Prior({f"theta{j}": norm() for j in range(3)}), theta, np.full(100, 0.01)
    )
    residual = (target.y - target.x @ mean) / target.noise**2
    np.testing.assert_allclose(found, residual[:, None] * target.x, rtol=1e-9, atol=1e-9)


def test_prior_with_a_learned_scale_counts_at_the_scale_found():
    prior = Prior({"x": norm(), "s": lognorm(1.0)}, scales={"x": "s"})
    x, s = 10.0, 20.0
    found = prior_precision(prior, np.array([x, np.log(s)]))
    exact = [[1 / s**2, -2 * x / s**2], [-2 * x / s**2, 2 * x**2 / s**2 + 1]]
    np.testing.assert_allclose(found, exact, rtol=1e-6)


def test_prior_that_is_convex_along_a_direction_says_nothing_there():
    """As where x is large for its scale: its covariance would be no covariance."""
    prior = Prior({"x": norm(), "s": lognorm(1.0)}, scales={"x": "s"})
    x, s = 30.0, 20.0
    found = prior_precision(prior, np.array([x, np.log(s)]))
    exact = np.array([[1 / s**2, -2 * x / s**2], [-2 * x / s**2, 2 * x**2 / s**2 + 1]])
    assert np.linalg.eigvalsh(exact)[0] < 0.0
    assert np.linalg.eigvalsh(found)[0] > -1e-12
    largest = np.linalg.eigh(exact)[1][:, 1]
    np.testing.assert_allclose(largest @ found @ largest, largest @ exact @ largest, rtol=1e-2)
