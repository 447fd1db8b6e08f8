"""The posterior of a long record: `identify` by default beside IBIS, in seconds and in answers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np

import smcpn
from benchmarks.rows import ERRORS, Row, at_least, at_most, unjudged
from benchmarks.study import study
from benchmarks.trust.steps import identified
from smcpn.cli.cases import load_case

QUICK_SAMPLES = 1000


def official(quick: bool) -> smcpn.Problem:
    """The problem of ``identify silverbox --split official``."""
    problem = load_case("silverbox", split="official").problem
    return problem.with_records([problem.records[0][:QUICK_SAMPLES]]) if quick else problem


@study("identify_long")
def identify_long(quick: bool) -> Iterator[Row]:
    """IBIS over the default, each compiled before; particles by default."""
    problem, solver = official(quick), smcpn.EKF0(order=3, steps=8)
    short = problem.with_records([problem.records[0][:300]])
    starts = {"auto": "auto", "ibis": None}
    for method in starts:
        identified(short, solver=solver, method=method, particles=2000, start=starts[method])
    auto = [identified(problem, solver=solver, seed=seed) for seed in range(3)]
    ibis = identified(problem, solver=solver, method="ibis", seed=0)
    seconds = float(np.median([one.timing.wall for one in auto]))
    ratio = ibis.timing.wall / seconds
    note = f"{ibis.timing.wall:.3g} s ({_weighings(ibis)[0]:.3g} weighings) over {seconds:.3g} s"
    row = at_least("time of IBIS over auto", ratio, 15.0, note)
    yield unjudged(row, "on a short record most of the time is Python's") if quick else row
    for what, weighings in (
        ("weighings", [_weighings(one)[0] for one in auto]),
        ("with its searches", [sum(_weighings(one)) for one in auto]),
    ):
        yield at_most(what, max(weighings), 6.0, f"{problem.n_samples} samples")
    sd = np.array(list(ibis.sd.values()))
    means = np.array([list(one.mean.values()) for one in auto]).mean(axis=0)
    off = np.abs(means - list(ibis.mean.values())) / sd
    spread = np.array([list(one.sd.values()) for one in auto]).mean(axis=0) / sd - 1.0
    noise = np.sqrt(1.0 / ibis.ess + 1.0 / sum(one.ess for one in auto))
    # One run of IBIS is no exact answer: standard errors of the difference are allowed beside.
    errors = ERRORS if quick else 2.0
    for what, difference, limit, error in (
        ("means, posterior sd", off, 0.1, noise),
        ("sd, relative", spread, 0.05, noise / np.sqrt(2.0)),
    ):
        allowed = round(float(limit + errors * error), 3)
        note = f"{limit:g} and {errors:g} errors of {error:.2g}"
        yield at_most(what, float(np.abs(difference).max()), allowed, note)
    evidence = float(np.mean([one.log_evidence for one in auto])) - ibis.log_evidence
    yield at_most("log-evidence", abs(evidence), 0.1, f"claimed by IBIS {ibis.log_evidence_se:.2g}")


def _weighings(posterior: smcpn.Posterior) -> tuple[float, float]:
    assert posterior.method is not None
    return posterior.method.weighings, posterior.method.search_weighings


PEAK = """
import smcpn
from benchmarks.memory import peak_memory
from benchmarks.seconds.identify import identified, official
identified(official(%r), solver=smcpn.EKF0(order=3, steps=8), seed=0)
print(peak_memory() / 1e6)
"""


@study("memory")
def memory(quick: bool) -> Iterator[Row]:
    """Peak of a process that identifies the long record, in megabytes."""
    done = subprocess.run(
        [sys.executable, "-c", PEAK % quick], capture_output=True, text=True, check=True
    )
    yield at_most("identify, MB", float(done.stdout.split()[-1]), 300.0)
