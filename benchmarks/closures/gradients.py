"""Values and gradients of many parameters: against forward mode and JAX.

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
    samples, repeats = (120, 3) if quick else (SAMPLES, 7)
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
        yield reached(row, 5, most=False)
        return
    yield row
    names = sorted({min(found, key=lambda name: taken[name]), diffrax})
    alone: dict[str, Callable[[], Any]] = {"ours": lambda: function.value_and_gradient(weights[:1])}
    alone |= {n: lambda n=n: found[n](weights[:1]) for n in names}
    single = {name: times.min() for name, times in in_turns(alone, repeats, clock).items()}
    for name in names:
        yield Row(f"one particle: {name} / ours", single[name] / single["ours"])


if __name__ == "__main__":
    sys.exit(command(__name__))
