from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm

from smcpn.results.simulation.states import FilterMoments, Smoother
from tests.reference.linear_gaussian import Run, System, joint, kalman, smooth

T = 40


def oscillator(lane: int) -> System:
    """Position without noise of its own, velocity, and a state that is known exactly."""
    A = np.array([[0.0, 1.0, 0.0], [-1.0 - 0.3 * lane, -0.2, 0.5], [0.0, 0.0, -0.1]])
    F, L = expm(0.2 * A), np.array([[0.02], [0.3], [0.0]])
    return System(
        F=F,
        Q=L @ L.T,
        H=np.array([[1.0, 0.0, 0.0]]),
        R=np.array([[0.04]]),
        m0=np.array([0.5, 0.0, 1.0]),
        P0=np.zeros((3, 3)) if lane else np.diag([0.3, 0.1, 0.0]),
        b=np.random.default_rng(7).normal(0, 0.1, (T, 3)),
    )


@pytest.fixture(scope="module")
def measured() -> np.ndarray:
    y = np.cumsum(np.random.default_rng(1).normal(0, 0.3, (T, 1)), axis=0)
    y[[5, 6, 20]] = np.nan
    return y


def lanes_last(systems: list[System], runs: list[Run]) -> FilterMoments:
    parts = [
        [run.predicted for run in runs],
        [run.predicted_covariance for run in runs],
        [np.repeat(system.F[None], T, axis=0) for system in systems],
        [run.mean for run in runs],
        [run.covariance for run in runs],
    ]
    return FilterMoments(*(np.stack(part, axis=-1) for part in parts))


def cut(whole: FilterMoments, a: int, b: int) -> FilterMoments:
    return FilterMoments(*(part[a:b] for part in vars(whole).values() if part is not None))


def test_the_smoother_is_that_of_the_textbook_in_stretches_and_in_one(measured):
    systems = [oscillator(0), oscillator(1)]
    runs = [kalman(system, measured) for system in systems]
    whole, none = lanes_last(systems, runs), np.arange(0)
    mean, covariance, _ = Smoother(none, np.random.default_rng(0)).back(whole)
    for lane, (system, run) in enumerate(zip(systems, runs, strict=True)):
        expected = smooth(system, run)
        dense, blocks = joint(system, measured)
        assert np.allclose(mean[..., lane], expected[0], rtol=0, atol=1e-10)
        assert np.allclose(covariance[..., lane], expected[1], rtol=0, atol=1e-10)
        assert np.allclose(mean[..., lane], dense, rtol=0, atol=1e-9)
        assert np.allclose(covariance[..., lane], blocks[range(T), range(T)], rtol=0, atol=1e-9)
    smoother = Smoother(none, np.random.default_rng(0))
    parts = [smoother.back(cut(whole, a, b)) for a, b in ((31, T), (30, 31), (0, 30))]
    assert np.array_equal(np.concatenate([part[0] for part in reversed(parts)]), mean)


def test_paths_have_the_joint_distribution_of_all_states(measured):
    system = oscillator(0)
    whole = lanes_last([system], [kalman(system, measured)])
    draws = 4000
    smoother = Smoother(np.zeros(draws, dtype=np.int64), np.random.default_rng(2))
    _, _, path = smoother.back(whole)
    mean, blocks = joint(system, measured)
    error = path - mean[..., None]
    for i, j in ((0, 0), (0, 1), (12, 13), (12, 20), (39, 39)):
        found = error[i] @ error[j].T / draws
        one, other = (np.diag(blocks[k, k]) for k in (i, j))
        # Of the mean of a product of normals, at most the root of this.
        se = np.sqrt((np.outer(one, other) + blocks[i, j] ** 2) / draws)
        assert (np.abs(found - blocks[i, j]) <= 4.5 * se + 1e-12).all(), (i, j)
