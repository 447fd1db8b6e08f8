"""Small problems whose mode, covariance and evidence are known."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy import stats

import smcpn
from smcpn import RK4

SOLVER = RK4(steps=1)
NOISE = 0.3
PRIOR_SD = 3.0


@smcpn.ode
def drift(x, *, rate):
    """A straight line, which Runge-Kutta integrates exactly."""
    return rate + 0.0 * x


@smcpn.ode
def hyperbola(x, *, a):
    """1 / (1 - a^2 t) from x(0) = 1: the sign of a is unknown, and 1 / a^2 the end of time."""
    return a**2 * x**2


def line_record(seed: int = 0, n: int = 21) -> smcpn.Record:
    t = np.arange(n) / 10
    y = 0.5 + 1.5 * t + NOISE * np.random.default_rng(seed).normal(size=n)
    return smcpn.Record(t=t, y=y)


@cache
def line(seed: int = 0) -> smcpn.Problem:
    """Linear and Gaussian: y = x0 + rate t + e."""
    return smcpn.Problem(
        drift,
        line_record(seed),
        observe="x",
        noise=NOISE,
        initial=["x0"],
        prior={"rate": stats.norm(0.0, PRIOR_SD), "x0": stats.norm(1.0, PRIOR_SD)},
    )


def line_design() -> tuple[np.ndarray, np.ndarray]:
    record = line_record()
    return np.column_stack([record.t, np.ones(len(record))]), record.y[:, 0]


def line_answer() -> tuple[np.ndarray, np.ndarray, float]:
    """Posterior mean, covariance and log-evidence of `line`."""
    x, y = line_design()
    mean = np.array([0.0, 1.0])
    precision = x.T @ x / NOISE**2 + np.eye(2) / PRIOR_SD**2
    covariance = np.linalg.inv(precision)
    posterior = covariance @ (x.T @ y / NOISE**2 + mean / PRIOR_SD**2)
    total = PRIOR_SD**2 * x @ x.T + NOISE**2 * np.eye(len(y))
    return posterior, covariance, float(stats.multivariate_normal(x @ mean, total).logpdf(y))


@cache
def two_modes(centre: float = 0.5) -> smcpn.Problem:
    """Modes near +0.5 and -0.5, the higher one on the side of the prior's centre.

    Diverges for large a.
    """
    t = np.arange(11) / 10
    y = 1.0 / (1.0 - 0.25 * t) + 0.02 * np.random.default_rng(1).normal(size=11)
    return smcpn.Problem(
        hyperbola,
        smcpn.Record(t=t, y=y),
        observe="x",
        noise=0.02,
        initial=[1.0],
        prior={"a": stats.norm(centre, 1.0)},
    )
