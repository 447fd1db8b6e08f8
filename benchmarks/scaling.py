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

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import smcpn
from benchmarks.machine import machine
from benchmarks.memory import give_back, peak_memory, reset_peak, resident_memory
from benchmarks.rows import Row, command
from benchmarks.scaling_problems import chain, oscillator
from benchmarks.scaling_study import Study, Taken
from benchmarks.scaling_table import markdown, rows
from smcpn.codegen.threads import processors
from smcpn.likelihood.registry import build_likelihood
from smcpn.model.problem import Problem
from smcpn.smc.ibis import Ibis
from smcpn.smc.sampler import Settings

SOLVER = smcpn.EKF0(order=3, steps=4)
REPEATS = 5


def timed(function: Callable[[], object]) -> Taken:
    """Time of one call."""
    begin, processor = time.perf_counter(), time.process_time()
    function()
    return Taken(time.perf_counter() - begin, time.process_time() - processor)


def best(function: Callable[[], object], repeats: int = REPEATS) -> Taken:
    """Shortest of several times, after one that does not count."""
    function()
    times = [timed(function) for _ in range(repeats)]
    return Taken(min(t.seconds for t in times), min(t.processor_seconds for t in times))


def evaluate(problem: Problem, particles: int, solver: Any = SOLVER, threads: int = 1) -> Taken:
    """Time of one evaluation of the log-likelihood."""
    likelihood = build_likelihood(problem, solver, threads)
    values = problem.prior.natural(problem.prior.sample(np.random.default_rng(1), particles))
    return best(lambda: likelihood.evaluate(values, likelihood.n_samples))


def run(problem: Problem, particles: int, threads: int = 1) -> Taken:
    """Time of a whole run."""
    likelihood = build_likelihood(problem, SOLVER, threads)
    sampler = Ibis(problem.prior, likelihood, Settings(particles), np.random.default_rng(1))
    taken = timed(sampler.run)
    evaluations = sampler.cost.evaluations / (particles * likelihood.n_samples)
    return replace(taken, evaluations=evaluations)


def particles(quick: bool) -> list[Study]:
    """N from 1e2 to 1e5, in whole lanes of 64."""
    sizes = [128, 1024, 8192] if quick else [128, 512, 2048, 8192, 32768, 131072]
    problem = oscillator(2000)
    return [
        Study(
            "evaluation, T = 2000", "particles", sizes, [evaluate(problem, n) for n in sizes], 1.0
        ),
        Study("run, T = 2000", "particles", sizes, [run(problem, n) for n in sizes], 1.0),
    ]


def samples(quick: bool) -> list[Study]:
    """T from 1e3 to 1e6."""
    sizes = [1000, 10_000] if quick else [1000, 10_000, 100_000, 1_000_000]
    problems = [oscillator(size) for size in sizes]
    return [
        Study("evaluation, N = 256", "samples", sizes, [evaluate(p, 256) for p in problems], 1.0),
        Study("run, N = 1024", "samples", sizes, [run(p, 1024) for p in problems], 1.0),
    ]


def states(quick: bool) -> list[Study]:
    """Masses in a row: d states and d parameters."""
    masses = [1, 4] if quick else [1, 2, 4, 8, 16]
    taken = [evaluate(chain(n, 1000), 1024) for n in masses]
    return [Study("evaluation, N = 1024, T = 1000", "states", [2 * n for n in masses], taken)]


def steps(quick: bool) -> list[Study]:
    """Solver steps per sample."""
    sizes = [1, 4, 16] if quick else [1, 2, 4, 8, 16, 32, 64]
    problem = oscillator(2000)
    taken = [evaluate(problem, 1024, smcpn.EKF0(order=3, steps=count)) for count in sizes]
    return [Study("evaluation, N = 1024, T = 2000", "steps", sizes, taken)]


def threads(quick: bool) -> list[Study]:
    """Threads up to the processors there are."""
    sizes = [n for n in (1, 2, 4, 8, 16, 32) if n <= processors()]
    problem, count = oscillator(2000), 1024 if quick else 8192
    evaluations = [evaluate(problem, count, threads=n) for n in sizes]
    runs = [run(problem, 1024, threads=n) for n in sizes]
    return [
        Study(f"evaluation, N = {count}, T = 2000", "threads", sizes, evaluations),
        Study("run, N = 1024, T = 2000", "threads", sizes, runs),
    ]


STUDIES = {
    "particles": particles,
    "samples": samples,
    "states": states,
    "steps": steps,
    "threads": threads,
}


def memory(quick: bool) -> list[dict[str, float]]:
    """Memory of a run of 1000 particles against the length of the record."""
    sizes = [1000, 10_000] if quick else [1000, 10_000, 100_000, 1_000_000]
    measured = []
    for size in sizes:
        command = [sys.executable, "-m", "benchmarks.scaling", "--memory-of", str(size)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        measured.append(json.loads(done.stdout))
    return measured


def memory_of(size: int) -> dict[str, float]:
    """In this process: memory of the record with its tables, and growth during a run."""
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
    return {
        "samples": size,
        "run_MB": (peak_memory() - before) / 1e6,
        "record_bytes_per_sample": (record.u.nbytes + record.y.nbytes + record.t.nbytes) / size,
        "table_bytes_per_sample": tables / size,
    }


def main(arguments: list[str] | None = None) -> int:
    """Print the rows; write the table and draw the figures where asked to."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["--memory-of"]:
        print(json.dumps(memory_of(int(given[1]))))
        return 0
    hardware, curves, used = machine(), dict[str, list[Study]](), list[dict[str, float]]()

    def measured(name: str, quick: bool) -> Iterator[Row]:
        curves[name] = STUDIES[name](quick)
        return rows({name: curves[name]}, [])

    def remembered(quick: bool) -> Iterator[Row]:
        used.extend(memory(quick))
        return rows({}, used)

    def write(options: argparse.Namespace) -> None:
        if options.markdown:
            options.markdown.write_text(markdown(curves, used, hardware))
        if options.figures:
            from benchmarks.scaling_figures import draw

            draw(curves, used, options.figures)

    studies = {name: partial(measured, name) for name in STUDIES} | {"memory": remembered}
    folder = {"type": Path, "metavar": "FOLDER", "help": "draw the figures there"}
    file = {"type": Path, "metavar": "FILE", "help": "write the table there"}
    return command(__doc__, studies, given, write, figures=folder, markdown=file)


if __name__ == "__main__":
    sys.exit(main())
