"""Ends of searches that leave far more than a noise that is known call for further searches."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.estimate.log_density import LogDensity
from smcpn.estimate.multistart import left_unexplained, misfits
from smcpn.estimate.search import CONVERGED, SearchEnd


@smcpn.ode
def decay(x, *, k):
    return -k * x


def problem(noise: str) -> smcpn.Problem:
    t = np.linspace(0.0, 3.0, 10)
    y = np.exp(-t) + 0.05 * np.random.default_rng(1).normal(size=10)
    y[3] = np.nan
    sd = 0.05 if noise == "y_sd" else None
    prior = {"k": stats.lognorm(1.0)} | ({"s": stats.lognorm(1.0)} if noise == "s" else {})
    record = smcpn.Record(t=t, y=y, y_sd=None if sd is None else np.full(10, sd))
    level = 0.05 if noise == "number" else noise
    return smcpn.Problem(decay, record, observe="x", noise=level, initial=[1.0], prior=prior)


@pytest.mark.parametrize(("noise", "expected"), [("y_sd", True), ("number", True), ("s", False)])
def test_chi_square_tells_where_the_noise_is_known(noise, expected):
    density = LogDensity(smcpn.LogLikelihood(problem(noise), solver=smcpn.RK4(8)))

    def end(k: float) -> SearchEnd:
        values = np.full(len(density.names), 0.05)
        values[0] = k
        theta = density.prior.unconstrained(values[None, :])[0]
        height = density.value(theta[None, :])
        return SearchEnd(theta, float(height[0]), CONVERGED, 1, theta[None, :], height)

    assert misfits(density, [end(3.0)]) is expected
    assert not misfits(density, [end(3.0), end(1.0)])
    assert (
        "times the noise that is given" in left_unexplained(density, end(3.0).theta)
    ) is expected
    assert not left_unexplained(density, end(1.0).theta)
