"""Whether a posterior is the Gaussian about its mode: exact in one dimension."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.estimate.log_density import LogDensity
from smcpn.results.gaussian_check import GaussianCheck, gaussian_check
from smcpn.smc.start import DEGREES, PRIOR_SHARE, WIDTH
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


def test_draws_measure_what_quadrature_does(heavy):
    """Effective share 1 / int p^2 / q and the sd, by a grid; 4 standard errors over 30 seeds."""
    grid = np.linspace(-30.0, 30.0, 200_001)
    step = grid[1] - grid[0]
    log_p = LogDensity(heavy.maximum.function, "posterior").value(grid[:, None])
    p = np.exp(log_p - log_p.max())
    p /= p.sum() * step
    sd = float(np.sqrt((p @ grid**2 - (p @ grid * step) * (p @ grid)) * step))
    scale = float(heavy.factor[0, 0])
    each = [stats.t(DEGREES, heavy.mode[0], w * scale).pdf(grid) for w in (1.0, WIDTH)]
    q = (1.0 - PRIOR_SHARE) * np.mean(each, axis=0) + PRIOR_SHARE * PRIOR.pdf(grid)
    share = 1.0 / float((p**2 / q).sum() * step)
    assert sd > 3 * scale
    found = [gaussian_check(heavy, seed) for seed in range(30)]
    shares = np.array([one.ess / one.draws for one in found])
    sds = np.array([one.sd["start"] for one in found])
    for value, exact in ((shares, share), (sds, sd)):
        assert abs(value.mean() - exact) < 4 * value.std(ddof=1) / np.sqrt(30) + 0.01 * exact


def test_warning_names_parameter_and_cure(heavy):
    (said,) = heavy.check.warnings
    assert heavy.check.is_far
    assert f"of start (Gaussian {heavy.sd['start']:.2g})" in said
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
    check = GaussianCheck(4000, 12.0, 1700.0, {"a": 3.0}, {"a": 1.0})
    assert "of a" not in check.warnings[0]


def test_without_a_gaussian_there_is_no_check(heavy):
    assert gaussian_check(replace(heavy, reason="no")) is None
