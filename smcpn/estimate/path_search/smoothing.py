"""The most likely path of a linear model with model error, as a function of its parameters.

Of a record, linearised about a path x_k and parameters theta, are given

    y_k - g_k = H_k dx_k + D_k dtheta + e_k,                      e_k ~ N(0, W_k^-1),
    dx_k      = A_k dx_{k-1} + c_k + B_k dtheta + w_k,            w_k ~ N(0, Q),

where c_k is the gap between the flow of x_{k-1} and x_k. For the first sample of a record A is zero
and c the gap to its initial state. What a Kalman smoother finds in two passes (Rauch, Tung and
Striebel 1965) is one banded system of equations in dx and lambda = Q^-1 w (Bryson and Ho 1975,
section 13.2), which stays regular where Q is zero: then the path is a trajectory of the model.

Its right-hand side is linear in dtheta, and so is the path. Residuals and model errors, whitened,
are a linear regression on dtheta.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

Array = NDArray[np.float64]


class Linear(NamedTuple):
    """A linearised record of T samples with n states, d parameters and q outputs.

    a: (T, n, n), from the sample before; zero for the first of a record.
    b: (T, n, d)
    gap: (T, n)
    h: (T, q, n)
    slopes: (T, q, d), D.
    residual: (T, q), any number where an output is missing.
    weight: (T, q), inverse variance of the noise; 0 where an output is missing.
    """

    a: Array
    b: Array
    gap: Array
    h: Array
    slopes: Array
    residual: Array
    weight: Array


class Regression(NamedTuple):
    """Path and whitened residuals, affine in dtheta: entry 0 of the last axis is the constant.

    path: (T, n, 1 + d), dx.
    residuals: (m, 1 + d), their squares add up to twice the cost.
    log_determinant: Of the covariance of the measurements given dtheta, times their weights.
    """

    path: Array
    residuals: Array
    log_determinant: float


def smoothed(linear: Linear, error: Array) -> Regression:
    """Most likely path for every dtheta.

    ``error``, (T, n), are the variances of the model error, the diagonal of Q, for every sample;
    zero is none. A path that is not determined raises `LinAlgError`, a number that is not finite
    `ValueError`.
    """
    samples, n, d = linear.b.shape
    by_h = linear.h.swapaxes(1, 2) * linear.weight[:, None, :]
    right = np.empty((samples, 2, n, 1 + d))
    right[:, 0, :, 0], right[:, 0, :, 1:] = linear.gap, linear.b
    right[:, 1, :, 0] = (by_h @ linear.residual[..., None])[..., 0]
    right[:, 1, :, 1:] = -by_h @ linear.slopes
    if not np.isfinite(right).all() or not np.isfinite(linear.a).all():
        raise ValueError("the linear model has numbers that are not finite")
    band = _band(linear.a, by_h @ linear.h, error)
    width = 2 * n - 1
    right = right.reshape(-1, 1 + d)
    (gbsv,) = get_lapack_funcs(("gbsv",), (band, right))
    factors, _, found, failed = gbsv(width, width, band, right, overwrite_ab=1)
    if failed:
        raise np.linalg.LinAlgError("the path is not determined by the measurements")
    multiplier, path = np.moveaxis(found.reshape(samples, 2, n, 1 + d), 1, 0)
    residuals = -linear.h @ path
    residuals[..., 0] += linear.residual
    residuals[..., 1:] -= linear.slopes
    root = np.sqrt(linear.weight)[..., None]
    parts = [(root * residuals).reshape(-1, 1 + d)]
    if error.any():
        parts.append((np.sqrt(error)[..., None] * multiplier).reshape(-1, 1 + d))
    # The matrix of dx_k - A_k dx_{k-1} has determinant one: det Q det(H'WH + F'Q^-1 F) is left.
    log_determinant = float(np.log(np.abs(factors[2 * width])).sum())
    return Regression(path, np.concatenate(parts), log_determinant)


def _band(a: Array, information: Array, error: Array) -> Array:
    """The symmetric matrix in (lambda_k, dx_k), k = 0, 1, ..., in LAPACK's storage of bands.

    With room above for its factors.

    Rows of lambda_k: dx_k - A_k dx_{k-1} - Q lambda_k. Rows of dx_k: H'WH dx_k + lambda_k
    - A_{k+1}' lambda_{k+1}.
    """
    samples, n, _ = a.shape
    width = 2 * n - 1
    # Column 2 n k + j is that of lambda_k for j < n, of dx_k else. Entry (i, j): row width + i - j.
    whole = np.zeros((3 * width + 1, samples, 2, n))
    band = whole[width:]
    for i in range(n):
        band[width, :, 0, i] = -error[:, i]
        band[width - n, :, 1, i] = 1.0
        band[width + n, :, 0, i] = 1.0
        for j in range(n):
            band[width + i - j, :, 1, j] = information[:, i, j]
            # A_{k+1} takes dx_k into the rows of lambda_{k+1}, 2 n below those of lambda_k.
            band[width + n + i - j, :-1, 1, j] = -a[1:, i, j]
            band[width - n + i - j, 1:, 0, j] = -a[1:, j, i]
    return whole.reshape(3 * width + 1, -1)
