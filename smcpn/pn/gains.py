"""The part of EKF0 that does not see the vector field: computed once for all parameters.

With an integrated Wiener process prior, a zeroth-order linearisation and no noise on the residual
z = f(x) - x', the covariance recursion depends on the grid only. Every particle shares the gains
and the variance of the residual; on a uniform grid they are stationary after some fifty steps, and
the variance of the state then grows by the same amount each step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smcpn.pn.iwp import lower_factor, process_noise_factor, transition

Array = NDArray[np.float64]

STATIONARY = 1e-14
"""Relative change from step to step below which gains and variance growth count as constant."""
STATIONARY_STEPS = 4


@dataclass(frozen=True)
class SharedGains:
    """Gains and variances at unit diffusion, in the coordinates of `iwp`, over a grid.

    Time is counted in steps, so that a step of length h scales variances by h^(2 order + 1).

    Attributes
    ----------
    gain : ndarray, (G, order + 1)
        Gain of each step; the last row stays in force.
    innovation : ndarray, (G,)
        Variance of the residual h f - m_1 at unit diffusion.
    variance : ndarray, (n,)
        Variance of the state's value after each of the n steps, at unit diffusion.
    """

    gain: Array
    innovation: Array
    variance: Array


def shared_gains(order: int, n_steps: int) -> SharedGains:
    """Square-root covariance recursion over equal steps, from a state known exactly.

    Parameters
    ----------
    order : int
        Order nu of the process.
    n_steps : int
        Number of steps; the recursion stops where it is stationary.

    Notes
    -----
    Predict L = qr[A L, Q^1/2], s = (L L')_11, K = (L L')_1 / s (PN-SMC eqs. 16-17); the residual
    carries no noise, so L - K L_1 is a factor of the filtered covariance as it stands.
    """
    noise, step = process_noise_factor(order), transition(order)
    factor = np.zeros((order + 1, order + 1))
    gains: list[Array] = []
    innovations: list[float] = []
    variances: list[float] = []
    for _ in range(n_steps):
        factor = lower_factor(step @ factor, noise)
        innovation = float(factor[1] @ factor[1])
        gain = factor @ factor[1] / innovation
        factor = factor - np.outer(gain, factor[1])
        gains.append(gain)
        innovations.append(innovation)
        variances.append(float(factor[0] @ factor[0]))
        if _stationary(gains, variances):
            break
    variance = _continued(np.array(variances), n_steps)
    return SharedGains(np.array(gains), np.array(innovations), variance)


def _stationary(gains: list[Array], variances: list[float]) -> bool:
    if len(gains) < STATIONARY_STEPS + 2:
        return False
    recent = np.array(gains[-STATIONARY_STEPS:])
    growth = np.diff(variances[-STATIONARY_STEPS - 1 :])
    return bool(
        np.ptp(recent, axis=0).max() <= STATIONARY * np.abs(recent).max()
        and np.ptp(growth) <= 10 * STATIONARY * max(variances[-1], growth.max())
    )


def _continued(variances: Array, length: int) -> Array:
    """Extend by the constant growth of the last step."""
    if len(variances) == length:
        return variances
    rest = np.arange(1, length - len(variances) + 1)
    growth = variances[-1] - variances[-2]
    return np.concatenate([variances, variances[-1] + growth * rest])
