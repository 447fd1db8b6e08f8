"""Values and gradients of many parameters: against forward mode, JAX, and 50 digits.

The paper's pendulum whose restoring force is a network 1-20-20-1 of tanh, with 481 weights: RK4
with two steps an interval over 1000 samples of angle and speed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray
from scipy import stats

import smcpn
from benchmarks.clock import in_turns
from benchmarks.rows import Row, absent, at_least, at_most, reached
from benchmarks.study import command, study
from smcpn import RK4, LogLikelihood, Problem, Record

Array = NDArray[np.float64]

HIDDEN, START, DT, STEPS, NOISE = (20, 20), (-1.193, -3.876), 0.02, 2, 0.02
SAMPLES, PARTICLES = 1000, 64
SMALL, SHORT = (3, 3), 20
"""Hidden layers and samples of the comparison with 50 digits."""


def n_weights(hidden: tuple[int, ...]) -> int:
    """Weights and biases of a network of one input and output."""
    widths = (1, *hidden, 1)
    return sum((before + 1) * after for before, after in pairwise(widths))


def pendulum_problem(hidden: tuple[int, ...], samples: int) -> Problem:
    """Angle and speed of a damped pendulum, with a network in place of its restoring force."""

    @smcpn.ode(sizes={"w": n_weights(hidden)})
    def pendulum(x: Any, v: Any, *, w: Any) -> Any:
        value, k = np.array([x]), 0
        for width in (*hidden, 1):
            matrix = w[k : k + width * len(value)].reshape(len(value), width).T
            k += matrix.size
            value = matrix @ value + w[k : k + width]
            k += width
            value = np.tanh(value) if width > 1 else value
        return v, value[0] - 0.2 * v

    @smcpn.ode
    def truth(x: Any, v: Any, *, b: Any) -> Any:
        return v, -b * np.sin(x) - 0.2 * v

    grid = Record(y=np.zeros((samples, 2)), dt=DT)
    start = dict(zip("xv", START, strict=True))
    path = smcpn.simulate(truth, grid, {"b": 8.91}, observe=["x", "v"], initial=start)
    y = path + NOISE * np.random.default_rng(0).normal(size=path.shape)
    prior: dict[str, Any] = {"w": stats.norm(0.0, 1.0)}
    return Problem(
        pendulum, Record(y=y, dt=DT), observe=["x", "v"], noise=NOISE,
        prior=prior, initial=start,
    )  # fmt: skip


def points(n: int, hidden: tuple[int, ...] = HIDDEN) -> Array:
    """Weights whose solutions stay near the data's range."""
    return 0.1 * np.random.default_rng(1).normal(size=(n, n_weights(hidden)))


@study("reverse")
def reverse(quick: bool) -> Iterator[Row]:
    """Time of value and gradient, of a value, by forward mode, and by JAX, in turns."""
    samples, repeats = (250, 3) if quick else (SAMPLES, 7)
    found: dict[str, Callable[[Array], tuple[Array, Array]]] = {}
    problem, weights = pendulum_problem(HIDDEN, samples), points(PARTICLES)
    function = LogLikelihood(problem, solver=RK4(STEPS))
    begin = time.process_time()
    value, gradient = function.value_and_gradient(weights)
    seconds = time.process_time() - begin
    yield at_most("first call, s of processor", seconds, 20, "compiles, where that is not kept")
    one, unit = np.repeat(weights[:1], 16, axis=0), np.eye(len(weights.T))[:16]
    calls: dict[str, Callable[[], Any]] = {
        "value": lambda: function(weights),
        "ours": lambda: function.value_and_gradient(weights),
        "forward": lambda: function.derivative(one, unit),
    }
    try:
        peer = import_module("benchmarks.closures.diffrax_gradients")
        y = problem.records[0].y
        found = peer.gradients(y, START, DT, STEPS, NOISE, HIDDEN, few=quick)
        calls |= {name: lambda call=call: call(weights) for name, call in found.items()}
    except ImportError:
        yield absent("JAX / ours", "the package diffrax is not installed")
    clock = time.process_time
    taken = {name: times.min() for name, times in in_turns(calls, repeats, clock).items()}
    ours = taken["ours"] / PARTICLES
    yield Row("value and gradient, ms a particle", 1e3 * ours, note=f"{PARTICLES} at a time")
    yield at_most("value and gradient / value", taken["ours"] / taken["value"], 6)
    forward = taken["forward"] / 16 * len(weights.T)
    yield at_least("forward mode / ours", forward / ours, 20, "of 16 of the directions")
    for name, call in found.items():
        total, slopes = call(weights)
        off = np.abs(slopes - gradient).max() / np.abs(gradient).max()
        note = f"gradients differ by {off:.1e}, values by {np.abs(total / value - 1).max():.1e}"
        yield Row(f"{name} / ours", taken[name] / taken["ours"], note=note)
    if not found:
        return
    diffrax = min((name for name in found if "diffrax" in name), key=lambda name: taken[name])
    row = at_least("diffrax / ours", taken[diffrax] / taken["ours"], 10, diffrax)
    if quick:
        yield reached(row, 7, most=False)
        return
    yield row
    names = sorted({min(found, key=lambda name: taken[name]), diffrax})
    alone: dict[str, Callable[[], Any]] = {"ours": lambda: function.value_and_gradient(weights[:1])}
    alone |= {n: lambda n=n: found[n](weights[:1]) for n in names}
    single = {name: times.min() for name, times in in_turns(alone, repeats, clock).items()}
    for name in names:
        yield Row(f"one particle: {name} / ours", single[name] / single["ours"])


