"""Events of the state: a ball, a thermostat and doses on demand, against closed forms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import brentq

import smcpn
from benchmarks.rows import Row, at_most
from benchmarks.study import study
from smcpn.likelihood.prediction import predictive_moments
from smcpn.model.solver import LEAST_TOLERANCE

Array = NDArray[np.float64]
Path = Callable[[Any], tuple[Any, ...]]
"""State at times after the last event."""

TOLERANCES = (1e-6, 1e-9)
GRAVITY = 9.81


@smcpn.ode(
    events=[
        smcpn.event(
            when=lambda x: x,
            then=lambda v, t, *, restitution: {"v": -restitution * v, "last": t},
            direction="falling",
        )
    ]
)
def ball(x: Any, v: Any, last: Any, *, drag: Any) -> Any:
    """Height and velocity of a ball in air that bounces on the floor."""
    return v, -GRAVITY - drag * v * np.abs(v), 0.0


@smcpn.ode(
    events=[
        smcpn.event(
            when=lambda T, *, low: T - low, then=lambda t: {"on": 1.0, "last": t},
            direction="falling",
        ),
        smcpn.event(
            when=lambda T, *, low, span: T - low - span, then=lambda t: {"on": 0.0, "last": t},
            direction="rising",
        ),
    ]
)  # fmt: skip
def thermostat(T: Any, on: Any, last: Any, *, loss: Any, power: Any) -> Any:
    """Temperature above that outside, of a room whose heater switches."""
    return power * on - loss * T, 0.0, 0.0


@smcpn.ode(
    events=[
        smcpn.event(
            when=lambda c, *, limit: c - limit, then=lambda a, t: {"a": a + 1.0, "last": t},
            direction="falling",
        )
    ]
)  # fmt: skip
def demand(a: Any, c: Any, last: Any, *, ka: Any, k: Any) -> Any:
    """Absorption and concentration of a drug that is taken when there is too little of it."""
    return -ka * a, ka * a - k * c, 0.0


def _ball(values: dict[str, float], x: float, v: float) -> Path:
    fastest = np.sqrt(GRAVITY / values["drag"])
    reach, angle = fastest**2 / GRAVITY, np.arctan(max(v, 0.0) / fastest)
    turn = angle * fastest / GRAVITY

    def path(t: Any) -> tuple[Any, ...]:
        """Up to the top by a tangent, and from there by a hyperbolic one."""
        up = angle - GRAVITY * np.minimum(t, turn) / fastest
        down = GRAVITY * np.maximum(t - turn, 0.0) / fastest
        height = x + reach * (np.log(np.cos(up) / np.cos(angle)) - np.log(np.cosh(down)))
        return height, fastest * (np.tan(up) - np.tanh(down))

    return path


def _thermostat(values: dict[str, float], T: float, on: float) -> Path:
    final = values["power"] * on / values["loss"]
    return lambda t: (final + (T - final) * np.exp(-values["loss"] * t), on)


def _demand(values: dict[str, float], a: float, c: float) -> Path:
    ka, k = values["ka"], values["k"]

    def path(t: float) -> tuple[float, ...]:
        first, second = np.exp(-ka * t), np.exp(-k * t)
        return a * first, c * second + a * ka / (ka - k) * (second - first)

    return path


@dataclass(frozen=True)
class Example:
    """A model with events, and its solution in closed form between them.

    equation: Its last state is the time of the last event.
    initial: All states.
    path: From values and states (but the last) after an event to the path behind it.
    event: From values and states to the expression that falls through zero at the next event.
    then: From values and states at an event to those after it.
    """

    equation: smcpn.ODE
    values: dict[str, float]
    initial: tuple[float, ...]
    path: Callable[..., Path]
    event: Callable[..., Any]
    then: Callable[..., tuple[float, ...]]

    def solution(self, values: dict[str, float], times: Array) -> Array:
        """States at times, (T, n), to rounding."""
        states, begin, last = self.initial[:-1], 0.0, 0.0
        found: list[tuple[float, ...]] = []
        path, next_event = self._next(values, states, float(times[-1]))
        for t in times:
            while t >= begin + next_event:
                states = self.then(values, *path(next_event))
                begin = last = begin + next_event
                path, next_event = self._next(values, states, float(times[-1]) - begin)
            found.append((*path(float(t) - begin), last))
        return np.array(found)

    def _next(
        self, values: dict[str, float], states: tuple[float, ...], most: float
    ) -> tuple[Path, float]:
        """Path from states after an event, and how long it is to the next one."""
        path = self.path(values, *states)

        def expression(t: Any) -> Any:
            return self.event(values, *path(t))

        times = np.linspace(0.0, most, 400)[1:]
        ahead = expression(times)
        above = int(np.argmax(ahead > 0.0))
        below = np.flatnonzero(ahead[above:] < 0.0)
        if not (below.size and ahead[above] > 0.0):
            return path, np.inf
        behind = above + int(below[0])
        root: Any = brentq(expression, times[behind - 1], times[behind], xtol=1e-15)
        return path, float(root)

    def problem(self, y: Array, times: Array, prior: dict[str, Any], noise: float) -> smcpn.Problem:
        """Problem of its first state."""
        return smcpn.Problem(
            self.equation, smcpn.Record(y=y, t=times), observe=self.equation.states[0],
            noise=noise, initial=list(self.initial), prior=prior,
        )  # fmt: skip


def _switched(values: dict[str, float], T: Any, on: float) -> Any:
    return values["low"] + values["span"] - T if on else T - values["low"]


EXAMPLES = {
    "ball": Example(
        ball, {"drag": 0.1, "restitution": 0.8}, (1.0, 0.0, 0.0), _ball,
        lambda values, x, v: x, lambda values, x, v: (0.0, -values["restitution"] * v),
    ),
    "thermostat": Example(
        thermostat, {"loss": 0.3, "power": 8.0, "low": 18.0, "span": 2.0}, (19.0, 0.0, 0.0),
        _thermostat, _switched, lambda values, T, on: (T, 1.0 - on),
    ),
    "demand": Example(
        demand, {"ka": 3.0, "k": 1.5, "limit": 0.3}, (1.0, 0.0, 0.0), _demand,
        lambda values, a, c: c - values["limit"], lambda values, a, c: (a + 1.0, c),
    ),
}  # fmt: skip
DRAG, RESTITUTION = (0.05, 0.45), (0.7, 0.9)
"""Bounds of the ball's prior."""


