"""Problems of the Fenrir and DALTON papers that only the benchmark and slow tests use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import stats

import smcpn
from smcpn import Problem, Record
from tests.models import (
    exact_solution,
)

LORENZ = {"alpha": 10.0, "rho": 28.0, "beta": 8.0 / 3.0}
PENDULUM_VARIANCE = 0.1
LORENZ_VARIANCE = 0.005


@smcpn.ode
def pendulum(angle, rate, *, length):
    """Free pendulum."""
    return rate, -9.81 / length * np.sin(angle)


@smcpn.ode
def lorenz63(x, y, z, *, alpha, rho, beta):
    """Convection, chaotic."""
    return alpha * (y - x), x * (rho - z) - y, x * y - beta * z


def pendulum_problem(seed: int, samples: int = 1001) -> Problem:
    """Angular rate over ten seconds, length 1, start (0, pi/2) known; length from .01 to 100."""
    start, t = (0.0, np.pi / 2), np.linspace(0.0, 10.0, samples)
    rate = exact_solution(pendulum, [1.0], start, t)[:, 1]
    noise = np.sqrt(PENDULUM_VARIANCE)
    return Problem(
        pendulum,
        Record(y=rate + noise * np.random.default_rng(seed).normal(size=samples), t=t),
        observe="rate",
        noise=noise,
        prior=dict[str, Any](length=stats.loguniform(0.01, 100.0)),
        initial=start,
    )


def lorenz_problem(seed: int) -> Problem:
    """All three states every .1 up to 20, start known; prior sd log 10 on the log parameters."""
    start, t = (-12.0, -5.0, 38.0), np.arange(201) / 10
    states = exact_solution(lorenz63, list(LORENZ.values()), start, t)
    noise = np.sqrt(LORENZ_VARIANCE)
    return Problem(
        lorenz63,
        Record(y=states + noise * np.random.default_rng(seed).normal(size=states.shape), dt=0.1),
        observe=["x", "y", "z"],
        noise=noise,
        prior=_log_normal(LORENZ, np.log(10.0)),
        initial=start,
    )


def _log_normal(names: Iterable[str], sd: float) -> dict[str, Any]:
    return {name: stats.lognorm(sd) for name in names}
