"""Likelihoods with exact answers, for the sampler alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.special import gammaln, ndtri

from smcpn import Prior
from smcpn.likelihood.contract import Likelihood


@dataclass
class Stateless(Likelihood):
    """A likelihood of independent samples, given by its log-densities (b - a, N)."""

    n_samples: int

    def log_densities(self, values: np.ndarray, a: int, b: int) -> np.ndarray:
        raise NotImplementedError

    def start(self, values: np.ndarray) -> np.ndarray:
        return np.empty((0, len(values)))

    def advance(
        self, values: np.ndarray, state: np.ndarray, a: int, b: int, *keys
    ) -> tuple[np.ndarray, np.ndarray]:
        return state, self.log_densities(values, a, b)


class WithGradient:
    """A likelihood that has a ``gradient`` at values, (N, d)."""

    gradient_cost = 3.0

    def derivatives(self):
        return self

    def value_and_gradient(self, values):
        return self.evaluate(values, self.n_samples)[1], self.gradient(values)


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


@dataclass(frozen=True)
class OrnsteinUhlenbeck(Likelihood):
    """dx = -rate x dt + q dW, x_0 ~ N(0, spread^2), y_k = x(k h) + noise e: its likelihood."""

    y: np.ndarray
    h: float = 0.5
    noise: float = 0.5
    spread: float = 1.0
    prior = Prior({"rate": stats.lognorm(0.5), "q": stats.lognorm(0.5)})

    @classmethod
    def simulated(
        cls, n: int = 40, rate: float = 1.0, q: float = 1.0, seed: int = 0, spread: float = 1.0
    ):
        rng, model = np.random.default_rng(seed), cls(np.zeros(n), spread=spread)
        decay, sd = model.transition(np.array([[rate, q]]))
        x = [spread * rng.standard_normal()]
        for _ in range(n - 1):
            x.append(decay[0] * x[-1] + sd[0] * rng.standard_normal())
        return cls(np.array(x) + model.noise * rng.standard_normal(n), spread=spread)

    @property
    def n_samples(self) -> int:
        return len(self.y)

    def moments(self, points: int = 200) -> tuple[float, np.ndarray, np.ndarray]:
        """Log-evidence, posterior mean and sd of theta, by a grid over the logarithms."""
        axis = np.linspace(-2.5, 2.5, points)
        theta = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
        log_density = self.prior.log_density(theta)
        log_density += self.evaluate(np.exp(theta), self.n_samples)[1]
        weights = np.exp(log_density - log_density.max())
        area = (axis[1] - axis[0]) ** 2
        evidence = float(log_density.max() + np.log(weights.sum() * area))
        weights /= weights.sum()
        mean = weights @ theta
        return evidence, mean, np.sqrt(weights @ (theta - mean) ** 2)

    def transition(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Factor of the state over a step, and standard deviation of what is added, (N,) each."""
        rate, q = values.T
        decay = np.exp(-rate * self.h)
        return decay, q * np.sqrt((1 - decay**2) / (2 * rate))

    def start(self, values):
        return np.array([np.zeros(len(values)), np.full(len(values), self.spread**2)])

    def advance(self, values, state, a, b, *keys):
        decay, sd = self.transition(values)
        (mean, variance), increments = state, np.empty((b - a, len(values)))
        for k in range(a, b):
            if k > 0:
                mean, variance = decay * mean, decay**2 * variance + sd**2
            total = variance + self.noise**2
            residual = self.y[k] - mean
            increments[k - a] = -0.5 * (residual**2 / total + np.log(2 * np.pi * total))
            mean, variance = (
                mean + variance / total * residual,
                variance * self.noise**2 / total,
            )
        return np.array([mean, variance]), increments


@dataclass(frozen=True)
class BootstrapFilter(Likelihood):
    """The same likelihood estimated by a bootstrap particle filter, resampled at every sample."""

    model: OrnsteinUhlenbeck
    state_particles: int = 32
    block: int = 10

    @property
    def n_samples(self) -> int:
        return self.model.n_samples

    @property
    def n_steps(self) -> int:
        return self.n_samples - 1

    def with_state_particles(self, number: int) -> BootstrapFilter:
        return BootstrapFilter(self.model, number, self.block)

    def n_keys(self, b: int) -> int:
        return -(-b // self.block)

    def with_look_ahead(self, look_ahead: bool) -> BootstrapFilter:
        return self

    def suited(self, values) -> BootstrapFilter:
        return self

    def guided(self, values, b):
        return np.zeros(len(values), dtype=bool)

    def start(self, values):
        return np.zeros((self.state_particles, len(values)))

    def uniforms(self, keys: np.ndarray) -> np.ndarray:
        """Of one block of N filters, (block, N, N_x + 1), by SplitMix64 of key and counter."""
        counter = np.arange(1, self.block * (self.state_particles + 1) + 1, dtype=np.uint64)
        x = keys[:, None] + counter * np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
        uniform = ((x ^ (x >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53 + 2.0**-54
        return np.moveaxis(uniform.reshape(len(keys), self.block, -1), 1, 0)

    def advance(self, values, state, a, b, keys):
        decay, sd = (part[:, None] for part in self.model.transition(values))
        x, increments, size = state.T, np.empty((b - a, len(values))), self.state_particles
        for k in range(a, b):
            if k == a or k % self.block == 0:
                uniforms = self.uniforms(keys[:, k // self.block])
            z, u = ndtri(uniforms[k % self.block, :, 1:]), uniforms[k % self.block, :, :1]
            x = decay * x + sd * z if k > 0 else self.model.spread * z
            density = np.exp(-0.5 * ((self.model.y[k] - x) / self.model.noise) ** 2)
            density /= self.model.noise * np.sqrt(2 * np.pi)
            total = density.sum(axis=1, keepdims=True)
            with np.errstate(divide="ignore", invalid="ignore"):
                increments[k - a] = np.log(total[:, 0] / size)
                reached = np.nan_to_num(np.cumsum(density, axis=1) / total)
            reached[:, -1] = 1.0
            copies = np.diff(np.ceil(size * reached - u), axis=1, prepend=0.0)
            x = np.repeat(x.ravel(), copies.ravel().astype(int)).reshape(x.shape)
        return x.T.copy(), increments


def skewed(values):
    """A log-gamma variable and a t variable: skewed and heavy-tailed."""
    a, b = values.T
    return 1.5 * a - np.exp(a) - gammaln(1.5) - 2.5 * np.log1p(b**2 / 4) + np.log(0.375)


QUANTILES = (0.05, 0.5, 0.95)
BOUNDS = np.column_stack([stats.loggamma(1.5).ppf(QUANTILES), stats.t(4).ppf(QUANTILES)])
"""Quantiles of both variables."""


def skewed_draws(rng, n):
    return np.column_stack(
        [stats.loggamma(1.5).rvs(n, random_state=rng), stats.t(4).rvs(n, random_state=rng)]
    )
