"""Elementary functions in generated kernels: against the mathematical library, and in a step."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from scipy import stats

import smcpn
from benchmarks.clock import in_turns
from benchmarks.rows import Row, at_least, at_most, reached
from benchmarks.study import study
from smcpn.codegen.elementary import apply
from smcpn.codegen.loops import FAST, Function, number
from smcpn.codegen.native import code
from smcpn.codegen.terms import DOUBLE, INTEGER, doubles, vector
from smcpn.datasets.models import duffing
from smcpn.likelihood.registry import build_likelihood

LANES, BLOCKS = 64, 64
TARGETS = {"sin": 6, "cos": 6, "tan": 6, "tanh": 6, "pow": 6, "atan": 6, "exp": 3, "log": 3}
"""Ratios with vectors of eight doubles: shorter ones do less at once."""
REACHED = {"sin": 5, "cos": 5, "tan": 4, "tanh": 4, "pow": 1.7, "atan": 4, "exp": 2.4, "log": 1.7}
"""What is known to be less, on a processor of AMD, with room for the load of others."""
RANGES = {
    "exp": (-5, 5), "log": (0.1, 10), "sin": (-5, 5), "cos": (-5, 5), "tan": (-1.4, 1.4),
    "tanh": (-3, 3), "pow": (0.1, 5), "atan": (-4, 4), "sinh": (-3, 3), "cosh": (-3, 3),
    "asin": (-1, 1), "acos": (-1, 1), "erf": (-3, 3), "expm1": (-2, 2), "log1p": (-0.9, 3),
    "atan2": (-3, 3), "asinh": (-3, 3), "acosh": (1, 3), "atanh": (-0.9, 0.9), "hypot": (-3, 3),
}  # fmt: skip
"""Range of the arguments of every function that is timed."""
OF_TWO = ("pow", "atan2", "hypot")
_SIGNATURE = "void(float64[:, ::1])"
_OPTIONS: dict[str, Any] = {"fastmath": set(FAST), "error_model": "numpy"}


def lane_loop(operation: str, arguments: int) -> Callable[[np.ndarray], object]:
    """Return a compiled loop of an operation over lanes as generated code has it.

    It takes blocks (b, 192): elements 0 to 63 and 64 to 127 of a block hold the arguments, the
    results go to 128 to 191.
    """

    def write(module: ir.Module) -> None:
        made = Function(module, "run", {"w": DOUBLE.as_pointer(), "blocks": INTEGER})
        builder, vectors = made.builder, vector(DOUBLE, doubles()).as_pointer()
        with (
            made.loop(number(0), made["blocks"]) as block,
            made.loop(number(0), number(LANES), doubles()) as lane,
        ):
            begin = made.times(block, number(3 * LANES))
            places = [
                builder.bitcast(made.at(made["w"], begin, lane, number(k * LANES)), vectors)
                for k in range(3)
            ]
            given = [builder.load(place, align=8) for place in places[:arguments]]
            builder.store(apply(builder, operation, given), places[2], align=8)
        made.finish(FAST)

    run = code(f"benchmark of {operation}", write).function("run", 2)
    return lambda blocks: run(blocks.ctypes.data, len(blocks))


def library_loop(operation: str, arguments: int) -> Any:
    """Return the same loop with a call of the mathematical library."""
    operands = "w[i]" if arguments == 1 else "w[i], w[LANES + i]"
    call = "w[i] ** w[LANES + i]" if operation == "pow" else f"math.{operation}({operands})"
    source = (
        "def run(blocks):\n"
        "    for k in range(blocks.shape[0]):\n"
        "        w = blocks[k]\n"
        "        for i in range(LANES):\n"
        f"            w[2 * LANES + i] = {call}\n"
    )
    names: dict[str, Any] = {"math": math, "LANES": LANES}
    exec(source, names)
    return numba.njit(_SIGNATURE, **_OPTIONS)(names["run"])


@study("functions")
def functions(quick: bool) -> Iterator[Row]:
    """Nanoseconds of the library in a loop over 64 lanes over those of generated code."""
    rng = np.random.default_rng(0)
    for name in TARGETS if quick else RANGES:
        arguments = 2 if name in OF_TWO else 1
        work = rng.uniform(*RANGES[name], (BLOCKS, 3 * LANES))
        calls = [partial(make(name, arguments), work) for make in (library_loop, lane_loop)]
        library, ours = (time / work.size * 3e9 for time in _medians(calls, 100 if quick else 300))
        note = f"{library:.2f} and {ours:.2f} ns"
        if name in TARGETS:
            share = doubles() / 8
            row = at_least(name, library / ours, TARGETS[name] * share, note)
            known = quick and name in REACHED
            yield reached(row, REACHED[name] * share, most=False) if known else row
        else:
            yield Row(name, library / ours, note=note)


def _medians(calls: list[Callable[[], object]], repeats: int) -> list[float]:
    """Median processor seconds of each call, which take turns."""
    taken = in_turns({str(k): call for k, call in enumerate(calls)}, repeats, time.process_time)
    return [float(np.median(times)) for times in taken.values()]


@smcpn.ode
def pendulum(x, v, u, *, c, k):
    """Driven pendulum of unit inertia."""
    return v, u - c * v - k * np.sin(x)


@study("pendulum_step", full=60, quick=15)
def pendulum_step(repeats: int) -> Iterator[Row]:
    """Time of a solver step of the pendulum over that of a Duffing oscillator."""
    samples, particles = 200, 512
    rng = np.random.default_rng(1)
    record = smcpn.Record(u=rng.normal(size=samples), y=rng.normal(size=samples), dt=0.1)
    priors: dict[Any, dict[str, Any]] = {
        pendulum: {"c": stats.lognorm(0.1, scale=0.3), "k": stats.lognorm(0.1)},
        duffing: dict.fromkeys(("m", "c", "k", "k3"), stats.lognorm(0.1)),
    }
    calls = []
    for model, prior in priors.items():
        problem = smcpn.Problem(model, record, observe="x", noise=0.1, prior=prior)
        likelihood = build_likelihood(problem, smcpn.EKF0(steps=8), threads=1)
        theta = problem.prior.natural(problem.prior.sample(rng, particles))
        calls.append(lambda k=likelihood, t=theta: k.evaluate(t, samples))
    swinging, stiffening = _medians(calls, repeats)
    steps = (samples - 1) * 8 * particles
    note = f"{swinging / steps * 1e9:.2f} and {stiffening / steps * 1e9:.2f} ns"
    row = at_most("", swinging / stiffening, 1.6, note)
    yield reached(row, 2.2) if repeats < 60 else row
