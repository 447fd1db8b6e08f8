"""Targets with known answers for the sampler, without a solver."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import logsumexp

from smcpn.likelihood.contract import NO_KEYS, Keys, Likelihood
from smcpn.model.prior import Prior

Array = NDArray[np.float64]


def normal_prior(name: str, d: int, scale: float) -> Prior:
    """Independent N(0, scale^2) priors on d parameters."""
    distributions: dict[str, Any] = {f"{name}{j}": stats.norm(0.0, scale) for j in range(d)}
    return Prior(distributions)


class SampleDensities(Likelihood):
    """A likelihood without a state, by the log densities of its samples in `advance`."""

    n_samples = 1

    def start(self, values: Array) -> Array:
        """See `Likelihood.start`."""
        return np.empty((0, len(values)))


class LogisticRegression(SampleDensities):
    """P(y = 1) = 1 / (1 + exp(-x'theta)), theta ~ N(0, 25 I).

    Samples are evaluated by chunks, whose factors 1 + exp(-|z|) share one logarithm.
    """

    CHUNK = 16

    def __init__(self, n: int = 500, d: int = 5, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.n_samples = n
        x = np.column_stack([np.ones(n), rng.normal(size=(n, d - 1))])
        truth = rng.normal(size=d)
        y = rng.random(n) < 1.0 / (1.0 + np.exp(-x @ truth))
        self.signed = np.where(y, 1.0, -1.0)[:, None] * x
        self.prior = normal_prior("theta", d, 5.0)

    def advance(
        self, values: Array, state: Array, a: int, b: int, keys: Keys = NO_KEYS
    ) -> tuple[Array, Array]:
        """See `Likelihood.advance`."""
        z = self.signed[a:b] @ values.T
        return state, np.minimum(z, 0.0) - np.log1p(np.exp(-np.abs(z)))

    def accumulate(
        self, values: Array, state: Array | None, a: int, b: int, keys: Keys = NO_KEYS
    ) -> tuple[Array, Array]:
        """See `Likelihood.accumulate`."""
        total = np.zeros(len(values))
        for begin in range(a, b, self.CHUNK):
            z = self.signed[begin : min(begin + self.CHUNK, b)] @ values.T
            total += np.minimum(z, 0.0).sum(axis=0)
            np.abs(z, out=z)
            np.exp(np.negative(z, out=z), out=z)
            z += 1.0
            total -= np.log(np.multiply.reduce(z, axis=0))
        return self.start(values), total


class CurvedModes(SampleDensities):
    """Two curved modes in two dimensions, of known weights and evidence one.

    In each mode x0 is normal and x1 bends with its square. A single sample: the bridge does all.
    Separation and bend are such that a Gaussian proposal is accepted at about .12.
    """

    WEIGHTS = np.array([0.3, 0.7])
    CENTRES = np.array([[-4.0, -2.0], [4.0, 2.0]])
    BEND, SPREAD, WIDTH = 0.4, 0.7, 0.2

    def __init__(self) -> None:
        self.prior = normal_prior("x", 2, 5.0)

    def advance(
        self, values: Array, state: Array, a: int, b: int, keys: Keys = NO_KEYS
    ) -> tuple[Array, Array]:
        """Log target - log prior for the only sample, (1, N)."""
        parts = []
        for weight, centre in zip(self.WEIGHTS, self.CENTRES, strict=True):
            along = values[:, 0] - centre[0]
            across = values[:, 1] - centre[1] - self.BEND * (along**2 - self.SPREAD**2)
            parts.append(
                np.log(weight)
                + stats.norm.logpdf(along, scale=self.SPREAD)
                + stats.norm.logpdf(across, scale=self.WIDTH)
            )
        target = np.asarray(logsumexp(parts, axis=0))
        return state, (target - self.prior.log_density(values))[None, :]

    def mode_weight(self, theta: Array, weights: Array) -> float:
        """Estimated weight of the first mode."""
        return float(weights[theta[:, 0] < 0].sum())


class GappedOscillator(SampleDensities):
    """x'' = -k x - c x', x and x' measured 60 times but for a gap of 20: k, c, both noises, x0, v0.

    The solution is in closed form. At small exponents the signal passes for noise.
    """

    n_samples = 60
    STEP, NOISE = 0.5, 0.1
    TRUTH = np.array([[1.0, 0.1, NOISE, NOISE, 1.0, 0.0]])

    def __init__(self, seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        self.times = self.STEP * np.arange(self.n_samples)[:, None]
        x, v = self.solution(self.TRUTH)
        self.x = x + self.NOISE * rng.normal(size=x.shape)
        self.v = v + self.NOISE * rng.normal(size=v.shape)
        self.measured = np.abs(np.arange(self.n_samples) - 29.5)[:, None] > 10
        tenth = stats.lognorm(1.0, scale=0.1)
        distributions: dict[str, Any] = {"k": stats.lognorm(1.0), "c": tenth}
        distributions.update(s1=tenth, s2=tenth, x0=stats.norm(), v0=stats.norm())
        self.prior = Prior(distributions)

    def solution(self, values: Array) -> tuple[Array, Array]:
        """Positions and velocities at all times, (T, N) each; values are (N, 6)."""
        k, c, _, _, x0, v0 = values.T
        damping = 0.5 * c
        root = np.sqrt((k - damping**2).astype(complex))
        even = np.cos(root * self.times).real
        odd = (np.sin(root * self.times) / root).real
        decay = np.exp(-damping * self.times)
        x = decay * (x0 * even + (v0 + damping * x0) * odd)
        v = decay * (v0 * even - (k * x0 + damping * v0) * odd)
        return x, v

    def advance(
        self, values: Array, state: Array, a: int, b: int, keys: Keys = NO_KEYS
    ) -> tuple[Array, Array]:
        """See `Likelihood.advance`."""
        s1, s2 = values[:, 2], values[:, 3]
        with np.errstate(all="ignore"):
            x, v = self.solution(values)
            square = np.square((self.x - x) / s1) + np.square((self.v - v) / s2)
        density = -0.5 * square - np.log(2 * np.pi * s1 * s2)
        return state, np.where(self.measured, density, 0.0)[a:b]


class NoisyRegression(SampleDensities):
    """y = X b + s e, b ~ N(0, I) of 24 coefficients and s ~ LogNormal(0, 1): a funnel.

    Evidence, and mean and standard deviation of s, come from a quadrature over s.
    """

    n_samples = 100

    def __init__(self, d: int = 25, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.x = rng.normal(size=(self.n_samples, d - 1))
        truth = rng.normal(size=d - 1)
        self.y = self.x @ truth + 0.5 * rng.normal(size=self.n_samples)
        distributions: dict[str, Any] = {f"b{j}": stats.norm() for j in range(d - 1)}
        distributions["s"] = stats.lognorm(1.0)
        self.prior = Prior(distributions)

    def advance(
        self, values: Array, state: Array, a: int, b: int, keys: Keys = NO_KEYS
    ) -> tuple[Array, Array]:
        """See `Likelihood.advance`."""
        s = values[:, -1]
        residual = (self.y[a:b, None] - self.x[a:b] @ values[:, :-1].T) / s
        return state, -0.5 * np.square(residual) - np.log(s * np.sqrt(2 * np.pi))

    def exact(self) -> tuple[float, float, float]:
        """Log-evidence, and mean and standard deviation of s."""
        log_s = np.linspace(-3.0, 2.0, 4001)
        eigenvalues, vectors = np.linalg.eigh(self.x @ self.x.T)
        variances = np.exp(2 * log_s)[:, None] + np.maximum(eigenvalues, 0.0)
        squares = np.square(vectors.T @ self.y)
        density = -0.5 * (squares / variances + np.log(2 * np.pi * variances)).sum(axis=1)
        density += stats.norm.logpdf(log_s)
        log_evidence = float(logsumexp(density) + np.log(log_s[1] - log_s[0]))
        weights = np.exp(density - logsumexp(density))
        mean = float(weights @ np.exp(log_s))
        return log_evidence, mean, float(np.sqrt(weights @ np.square(np.exp(log_s) - mean)))
