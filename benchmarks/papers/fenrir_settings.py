"""The models (appendix C) and settings of the Fenrir paper's experiments.

Source: Tronarp, Bosch and Hennig, *Fenrir: Physics-Enhanced Regression for Initial Value Problems*
(ICML 2022), appendix C; where the authors' public code differs from print, the code, which made
the published numbers. `docs/papers/fenrir.md` lists where we depart from both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.integrate import solve_ivp

import smcpn
from smcpn import EKF1, ODE, Problem, Record

Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int, Record], dict[str, Array]]
"""From a generator, a number and the record to that many starts of a search, by name."""

NOISE, DIFFUSION = "sigma", "kappa"
ORDER = 3
"""Integrations of the Wiener process. The paper has 5, and its code 3 for FitzHugh-Nagumo."""
STARTS = 4
"""Searches from one record, of which the highest end counts; the paper has one."""
LEAST_NOISE = 1e-3
"""Bound of the paper (C.2). Without one, a process that begins at the first measurement and goes
through the others has any likelihood, for the initial state is known exactly."""
LEAST_SQUARES = float(np.sqrt(0.5))
"""With noise of this sd a log-likelihood is minus the sum of squares, but for a constant."""
POSITIVE: Any = stats.lognorm(1.0)
REAL: Any = stats.norm()
"""They say on which scale a parameter is searched; the maximum does not see their density."""
TOLERANCE = 1e-12
EXPLODED = 1e9
"""A state beyond this is infinite; some of the wrong models are, after a finite time."""


GRAVITY = 9.81


@smcpn.ode
def lotka_volterra(x, y, *, alpha, beta, gamma, delta):
    """Prey and predator (55); M11 of the model selection."""
    return alpha * x - beta * x * y, -gamma * y + delta * x * y


@smcpn.ode
def wrong_prey(x, y, *, alpha, beta, gamma, delta):
    """M01: (57a) with (55b)."""
    return alpha * x**2 - beta * y, -gamma * y + delta * x * y


@smcpn.ode
def wrong_predator(x, y, *, alpha, beta, gamma):
    """M10: (55a) with (57b)."""
    return alpha * x - beta * x * y, -gamma * y


@smcpn.ode
def wrong_both(x, y, *, alpha, beta, gamma):
    """M00: (57)."""
    return alpha * x**2 - beta * y, -gamma * y


@smcpn.ode
def fitzhugh_nagumo(V, R, *, a, b, c):
    """Spiking neuron (56), with the sign of b that the code has."""
    return c * (V - V**3 / 3 + R), -(V - a + b * R) / c


@smcpn.ode
def seir(exposed, infected, recovered, *, beta, gamma, decay):
    """Epidemic (58) with beta_I = 0, and S from the sum of all four, which is one."""
    infections = beta * (1 - exposed - infected - recovered) * exposed
    return infections - gamma * exposed, gamma * exposed - decay * infected, decay * infected


@smcpn.ode
def pendulum(angle, rate, *, length):
    """Pendulum (61)."""
    return rate, -GRAVITY / length * np.sin(angle)


@dataclass(frozen=True, eq=False)
class Setting:
    """One experiment: what made the data, and what is fitted to them.

    ode, fitted: Of the data, and of the fit.
    truth: Parameters of ``ode``.
    state: Its initial state.
    times: (T,), grid of the record; the first is that of the initial state.
    variance: Of the measurement noise.
    steps: Solver steps from one time to the next, of the probabilistic solver and of Runge-Kutta.
    initial: Of the fit: numbers that are known, or distributions.
    draw: Starts of all parameters but noise and diffusion.
    seen: Time of the first measurement.
    staged: Whether noise and diffusion are fitted before all else is.
    least: Least diffusion of the fit: the likelihood is flat there already, that of the exact
        solution, and rounding shows further below.
    """

    ode: ODE
    fitted: ODE
    truth: Mapping[str, float]
    state: tuple[float, ...]
    times: Array
    observe: tuple[str, ...]
    variance: float
    steps: int
    initial: tuple[Any, ...]
    draw: Draw
    seen: float = -np.inf
    staged: bool = False
    least: float = 0.0
    order: int = ORDER

    @property
    def solver(self) -> EKF1:
        """The paper's solver: first-order linearisation, the diffusion a parameter."""
        return EKF1(self.order, self.steps, diffusion=DIFFUSION)

    @cached_property
    def states(self) -> Array:
        """True states at all times, (T, n)."""
        return trajectory(self.ode, list(self.truth.values()), self.state, self.times)

    def record(self, seed: int) -> Record:
        """Measurements with the noise of a seed; NaN before the first that was made."""
        exact = self.states[:, [self.ode.states.index(name) for name in self.observe]]
        noise = np.random.default_rng(seed).normal(size=exact.shape)
        y = exact + np.sqrt(self.variance) * noise
        y[self.times < self.seen] = np.nan
        return Record(y=y, t=self.times)

    def problem(self, record: Record) -> Problem:
        """The fit, in which noise and diffusion are learned too."""
        prior = _positive(*self.fitted.parameters)
        prior[NOISE] = stats.lognorm(1.0, loc=LEAST_NOISE)
        prior[DIFFUSION] = stats.lognorm(1.0, loc=self.least)
        return Problem(
            self.fitted, record, observe=list(self.observe), noise=NOISE, prior=prior,
            initial=list(self.initial), diffusion=DIFFUSION,
        )  # fmt: skip

    def least_squares(self, record: Record) -> Problem:
        """The fit without solver error, whose log-likelihood is minus the sum of squares (53)."""
        return Problem(
            self.fitted, record, observe=list(self.observe), noise=LEAST_SQUARES,
            prior=_positive(*self.fitted.parameters), initial=list(self.initial),
        )  # fmt: skip

    def trajectory_error(self, values: Mapping[str, float]) -> float:
        """TRMSE (54) of fitted values, of the exact solution over all states."""
        state = [
            known if isinstance(known, float) else values[f"{name}(0)"]
            for name, known in zip(self.fitted.states, self.initial, strict=True)
        ]
        theta = [values[name] for name in self.fitted.parameters]
        distance = trajectory(self.fitted, theta, state, self.times) - self.states
        return float(np.sqrt(np.mean(np.sum(distance**2, axis=1))))


