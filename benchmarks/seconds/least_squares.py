"""Searching the maximum of a likelihood that is a sum of squares, on the Silverbox's long record.

``fit_long`` runs the same searches, and the second derivatives at their end, with the commit before
and with this one, compilation apart. Times are of one run each; the sweeps beside them, passes of
one particle over the record with one direction of the derivative, do not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.commits import ROOT, checkout, outcome
from benchmarks.rows import Row, at_least, at_most, told
from benchmarks.study import study

STARTS, SHORT = 10, 1500
FASTER, AT_MAXIMUM, MEGABYTES = 40.0, 7, 500.0
SEARCH = """
import json, sys, time
import numpy as np
import smcpn
from smcpn.cases.silverbox import silverbox_case
from smcpn.codegen.clock import CLOCK
samples, starts = map(int, sys.argv[1:])
problem = silverbox_case(split="official").problem
if samples:
    problem = problem.with_records([problem.records[0][:samples]])
function = smcpn.LogLikelihood(problem, solver=smcpn.EKF0(order=3, steps=8))
draws = problem.prior.sample(np.random.default_rng(0), 1)
function.value_and_gradient(problem.prior.natural(draws))
search, gaussian = smcpn.maximise, smcpn.laplace  # imported when they are first named
begin, cpu, steps = time.perf_counter(), time.process_time(), CLOCK.theta_steps
maximum = search(problem, function, starts=starts)
searched = time.perf_counter() - begin
found = gaussian(maximum)
print(json.dumps({
    "seconds": time.perf_counter() - begin,
    "search seconds": searched,
    "processor seconds": time.process_time() - cpu,
    "evaluations": maximum.evaluations,
    "sweeps": (CLOCK.theta_steps - steps) / (8 * problem.n_samples),
    "log density": found.maximum.log_density,
    "log evidence": found.log_evidence,
    "at maximum": sum(s.log_density > maximum.log_density - .01 for s in maximum.starts),
}))
"""


@study("fit_long", quick=None)
def fit_long(quick: bool) -> Iterator[Row]:
    """Time of the searches and of the Gaussian at their end, before over now."""
    arguments = ("-c", SEARCH, str(SHORT if quick else 0), str(STARTS))
    now = outcome(ROOT, *arguments)
    with checkout() as source:
        before = outcome(source, *arguments)
    length = f"{SHORT if quick else 'all'} samples, {STARTS} starts"
    ratio = before["seconds"] / now["seconds"]
    # On a short record most of the time is Python's: the target is that of the whole one.
    yield Row("", ratio, note=length) if quick else at_least("", ratio, FASTER, f"time, {length}")
    yield at_least("starts at the maximum", _at_highest(now, before), AT_MAXIMUM, f"of {STARTS}")
    yield Row("sweeps", before["sweeps"] / now["sweeps"], note="passes over the record, ratio")
    yield Row(
        "processor time", before["processor seconds"] / now["processor seconds"], note="ratio"
    )
    yield at_least("log density gained", now["log density"] - before["log density"], -1e-3)
    yield from told({"before": before, "now": now})


def _at_highest(now: dict[str, Any], before: dict[str, Any]) -> int:
    """Starts at the highest maximum that either version found."""
    return now["at maximum"] if now["log density"] > before["log density"] - 0.01 else 0


@study("memory_fit", quick=None)
def memory(quick: bool) -> Iterator[Row]:
    """Peak of the command, scores of its tests included; the same record either way."""
    fitted = outcome(ROOT, "-m", "smcpn", "fit", "silverbox", "--split", "official", "--json")
    yield at_most("fit", fitted["peak_memory_mb"], MEGABYTES, "MB, silverbox --split official")
    yield Row("fit seconds", fitted["wall_s"], note=f"of which search {fitted['search_s']:.2f}")
