"""Randomised quantile residuals of counts, against their distribution."""

import casadi as ca
import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.results.validation.counts import count_residuals
from smcpn.results.validation.innovations import innovations, whiteness

SAMPLES = 4000


@pytest.mark.parametrize("family", ["poisson", "ones", "binomial", "negative binomial"])
def test_residuals_are_standard_normal(family):
    rng = np.random.default_rng(1)
    p = rng.uniform(0.03, 0.8, SAMPLES)
    drawn, mean, variance = {
        "poisson": (rng.poisson(5 * p), 5 * p, 5 * p),
        "ones": (rng.binomial(1, p), p, p * (1 - p)),
        "binomial": (rng.binomial(5, p), 5 * p, 5 * p * (1 - p)),
        "negative binomial": (rng.negative_binomial(3, p), 3 / p - 3, (3 - 3 * p) / p**2),
    }[family]
    found = count_residuals(drawn.astype(float), mean[None], variance[None], np.ones(1), rng)
    assert found is not None
    assert stats.kstest(found.normalised, "norm").pvalue > 0.001


def test_the_uncertainty_of_the_output_is_in_the_distribution():
    rng = np.random.default_rng(2)
    log_mean, sd = rng.uniform(-1.0, 2.0, SAMPLES), 0.5
    y = rng.poisson(np.exp(log_mean + sd * rng.normal(size=SAMPLES))).astype(float)
    nodes, weights = np.polynomial.hermite_e.hermegauss(21)
    means = np.exp(log_mean + sd * nodes[:, None])
    found = count_residuals(y, means, means, weights / weights.sum(), rng)
    assert stats.kstest(found.normalised, "norm").pvalue > 0.001
    plain = count_residuals(y, np.exp(log_mean)[None], np.exp(log_mean)[None], np.ones(1), rng)
    assert stats.kstest(plain.normalised, "norm").pvalue < 1e-6
    # The mean and the variance of a log-normal mean with Poisson counts about it.
    exact = np.exp(log_mean + sd**2 / 2)
    np.testing.assert_allclose(found.mean, exact, rtol=1e-9)
    np.testing.assert_allclose(found.of_output, exact**2 * np.expm1(sd**2), rtol=1e-6)


def test_far_counts_have_finite_residuals_and_missing_ones_none():
    y, m = np.array([0.0, 80.0, np.nan, 500.0]), np.full((1, 4), 50.0)
    m[0, 3] = 20.0
    found = count_residuals(y, m, m, np.ones(1), np.random.default_rng(0))
    assert found.normalised[0] < -9
    assert 3 < found.normalised[1] < 5
    assert np.isnan(found.normalised[2])
    assert found.normalised[3] > 30


def test_counts_that_are_all_but_impossible_are_not_taken_for_missing():
    y, m = np.array([5000.0, 0.0]), np.array([[20.0, 2000.0]])
    found = count_residuals(y, m, m, np.ones(1), np.random.default_rng(0))
    np.testing.assert_allclose(found.normalised, [37.5, -37.5], atol=0.1)


@pytest.mark.parametrize("value", [2.5, -1.0])
def test_values_that_are_no_whole_numbers_are_no_counts(value):
    y, m = np.array([1.0, value, np.nan]), np.array([[1.0, 2.0, 3.0]])
    assert count_residuals(y, m, m, np.ones(1), np.random.default_rng(0)) is None


def test_other_variances_are_no_counts():
    m = np.array([[1.0, 2.0, 3.0]])
    for variances in (2 * m, np.ones_like(m), m - 0.3 * m**2 * (m < 2.5)):
        assert count_residuals(m[0], m, variances, np.ones(1), np.random.default_rng(0)) is None


@smcpn.ode
def decay(x, *, rate):
    """Something that decays."""
    return -rate * x


T = 0.1 * np.arange(200)


def problem(y, noise):
    prior = {"rate": stats.lognorm(0.5, scale=0.1)}
    record = smcpn.Record(y=y, t=T)
    return smcpn.Problem(decay, record, observe="x", noise=noise, prior=prior, initial=[2.0])


