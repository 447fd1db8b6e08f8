"""The EKF0 kernel: nanoseconds per solver step and particle, on one core.

Duffing oscillator in first-order form, IWP(3), eight steps per sample, likelihood included. Three
things are timed in one run: the generated lane kernel; the same recursion as one would write it in
numba, particle by particle; and a loop of nothing but fused multiply-adds, which gives the floor:
the arithmetic operations of a step (a product that only feeds sums counted with them) at the peak
rate of this core. The operations are counted in the lowered statements; the compiler may
reassociate a few away, so that the share of the floor can come out a little above one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import casadi as ca
import numpy as np
from numba import njit
from scipy import stats

from benchmarks.clock import in_turns
from benchmarks.rows import Row, at_least, at_most, told
from benchmarks.study import command, study
from smcpn import EKF0, Problem, Record
from smcpn.codegen.lower import Level, Statements, Vector, lower
from smcpn.codegen.terms import doubles
from smcpn.datasets.models import duffing
from smcpn.likelihood.lanes import Grid
from smcpn.likelihood.marginal import Marginal
from smcpn.model.signal import substep_inputs

PARTICLES, SAMPLES, STEPS, ORDER = 1024, 1500, 8, 3
REPEATS = 9
FAST = {"contract", "reassoc", "nsz", "arcp", "afn"}
SUMS = ("add", "sub")


def problem() -> Problem:
    """A synthetic Silverbox: the signal does not matter, the arithmetic does."""
    rng = np.random.default_rng(0)
    u = np.convolve(rng.normal(size=SAMPLES), np.ones(5) / 5, mode="same") * 0.05
    record = Record(u=u, y=0.05 * rng.normal(size=SAMPLES), dt=1 / 610.35, hold="bandlimited")
    scales: dict[str, float] = {"m": 5.4e-6, "c": 2.25e-4, "k": 0.99, "k3": 3.9}
    prior: dict[str, Any] = {
        name: stats.lognorm(0.02, scale=scale) for name, scale in scales.items()
    }
    return Problem(duffing, record, observe="x", noise=1e-3, prior=prior)


@njit(fastmath=FAST, error_model="numpy", cache=True)
def scalar_log_likelihood(theta, start, gains, inputs, samples, steps):
    """The same recursion, one particle after the other."""
    total = np.empty(theta.shape[1])
    for particle in range(theta.shape[1]):
        m, c, k, k3 = theta[0, particle], theta[1, particle], theta[2, particle], theta[3, particle]
        x0, x1, x2, x3 = (
            start[0, particle],
            start[1, particle],
            start[2, particle],
            start[3, particle],
        )
        v0, v1, v2, v3 = (
            start[4, particle],
            start[5, particle],
            start[6, particle],
            start[7, particle],
        )
        qx = qv = log_likelihood = 0.0
        for sample in range(samples.shape[0]):
            if sample > 0:
                for step in range(steps):
                    n = (sample - 1) * steps + step
                    g = gains[min(n, gains.shape[0] - 1)]
                    u, h = inputs[n, 0], inputs[n, 2]
                    x2 += x3
                    x1 += x2
                    x0 += x1
                    x2 += x3
                    x1 += x2
                    x2 += x3
                    v2 += v3
                    v1 += v2
                    v0 += v1
                    v2 += v3
                    v1 += v2
                    v2 += v3
                    fx, fv = h * v0, h * (u - c * v0 - k * x0 - k3 * x0 * x0 * x0) / m
                    zx, zv = fx - x1, fv - v1
                    x0, x1, x2, x3 = x0 + g[0] * zx, fx, x2 + g[2] * zx, x3 + g[3] * zx
                    v0, v1, v2, v3 = v0 + g[0] * zv, fv, v2 + g[2] * zv, v3 + g[3] * zv
                    qx += zx * zx * g[4]
                    qv += zv * zv * g[4]
            y, variance, noise = samples[sample, 0], samples[sample, 1], samples[sample, 2]
            s = qx * variance + noise
            log_likelihood -= 0.5 * (np.log(2 * np.pi * s) + (y - x0) ** 2 / s)
        total[particle] = log_likelihood
    return total


@njit(fastmath={"contract"}, error_model="numpy", cache=True)
def multiply_adds(values, factor, term, rounds):
    """Eight multiply-adds on each of 8 x 64 numbers a round: independent chains, all in cache."""
    for _ in range(rounds):
        for i in range(64):
            a, b, c, d = values[i], values[64 + i], values[128 + i], values[192 + i]
            e, f, g, h = values[256 + i], values[320 + i], values[384 + i], values[448 + i]
            for _ in range(8):
                a = a * factor + term
                b = b * factor + term
                c = c * factor + term
                d = d * factor + term
                e = e * factor + term
                f = f * factor + term
                g = g * factor + term
                h = h * factor + term
            values[i], values[64 + i], values[128 + i], values[192 + i] = a, b, c, d
            values[256 + i], values[320 + i], values[384 + i], values[448 + i] = e, f, g, h


def operations_per_step(symbols: Marginal) -> float:
    """Arithmetic of a step and its share of a sample, fused multiply-adds counted once."""
    program = symbols.program(symbols.log_density())
    theta = Vector(ca.vertcat(program.theta, program.constants), "p", Level.PARTICLE)
    state = Vector(program.state, "m", Level.LANE)
    graph, shared = program.raw("step", program.step)
    step = lower(graph, [theta, state, *shared], "a")
    graph, shared = program.raw("sample", program.emitted)
    sample = lower(graph, [theta, state, *shared], "b")
    return _operations(step) + _operations(sample) / STEPS


def _operations(statements: Statements) -> int:
    """Count what is left when every product that only feeds sums is fused into them."""
    lane = statements.by_level[Level.LANE]
    elsewhere = set(statements.outputs)
    for statement in lane:
        if statement.operation not in SUMS:
            elsewhere.update(statement.operands)
    return sum(s.operation in SUMS or s.target in elsewhere for s in lane)


@study("kernel")
def kernel(quick: bool) -> Iterator[Row]:
    """Run the three loops and compare."""
    case = problem()
    solver = EKF0(order=ORDER, steps=STEPS)
    likelihood = Marginal.build(case, solver, threads=1)
    prior = case.prior
    values = prior.natural(prior.sample(np.random.default_rng(1), PARTICLES))
    recursion = Marginal(case, solver, Grid(restarts=False, rescales=False))
    rows = recursion.inputs(case.records[0], STEPS).whole(case.records[0])
    theta = np.ascontiguousarray(values.T)
    record = case.records[0]
    # The variance of a state at unit diffusion, over the number of steps.
    variance = rows.samples[:, 3] / np.maximum(STEPS * np.arange(SAMPLES), 1)
    samples = np.column_stack([record.y[:, 0], variance, np.full(SAMPLES, 1e-6)])
    u = substep_inputs(record, STEPS)[:, 1:, 0].ravel()
    inputs = np.column_stack([u, np.zeros_like(u), np.full_like(u, record.interval / STEPS)])
    gains, start = np.ascontiguousarray(rows.gains), likelihood.start(values)

    def scalar() -> np.ndarray:
        return scalar_log_likelihood(theta, start, gains, inputs, samples, STEPS)

    _, lanes = likelihood.evaluate(values, SAMPLES)
    difference = np.abs(lanes / scalar() - 1).max()
    work = PARTICLES * (SAMPLES - 1) * STEPS
    chains, rounds = np.ones(512), 20_000
    calls = {
        "ours": lambda: likelihood.evaluate(values, SAMPLES), "scalar": scalar,
        "fma": lambda: multiply_adds(chains, 0.999, 1e-3, rounds),
    }  # fmt: skip
    # Of the processor, in turns, the least of each: other work slows all of them.
    taken = {name: t.min() for name, t in in_turns(calls, REPEATS, time.process_time).items()}
    ns, scalar_ns = 1e9 * taken["ours"] / work, 1e9 * taken["scalar"] / work
    fma = float(taken["fma"]) / (512 * 8 * rounds)
    operations = operations_per_step(recursion)
    floor = operations * fma * 1e9
    yield Row("ns per step", ns)
    ratio = 5.0 * doubles() / 8  # That of AVX-512: shorter vectors do less at once.
    yield at_least("scalar loop / kernel", scalar_ns / ns, ratio, f"{scalar_ns:.3g} ns per step")
    yield at_least("share of the floor", floor / ns, 0.5, f"the floor is {floor:.3g} ns per step")
    yield at_most("largest relative difference", float(difference), 1e-9)
    yield from told({"operations per step": operations, "multiply-adds per ns": 1e-9 / fma})


if __name__ == "__main__":
    sys.exit(command(__name__))
