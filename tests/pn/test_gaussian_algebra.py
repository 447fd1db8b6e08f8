"""Gaussians in L D L' against dense matrices: graphs, and arrays of many."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest

from smcpn.pn.gaussian import (
    Gaussian,
    determinant,
    downdate,
    factorised,
    moved,
    predicted,
    smoothed,
    smoothing_gain,
    square_root,
    squared_mahalanobis,
    whitened,
)

N = 3
RNG = np.random.default_rng(0)


def covariance(*shape):
    root = RNG.normal(size=(*shape, N, N))
    return root @ root.swapaxes(-1, -2)


def dense(factor):
    return np.array(ca.DM(Gaussian(ca.SX(N, 1), factor).covariance))


@pytest.fixture(scope="module")
def known():
    P = covariance()
    return P, factorised(ca.SX(ca.DM(P)))


def test_a_covariance_is_its_factors(known):
    P, factor = known
    np.testing.assert_allclose(dense(factor), P, rtol=1e-12)


def test_a_density_is_of_distance_and_determinant(known):
    P, factor = known
    v = RNG.normal(size=N)
    distance = float(squared_mahalanobis(factor, ca.vertsplit(ca.SX(v))))
    np.testing.assert_allclose(distance, v @ np.linalg.solve(P, v), rtol=1e-12)
    np.testing.assert_allclose(float(determinant(factor)), np.linalg.det(P), rtol=1e-12)
    white = np.array(ca.DM(whitened(factor, ca.SX(ca.DM(P)))))
    np.testing.assert_allclose(white.T @ white, P, rtol=1e-12)


def test_a_prediction_adds_noise_to_what_is_moved(known):
    P, factor = known
    F, B, e = RNG.normal(size=(N, N)), RNG.normal(size=(N, 2)), np.array([0.1, 0.0, 0.3])
    found = predicted(factor, *(ca.SX(ca.DM(part)) for part in (F, B, e)))
    np.testing.assert_allclose(dense(found), F @ P @ F.T + B @ B.T + np.diag(e), rtol=1e-12)


@pytest.mark.parametrize("share", [(1.0, 0.0, 1.0), (1.0, 1.0, 0.6), (1.0, 1.0, 1.0)])
@pytest.mark.parametrize("variance", [(0.0, 0.0, 0.0), (0.0, 0.5, 0.2)])
def test_a_share_is_left_beside_new_noise(known, share, variance):
    P, factor = known
    mean, c, q = np.arange(3.0), np.array(share), np.array(variance)
    found = moved(Gaussian(ca.SX(mean), factor), ca.SX(c), ca.sparsify(ca.SX(q)))
    np.testing.assert_array_equal(np.array(ca.DM(found.mean))[:, 0], c * mean)
    wanted = c[:, None] * P * c + np.diag(q)
    np.testing.assert_allclose(dense(found.factor), wanted, rtol=1e-12, atol=1e-14)


def test_a_state_that_is_known_stays_known(known):
    nothing = factorised(ca.SX(ca.DM(np.diag([2.0, 0.0, 0.0]))), lambda a, b: a * 0.0)
    found = predicted(nothing, ca.SX.eye(N), ca.SX(N, 0), ca.SX(N, 1))
    np.testing.assert_array_equal(dense(found), np.diag([2.0, 0.0, 0.0]))


def test_an_output_takes_its_gain_times_the_spread(known):
    P, factor = known
    h, r = RNG.normal(size=N), 0.2
    found, gain, variance, spread = downdate(factor, [ca.SX(v) for v in h], ca.SX(r))
    s = h @ P @ h + r
    np.testing.assert_allclose([float(variance), float(spread)], [s, s - r], rtol=1e-12)
    np.testing.assert_allclose([float(k) for k in gain], P @ h / s, rtol=1e-12)
    np.testing.assert_allclose(dense(found), P - np.outer(P @ h, P @ h) / s, rtol=1e-10)


def test_many_are_smoothed_at_once_singular_ones_too():
    P, Q = covariance(5), np.zeros((5, N, N))
    F = RNG.normal(size=(5, N, N))
    Q[:, 0, 0] = 0.5
    P[3] = np.diag([1.0, 0.0, 0.0])  # a prediction of rank 1 or 2
    cross = P @ F.swapaxes(1, 2)
    ahead = F @ cross + Q
    gain, explained = smoothing_gain(*(np.moveaxis(part, 0, 2) for part in (ahead, cross)))
    for k in range(5):
        expected = cross[k] @ np.linalg.pinv(ahead[k], rcond=1e-10)
        np.testing.assert_allclose(gain[..., k] @ ahead[k], cross[k], atol=1e-9)
        np.testing.assert_allclose(explained[..., k], expected @ cross[k].T, atol=1e-9)
    root = square_root(np.moveaxis(P, 0, 2), np.einsum("kii->ik", P))
    np.testing.assert_allclose(np.einsum("ijk,ljk->ilk", root, root), np.moveaxis(P, 0, 2))


def test_moments_given_the_state_that_follows_are_those_of_regression():
    P, Q, left = covariance(2), covariance(2), covariance(2)
    F, m, known = RNG.normal(size=(2, N, N)), RNG.normal(size=(2, N)), RNG.normal(size=(2, N))
    cross = P @ F.swapaxes(1, 2)
    ahead = F @ cross + Q
    last = [np.moveaxis(part, 0, -1) for part in (m, P, known, left, ahead, cross)]
    expected = np.moveaxis(np.einsum("kij,kj->ki", F, m), 0, -1)
    gain, _ = smoothing_gain(last[4], last[5])
    mean, found = smoothed((last[0], last[1]), (expected, last[4]), (last[2], last[3]), gain)
    for k in range(2):
        G = cross[k] @ np.linalg.inv(ahead[k])
        np.testing.assert_allclose(mean[:, k], m[k] + G @ (known[k] - F[k] @ m[k]), rtol=1e-10)
        # What is left of x given x+, and what is not known of x+.
        wanted = P[k] - G @ ahead[k] @ G.T + G @ left[k] @ G.T
        np.testing.assert_allclose(found[..., k], wanted, rtol=1e-9, atol=1e-11)
