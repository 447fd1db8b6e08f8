"""Small problems for tests of the sampler."""

from __future__ import annotations

import numpy as np
from scipy import stats

import smcpn
from smcpn import Prior


class Linear:
    """y = X theta + noise e, theta ~ N(0, I): evidence and posterior in closed form."""

    def __init__(self, n: int = 30, d: int = 2, noise: float = 0.5, seed: int = 0):
        rng = np.random.default_rng(seed)
        self.n_samples, self.noise = n, noise
        self.x = rng.normal(size=(n, d))
        self.y = self.x @ rng.normal(size=d) + noise * rng.normal(size=n)
        self.prior = Prior({f"theta{j}": stats.norm() for j in range(d)})

    def start(self, values):
        return np.empty((0, len(values)))

    def advance(self, values, state, a, b):
        predicted = np.einsum("td,nd->tn", self.x[a:b], values, optimize=False)
        return state, stats.norm.logpdf(self.y[a:b, None], predicted, self.noise)

    def evaluate(self, values, b):
        state = self.start(values)
        return state, self.advance(values, state, 0, b)[1].sum(axis=0)

    def log_evidence(self) -> float:
        covariance = self.x @ self.x.T + self.noise**2 * np.eye(self.n_samples)
        return float(stats.multivariate_normal(cov=covariance).logpdf(self.y))

    def moments(self):
        precision = np.eye(self.x.shape[1]) + self.x.T @ self.x / self.noise**2
        covariance = np.linalg.inv(precision)
        return covariance @ (self.x.T @ self.y) / self.noise**2, covariance


@smcpn.ode
def decay(x, *, rate):
    """Exponential decay."""
    return -rate * x


def decay_problem(n: int = 30, prior=None, seed: int = 0) -> smcpn.Problem:
    rng = np.random.default_rng(seed)
    t = np.arange(n) / 10
    y = 2.0 * np.exp(-0.8 * t) + 0.05 * rng.normal(size=n)
    return smcpn.Problem(
        decay,
        smcpn.Record(y=y, dt=0.1),
        observe="x",
        noise="sigma",
        initial=["start"],
        prior=prior
        or {
            "rate": stats.lognorm(0.5),
            "sigma": stats.lognorm(1.0, scale=0.1),
            "start": stats.norm(0.0, 3.0),
        },
    )
