"""DALTON and Fenrir against 80 digits where both filters are large and nearly equal.

The golden values are those of ``python -m tests.reference.many_digits KIND STEPS DIFFUSION``, with
``diagonal`` after it for the diagonal of the Jacobian.
"""

from __future__ import annotations

import numpy as np
import pytest

from smcpn import EKF1
from smcpn.likelihood.registry import build_likelihood
from tests.models import PREDATOR_PREY, predator_prey_problem
from tests.reference.many_digits import log_likelihood

pytestmark = pytest.mark.numerics

DIFFUSIONS = (0.03, 1.0, 1e4)
DIAGONAL = {"fenrir": 43.71020505914201, "dalton": 43.71020505914209}
"""At 20 steps per sample, h = .005; equal to 16 digits at all three diffusions."""
FULL = {10: 43.7102050618496, 20: 43.71020506041817}
"""By steps per sample; equal to 16 digits for both likelihoods and all three diffusions."""


def found(name: str, steps: int, jacobian: str, theta: np.ndarray = PREDATOR_PREY) -> np.ndarray:
    solver = EKF1(5, steps, diffusion=1.0, jacobian=jacobian)
    likelihood = build_likelihood(predator_prey_problem(), solver, likelihood=name)
    return np.array(
        [likelihood.at_diffusion(sd).evaluate(theta[None, :], 21)[1][0] for sd in DIFFUSIONS]
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", DIAGONAL)
def test_small_steps_of_a_high_order(name):
    """The residuals of a step weigh up to 2e10, all of them 6e11; eleven digits are left."""
    np.testing.assert_allclose(found(name, 20, "diagonal"), DIAGONAL[name], atol=1e-9, rtol=0.0)
    # The two filters' difference would move by tens.
    near = found(name, 20, "diagonal", PREDATOR_PREY * [1.0 + 1e-9, 1.0, 1.0, 1.0])
    np.testing.assert_allclose(near, DIAGONAL[name], atol=1e-6, rtol=0.0)


@pytest.mark.nightly
@pytest.mark.parametrize("steps", FULL)
@pytest.mark.parametrize("name", DIAGONAL)
def test_the_full_jacobian(name, steps):
    np.testing.assert_allclose(found(name, steps, "full"), FULL[steps], atol=1e-9, rtol=0.0)


@pytest.mark.nightly
@pytest.mark.parametrize("name", DIAGONAL)
@pytest.mark.parametrize("diffusion", [0.03, 300.0])
def test_the_filters_in_many_digits(name, diffusion):
    """At two coarse steps, where the data move the filters far apart at the larger diffusion."""
    solver = EKF1(3, 2, diffusion=diffusion)
    likelihood = build_likelihood(predator_prey_problem(), solver, likelihood=name)
    expected = float(log_likelihood(name, 3, 2, diffusion))
    value = likelihood.evaluate(PREDATOR_PREY[None, :], 21)[1][0]
    assert value == pytest.approx(expected, abs=1e-8)
