"""How time and memory grow: ``python -m benchmarks.scaling [--quick] [--json] [--figures FOLDER]``.

Every study changes one size and keeps the others: particles N, samples T, states and parameters
d, solver steps per sample, threads. Two times are given. That of a *browse*, one evaluation of
the log-likelihood of N particles over T samples, is arithmetic and has to be linear. That of a
whole *run* of IBIS also counts how often the past was browsed: rejuvenations come at about
geometric times, a browse of N particles each, so that the run is linear in T up to how many of
them there are early on. Slopes are those of a line through the logarithms.

Memory is the growth of the resident set during a run (Linux: VmHWM, set back before it) in a
process of its own, beyond what was there before: interpreter, kernels, the record, and the
tables made of it (inputs of every solver step), whose bytes per sample stand beside it.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import smcpn
from benchmarks.memory import peak_memory, reset_peak, resident_memory
from benchmarks.scaling_problems import chain, oscillator
from smcpn.codegen.kernel import processors
from smcpn.likelihood.build import build_likelihood
from smcpn.problem import Problem
from smcpn.smc.engine import Ibis
from smcpn.smc.sampler import Settings

SOLVER = smcpn.EKF0(order=3, steps=4)
REPEATS = 5
TOLERANCE = 0.05
FLAT_MB = 20.0


@dataclass(frozen=True)
class Study:
    """A curve in logarithms.

    Attributes
    ----------
    title, size : str
        What is measured, and against what.
    sizes, seconds : list
    expected : float, optional
        Slope that is the target.
    remark : str
        What beside the time changes.
    """

    title: str
    size: str
    sizes: list[int]
    seconds: list[float]
    expected: float | None = None
    remark: str = ""

    @property
    def slope(self) -> float:
        """Of a line through the logarithms."""
        return float(np.polyfit(np.log(self.sizes), np.log(self.seconds), 1)[0])

    @property
    def met(self) -> bool | None:
        """Whether the slope is within the tolerance of the target."""
        return None if self.expected is None else abs(self.slope - self.expected) <= TOLERANCE


def best(function: Callable[[], object], repeats: int = REPEATS) -> float:
    """Shortest of several times, after one that does not count."""
    function()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return min(times)


def browse_seconds(
    problem: Problem, particles: int, solver: Any = SOLVER, threads: int | None = None
) -> float:
    """Time of one evaluation of the log-likelihood."""
    likelihood = build_likelihood(problem, solver, threads)
    values = problem.prior.natural(problem.prior.sample(np.random.default_rng(1), particles))
    return best(lambda: likelihood.browse(values, likelihood.n_samples))


def run_seconds(
    problem: Problem, particles: int, threads: int | None = None
) -> tuple[float, float]:
    """Time of a whole run, and how often each particle and sample was weighed in it."""
    likelihood = build_likelihood(problem, SOLVER, threads)
    begin = time.perf_counter()
    sampler = Ibis(problem.prior, likelihood, Settings(particles), np.random.default_rng(1))
    sampler.run()
    seconds = time.perf_counter() - begin
    return seconds, sampler.cost.evaluations / (particles * likelihood.n_samples)


def particles(quick: bool) -> list[Study]:
    """N from 1e2 to 1e5, in whole lanes of 64."""
    sizes = [128, 1024, 8192] if quick else [128, 512, 2048, 8192, 32768, 131072]
    problem = oscillator(2000)
    browse = [browse_seconds(problem, n) for n in sizes]
    runs = [run_seconds(problem, n) for n in sizes]
    return [
        Study("browse, T = 2000", "particles", sizes, browse, 1.0),
        Study("run, T = 2000", "particles", sizes, [r[0] for r in runs], 1.0, _weighed(runs)),
    ]


def samples(quick: bool) -> list[Study]:
    """T from 1e3 to 1e6."""
    sizes = [1000, 10_000] if quick else [1000, 10_000, 100_000, 1_000_000]
    problems = [oscillator(size) for size in sizes]
    browse = [browse_seconds(problem, 256) for problem in problems]
    runs = [run_seconds(problem, 1024) for problem in problems]
    return [
        Study("browse, N = 256", "samples", sizes, browse, 1.0),
        Study("run, N = 1024", "samples", sizes, [r[0] for r in runs], 1.0, _weighed(runs)),
    ]


def states(quick: bool) -> list[Study]:
    """Masses in a row: d states and d parameters."""
    masses = [1, 4] if quick else [1, 2, 4, 8, 16]
    seconds = [browse_seconds(chain(n, 1000), 1024) for n in masses]
    return [Study("browse, N = 1024, T = 1000", "states", [2 * n for n in masses], seconds)]


def steps(quick: bool) -> list[Study]:
    """Solver steps per sample."""
    sizes = [1, 4, 16] if quick else [1, 2, 4, 8, 16, 32, 64]
    problem = oscillator(2000)
    seconds = [browse_seconds(problem, 1024, smcpn.EKF0(order=3, steps=count)) for count in sizes]
    return [Study("browse, N = 1024, T = 2000", "steps", sizes, seconds)]


def threads(quick: bool) -> list[Study]:
    """Threads up to the processors there are."""
    sizes = [n for n in (1, 2, 4, 8, 16, 32) if n <= processors()]
    problem, count = oscillator(2000), 1024 if quick else 8192
    browse = [browse_seconds(problem, count, threads=n) for n in sizes]
    runs = [run_seconds(problem, 1024, threads=n) for n in sizes]
    return [
        Study(f"browse, N = {count}, T = 2000", "threads", sizes, browse),
        Study("run, N = 1024, T = 2000", "threads", sizes, [r[0] for r in runs]),
    ]


STUDIES = {
    "particles": particles,
    "samples": samples,
    "states": states,
    "steps": steps,
    "threads": threads,
}


def _weighed(runs: list[tuple[float, float]]) -> str:
    return "weighed " + ", ".join(f"{count:.3g}" for _, count in runs) + " N T"


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
    gc.collect()
    rows = likelihood._rows[0]
    tables = sum(a.nbytes for a in (rows.inputs, rows.gains, rows.samples, rows.intervals))
    record = problem.records[0]
    before = resident_memory()
    reset_peak()
    Ibis(problem.prior, likelihood, Settings(1000), np.random.default_rng(1)).run()
    return {
        "samples": size,
        "run_MB": (peak_memory() - before) / 1e6,
        "record_bytes_per_sample": (record.u.nbytes + record.y.nbytes + record.t.nbytes) / size,
        "table_bytes_per_sample": tables / size,
    }


def figures_of(study: Study) -> dict[str, Any]:
    """A study as JSON."""
    return vars(study) | {"slope": study.slope, "met": study.met}


def printed(studies: dict[str, list[Study]], used: list[dict[str, float]]) -> str:
    """One table."""
    lines = []
    for name, curves in studies.items():
        for curve in curves:
            target = "" if curve.expected is None else f"; target {curve.expected:g} +- {TOLERANCE}"
            pairs = ", ".join(
                f"{size}: {seconds:.3g} s"
                for size, seconds in zip(curve.sizes, curve.seconds, strict=True)
            )
            lines.append(f"{name}, {curve.title}: slope {curve.slope:.3f}{target}; {pairs}")
            lines += [f"    {curve.remark}"] if curve.remark else []
    for row in used:
        lines.append(
            f"memory, T = {row['samples']}: a run adds {row['run_MB']:.3g} MB to the record's "
            f"{row['record_bytes_per_sample']:.3g} and its tables' "
            f"{row['table_bytes_per_sample']:.3g} bytes per sample"
        )
    if used:
        growth = used[-1]["run_MB"] - used[0]["run_MB"]
        lines.append(f"memory: {growth:+.3g} MB from the shortest to the longest; "
                     f"flat is below {FLAT_MB:g}")  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    """Print the table, or JSON; draw the figures where a folder is given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="one JSON object and nothing else")
    parser.add_argument("--quick", action="store_true", help="short curves")
    parser.add_argument("--figures", type=Path, metavar="FOLDER", help="draw the figures there")
    parser.add_argument("--memory-of", type=int, help=argparse.SUPPRESS)
    parser.add_argument("studies", nargs="*", choices=[*STUDIES, "memory", []])
    options = parser.parse_args()
    if options.memory_of:
        print(json.dumps(memory_of(options.memory_of)))
        return
    wanted = options.studies or [*STUDIES, "memory"]
    studies = {name: STUDIES[name](options.quick) for name in wanted if name in STUDIES}
    used = memory(options.quick) if "memory" in wanted else []
    if options.figures:
        from benchmarks.scaling_figures import draw

        draw(studies, used, options.figures)
    if options.json:
        curves = {name: [figures_of(c) for c in group] for name, group in studies.items()}
        print(json.dumps(curves | {"memory": used, "load": os.getloadavg()[0]}, indent=1))
    else:
        print(printed(studies, used))


if __name__ == "__main__":
    main()