def _positive(*names: str) -> dict[str, Any]:
    return dict.fromkeys(names, POSITIVE)


def trajectory(ode: ODE, theta: Any, state: Any, times: Array) -> Array:
    """Solution at times, (T, n); infinite where it explodes before the last."""
    x, parameters = ca.SX.sym("x", len(state)), ca.SX.sym("theta", len(theta))
    rate = ca.Function("rate", [x, parameters], [ode.rhs(x, [], 0.0, parameters)])

    def bounded_rate(_: float, x: Array) -> Array:
        if not np.abs(x).max() < EXPLODED:
            raise OverflowError
        return np.array(rate(x, theta)).ravel()

    nothing = np.full((len(times), len(state)), np.inf)
    try:
        with np.errstate(all="ignore"):
            solution = solve_ivp(
                bounded_rate, (times[0], times[-1]), state,
                method="LSODA", rtol=TOLERANCE, atol=TOLERANCE, t_eval=times,
            )  # fmt: skip
    except OverflowError:
        return nothing
    return solution.y.T if solution.status == 0 and np.isfinite(solution.y).all() else nothing


def _folded_normal(
    rng: np.random.Generator, names: tuple[str, ...], count: int
) -> dict[str, Array]:
    """Starts |N(0, 1)|, as ODIN has them."""
    return {name: np.abs(rng.normal(size=count)) for name in names}


def draw_lotka_volterra(rng: np.random.Generator, count: int, record: Record) -> dict[str, Array]:
    """Initial states where they were measured, within their bounds."""
    measured = np.clip(record.y[0], 0.1, 100.0)
    first = {"x(0)": np.full(count, measured[0]), "y(0)": np.full(count, measured[1])}
    return _folded_normal(rng, ("alpha", "beta", "gamma", "delta"), count) | first


