"""Linear systems with Gaussian noise, by the textbook: one matrix at a time, nothing shared.

    x_k = F x_{k-1} + b_k + w,  w ~ N(0, Q),    y_k = H x_k + v,  v ~ N(0, R),  x_0 ~ N(m_0, P_0).

`kalman` and `smooth` are the algorithms of Kalman, and of Rauch, Tung and Striebel (Saerkkae and
Svensson 2023, theorems 6.6 and 12.2); `joint` conditions the Gaussian of all states at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class System:
    """Matrices of the system above; ``b`` is (T, n) and its first row is not used."""

    F: Array
    Q: Array
    H: Array
    R: Array
    m0: Array
    P0: Array
    b: Array


@dataclass(frozen=True)
class Run:
    """Means (T, n) and covariances (T, n, n), predicted and filtered, and increments (T,)."""

    predicted: Array
    predicted_covariance: Array
    mean: Array
    covariance: Array
    increments: Array


def kalman(system: System, y: Array) -> Run:
    """Filter measurements y (T, q), NaN where missing."""
    rows = []
    m, P = system.m0, system.P0
    for k, measured in enumerate(y):
        if k > 0:
            m = system.F @ m + system.b[k]
            P = system.F @ P @ system.F.T + system.Q
        before = m, P
        seen, increment = np.isfinite(measured), 0.0
        if seen.any():
            H, R = system.H[seen], system.R[np.ix_(seen, seen)]
            v, S = measured[seen] - H @ m, H @ P @ H.T + R
            K = P @ H.T @ np.linalg.inv(S)
            m, P = m + K @ v, P - K @ S @ K.T
            log_det = np.linalg.slogdet(2 * np.pi * S)[1]
            increment = float(-0.5 * (v @ np.linalg.solve(S, v) + log_det))
        rows.append((*before, m, P, increment))
    return Run(*(np.array(part) for part in zip(*rows, strict=True)))


def smooth(system: System, run: Run) -> tuple[Array, Array]:
    """Means (T, n) and covariances (T, n, n) given all measurements."""
    mean, covariance = run.mean.copy(), run.covariance.copy()
    for k in reversed(range(len(mean) - 1)):
        G = run.covariance[k] @ system.F.T @ np.linalg.pinv(run.predicted_covariance[k + 1])
        mean[k] += G @ (mean[k + 1] - run.predicted[k + 1])
        covariance[k] += G @ (covariance[k + 1] - run.predicted_covariance[k + 1]) @ G.T
    return mean, covariance


def joint(system: System, y: Array) -> tuple[Array, Array]:
    """Mean (T, n) and covariance (T, T, n, n) of all states given all measurements."""
    T, n = len(y), len(system.m0)
    mean, variance = [system.m0], [system.P0]
    for k in range(1, T):
        mean.append(system.F @ mean[-1] + system.b[k])
        variance.append(system.F @ variance[-1] @ system.F.T + system.Q)
    prior = np.empty((T, n, T, n))
    for i, j in product(range(T), repeat=2):
        power = np.linalg.matrix_power(system.F, abs(i - j))
        prior[i, :, j, :] = power @ variance[j] if i >= j else variance[i] @ power.T
    m, P = np.concatenate(mean), prior.reshape(T * n, T * n)
    seen = np.isfinite(y).ravel()
    H = np.kron(np.eye(T), system.H)[seen]
    S = H @ P @ H.T + np.kron(np.eye(T), system.R)[np.ix_(seen, seen)]
    K = np.linalg.solve(S, H @ P).T
    after = P - K @ S @ K.T
    m = m + K @ (y.ravel()[seen] - H @ m)
    return m.reshape(T, n), after.reshape(T, n, T, n).swapaxes(1, 2)
