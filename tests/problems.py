"""Small problems that between them use every feature of a model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import stats

import smcpn
from smcpn import Problem, Record
from smcpn.datasets.models import bouc_wen, duffing


def forced_input(n: int, dt: float, seed: int = 0) -> np.ndarray:
    """A smooth band-limited input: a few sines below a quarter of the sampling rate."""
    rng = np.random.default_rng(seed)
    t = dt * np.arange(n)
    frequencies = rng.uniform(0.02, 0.22, 6) / dt
    return sum(np.sin(2 * np.pi * f * t + rng.uniform(0, 6)) for f in frequencies)


def duffing_problem(n: int = 60, hold: str = "bandlimited") -> Problem:
    u = forced_input(n, 0.2)
    y = 0.3 * np.sin(np.arange(n) / 5)
    y[7] = np.nan
    return Problem(
        duffing,
        Record(u=u, y=y, dt=0.2, hold=hold),
        observe="x",
        noise=0.1,
        prior={
            "m": stats.lognorm(0.2),
            "c": stats.lognorm(0.3, scale=0.4),
            "k": stats.lognorm(0.2, scale=2.0),
            "k3": stats.lognorm(0.3, scale=0.5),
        },
    )


def bouc_wen_problem(n: int = 50) -> Problem:
    """Three states, an observed derivative, a noise parameter, negative support."""
    u = 50 * forced_input(n, 1 / 512, seed=1)
    y = 20 * np.cos(np.arange(n) / 3)
    scales = {"m": 2.0, "c": 10.0, "k": 5e4, "alpha": 5e4, "beta": 1e3, "gamma": 0.8}
    return Problem(
        bouc_wen,
        Record(u=u, y=y, dt=1 / 512, hold="foh"),
        observe="v'",
        noise="sigma",
        prior={name: stats.lognorm(0.1, scale=scale) for name, scale in scales.items()}
        | {"delta": stats.truncnorm(-np.inf, 5, loc=-1.1, scale=0.1)}
        | {"sigma": stats.lognorm(0.3, scale=3.0)},
    )


@smcpn.ode
def lotka_volterra(x, y, *, a, b, c, d=1.0):
    return a * x - b * x * y, -c * y + d * x * y


def lotka_volterra_problem(n: int = 40) -> Problem:
    """No input, two correlated outputs, irregular times, unknown initial state."""
    rng = np.random.default_rng(3)
    t = np.cumsum(rng.uniform(0.02, 0.08, n))
    y = rng.uniform(0.5, 3.0, (n, 2))
    y[5, 0], y[9] = np.nan, np.nan

    def total(x, y, *, gain):
        return gain * (x + y) + np.sqrt(x)

    return Problem(
        lotka_volterra,
        Record(y=y, t=t),
        observe=["x", total],
        noise=[0.2, 0.3],
        prior={
            "a": stats.lognorm(0.1, scale=1.5),
            "b": stats.lognorm(0.1),
            "c": stats.lognorm(0.1, scale=2.0),
            "gain": stats.norm(1.0, 0.1),
        },
        initial={"x": stats.uniform(0.5, 1.0), "y": "b"},
    )


@smcpn.ode
def driven_decay(x, u, w, t, *, rate):
    return -rate * x + u * np.cos(t) + np.where(w > 0, w, 0.5 * w)


def timed_problem(n: int = 30) -> Problem:
    """One state, two inputs, explicit time, held input, two records of unequal length."""
    rng = np.random.default_rng(4)
    records = [
        Record(u=rng.normal(size=(m, 2)), y=rng.normal(size=m), dt=0.3, hold="zoh")
        for m in (n, n // 2)
    ]
    return Problem(
        driven_decay,
        records,
        observe="x",
        noise=0.5,
        prior={"rate": stats.lognorm(0.3)},
        initial=[[1.0], [-0.5]],
    )


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "duffing": duffing_problem,
    "bouc-wen": bouc_wen_problem,
    "lotka-volterra": lotka_volterra_problem,
    "timed": timed_problem,
}
