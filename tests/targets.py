"""Likelihoods with exact answers, for the sampler alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from smcpn import Prior


@dataclass
class Stateless:
    """A likelihood of independent samples, given by its log-densities (b - a, N)."""

    n_samples: int

    def log_densities(self, values: np.ndarray, a: int, b: int) -> np.ndarray:
        raise NotImplementedError

    def start(self, values: np.ndarray) -> np.ndarray:
        return np.empty((0, len(values)))

    def advance(
        self, values: np.ndarray, state: np.ndarray, a: int, b: int
    ) -> tuple[np.ndarray, np.ndarray]:
        return state, self.log_densities(values, a, b)

    def evaluate(self, values: np.ndarray, b: int) -> tuple[np.ndarray, np.ndarray]:
        state, increments = self.advance(values, self.start(values), 0, b)
        return state, increments.sum(axis=0)


class LinearRegression(Stateless):
    """y = X theta + noise e, theta ~ N(0, I): evidence and posterior in closed form."""

    def __init__(self, n: int = 30, d: int = 2, noise: float = 0.5, seed: int = 0):
        super().__init__(n)
        rng = np.random.default_rng(seed)
        self.x = rng.normal(size=(n, d))
        self.noise = noise
        self.y = self.x @ rng.normal(size=d) + noise * rng.normal(size=n)
        self.prior = Prior({f"theta{j}": stats.norm() for j in range(d)})

    def log_densities(self, values: np.ndarray, a: int, b: int) -> np.ndarray:
        # Not a matrix product: BLAS rounds by the shape of the block.
        predicted = np.einsum("td,nd->tn", self.x[a:b], values, optimize=False)
        residual = (self.y[a:b, None] - predicted) / self.noise
        return -0.5 * residual**2 - np.log(self.noise * np.sqrt(2 * np.pi))

    def moments(self, t: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and covariance after t samples, by default all."""
        x, y = self.x[:t], self.y[:t]
        precision = np.eye(x.shape[1]) + x.T @ x / self.noise**2
        covariance = np.linalg.inv(precision)
        return covariance @ (x.T @ y) / self.noise**2, covariance

    def log_evidence(self, t: int | None = None) -> float:
        """Sum of the one-step predictive densities of t samples, stable for any noise."""
        mean, factor, total = np.zeros(self.x.shape[1]), np.eye(self.x.shape[1]), 0.0
        for row, y in zip(self.x[:t], self.y[:t], strict=True):
            loading = factor.T @ row
            variance = loading @ loading + self.noise**2
            total += stats.norm.logpdf(y, row @ mean, np.sqrt(variance))
            gain = factor @ loading / variance
            mean = mean + gain * (y - row @ mean)
            # Potter's form keeps the covariance positive for the smallest noise.
            shrink = 1.0 / (1.0 + self.noise / np.sqrt(variance))
            factor = factor - shrink * np.outer(gain, loading)
        return float(total)


class ExponentialRate(Stateless):
    """y ~ Exponential(rate), rate ~ Gamma(shape, rate 1): a skewed target on a log coordinate."""

    def __init__(self, n: int, shape: float, seed: int = 0):
        super().__init__(n)
        self.y = np.random.default_rng(seed).exponential(1 / 3.0, n)
        self.shape = shape
        self.prior = Prior({"rate": stats.gamma(shape)})

    def log_densities(self, values, a, b):
        rate = values[:, 0]
        return np.log(rate) - self.y[a:b, None] * rate

    def posterior(self):
        return stats.gamma(self.shape + len(self.y), scale=1 / (1 + self.y.sum()))

    def log_evidence(self) -> float:
        from scipy.special import gammaln

        n = len(self.y)
        return float(
            gammaln(self.shape + n) - gammaln(self.shape)
            - (self.shape + n) * np.log1p(self.y.sum())
        )  # fmt: skip


class HalfNan(LinearRegression):
    """NaN wherever the first parameter is negative."""

    def log_densities(self, values, a, b):
        densities = super().log_densities(values, a, b)
        return np.where(values[:, 0] < 0, np.nan, densities)
