"""Whether a posterior is the Gaussian about its mode: exact in one dimension."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.estimate.log_density import LogDensity
from smcpn.results.gaussian_check import GaussianCheck, gaussian_check
from smcpn.smc.start import DEGREES, PRIOR_SHARE, WIDE_SHARE, WIDTH
from tests.models import LINE_SOLVER, decay, line

PRIOR = stats.norm(0.0, 3.0)


@pytest.fixture(scope="module")
def heavy() -> smcpn.Laplace:
    """Two samples, almost without a variance, of a start known to 3: a peak, and long tails."""
    record = smcpn.Record(t=[0.0, 1e-6], y=[-0.03, 0.03])
    problem = smcpn.Problem(
        decay, record, observe="x", noise=smcpn.StudentT(0.1, 0.3), initial=["start"],
        prior={"rate": 0.8, "start": PRIOR},
    )  # fmt: skip
    return smcpn.laplace(problem, solver=LINE_SOLVER)


@pytest.mark.slow
def test_draws_measure_what_quadrature_does(heavy):
    """Effective share 1 / int p^2 / q and the sd, by a grid; 4 standard errors over 30 seeds."""
    grid = np.linspace(-30.0, 30.0, 200_001)
    step = grid[1] - grid[0]
    log_p = LogDensity(heavy.maximum.function, "posterior").value(grid[:, None])
    p = np.exp(log_p - log_p.max())
    p /= p.sum() * step
    sd = float(np.sqrt((p @ grid**2 - (p @ grid * step) * (p @ grid)) * step))
    scale = float(heavy.factor[0, 0])
    once, twice, thrice = (
        stats.t(DEGREES, heavy.mode[0], WIDTH**k * scale).pdf(grid) for k in range(3)
    )
    about = (1.0 - WIDE_SHARE) * (once + twice) + WIDE_SHARE * (twice + thrice)
    q = (1.0 - PRIOR_SHARE) * 0.5 * about + PRIOR_SHARE * PRIOR.pdf(grid)
    share = 1.0 / float((p**2 / q).sum() * step)
    assert sd > 3 * scale
    of = heavy.maximum.function, heavy.as_mode(), heavy.modes, heavy.gaussian_moments
    found = [gaussian_check(*of, seed) for seed in range(30)]
    shares = np.array([one.ess / one.draws for one in found])
    sds = np.array([one.sd["start"] for one in found])
    for value, exact in ((shares, share), (sds, sd)):
        assert abs(value.mean() - exact) < 4 * value.std(ddof=1) / np.sqrt(30) + 0.01 * exact


def test_the_table_has_the_interval_of_the_posterior_and_not_of_the_gaussian():
    """Of a learned noise: 10 residuals, of which the inverse variance is nearly a gamma's."""
    errors = np.random.default_rng(3).normal(size=10)
    record = smcpn.Record(t=1e-9 * np.arange(10), y=errors)
    problem = smcpn.Problem(
        decay, record, observe="x", noise="sigma", initial=[0.0],
        prior={"rate": 1.0, "sigma": stats.loguniform(1e-3, 1e3)},
    )  # fmt: skip
    found = smcpn.laplace(problem, solver=LINE_SOLVER)
    (row,) = found.table()
    exact = np.sqrt(np.square(errors).sum() / stats.chi2(10).ppf([0.975, 0.025]))
    assert [row.low, row.high] == pytest.approx(exact, rel=0.06)
    assert found.quantile("sigma", 0.975) < 0.9 * exact[1]


def test_a_mode_of_no_weight_is_not_told_of():
    found = smcpn.laplace(line(), solver=LINE_SOLVER)
    mode = found.as_mode()
    beside = [
        replace(mode, theta=mode.theta + 5.0, log_evidence=mode.log_evidence - gap)
        for gap in (9.0, 1.0)
    ]
    assert replace(found, modes=(mode, beside[0])).several_modes == ()
    assert len(replace(found, modes=(mode, beside[1])).several_modes) == 2


def test_warning_names_parameter_and_cure(heavy):
    (said,) = heavy.check.warnings
    assert heavy.check.is_far
    assert f"+- {heavy.sd['start']:.2g} (Gaussian " in said
    assert f"+- {heavy.gaussian_moments[1]['start']:.2g})" in said
    assert "smcpn identify" in said
    assert said in heavy.warnings
    assert "far from the Gaussian" in heavy.summary()
    assert "far from the Gaussian" in repr(heavy)
    assert heavy.check.document()["agreement"] == heavy.check.agreement


