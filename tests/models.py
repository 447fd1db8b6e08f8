"""The models that tests share: equations, records simulated from them, and problems.

Between them the problems of `PROBLEMS` use every feature of a model. Those of the papers carry the
data of their golden values; `line` is linear and Gaussian, so that its posterior is known.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy import stats
from scipy.integrate import solve_ivp

import smcpn
from smcpn import RK4, Problem, Record
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


@smcpn.ode
def fitzhugh_nagumo(V, R, *, a, b, c):
    return c * (V - V**3 / 3 + R), -(V - a + b * R) / c


@smcpn.ode
def free_oscillator(x, v, *, k, c):
    return v, -k * x - c * v


FITZHUGH_NAGUMO = np.array([0.2, 0.2, 3.0])
"""The parameters behind `fitzhugh_nagumo_solution`."""
FITZHUGH_NAGUMO_START = (-1.0, 1.0)


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
    return exact_solution(fitzhugh_nagumo, FITZHUGH_NAGUMO, FITZHUGH_NAGUMO_START, np.arange(41.0))


def fitzhugh_nagumo_problem() -> Problem:
    """41 observations of both states, noise variance .005."""
    noise = np.sqrt(0.005) * np.random.default_rng(0).normal(size=(41, 2))
    return Problem(
        fitzhugh_nagumo,
        Record(y=fitzhugh_nagumo_solution() + noise, dt=1.0),
        observe=["V", "R"],
        noise=np.sqrt(0.005),
        prior={name: stats.lognorm(1.0) for name in "abc"},
        initial=FITZHUGH_NAGUMO_START,
    )


def fitzhugh_nagumo_derivatives() -> np.ndarray:
    """The golden values start from (x0, f(x0), 0), (2, 3)."""
    rate = np.array(fitzhugh_nagumo.rhs(FITZHUGH_NAGUMO_START, [], 0.0, FITZHUGH_NAGUMO)).ravel()
    return np.column_stack([FITZHUGH_NAGUMO_START, rate, np.zeros(2)])


PREDATOR_PREY = np.array([2.0, 1.0, 4.0, 1.0])


def predator_prey_problem(observe: list[str] | None = None) -> Problem:
    """The Lotka-Volterra problem of Fenrir, 21 observations, variance .01.

    Of both states, or of those named.
    """
    t = np.arange(21) / 10
    noise = 0.1 * np.random.default_rng(0).normal(size=(21, 2))
    y = exact_solution(lotka_volterra, PREDATOR_PREY, (5.0, 3.0), t) + noise
    observe = ["x", "y"] if observe is None else observe
    return Problem(
        lotka_volterra,
        Record(y=y[:, [lotka_volterra.states.index(name) for name in observe]], dt=0.1),
        observe=observe,
        noise=0.1,
        prior={name: stats.lognorm(1.0) for name in lotka_volterra.parameters},
        initial=[5.0, 3.0],
    )


FREE_OSCILLATOR = np.array([2.0, 0.3])


def free_oscillator_problem() -> Problem:
    """A linear system in one chain, irregular times, a gap, an observed acceleration."""
    rng = np.random.default_rng(1)
    t = np.cumsum(rng.uniform(0.05, 0.2, 12))
    y = rng.normal(size=(12, 2))
    y[4, 0], y[7] = np.nan, np.nan
    return Problem(
        free_oscillator,
        Record(y=y, t=t),
        observe=["x", "v'"],
        noise=[0.3, 0.5],
        prior={"k": stats.lognorm(0.3, scale=2.0), "c": stats.lognorm(0.3, scale=0.3)},
        initial=[1.0, -0.5],
    )


@smcpn.ode
def van_der_pol(x, v, *, mu):
    """Relaxation oscillator, stiff for large mu."""
    return v, mu * ((1 - x**2) * v - x)


LINE_SOLVER = RK4(steps=1)
LINE_NOISE = 0.3
LINE_PRIOR_SD = 3.0


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
    y = 0.5 + 1.5 * t + LINE_NOISE * np.random.default_rng(seed).normal(size=n)
    return smcpn.Record(t=t, y=y)


@cache
def line(seed: int = 0) -> smcpn.Problem:
    """Linear and Gaussian: y = x0 + rate t + e."""
    return smcpn.Problem(
        drift,
        line_record(seed),
        observe="x",
        noise=LINE_NOISE,
        initial=["x0"],
        prior={"rate": stats.norm(0.0, LINE_PRIOR_SD), "x0": stats.norm(1.0, LINE_PRIOR_SD)},
    )


def line_design() -> tuple[np.ndarray, np.ndarray]:
    record = line_record()
    return np.column_stack([record.t, np.ones(len(record))]), record.y[:, 0]


def line_answer() -> tuple[np.ndarray, np.ndarray, float]:
    """Posterior mean, covariance and log-evidence of `line`."""
    x, y = line_design()
    mean = np.array([0.0, 1.0])
    precision = x.T @ x / LINE_NOISE**2 + np.eye(2) / LINE_PRIOR_SD**2
    covariance = np.linalg.inv(precision)
    posterior = covariance @ (x.T @ y / LINE_NOISE**2 + mean / LINE_PRIOR_SD**2)
    total = LINE_PRIOR_SD**2 * x @ x.T + LINE_NOISE**2 * np.eye(len(y))
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


OSCILLATOR_TRUTH = {"c": 0.4, "k": 4.0}
OSCILLATOR_NOISE = 0.02
OSCILLATOR_SAMPLES = 400
OSCILLATOR_DT = 0.1


@smcpn.ode
def oscillator(x, v, u, *, c, k):
    """Linear oscillator of unit mass."""
    return v, u - c * v - k * x


@smcpn.ode
def hardening(x, v, u, *, c, k):
    """The same with a cubic spring that a linear model knows nothing of."""
    return v, u - c * v - k * x - 4.0 * x**3


def oscillator_record(
    ode=oscillator, seed: int = 5, samples: int = OSCILLATOR_SAMPLES, hold: str = "foh"
) -> smcpn.Record:
    rng = np.random.default_rng(seed)
    u = np.repeat(rng.normal(size=samples // 4), 4)
    silent = smcpn.Record(u=u, dt=OSCILLATOR_DT, hold=hold, y_unit="mm")
    clean = smcpn.simulate(ode, silent, OSCILLATOR_TRUTH, observe="x", steps=16)
    y = clean[:, 0] + OSCILLATOR_NOISE * rng.standard_normal(samples)
    return smcpn.Record(u=u, y=y, dt=OSCILLATOR_DT, hold=hold, y_unit="mm", name="bench <1> & $x$")


def oscillator_problem(record: smcpn.Record, noise: Any = OSCILLATOR_NOISE) -> smcpn.Problem:
    return smcpn.Problem(
        oscillator,
        record,
        observe="x",
        noise=noise,
        prior={"c": stats.lognorm(0.5, scale=0.5), "k": stats.lognorm(0.5, scale=5.0)},
    )


@cache
def oscillator_posterior(kind: str = "right", steps: int = 8, hold: str = "foh") -> smcpn.Posterior:
    """Learned by the linear model from linear ("right") or hardening ("wrong") data."""
    record = oscillator_record(oscillator if kind == "right" else hardening, hold=hold)
    solver = smcpn.EKF0(order=2, steps=steps)
    return smcpn.identify(
        oscillator_problem(record), solver=solver, method="ibis", particles=200, seed=1,
        progress=False,
    )  # fmt: skip
