"""Targets with known answers for the sampler, without a solver."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import logsumexp

from smcpn.model.prior import Prior

Array = NDArray[np.float64]


def normal_prior(name: str, d: int, scale: float) -> Prior:
    """Independent N(0, scale^2) priors on d parameters."""
    distributions: dict[str, Any] = {f"{name}{j}": stats.norm(0.0, scale) for j in range(d)}
    return Prior(distributions)


class LogisticRegression:
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

    def start(self, values: Array) -> Array:
        """See `Likelihood.start`."""
        return np.empty((0, len(values)))

    def advance(self, values: Array, state: Array, a: int, b: int) -> tuple[Array, Array]:
        """See `Likelihood.advance`."""
        z = self.signed[a:b] @ values.T
        return state, np.minimum(z, 0.0) - np.log1p(np.exp(-np.abs(z)))

    def evaluate(self, values: Array, b: int) -> tuple[Array, Array]:
        """See `Likelihood.evaluate`."""
        total = np.zeros(len(values))
        for begin in range(0, b, self.CHUNK):
            z = self.signed[begin : min(begin + self.CHUNK, b)] @ values.T
            total += np.minimum(z, 0.0).sum(axis=0)
            np.abs(z, out=z)
            np.exp(np.negative(z, out=z), out=z)
            z += 1.0
            total -= np.log(np.multiply.reduce(z, axis=0))
        return self.start(values), total


class CurvedModes:
    """Two curved modes in two dimensions, of known weights and evidence one.

    In each mode x0 is normal and x1 bends with its square. A single sample: the bridge does all.
    Separation and bend are such that a Gaussian proposal is accepted at about .12.
    """

    n_samples = 1
    WEIGHTS = np.array([0.3, 0.7])
    CENTRES = np.array([[-4.0, -2.0], [4.0, 2.0]])
    BEND, SPREAD, WIDTH = 0.4, 0.7, 0.2

    def __init__(self) -> None:
        self.prior = normal_prior("x", 2, 5.0)

    def start(self, values: Array) -> Array:
        """See `Likelihood.start`."""
        return np.empty((0, len(values)))

    def advance(self, values: Array, state: Array, a: int, b: int) -> tuple[Array, Array]:
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
        target = logsumexp(parts, axis=0)
        return state, (target - self.prior.log_density(values))[None, :]

    def evaluate(self, values: Array, b: int) -> tuple[Array, Array]:
        """See `Likelihood.evaluate`."""
        state = self.start(values)
        if b == 0:
            return state, np.zeros(len(values))
        return state, self.advance(values, state, 0, b)[1][0]

    def mode_weight(self, theta: Array, weights: Array) -> float:
        """Estimated weight of the first mode."""
        return float(weights[theta[:, 0] < 0].sum())