def test_gaussian_posterior_agrees_exactly_and_is_not_warned_of():
    found = smcpn.laplace(line(), solver=LINE_SOLVER)
    assert found.check.agreement == pytest.approx(1.0, abs=1e-4)
    assert found.check.warnings == ()


def test_few_effective_draws_tell_no_spread():
    zero = {"a": 0.0}
    check = GaussianCheck(4000, 12.0, 1700.0, zero, zero, {"a": 3.0}, {"a": 1.0}, zero, zero)
    assert "a is" not in check.warnings[0]


def test_without_a_gaussian_there_is_no_check(heavy):
    assert replace(heavy, reason="no").check is None


def at_a_boundary(prior) -> smcpn.Problem:
    """A level that is not negative and hardly differs from nothing, beside one that may be."""
    rng, n = np.random.default_rng(6), 200
    times, sd = np.arange(1, n + 1) / n, 0.2 * np.sqrt(n / 20)
    record = smcpn.Record(t=np.append(0, times), y=np.append(np.nan, sd * rng.normal(size=n)))
    return smcpn.Problem(
        clock, record, observe=lambda x, *, a, c: a * x + c, noise=sd,
        prior={"a": prior, "c": stats.norm()}, initial=[0.0],
    )  # fmt: skip


@smcpn.ode
def clock(x):
    return 0 * x + 1.0


@pytest.mark.parametrize("prior", [stats.halfnorm(scale=1), stats.uniform(0, 3)])
def test_at_a_boundary_the_moments_are_the_posteriors(prior):
    """Against a grid over the level and its normal complement, to a twentieth of the sd."""
    problem = at_a_boundary(prior)
    found = smcpn.laplace(problem, solver=LINE_SOLVER)
    record = problem.records[0]
    x, y = record.t[1:], record.y[1:, 0]
    a, c = np.meshgrid(np.linspace(0, 1.2, 601), np.linspace(-0.6, 0.6, 401), indexing="ij")
    variance = 0.2**2 * 10
    square = (y**2).sum() - 2 * a * (x @ y) - 2 * c * y.sum() + a**2 * (x @ x)
    square = square + 2 * a * c * x.sum() + len(x) * c**2
    log_density = -square / (2 * variance) + prior.logpdf(a) - c**2 / 2
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    for name, values in (("a", a), ("c", c)):
        mean = (weights * values).sum()
        sd = np.sqrt((weights * (values - mean) ** 2).sum())
        assert found.mean[name] == pytest.approx(mean, abs=0.05 * sd)
        assert found.sd[name] == pytest.approx(sd, rel=0.05)
    gaussian, _ = found.gaussian_moments
    assert abs(gaussian["a"] - found.mean["a"]) > 0.5 * found.sd["a"]
    assert f"about the mode a is {found.mean['a']:.3g}" in found.check.warnings[0]


@pytest.mark.parametrize("n", [100, 400])
def test_the_noise_of_an_ordinary_record_is_no_cause_to_warn(n):
    """Its mode is too low by a degree of freedom for each parameter, which the mean corrects."""
    problem = regression(n)
    found = smcpn.laplace(problem, solver=LINE_SOLVER)
    assert found.warnings == ()
    record = problem.records[0]
    x, y = record.t[1:], record.y[1:, 0]
    lines = np.column_stack([x**0, x, x**2])
    rest = y - lines @ np.linalg.lstsq(lines, y, rcond=None)[0]
    # Flat priors of the levels and of the logarithm of the scale, nearly: inverse gamma.
    exact = stats.invgamma((n - 3) / 2, scale=rest @ rest / 2)
    mean = exact.expect(np.sqrt)
    assert found.mean["s"] == pytest.approx(mean, abs=0.05 * found.sd["s"])
    assert mean - found.gaussian_moments[0]["s"] > 1.5 * found.sd["s"] / np.sqrt(n)


def regression(n: int) -> smcpn.Problem:
    """A parabola of three levels, and the noise about it."""
    t = np.arange(1, n + 1) / n
    y = 1 + t - t**2 + 0.1 * np.random.default_rng(0).normal(size=n)
    prior = {name: stats.norm(scale=100.0) for name in ("a", "b", "c")}
    return smcpn.Problem(
        clock, smcpn.Record(t=np.append(0, t), y=np.append(np.nan, y)),
        observe=lambda x, *, a, b, c: a + b * x + c * x**2, noise="s", initial=[0.0],
        prior=prior | {"s": stats.lognorm(5.0)},
    )  # fmt: skip
