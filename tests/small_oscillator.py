"""A small problem shared by tests: an oscillator learned from a record simulated from itself."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy import stats

import smcpn

TRUTH = {"c": 0.4, "k": 4.0}
NOISE = 0.02
SAMPLES = 400
DT = 0.1


@smcpn.ode
def oscillator(x, v, u, *, c, k):
    """Linear oscillator of unit mass."""
    return v, u - c * v - k * x


@smcpn.ode
def hardening(x, v, u, *, c, k):
    """The same with a cubic spring that a linear model knows nothing of."""
    return v, u - c * v - k * x - 4.0 * x**3


def measured(
    ode=oscillator, seed: int = 5, samples: int = SAMPLES, hold: str = "foh"
) -> smcpn.Record:
    rng = np.random.default_rng(seed)
    u = np.repeat(rng.normal(size=samples // 4), 4)
    silent = smcpn.Record(u=u, dt=DT, hold=hold, y_unit="mm")
    clean = smcpn.simulate(ode, silent, TRUTH, observe="x", steps=16)
    y = clean[:, 0] + NOISE * rng.standard_normal(samples)
    return smcpn.Record(u=u, y=y, dt=DT, hold=hold, y_unit="mm", name="bench <1> & $x$")


def problem(record: smcpn.Record, noise: float = NOISE) -> smcpn.Problem:
    return smcpn.Problem(
        oscillator,
        record,
        observe="x",
        noise=noise,
        prior={"c": stats.lognorm(0.5, scale=0.5), "k": stats.lognorm(0.5, scale=5.0)},
    )


@cache
def posterior(kind: str = "right", steps: int = 8, hold: str = "foh") -> smcpn.Posterior:
    """Learned by the linear model from linear ("right") or hardening ("wrong") data."""
    record = measured(oscillator if kind == "right" else hardening, hold=hold)
    solver = smcpn.EKF0(order=2, steps=steps)
    return smcpn.identify(problem(record), solver=solver, particles=200, seed=1, progress=False)
