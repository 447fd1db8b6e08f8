"""Problems of the papers on probabilistic likelihoods, with the data of their golden values."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats
from scipy.integrate import solve_ivp

import smcpn
from smcpn import Problem, Record


@smcpn.ode
def fitzhugh_nagumo(V, R, *, a, b, c):
    return c * (V - V**3 / 3 + R), -(V - a + b * R) / c


@smcpn.ode
def predator_prey(x, y, *, alpha, beta, gamma, delta):
    return alpha * x - beta * x * y, -gamma * y + delta * x * y


@smcpn.ode
def oscillator(x, v, *, k, c):
    return v, -k * x - c * v


FITZHUGH_NAGUMO = np.array([0.2, 0.2, 3.0])
"""The parameters behind `fitzhugh_nagumo_solution`."""
START = (-1.0, 1.0)


def exact_solution(ode: smcpn.ODE, theta: Any, initial: Any, t: np.ndarray) -> np.ndarray:
    """States at times t, (T, n), to 1e-11."""

    def rhs(time: float, x: np.ndarray) -> np.ndarray:
        return np.array(ode.rhs(x, [], time, theta)).ravel()

    solution = solve_ivp(
        rhs, (t[0], t[-1]), initial, method="DOP853", rtol=1e-11, atol=1e-11, t_eval=t
    )
    return solution.y.T


def fitzhugh_nagumo_solution() -> np.ndarray:
    """States at t = 0, 1, ..., 40."""
    return exact_solution(fitzhugh_nagumo, FITZHUGH_NAGUMO, START, np.arange(41.0))


def fitzhugh_nagumo_problem() -> Problem:
    """41 observations of both states, noise variance .005."""
    noise = np.sqrt(0.005) * np.random.default_rng(0).normal(size=(41, 2))
    return Problem(
        fitzhugh_nagumo,
        Record(y=fitzhugh_nagumo_solution() + noise, dt=1.0),
        observe=["V", "R"],
        noise=np.sqrt(0.005),
        prior={name: stats.lognorm(1.0) for name in "abc"},
        initial=START,
    )


def fitzhugh_nagumo_derivatives() -> np.ndarray:
    """The golden values start from (x0, f(x0), 0), (2, 3)."""
    rate = np.array(fitzhugh_nagumo.rhs(START, [], 0.0, FITZHUGH_NAGUMO)).ravel()
    return np.column_stack([START, rate, np.zeros(2)])


PREDATOR_PREY = np.array([2.0, 1.0, 4.0, 1.0])


def predator_prey_problem(observe: list[str] | None = None) -> Problem:
    """The Lotka-Volterra problem of Fenrir, 21 observations, variance .01.

    Of both states, or of those named.
    """
    t = np.arange(21) / 10
    noise = 0.1 * np.random.default_rng(0).normal(size=(21, 2))
    y = exact_solution(predator_prey, PREDATOR_PREY, (5.0, 3.0), t) + noise
    observe = ["x", "y"] if observe is None else observe
    return Problem(
        predator_prey,
        Record(y=y[:, [predator_prey.states.index(name) for name in observe]], dt=0.1),
        observe=observe,
        noise=0.1,
        prior={name: stats.lognorm(1.0) for name in predator_prey.parameters},
        initial=[5.0, 3.0],
    )


OSCILLATOR = np.array([2.0, 0.3])


def oscillator_problem() -> Problem:
    """A linear system in one chain, irregular times, a gap, an observed acceleration."""
    rng = np.random.default_rng(1)
    t = np.cumsum(rng.uniform(0.05, 0.2, 12))
    y = rng.normal(size=(12, 2))
    y[4, 0], y[7] = np.nan, np.nan
    return Problem(
        oscillator,
        Record(y=y, t=t),
        observe=["x", "v'"],
        noise=[0.3, 0.5],
        prior={"k": stats.lognorm(0.3, scale=2.0), "c": stats.lognorm(0.3, scale=0.3)},
        initial=[1.0, -0.5],
    )
