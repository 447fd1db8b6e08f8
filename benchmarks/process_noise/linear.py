"""Linear models with noise, x' = A x + G w: exact transitions, filter and smoother of textbooks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm

Array = NDArray[np.float64]


def exact_transition(slope: Array, noise: Array, h: float) -> tuple[Array, Array]:
    """Return F = exp(A h) and the covariance of what a step adds, (..., n, n) each.

    Both are blocks of one matrix exponential (Van Loan 1978):

        exp([[-A, G G'], [0, A']] h) = [[., F^-1 Q], [0, F']].

    slope, noise: (..., n, n), a and G G'.
    """
    n = slope.shape[-1]
    whole = np.zeros((*slope.shape[:-2], 2 * n, 2 * n))
    whole[..., :n, :n], whole[..., :n, n:] = -slope, noise
    whole[..., n:, n:] = np.swapaxes(slope, -1, -2)
    power = np.asarray(expm(whole * h), dtype=float)
    transition = np.swapaxes(power[..., n:, n:], -1, -2)
    return transition, transition @ power[..., :n, n:]


@dataclass(frozen=True)
class Textbook:
    """Filter of many models at once, whose first state is measured.

    transition, added: (..., n, n), as `exact_transition` returns them.
    initial: (n,), state at the first sample, which is known.
    variance: Of the noise of the measurements.
    """

    transition: Array
    added: Array
    initial: Array
    variance: float

    def run(self, y: Array) -> tuple[Array, list[tuple[Array, Array, Array, Array]]]:
        """Return log-likelihoods (...,), and at every sample mean and covariance before and after.

        y: (T,)
        """
        F, before = self.transition, self.transition.shape[:-2]
        mean, covariance = np.tile(self.initial, (*before, 1)), np.zeros_like(self.added)
        total, states = np.zeros(before), []
        for k, value in enumerate(y):
            if k:
                mean = np.squeeze(F @ mean[..., None], -1)
                covariance = F @ covariance @ np.swapaxes(F, -1, -2) + self.added
            there = mean, covariance
            spread, z = covariance[..., 0, 0] + self.variance, value - mean[..., 0]
            total = total - 0.5 * (np.log(2 * np.pi * spread) + z**2 / spread)
            gain = covariance[..., :, 0] / spread[..., None]
            mean = mean + gain * z[..., None]
            covariance = covariance - gain[..., :, None] * covariance[..., 0][..., None, :]
            states.append((*there, mean, covariance))
        return total, states

    def smoothed(self, y: Array) -> tuple[Array, Array]:
        """Means and standard deviations of one model by Rauch, Tung and Striebel, (T, n) each."""
        run = self.run(y)[1]
        m, P = run[-1][2:]
        means, covariances = [m], [P]
        for k in range(len(y) - 2, -1, -1):
            m, P = run[k][2:]
            G = P @ self.transition.T @ np.linalg.inv(run[k + 1][1])
            means.append(m + G @ (means[-1] - run[k + 1][0]))
            covariances.append(P + G @ (covariances[-1] - run[k + 1][1]) @ G.T)
        sd = np.sqrt(np.maximum(np.diagonal(covariances, axis1=1, axis2=2), 0.0))
        return np.array(means)[::-1], sd[::-1]