def draw_wrong_predator(rng: np.random.Generator, count: int, record: Record) -> dict[str, Array]:
    """As `draw_lotka_volterra`, without delta, which (57b) has not."""
    starts = draw_lotka_volterra(rng, count, record)
    del starts["delta"]
    return starts


def draw_fitzhugh_nagumo(rng: np.random.Generator, count: int, record: Record) -> dict[str, Array]:
    """Initial states where they were measured."""
    first = {"V(0)": np.full(count, record.y[0, 0]), "R(0)": np.full(count, record.y[0, 1])}
    return _folded_normal(rng, ("a", "b", "c"), count) | first


def draw_seir(rng: np.random.Generator, count: int, record: Record) -> dict[str, Array]:
    """Rates U(0, 1), initial states |N(0, .01^2)| (C.4)."""
    rates = {name: rng.uniform(size=count) for name in ("beta", "gamma", "decay")}
    return rates | {
        name: np.abs(1e-2 * rng.normal(size=count)) for name in ("exposed(0)", "infected(0)")
    }


def draw_pendulum(rng: np.random.Generator, count: int, record: Record) -> dict[str, Array]:
    """The sweep of figure 8: lengths from .01 to 100."""
    return {"length": np.logspace(-2.0, 2.0, count)}


_LOTKA_VOLTERRA = Setting(
    ode=lotka_volterra,
    fitted=lotka_volterra,
    truth={"alpha": 2.0, "beta": 1.0, "gamma": 4.0, "delta": 1.0},
    state=(5.0, 3.0),
    times=np.arange(21) / 10,
    observe=("x", "y"),
    variance=0.01,
    steps=20,
    initial=(POSITIVE, POSITIVE),
    draw=draw_lotka_volterra,
    staged=True,
    least=0.1,
)
_FITZHUGH_NAGUMO = Setting(
    ode=fitzhugh_nagumo,
    fitted=fitzhugh_nagumo,
    truth={"a": 0.2, "b": 0.2, "c": 3.0},
    state=(-1.0, 1.0),
    # The code has 20 times, print 21; steps of .048, code .05 and print .01.
    times=np.linspace(0.0, 10.0, 20),
    observe=("V", "R"),
    variance=0.005,
    steps=11,
    initial=(REAL, REAL),
    draw=draw_fitzhugh_nagumo,
    least=0.01,
)
# The selection is at twice the step (code).
_SELECTION = replace(_LOTKA_VOLTERRA, steps=10)

SETTINGS: Mapping[str, Setting] = {
    "lotka-volterra, low": _LOTKA_VOLTERRA,
    "lotka-volterra, high": replace(_LOTKA_VOLTERRA, variance=0.25),
    "fitzhugh-nagumo, low": _FITZHUGH_NAGUMO,
    "fitzhugh-nagumo, high": replace(_FITZHUGH_NAGUMO, variance=0.05),
    "M11": _SELECTION,
    "M10": replace(_SELECTION, fitted=wrong_predator, draw=draw_wrong_predator),
    "M01": replace(_SELECTION, fitted=wrong_prey),
    "M00": replace(_SELECTION, fitted=wrong_both, draw=draw_wrong_predator),
    "seir": Setting(
        ode=seir,
        fitted=seir,
        truth={"beta": 0.5, "gamma": 1 / 5, "decay": 1 / 21},
        # The code has E(0) = 4e-5, print 1e-4.
        state=(4e-5, 1e-5, 0.0),
        times=np.arange(101.0),
        observe=("infected", "recovered"),
        variance=5e-4,
        steps=5,
        initial=(POSITIVE, POSITIVE, 0.0),
        draw=draw_seir,
        seen=30.0,
        least=1e-7,
    ),
    "pendulum": Setting(
        ode=pendulum,
        fitted=pendulum,
        truth={"length": 1.0},
        state=(0.0, np.pi / 2),
        times=np.linspace(0.0, 10.0, 1001),
        observe=("rate",),
        variance=0.1,
        steps=1,
        initial=(0.0, np.pi / 2),
        draw=draw_pendulum,
        staged=True,
        least=0.1,
    ),
}
