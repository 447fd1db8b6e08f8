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

    def start(self, values):
        return np.empty((0, len(values)))

    def advance(self, values, state, a, b):
        return state, self.log_densities(values, a, b)

    def evaluate(self, values, b):
        return self.start(values), self.log_densities(values, 0, b).sum(axis=0)


class LinearRegression(Stateless):
    """y = X theta + noise sd e, theta ~ N(0, I): evidence and posterior in closed form."""

    def __init__(self, n: int, d: int, noise: float, seed: int = 0):
        super().__init__(n)
        rng = np.random.default_rng(seed)
        self.x = rng.normal(size=(n, d))
        self.noise = noise
        self.y = self.x @ rng.normal(size=d) + noise * rng.normal(size=n)
        self.prior = Prior({f"theta{j}": stats.norm() for j in range(d)})

    def log_densities(self, values, a, b):
        # Not a matrix product: BLAS rounds by the shape of the block.
        predicted = np.einsum("td,nd->tn", self.x[a:b], values, optimize=False)
        residual = (self.y[a:b, None] - predicted) / self.noise
        return -0.5 * residual**2 - np.log(self.noise * np.sqrt(2 * np.pi))

    def moments(self, t: int) -> tuple[np.ndarray, np.ndarray]:
        x = self.x[:t]
        precision = np.eye(x.shape[1]) + x.T @ x / self.noise**2
        covariance = np.linalg.inv(precision)
        return covariance @ (x.T @ self.y[:t]) / self.noise**2, covariance

    def log_evidence(self, t: int) -> float:
        """Sum of one-step predictive densities: exact and stable for any noise."""
        total = 0.0
        for s in range(t):
            mean, covariance = self.moments(s)
            variance = self.x[s] @ covariance @ self.x[s] + self.noise**2
            total += stats.norm.logpdf(self.y[s], self.x[s] @ mean, np.sqrt(variance))
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