@study("events", full=2000, quick=500)
def events(particles: int) -> Iterator[Row]:
    """Times of events, derivatives through them, and a posterior, against closed forms."""
    for name, example in EXAMPLES.items():
        yield from _times(name, example)
        yield from _gradients(name, example)
    yield from _posterior(particles, 2.0 / np.sqrt(particles))


def _times(name: str, example: Example) -> Iterator[Row]:
    times = np.linspace(0.0, 3.0, 32)
    exact = example.solution(example.values, times)
    prior: dict[str, Any] = {one: stats.norm(v, 0.1) for one, v in example.values.items()}
    n = exact.shape[1]
    problem = smcpn.Problem(
        example.equation, smcpn.Record(y=np.zeros((len(times), n)), t=times),
        observe=list(example.equation.states), noise=0.1, initial=list(example.initial),
        prior=prior,
    )  # fmt: skip
    values = np.array(list(example.values.values()))
    number = len(np.unique(exact[:, -1])) - 1
    for tolerance in TOLERANCES:
        solver = smcpn.Rosenbrock(tolerance)
        moments = predictive_moments(problem, solver, values, enumerate(problem.records))
        off = np.abs(moments[0][0] - exact)
        scale = np.maximum(np.abs(exact).max(axis=0), 1.0)
        note = f"{number} events"
        yield at_most(f"{name}, {tolerance:g}: times", off[:, -1].max() / tolerance, 10.0, note)
        yield at_most(f"{name}, {tolerance:g}: states", (off / scale).max() / tolerance, 10.0)


