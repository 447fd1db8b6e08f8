"""What no density of the data can have is no likelihood: for a caller, and within a run."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from scipy import stats

from smcpn import EKF1
from smcpn.likelihood.conditioned import Fenrir
from smcpn.likelihood.conditioning import Scheme
from smcpn.likelihood.measurement import ROUNDING, densest, possible
from smcpn.smc.particles import finite_or_excluded
from tests.models import timed_problem

pytestmark = pytest.mark.numerics


def test_densest_counts_what_is_present() -> None:
    found = densest(ca.SX([0.04, 9.0]), ca.SX([1.0, 0.0]))
    assert float(ca.evalf(found)) == pytest.approx(stats.norm.logpdf(0.0, 0.0, 0.2))


@pytest.mark.parametrize(
    ("surplus", "finite"), [(-3.0, True), (0.5 * ROUNDING, True), (1e-3, False), (np.nan, False)]
)
def test_possible(surplus: float, finite: bool) -> None:
    found = float(ca.evalf(possible(ca.SX(2.5), ca.SX(surplus))))
    assert np.isfinite(found) == finite
    assert not finite or found == 2.5


class Bounded(Fenrir):
    """A likelihood whose bound lies below what it reaches."""

    scheme = Scheme(joint=True, linearise_free=True, excess=-4.2)


def test_a_joint_likelihood_ends_where_its_sum_is_impossible() -> None:
    """At every sample, so that a run over increments leaves the same particles out."""
    values, records = np.array([[0.2], [0.8], [3.0]]), timed_problem(12).records
    # The first sample is that of a known state.
    first = replace(records[0], dt=None, y=np.append(np.nan, records[0].y[1:]))
    problem = timed_problem(12).with_records([first, records[1]])
    solver, n = EKF1(2, 2, diffusion=2.0), 12
    free, bounded = (kind.build(problem, solver) for kind in (Fenrir, Bounded))
    _, increments = free.advance(values, free.start(values), 0, n)
    noise = np.sqrt(float(ca.evalf(problem.model.with_numbers().noise_variance)))
    present = np.isfinite(problem.records[0].y[:, 0])
    highest = np.cumsum(present * (stats.norm.logpdf(0.0, 0.0, noise) + Bounded.scheme.excess))
    beyond = np.cumsum(increments, axis=0) > highest[:, None]
    expected = ~np.maximum.accumulate(beyond, axis=0)
    assert 0.1 < expected.mean() < 0.9

    with np.errstate(all="ignore"):
        state, parts = bounded.start(values), []
        for a, b in ((0, 1), (1, 5), (5, n)):
            state, part = bounded.advance(values, state, a, b)
            parts.append(part)
        total = bounded.evaluate(values, n)[1]
    found = np.concatenate(parts)
    np.testing.assert_array_equal(np.isfinite(found), expected)
    np.testing.assert_array_equal(found[expected], increments[expected])
    np.testing.assert_array_equal(np.isfinite(total), expected[-1])
    assert np.isneginf(finite_or_excluded(total)[~expected[-1]]).all()
