"""The three case studies of PN-SMC in one table.

RMSE is in millivolts (Silverbox), micrometres (Bouc-Wen) and millimetres (EMPS). Nothing in the
table is stored: every figure but the paper's and the targets is measured by the run. ``--quick``
takes fewer particles and less of the official Silverbox record; it shows that everything runs, and
its targets are those of the full run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

import smcpn
from benchmarks.rows import Row, at_most
from benchmarks.study import command, study
from smcpn.cli.cases import Case, load_case
from smcpn.cli.cases.emps import emps_case, emps_problem, emps_protocols
from smcpn.cli.outcome import peak_memory_mb
from smcpn.datasets import bouc_wen, emps
from smcpn.results.posterior import Posterior
from smcpn.results.scores import Score

SILVERBOX_TARGETS = {
    "duffing-offsets": (0.32, 0.42, 0.33),
    "duffing-damping": (0.27, 0.38, 0.27),
}
BOUC_WEN_TARGETS = {"multisine": 0.5, "sweep": 2.7}
EMPS_TARGETS = {"open_loop": 8.0, "closed_loop": 0.01}
RIDGE_TARGET = 1.0
"""Per cent."""
MEMORY_TARGET = 1000.0
"""Megabytes."""
UNITS = {"silverbox": 1e3, "bouc-wen": 1e6, "emps": 1e3}
"""From volts or metres to the unit of the table."""
COVERED = ("m", "c", "k3")


@dataclass(frozen=True)
class Size:
    """How much to compute."""

    particles: int = 1000
    silverbox_samples: int | None = None


FULL, QUICK = Size(), Size(particles=100, silverbox_samples=8192)


def identify(case: Case, size: Size, seed: int = 1) -> Posterior:
    """Identify a case with its own solver."""
    return smcpn.identify(
        case.problem, solver=case.solver(), particles=size.particles, seed=seed, progress=False
    )


@study("silverbox", full=FULL, quick=QUICK)
def silverbox_official(size: Size) -> Iterator[Row]:
    """Official split with and without c2, its cost, and the log-evidence between the two."""
    evidence: dict[str, float] = {}
    for model, targets in SILVERBOX_TARGETS.items():
        case, name = load_case("silverbox", model=model, split="official"), f"official, {model}"
        if size.silverbox_samples is not None:
            case = shortened(case, size.silverbox_samples)
            name += f", first {size.silverbox_samples} samples"
        begin = time.perf_counter()
        posterior = identify(case, size)
        evidence[model] = posterior.log_evidence
        seconds = time.perf_counter() - begin
        yield Row(f"{name}: wall time of the identification, s", seconds, note="compiled in it")
        peak = peak_memory_mb()
        if peak is not None:
            yield at_most(f"{name}: peak memory so far, MB", peak, MEMORY_TARGET)
        yield from scores(case, posterior, name, dict(zip(case.tests, targets, strict=True)))
        yield Row(f"{name}: log-evidence", evidence[model])
    gain = evidence["duffing-damping"] - evidence["duffing-offsets"]
    yield Row("official: log-evidence for c2", gain, "> 0", gain > 0)


@study("paper", full=FULL, quick=QUICK)
def paper_table(size: Size) -> Iterator[Row]:
    """Table 2 of the paper on its own protocol, and the ridge of Bouc-Wen."""
    # In the quick form `emps_official` has the same problem.
    for name in ("silverbox", "bouc-wen", *(["emps"] if size is FULL else [])):
        case = load_case(name)
        if name == "emps":
            # The other protocols are in `emps_official`; the paper states none.
            case = replace(case, protocols={"open_loop": case.protocols["open_loop"]})
        posterior = identify(case, size)
        for of, simulation in case.simulations(posterior).items():
            score, paper = Score.of(simulation), case.published.get(of)
            row = scored(case, name, of, score)
            if paper is not None and name != "emps":
                met = bool(score.rmse_mean < paper.rmse_mean)
                row = replace(row, target="mean < paper's", met=met)
            yield row
        if case.truth:
            yield from ridge(case, posterior, "bouc-wen")


@study("bouc-wen", full=FULL, quick=None)
def bouc_wen_official(size: Size) -> Iterator[Row]:
    """Official split, its tests as they are filed too, and the products that the data determine."""
    case = load_case("bouc-wen", split="official")
    posterior = identify(case, size)
    yield from scores(case, posterior, "official", BOUC_WEN_TARGETS)
    data = bouc_wen()
    filed = replace(case, tests={"multisine": data.multisine, "sweep": data.sweep})
    yield from scores(filed, posterior, "official, with the filters of the files", {})
    yield from ridge(case, posterior, "official")


@study("emps", full=FULL, quick=QUICK)
def emps_official(size: Size) -> Iterator[Row]:
    """All protocols; a tenth of the smoothing width; the best that open loop could be."""
    case = replace(emps_case(split="official"), published={})
    yield from scores(case, identify(case, size), "official", EMPS_TARGETS)
    if size is not FULL:
        return
    data = emps()
    run = emps_protocols(data)["open_loop"]
    width = smcpn.models.emps.defaults["width"] / 10
    problems = {
        "learned from the test itself": emps_problem(data.test.record),
        # The friction relaxes ten times faster: twice the steps keep the solver stable.
        "a tenth of the width": emps_problem(data.train.record, width),
    }
    for name, problem in problems.items():
        posterior = identify(replace(case, problem=problem, steps=4), size)
        yield scored(case, name, "open_loop", Score.of(run(posterior)))


@study("solver", full=FULL, quick=None)
def solver_honesty(size: Size) -> Iterator[Row]:
    """Does a posterior of coarse steps cover the means of fine ones? Paper's Silverbox split.

    IWP(2) with 4 steps per sample evaluates the model 4 times, as one Runge-Kutta step does. What
    is missed is a bias along the resonance: the marginal likelihood counts the solver's variance
    at every sample as if errors were independent from one to the next, while the coarse solver's
    is a steady false damping, which 3072 samples determine as sharply as the true one. So these are
    figures without a target.
    """
    case = load_case("silverbox")
    fine = identify(replace(case, order=3, steps=16), size)
    for solver in (smcpn.EKF0(order=2, steps=4), smcpn.RK4(steps=1)):
        coarse = smcpn.identify(
            case.problem, solver=solver, particles=size.particles, seed=1, progress=False
        )
        kind = f"{type(solver).__name__}, 4 evaluations per sample"
        covered = {name: covers(coarse, name, fine.mean[name]) for name in COVERED}
        for name, inside in covered.items():
            shift = (coarse.mean[name] - fine.mean[name]) / coarse.sd[name]
            note = f"{'covers' if inside else 'misses'} the fine mean"
            yield Row(f"{kind}: shift of {name} in posterior sds", shift, note=note)
        if isinstance(solver, smcpn.RK4):
            missed = sum(not inside for inside in covered.values())
            yield Row(f"{kind}: of m, c, k3, fine means missed", missed, "> 0", missed > 0)


def shortened(case: Case, samples: int) -> Case:
    """The case with only the first samples of its training record."""
    problem = copy(case.problem)
    problem.records = (problem.records[0][:samples],)
    return replace(case, problem=problem)


def scores(
    case: Case, posterior: Posterior, study: str, targets: Mapping[str, float]
) -> Iterator[Row]:
    """Rows of all tests and protocols of a case."""
    for name, simulation in case.simulations(posterior).items():
        yield scored(case, study, name, Score.of(simulation), targets.get(name))


def scored(case: Case, study: str, name: str, score: Score, target: float | None = None) -> Row:
    """Row of the RMSE of the mean; that over the particles, and the paper's, are in the note."""
    scale, paper = UNITS[case.name], case.published.get(name)
    spread = (score.rmse_min, score.rmse_mean, score.rmse_max)
    notes = ["particles " + " / ".join(f"{scale * value:.3g}" for value in spread)]
    notes.append(f"{100 * score.coverage:.3g} % in band")
    if paper is not None:
        spread = (paper.rmse_min, paper.rmse_mean, paper.rmse_max)
        notes.append("paper " + " / ".join(f"{scale * value:.3g}" for value in spread))
    figure, note = f"{study}: {name}", "; ".join(notes)
    if target is None:
        return Row(figure, scale * score.rmse_of_mean, note=note)
    return at_most(figure, scale * score.rmse_of_mean, target, note)


def ridge(case: Case, posterior: Posterior, study: str) -> Iterator[Row]:
    """Rows of the errors of the products that the data determine."""
    for name in ("gamma", "delta"):
        mean = float(posterior.weights @ (posterior["beta"] * posterior[name]))
        truth = case.truth["beta"] * case.truth[name]
        error = 100 * abs(mean / truth - 1)
        yield at_most(f"{study}: error of beta {name}, %", error, RIDGE_TARGET)


def covers(posterior: Posterior, name: str, value: float) -> bool:
    """Whether the 95 % interval of a parameter holds a value."""
    low, high = np.asarray(posterior.quantile(name, [0.025, 0.975]))
    return bool(low <= value <= high)


if __name__ == "__main__":
    sys.exit(command(__name__))