def _gradients(name: str, example: Example) -> Iterator[Row]:
    times = np.linspace(0.0, 3.0, 32)
    exact = example.solution(example.values, times)
    y = exact[:, 0] + 0.1 * np.random.default_rng(0).normal(size=len(times))
    prior: dict[str, Any] = {one: stats.norm(v, 0.1) for one, v in example.values.items()}
    problem = example.problem(y, times, prior, 0.1)
    function = smcpn.LogLikelihood(problem, solver=smcpn.Rosenbrock(LEAST_TOLERANCE), threads=1)
    values = np.array(list(example.values.values()))
    _, gradient = function.value_and_gradient(values[None])
    steps = 1e-4 * np.eye(len(values))
    # A difference of fourth order, so that only rounding and the tolerance are left.
    near, far = (function(values + k * steps) - function(values - k * steps) for k in (1.0, 2.0))
    differences = (8.0 * near - far) / 12e-4
    off = np.abs(gradient[0] - differences).max() / np.abs(differences).max()
    yield at_most(f"{name}: gradient against differences", off, 1e-6)


def _posterior(particles: int, se: float) -> Iterator[Row]:
    """Posterior of the ball against a grid of exact solutions."""
    example, times, noise = EXAMPLES["ball"], np.linspace(0.0, 3.0, 31), 0.02
    y = example.solution(example.values, times)[:, 0]
    y = y + noise * np.random.default_rng(1).normal(size=len(times))
    prior = {
        "drag": stats.uniform(DRAG[0], DRAG[1] - DRAG[0]),
        "restitution": stats.uniform(RESTITUTION[0], RESTITUTION[1] - RESTITUTION[0]),
    }
    posterior = smcpn.identify(
        example.problem(y, times, prior, noise), particles=particles, seed=0, progress=False
    )
    mean, sd, evidence = _on_grid(example, y, times, noise)
    for k, name in enumerate(prior):
        off = abs(posterior.mean[name] - mean[k]) / sd[k]
        yield at_most(f"ball, {name}: mean [sd]", off, 0.1, se=se)
        yield at_most(f"ball, {name}: sd", abs(posterior.sd[name] / sd[k] - 1.0), 0.1, se=se)
    yield at_most("ball: log-evidence", abs(posterior.log_evidence - evidence), 0.2)


def _on_grid(
    example: Example, y: Array, times: Array, noise: float, width: int = 41
) -> tuple[Array, Array, float]:
    """Mean (2,), standard deviation (2,) and log-evidence of the ball, on a grid that closes in."""
    low, high = np.array([DRAG[0], RESTITUTION[0]]), np.array([DRAG[1], RESTITUTION[1]])
    area, mean, sd, evidence = float(np.prod(high - low)), low, low, 0.0
    for _ in range(3):
        axes = [np.linspace(a, b, width) for a, b in zip(low, high, strict=True)]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
        paths = [
            example.solution(dict(zip(("drag", "restitution"), one.tolist(), strict=True)), times)
            for one in points
        ]
        log_density = stats.norm.logpdf(y, np.array(paths)[:, :, 0], noise).sum(axis=1)
        top, cell = log_density.max(), float(np.prod((high - low) / (width - 1)))
        weights = np.exp(log_density - top)
        evidence = top + np.log(weights.sum() * cell / area)
        weights /= weights.sum()
        mean = weights @ points
        sd = np.sqrt(weights @ (points - mean) ** 2)
        reach = np.maximum(6.0 * sd, 2.0 * (high - low) / (width - 1))
        low, high = np.maximum(low, mean - reach), np.minimum(high, mean + reach)
    return mean, sd, evidence
