"""Simulated oscillators of any length of record and any number of states."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import Parameter, Signature
from typing import Any

import numpy as np
from scipy import stats

import smcpn

INTERVAL = 0.1
NOISE = 0.02
DAMPING, STIFFNESS = 0.3, 2.0


def oscillator(samples: int) -> smcpn.Problem:
    """One driven Duffing oscillator with unknown damping and stiffnesses."""

    @smcpn.ode
    def duffing(x, v, u, *, c, k, k3):
        return v, u - c * v - k * x - k3 * x**3

    return _problem(duffing, {"c": DAMPING, "k": STIFFNESS, "k3": 0.5}, "x", samples)


def chain(masses: int, samples: int) -> smcpn.Problem:
    """Masses in a row, each tied to the one before: two states and two parameters for each."""
    positions = [f"x{i}" for i in range(masses)]
    velocities = [f"v{i}" for i in range(masses)]
    truth = {f"c{i}": DAMPING for i in range(masses)} | {f"k{i}": STIFFNESS for i in range(masses)}

    def masses_in_a_row(*states: Any, **parameters: Any) -> Sequence[Any]:
        x, v, u = states[:masses], states[masses:-1], states[-1]
        pull = [parameters[f"k{i}"] * (x[i] - (x[i - 1] if i else 0.0)) for i in range(masses)] + [
            u
        ]
        return [*v, *(pull[i + 1] - pull[i] - parameters[f"c{i}"] * v[i] for i in range(masses))]

    masses_in_a_row.__signature__ = Signature(  # type: ignore[attr-defined]
        [Parameter(name, Parameter.POSITIONAL_ONLY) for name in [*positions, *velocities, "u"]]
        + [Parameter(name, Parameter.KEYWORD_ONLY) for name in truth]
    )
    return _problem(smcpn.ode(masses_in_a_row), truth, positions[-1], samples)


def _problem(ode: smcpn.ODE, truth: dict[str, float], observed: str, samples: int) -> smcpn.Problem:
    rng = np.random.default_rng(0)
    u = np.convolve(rng.normal(size=samples), np.ones(5) / 5, mode="same")
    driven = smcpn.Record(u=u, dt=INTERVAL, hold="bandlimited")
    y = smcpn.simulate(ode, driven, truth, observe=observed)
    y += NOISE * rng.normal(size=y.shape)
    record = smcpn.Record(u=u, y=y, dt=INTERVAL, hold="bandlimited")
    prior: dict[str, Any] = {name: stats.lognorm(0.2, scale=value) for name, value in truth.items()}
    return smcpn.Problem(ode, record, observe=observed, noise=NOISE, prior=prior)