@pytest.mark.parametrize("noise", [smcpn.Poisson(), smcpn.Bernoulli()], ids=str)
def test_a_posterior_of_counts_is_validated(noise):
    rng, log_means = np.random.default_rng(3), 2.0 * np.exp(-0.1 * T)
    zeros_and_ones = isinstance(noise, smcpn.Bernoulli)
    p = 1.0 / (1.0 + np.exp(-log_means))
    y = rng.binomial(1, p) if zeros_and_ones else rng.poisson(np.exp(log_means))
    run = dict(solver=smcpn.RK4(steps=2), particles=100, seed=1)
    posterior = smcpn.identify(problem(y, noise), **run)
    right = posterior.validate()
    assert str(right.verdict).startswith("usable")
    assert right.innovations[0].mean[0, 0] == pytest.approx(
        p[0] if zeros_and_ones else np.exp(2.0), rel=1e-6
    )
    again = posterior.validate(posterior.problem.records[0])
    np.testing.assert_array_equal(right.innovations[0].normalised, again.innovations[0].normalised)
    if not zeros_and_ones:
        # Twice the counts with the variance of counts four times too large.
        wrong = smcpn.identify(problem(y + rng.poisson(4.0 * np.exp(log_means) * (np.sin(T) > 0)),
                                       noise), **run).validate()  # fmt: skip
        assert not str(wrong.verdict).startswith("usable")


@pytest.mark.parametrize(
    ("noise", "told"),
    [
        (smcpn.Poisson(), "Poisson() takes it for the logarithm of the mean of y"),
        (smcpn.NegativeBinomial(50.0), "NegativeBinomial(size=50.0) takes it for the mean of y"),
    ],
    ids=str,
)
def test_counts_whose_output_is_another_number_are_told(noise, told):
    """The state is the mean of what Poisson takes for its logarithm, and the reverse."""
    exact = 2.0 * np.exp(-0.1 * T)
    mean = exact if isinstance(noise, smcpn.Poisson) else np.exp(exact)
    found = smcpn.maximise(problem(np.random.default_rng(3).poisson(mean), noise), starts=2)
    verdict = found.validate().verdict
    assert verdict.level != "usable"
    assert told in str(verdict)


def residuals_at_the_truth(noise, size, rate, seeds):
    """Residuals and weights of counts about a decaying mean, by the model that drew the mean."""
    mean = 30.0 * np.exp(-rate * T)
    for seed in range(seeds):
        y = np.random.default_rng(seed).negative_binomial(size, size / (size + mean))
        posed = smcpn.Problem(
            decay,
            smcpn.Record(y=y, t=T),
            observe=(lambda x: ca.log(x)) if isinstance(noise, smcpn.Poisson) else "x",
            noise=noise,
            prior={"rate": stats.lognorm(0.5, scale=0.1)},
            initial=[30.0],
        )
        (part,) = innovations(posed, smcpn.RK4(steps=2), np.array([rate]))
        yield part.normalised[:, 0], part.weights[:, 0]


def test_counts_about_an_output_have_standard_normal_residuals_too():
    """Those of the deviance, of which noise about a mean has others, are not."""
    found = residuals_at_the_truth(smcpn.NegativeBinomial(0.5), 0.5, 0.1, 20)
    normalised = np.concatenate([one for one, _ in found])
    assert stats.kstest(normalised, "norm").pvalue > 0.001


def test_counts_that_scatter_more_are_told_where_their_mean_is_large():
    none = [np.empty((len(T), 0))]
    found = list(residuals_at_the_truth(smcpn.Poisson(), 15.0, 1.0, 40))
    equal, weighted = (
        np.mean([whiteness([one], none, False, own).chi2_p < 0.0225 for one, own in each])
        for each in ([(one, None) for one, _ in found], [(one, [own]) for one, own in found])
    )
    assert weighted > equal + 0.2


@pytest.mark.parametrize("weights", [np.ones(40), np.exp(-np.arange(40) / 6.0)])
def test_the_level_of_a_weighted_sum_of_squares_holds(weights):
    normal, none = np.random.default_rng(4).normal(size=(4000, 40)), [np.empty((40, 0))]
    p = [whiteness([one], none, False, [weights]).chi2_p for one in normal[:1500]]
    assert 0.01 < np.mean(np.array(p) < 0.0225) < 0.04


def test_a_density_that_is_neither_is_refused_by_name():
    def exponential(y, output):
        return -output - y * ca.exp(-output)

    found = problem(np.ones(len(T)), exponential)
    posterior = smcpn.identify(found, solver=smcpn.RK4(steps=2), particles=50, seed=1)
    with pytest.raises(smcpn.InputError, match="or counts: the density of 'x' is largest"):
        posterior.validate()
