"""Simulation-based calibration of whole identifications.

Parameters are drawn from the prior, data from the model at these, and the posterior's weight below
the truth is recorded: over many draws it is uniform if and only if likelihood, sampler and
weights are all right (Talts et al. 2018; Modrak et al. 2023).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

import smcpn
from smcpn import EKF0, RK4
from tests.models import decay, oscillator

BINS = 10


@dataclass(frozen=True)
class Setting:
    """A problem whose data can be drawn."""

    ode: Any
    prior: dict[str, Any]
    dt: float
    samples: int
    initial: Any
    noise: float | str
    solver: Any
    options: dict[str, Any]
    u: Callable[[int], np.ndarray] | None = None

    def record(self, y: np.ndarray | None) -> smcpn.Record:
        u = None if self.u is None else self.u(self.samples)
        if y is None and u is None:
            y = np.zeros(self.samples)
        return smcpn.Record(u=u, y=y, dt=self.dt)

    def problem(self, y: np.ndarray) -> smcpn.Problem:
        return smcpn.Problem(
            self.ode, self.record(y), observe="x", noise=self.noise, prior=self.prior,
            initial=self.initial,
        )  # fmt: skip


def _multisine(n: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=n)


SETTINGS = {
    "decay": Setting(
        decay,
        {
            "rate": stats.gamma(2.0),
            "sigma": stats.lognorm(0.5, scale=0.1),
            "start": stats.norm(1.0, 1.0),
        },
        dt=0.2, samples=15, initial=["start"], noise="sigma", solver=RK4(2), options={},
    ),
    "oscillator": Setting(
        oscillator,
        {"c": stats.lognorm(0.7, scale=0.3), "k": stats.uniform(0.5, 3.0)},
        dt=0.25, samples=40, initial="rest", noise=0.1, solver=EKF0(order=3, steps=4),
        options={"method": "tempering"}, u=_multisine,
    ),
    "wide start": Setting(
        oscillator,
        {"c": stats.lognorm(0.7, scale=0.3), "k": stats.uniform(0.5, 3.0),
         "x0": stats.norm(0.0, 5.0), "v0": stats.t(4, scale=3.0)},
        dt=0.25, samples=25, initial=["x0", "v0"], noise=0.05, solver=RK4(2),
        options={"resampling": "ssp"}, u=_multisine,
    ),
}  # fmt: skip


def shares_below_truth(setting: Setting, draws: int, seed: int, particles: int) -> np.ndarray:
    """Posterior weight below the truth, (draws, d)."""
    rng = np.random.default_rng(seed)
    template = setting.problem(np.zeros(setting.samples))
    truths = template.prior.natural(template.prior.sample(rng, draws))
    shares = []
    for number, truth in enumerate(truths):
        values = dict(zip(template.names, truth.tolist(), strict=True))
        exact = simulated(setting, values)
        sd = values[setting.noise] if isinstance(setting.noise, str) else setting.noise
        problem = setting.problem(exact + sd * rng.standard_normal(exact.shape))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", smcpn.SamplerWarning)
            posterior = smcpn.identify(
                problem, solver=setting.solver, particles=particles, seed=number, progress=False,
                **setting.options,
            )  # fmt: skip
        shares.append(posterior.weights @ (posterior.values < truth))
    return np.array(shares)


def simulated(setting: Setting, values: dict[str, float]) -> np.ndarray:
    """Noise-free output by a fine classical integration."""
    known = {name: value for name, value in values.items() if name != setting.noise}
    return smcpn.simulate(
        setting.ode, setting.record(None), known, observe="x", initial=setting.initial, steps=8
    )


def uniformity(shares: np.ndarray) -> np.ndarray:
    """p-value of a chi-square test on the rank histogram of each parameter, (d,)."""
    counts = [np.histogram(column, BINS, (0.0, 1.0))[0] for column in shares.T]
    return np.array([stats.chisquare(row).pvalue for row in counts])
