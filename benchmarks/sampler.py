"""The sampler at full strength: spread, error bars, acceptance and overhead in one run.

Times are medians, of the processor, on the machine that ran them. ``--quick`` takes fewer seeds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from benchmarks.executors import each
from benchmarks.rows import Row, at_least, at_most, between, reached, told, unjudged
from benchmarks.study import command, study
from benchmarks.targets import CurvedModes, LogisticRegression
from smcpn.cli.cases import load_case
from smcpn.codegen.clock import CLOCK
from smcpn.likelihood.registry import build_likelihood
from smcpn.model.problem import Problem
from smcpn.model.record import Record
from smcpn.model.solver import EKF0
from smcpn.smc.ibis import Ibis
from smcpn.smc.moves import IndependentMetropolis, MoveStrategy, RandomWalkMetropolis
from smcpn.smc.proposals import DefensiveGaussian
from smcpn.smc.sampler import Settings
from smcpn.smc.tempering import Tempering
from tests.targets import LinearRegression

PARTICLES = 1000
Target = LinearRegression | LogisticRegression | CurvedModes


def run(
    target: Target,
    seed: int,
    kind: type[Ibis | Tempering] = Ibis,
    moves: MoveStrategy | None = None,
) -> tuple[Ibis | Tempering, float]:
    """One run and its seconds of the processor."""
    begin = time.process_time()
    settings = Settings(PARTICLES, moves=moves or IndependentMetropolis())
    sampler = kind(target.prior, target, settings, np.random.default_rng(seed))
    sampler.run()
    return sampler, time.process_time() - begin


def _evidence(target: Target, moves: MoveStrategy | None, seed: int) -> tuple[float, float]:
    """Log-evidence of one run, and the standard error that it states."""
    sampler = run(target, seed, moves=moves)[0]
    return sampler.log_evidence, sampler.log_evidence_se


@study("logistic_regression", full=20, quick=4)
def logistic_regression(seeds: int) -> Iterator[Row]:
    """T = 500, d = 5: time and sd of the log-evidence over seeds."""
    target = LogisticRegression()
    for name, kind in (("smcpn_ibis", Ibis), ("smcpn_tempering", Tempering)):
        runs = [run(target, seed, kind) for seed in range(seeds + 1)][1:]
        spread = np.std([sampler.log_evidence for sampler, _ in runs], ddof=1)
        seconds = np.median([seconds for _, seconds in runs])
        if kind is Ibis:
            error = _of_sd(0.2, seeds)
            yield at_most(f"{name}, sd of the log-evidence", float(spread), 0.2, se=error)
            row = at_most(f"{name}, seconds", float(seconds), 0.3)
            yield reached(row, 0.6) if seeds < 20 else row
        else:
            yield from told({"sd of the log-evidence": spread, "seconds": seconds}, f"{name}, ")


@study("curved_modes", full=40, quick=8)
def curved_modes(seeds: int) -> Iterator[Row]:
    """Two curved modes over seeds: the default, and a Gaussian alone for comparison."""
    target, figures = CurvedModes(), {}
    gaussian = IndependentMetropolis(proposals=(DefensiveGaussian,))
    for name, moves in (("default", None), ("gaussian_only", gaussian)):
        found = each(partial(_of_curved_modes, target, moves), range(seeds))
        last, modes, evidences = zip(*found, strict=True)
        figures[name] = {
            "acceptance": np.median(last),
            "mode_weight": np.mean(modes),
            "mode_weight_sd": np.std(modes, ddof=1),
            "log_evidence_sd": np.std(evidences, ddof=1),
        }
    own = figures.pop("default")
    yield at_least("acceptance", own["acceptance"], 0.6)
    note, error = "its mean should be 0.3", _of_sd(0.03, seeds)
    yield at_most("sd of the mode weight", own["mode_weight_sd"], 0.03, note, error)
    yield from told({"mode weight": own["mode_weight"], **figures})


def _of_curved_modes(
    target: CurvedModes, moves: MoveStrategy | None, seed: int
) -> tuple[float, float, float]:
    """Acceptance at the end, weight of a mode, and log-evidence of one run."""
    sampler = run(target, seed, moves=moves)[0]
    mode = target.mode_weight(sampler.system.theta, sampler.system.weights)
    return sampler.rejuvenations[-1].acceptance, mode, sampler.log_evidence


def _of_sd(sd: float, seeds: int) -> float:
    """Standard error of a standard deviation of fewer seeds than its target is for."""
    return sd / np.sqrt(2.0 * seeds) if seeds < 20 else 0.0


@study("error_bar", full=20, quick=4)
def error_bar(times: int) -> Iterator[Row]:
    """Stated over true standard error of the log-evidence.

    The root mean square of the stated errors is compared, as a variance estimate is unbiased if
    anything is; their median is printed with it. The true one is known to 1 / sqrt(2 seeds).
    """
    linear = LinearRegression(60, 3, 0.5)
    for name, target, moves, share in (
        ("linear", linear, None, 5),
        ("logistic", LogisticRegression(), None, 3),
        ("linear_by_ancestry_alone", linear, RandomWalkMetropolis(), 2),
    ):
        seeds = share * times
        found = np.array(list(each(partial(_evidence, target, moves), range(seeds))))
        true, stated = np.std(found[:, 0], ddof=1), found[:, 1]
        note = f"{seeds} seeds; that of the median {np.median(stated) / true:.3g}"
        ratio = float(np.sqrt(np.mean(stated**2)) / true)
        yield between(f"{name}, stated / true", ratio, 0.8, 1.25, note, _of_sd(1.0, seeds))


@study("overhead", full=7, quick=2)
def overhead(runs: int) -> Iterator[Row]:
    """Time per sample outside the kernel: assimilating alone, and with all rejuvenations."""
    problem = load_case("silverbox").problem
    row = at_most("assimilating, us", _outside_kernel(_without_information(problem), runs), 20)
    yield unjudged(row, "by the clock, beside other work") if runs < 7 else row
    whole, note = _outside_kernel(problem, runs), f"{problem.n_samples} samples"
    yield Row("with rejuvenations, us", whole, note=note)


def _outside_kernel(problem: Problem, runs: int) -> float:
    """Median microseconds per sample outside the kernel."""
    likelihood, taken = build_likelihood(problem, EKF0(order=3, steps=8)), []
    for _ in range(runs):
        before, begin = replace(CLOCK), time.perf_counter()
        settings = Settings(PARTICLES)
        Ibis(problem.prior, likelihood, settings, np.random.default_rng(1)).run()
        seconds = time.perf_counter() - begin - CLOCK.since(before).run_seconds
        taken.append(1e6 * seconds / problem.n_samples)
    return float(np.median(taken))


def _without_information(problem: Problem) -> Problem:
    """The same work with so much noise that nothing is learned, hence no rejuvenation."""
    records = [
        Record(u=record.u, y=record.y, t=record.t, hold=record.hold) for record in problem.records
    ]
    return Problem(
        problem.ode,
        records,
        observe=problem.observe,
        noise=1e6,
        prior=problem.prior.distributions,
    )


if __name__ == "__main__":
    sys.exit(command(__name__))