@study("digits")
def digits(quick: bool) -> Iterator[Row]:
    """Gradient of a small network against differences of a likelihood in 50 digits."""
    problem = pendulum_problem(SMALL, SHORT)
    function, weights = LogLikelihood(problem, solver=RK4(STEPS)), points(1, SMALL)[0]
    if not function.reverses:
        raise RuntimeError("the gradient is made of tangents: this shows nothing")
    _, gradient = function.value_and_gradient(weights[None, :])
    with mpmath.workdps(50):
        y = [[mpmath.mpf(float(one)) for one in row] for row in problem.records[0].y]
        numbers = [mpmath.mpf(float(weight)) for weight in weights]
        exact = [_difference(numbers, k, y) for k in range(len(numbers))]
    off = np.abs(gradient[0] / np.array(exact) - 1.0).max()
    yield at_most("gradient against 50 digits, largest relative error", off, 1e-9)


def _difference(weights: list[Any], k: int, y: list[list[Any]]) -> float:
    step = mpmath.mpf(10) ** -16
    up, down = ([*weights[:k], weights[k] + s, *weights[k + 1 :]] for s in (step, -step))
    return float((_log_likelihood(up, y) - _log_likelihood(down, y)) / (2 * step))


def _log_likelihood(weights: list[Any], y: list[list[Any]]) -> Any:
    """The classical likelihood in mpmath's numbers, up to a constant."""
    h, noise = mpmath.mpf(DT) / STEPS, mpmath.mpf(NOISE)
    state, total = [mpmath.mpf(start) for start in START], mpmath.mpf(0)

    def moved(k: list[Any], length: Any) -> list[Any]:
        return [x + length * slope for x, slope in zip(state, k, strict=True)]

    for sample, row in enumerate(y):
        for _ in range(STEPS if sample else 0):
            k1 = _rate(state, weights)
            k2 = _rate(moved(k1, h / 2), weights)
            k3 = _rate(moved(k2, h / 2), weights)
            k4 = _rate(moved(k3, h), weights)
            mean = [(a + 2 * b + 2 * c + d) / 6 for a, b, c, d in zip(k1, k2, k3, k4, strict=True)]
            state = moved(mean, h)
        total -= sum(((a - b) / noise) ** 2 for a, b in zip(row, state, strict=True)) / 2
    return total


def _rate(state: list[Any], weights: list[Any]) -> list[Any]:
    value, k = state[:1], 0
    for width in (*SMALL, 1):
        columns = [weights[k + width * j : k + width * (j + 1)] for j in range(len(value))]
        k += width * len(value)
        sums = list(weights[k : k + width])
        k += width
        for column, one in zip(columns, value, strict=True):
            sums = [total + weight * one for total, weight in zip(sums, column, strict=True)]
        value = [mpmath.tanh(one) for one in sums] if width > 1 else sums
    return [state[1], value[0] - mpmath.mpf(0.2) * state[1]]


if __name__ == "__main__":
    sys.exit(command(__name__))
