"""How time and memory grow with particles, samples, states, steps and threads.

Every study changes one size and keeps the others: particles N, samples T, states and parameters
d, solver steps per sample, threads. One thread works, but for the last: how many share a small
evaluation depends on its size. Two times are given. That of an *evaluation* of the log-likelihood
of N particles over T samples is arithmetic and has to be linear. That of a whole *run* of IBIS
also counts how often the past was evaluated, which is printed with it: rejuvenations come at about
geometric times, an evaluation of N particles each. Slopes are those of a
line through the logarithms; a run's is also given between the two largest sizes, where what does
not grow matters least, and of the processor time of one evaluation.

Memory is the growth of the resident set during a run (Linux: VmHWM, set back before it) in a
process of its own, beyond what was there before: interpreter, kernels, the record, and the
tables made of it (inputs of every solver step), whose bytes per sample are printed too.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from inspect import Parameter, Signature
from typing import Any

import numpy as np
from scipy import stats

import smcpn
from benchmarks.machine import described, machine
from benchmarks.memory import give_back, peak_memory, reset_peak, resident_memory
from benchmarks.rows import Row, at_most
from benchmarks.scaling_curves import Curve, Taken, memory_figure, told
from benchmarks.study import Passage, Picture, Result, command, study
from smcpn.codegen.threads import processors
from smcpn.likelihood.registry import build_likelihood
from smcpn.model.problem import Problem
from smcpn.smc.ibis import Ibis
from smcpn.smc.sampler import Settings

SOLVER = smcpn.EKF0(order=3, steps=4)
REPEATS = 5
FLAT_MB = 20.0
INTERVAL, NOISE = 0.1, 0.02
DAMPING, STIFFNESS = 0.3, 2.0


def oscillator(samples: int) -> Problem:
    """One driven Duffing oscillator with unknown damping and stiffnesses."""

    @smcpn.ode
    def duffing(x, v, u, *, c, k, k3):
        return v, u - c * v - k * x - k3 * x**3

    return _problem(duffing, {"c": DAMPING, "k": STIFFNESS, "k3": 0.5}, "x", samples)


def chain(masses: int, samples: int) -> Problem:
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


def _problem(ode: smcpn.ODE, truth: dict[str, float], observed: str, samples: int) -> Problem:
    rng = np.random.default_rng(0)
    u = np.convolve(rng.normal(size=samples), np.ones(5) / 5, mode="same")
    driven = smcpn.Record(u=u, dt=INTERVAL, hold="bandlimited")
    y = smcpn.simulate(ode, driven, truth, observe=observed)
    y += NOISE * rng.normal(size=y.shape)
    record = smcpn.Record(u=u, y=y, dt=INTERVAL, hold="bandlimited")
    prior: dict[str, Any] = {name: stats.lognorm(0.2, scale=value) for name, value in truth.items()}
    return Problem(ode, record, observe=observed, noise=NOISE, prior=prior)


def timed(function: Callable[[], object]) -> Taken:
    """Time of one call."""
    begin, processor = time.perf_counter(), time.process_time()
    function()
    return Taken(time.perf_counter() - begin, time.process_time() - processor)


def evaluate(problem: Problem, particles: int, solver: Any = SOLVER, threads: int = 1) -> Taken:
    """Shortest time of several evaluations of the log-likelihood, after one that does not count."""
    likelihood = build_likelihood(problem, solver, threads)
    values = problem.prior.natural(problem.prior.sample(np.random.default_rng(1), particles))
    times = [
        timed(lambda: likelihood.evaluate(values, likelihood.n_samples)) for _ in range(REPEATS + 1)
    ][1:]
    return Taken(min(t.seconds for t in times), min(t.processor_seconds for t in times))


def whole_run(problem: Problem, particles: int, threads: int = 1) -> Taken:
    """Time of a whole run."""
    likelihood = build_likelihood(problem, SOLVER, threads)
    sampler = Ibis(problem.prior, likelihood, Settings(particles), np.random.default_rng(1))
    taken = timed(sampler.run)
    evaluations = sampler.cost.evaluations / (particles * likelihood.n_samples)
    return replace(taken, evaluations=evaluations)


@study("particles", full=[128, 512, 2048, 8192, 32768, 131072], quick=[128, 1024, 8192])
def particles(sizes: list[int]) -> Iterator[Result]:
    """N from 1e2 to 1e5, in whole lanes of 64."""
    problem = oscillator(2000)
    times = [evaluate(problem, n) for n in sizes]
    runs = [whole_run(problem, n) for n in sizes]
    # Of so few particles a run spends most of its time otherwise.
    expected = None if len(sizes) < 4 else 1.0
    yield from told(
        [
            Curve("evaluation, T = 2000", "particles", sizes, times, 1.0),
            Curve("run, T = 2000", "particles", sizes, runs, expected),
        ]
    )


@study("samples", full=[1000, 10_000, 100_000, 1_000_000], quick=[1000, 10_000])
def samples(sizes: list[int]) -> Iterator[Result]:
    """T from 1e3 to 1e6."""
    problems = [oscillator(size) for size in sizes]
    times = [evaluate(p, 256) for p in problems]
    runs = [whole_run(p, 1024) for p in problems]
    expected = None if len(sizes) < 4 else 1.0
    yield from told(
        [
            Curve("evaluation, N = 256", "samples", sizes, times, 1.0),
            Curve("run, N = 1024", "samples", sizes, runs, expected),
        ]
    )


@study("states", full=[1, 2, 4, 8, 16], quick=[1, 4])
def states(masses: list[int]) -> Iterator[Result]:
    """Masses in a row: d states and d parameters."""
    taken = [evaluate(chain(n, 1000), 1024) for n in masses]
    yield from told([Curve("evaluation, N = 1024, T = 1000", "states",
                           [2 * n for n in masses], taken)])  # fmt: skip


@study("steps", full=[1, 2, 4, 8, 16, 32, 64], quick=[1, 4, 16])
def steps(sizes: list[int]) -> Iterator[Result]:
    """Solver steps per sample."""
    problem = oscillator(2000)
    taken = [evaluate(problem, 1024, smcpn.EKF0(order=3, steps=count)) for count in sizes]
    yield from told([Curve("evaluation, N = 1024, T = 2000", "steps", sizes, taken)])


@study("threads", full=8192, quick=1024)
def threads(count: int) -> Iterator[Result]:
    """Threads up to the processors there are."""
    sizes = [n for n in (1, 2, 4, 8, 16, 32) if n <= processors()]
    problem = oscillator(2000)
    evaluations = [evaluate(problem, count, threads=n) for n in sizes]
    runs = [whole_run(problem, 1024, threads=n) for n in sizes]
    yield from told(
        [
            Curve(f"evaluation, N = {count}, T = 2000", "threads", sizes, evaluations),
            Curve("run, N = 1024, T = 2000", "threads", sizes, runs),
        ]
    )


@study("memory", full=(1000, 10_000, 100_000, 1_000_000), quick=(1000, 10_000))
def memory(sizes: tuple[int, ...]) -> Iterator[Result]:
    """Memory of a run of 1000 particles against the length of the record."""
    used: list[Mapping[str, float]] = []
    for size in sizes:
        script = f"from benchmarks.scaling import memory_of; memory_of({size})"
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        )
        used.append(json.loads(done.stdout))
    growth = used[-1]["run_MB"] - used[0]["run_MB"]
    lines = []
    for one in used:
        note = (
            f"beside {one['record_bytes_per_sample']:.3g} bytes per sample of the record and "
            f"{one['table_bytes_per_sample']:.3g} of its tables"
        )
        yield Row(f"a run adds, T = {one['samples']:.0f}, MB", one["run_MB"], note=note)
        lines.append(f"T = {one['samples']:.0f}: a run adds {one['run_MB']:.3g} MB {note}")
    yield at_most("longest less shortest, MB", growth, FLAT_MB)
    lines.append(f"{growth:+.3g} MB from the shortest to the longest; flat is below {FLAT_MB:g}")
    yield Picture("scaling_memory", partial(memory_figure, used))
    remarks = [*(f"memory, {line}" for line in lines), described(machine())]
    yield Passage("".join(f"- {remark}\n" for remark in remarks))


def memory_of(size: int) -> None:
    """Print, of this process, the memory of a record with its tables, and growth during a run."""
    problem = oscillator(size)
    likelihood = build_likelihood(problem, SOLVER)
    # What is allocated once per process belongs to no run.
    Ibis(problem.prior, likelihood, Settings(1000), np.random.default_rng(1)).run(last=200)
    rows = likelihood.rows[0]
    arrays = (rows.inputs, rows.gains, rows.samples, rows.intervals)
    tables = sum(a.nbytes for a in arrays if a is not None)
    record = problem.records[0]
    give_back()
    before = resident_memory()
    reset_peak()
    Ibis(problem.prior, likelihood, Settings(1000), np.random.default_rng(1)).run()
    found = {
        "samples": size,
        "run_MB": (peak_memory() - before) / 1e6,
        "record_bytes_per_sample": (record.u.nbytes + record.y.nbytes + record.t.nbytes) / size,
        "table_bytes_per_sample": tables / size,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    sys.exit(command(__name__))
