"""Problems whose posterior is known by other means, and what is counted of runs on them.

A run is *wrong* where it is off by more than the tolerance of its problem. A warning is *false*
where the run is not wrong.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import smcpn
from benchmarks.executors import each
from benchmarks.reference.answer import Answer, Region
from benchmarks.reference.target import Target
from benchmarks.rows import (
    ERRORS,
    FALSE_ALARMS,
    Row,
    at_least,
    at_most,
    between,
    most_of,
    share_error,
)
from smcpn import Posterior, Problem
from smcpn.model.solver import Solver

Array = NDArray[np.float64]

FALSE_WARNINGS = 0.05
"""Most runs that may be warned of although they are right."""
BINS = 20
LEVELS = (0.5, 0.9)
RANKED = 1000
"""Data sets whose coverage chance moves by less than the limits of `calibrated`."""


@dataclass(frozen=True)
class Tolerance:
    """What a run may be off by.

    evidence, errors: The log-evidence is wrong where it is off by more than both, the second in
        standard errors of run and answer together.
    means: Of any mean, in posterior standard deviations.
    sds: Of any standard deviation, relative.
    share, share_errors: The weight of a mode is wrong where it is off by more than both: the first
        relative, the second in errors of a share of the effective particles.
    """

    evidence: float = 0.15
    errors: float = 3.0
    means: float = 0.25
    sds: float = np.inf
    share: float = 0.0
    share_errors: float = 3.0


@dataclass(frozen=True)
class Known:
    """A problem, by the seed of its data, and its exact answer.

    problem: From the seed of the data.
    answer: From the same seed, and `detail` of the run where there is one, by nothing of this
        package; None where ranks alone are asked for.
    truth: From the same seed to the parameters behind the data, drawn from the prior.
    modes: Regions whose weight is known, too.
    detail: From a run to what its exact answer depends on, such as its steps.
    same_data: The data have the seed 0 in every run.
    """

    name: str
    problem: Callable[[int], Problem]
    answer: Callable[..., Answer] | None = None
    truth: Callable[[int], Mapping[str, float]] | None = None
    modes: Mapping[str, Region] = field(default_factory=dict[str, Region])
    detail: Callable[[Posterior], int] | None = None
    tolerance: Tolerance = Tolerance()
    same_data: bool = False

    def data_seed(self, seed: int) -> int:
        """Of a run."""
        return 0 if self.same_data else seed


@dataclass(frozen=True)
class Outcome:
    """One run beside the answer.

    off, error: Log-evidence found less the exact one, and the standard error of the difference.
    means, sds, shares: Means off in posterior standard deviations, relative errors of standard
        deviations, and weights of modes that were found less the exact ones.
    wrong: What is off by more than the tolerance, or what a run that ended in an error raised.
    below: Posterior weight below the truth.
    seconds: Of the processor.
    """

    seed: int
    off: float = np.nan
    error: float = np.nan
    means: Mapping[str, float] = field(default_factory=dict[str, float])
    sds: Mapping[str, float] = field(default_factory=dict[str, float])
    shares: Mapping[str, float] = field(default_factory=dict[str, float])
    wrong: tuple[str, ...] = ()
    below: Mapping[str, float] = field(default_factory=dict[str, float])
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0


def default(problem: Problem, seed: int, **options: Any) -> Posterior:
    """Identify with every setting at its default, but for those that are given."""
    return smcpn.identify(problem, seed=seed, progress=False, **options)


def ibis(problem: Problem, seed: int) -> Posterior:
    """Identify one sample after the other."""
    return default(problem, seed, method="ibis")


def stream(problem: Problem, seed: int) -> Posterior:
    """Identify while the samples of the record come."""
    (record,) = problem.records
    live = smcpn.Online(problem, seed=seed)
    inputs = record.u if record.u is not None else [None] * len(record)
    for u, y, t in zip(inputs, record.y, record.t, strict=True):
        live.update(u, y, float(t))
    return live.posterior()


Run = Callable[[Problem, int], Posterior]
WAYS: Mapping[str, Run] = {"default": default, "ibis": ibis, "Online": stream}


def posterior_of(problem: Problem, solver: Solver) -> Target:
    """Return a posterior for the samplers of `benchmarks.reference`, by the likelihood of a solver.

    For references of problems that have no closed form: nothing but the likelihood is shared.
    """
    function = smcpn.LogLikelihood(problem, solver=solver)

    def log_likelihood(values: Mapping[str, Array]) -> Array:
        return function(np.column_stack([values[name] for name in problem.names]))

    return Target(problem.prior.distributions, log_likelihood)


@cache
def exact(answer: Callable[..., Answer], *of: int) -> Answer:
    """Return the answer for data of a seed, and a detail, which all ways of a process share."""
    return answer(*of)


def outcome(known: Known, run: Run, seed: int) -> Outcome:
    """Run a problem and compare it with what is known of it."""
    data = known.data_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem, begun = known.problem(data), time.process_time()
        try:
            found = run(problem, seed)
        except Exception as error:
            return Outcome(seed, wrong=(f"raised {type(error).__name__}: {error}"[:80],))
    seconds = time.process_time() - begun
    below = {} if known.truth is None else _below(found, known.truth(data))
    if known.answer is None:
        return Outcome(seed, below=below, warnings=found.warnings, seconds=seconds)
    details = () if known.detail is None else (known.detail(found),)
    told = exact(known.answer, data, *details)
    off, error = _evidence(found, told)
    mean, sd = told.mean, told.sd
    means = {name: (found.mean[name] - mean[name]) / sd[name] for name in mean}
    sds = {name: found.sd[name] / sd[name] - 1.0 for name in mean}
    shares = {
        name: _share(found, inside) - told.share(inside) for name, inside in known.modes.items()
    }
    wrong = _wrong(known, told, found.ess, (off, error), means, sds, shares)
    return Outcome(seed, off, error, means, sds, shares, wrong, below, found.warnings, seconds)


def _evidence(found: Posterior, told: Answer) -> tuple[float, float]:
    error = float(np.hypot(found.log_evidence_se, told.log_evidence_se))
    return float(found.log_evidence) - told.log_evidence, error


def _wrong(
    known: Known,
    told: Answer,
    effective: float,
    evidence: tuple[float, float],
    means: Mapping[str, float],
    sds: Mapping[str, float],
    shares: Mapping[str, float],
) -> tuple[str, ...]:
    """Name what is off by more than the tolerance; what is not finite is."""
    limits, (off, error) = known.tolerance, evidence
    found: list[str] = []
    if not (abs(off) <= limits.evidence or abs(off) <= limits.errors * error):
        found.append(f"log-evidence {off:+.2f}, error {error:.2g}")
    found += [f"{n} {z:+.2f} sd" for n, z in means.items() if not abs(z) <= limits.means]
    found += [f"sd of {n} {r:+.0%}" for n, r in sds.items() if not abs(r) <= limits.sds]
    for name, inside in known.modes.items():
        weight = told.share(inside)
        error = np.sqrt(weight * (1.0 - weight) / effective)
        if not abs(shares[name]) <= max(limits.share * weight, limits.share_errors * error):
            found.append(f"{name} {weight:.3g} {shares[name]:+.2g}")
    return tuple(found)


def _share(found: Posterior, inside: Region) -> float:
    values = {name: found[name] for name in found.names}
    return float(found.weights[inside(values)].sum())


def _below(found: Posterior, truth: Mapping[str, float]) -> dict[str, float]:
    return {name: float(found.weights @ (found[name] < value)) for name, value in truth.items()}


def outcomes(known: Known, run: Run, seeds: Sequence[int]) -> list[Outcome]:
    """Run a problem with seeds, by the workers of the command where it has some."""
    return list(each(partial(outcome, known, run), seeds))


def counted(
    label: str, found: Sequence[Outcome], silent: float, full: int, warned: bool = True
) -> Iterator[Row]:
    """Yield rows: wrong without a word, wrong, and warned of although right.

    silent: Largest share that may be wrong without a warning.
    full: Runs that the limits are meant for; fewer may be what chance leaves of them.
    warned: Whether false warnings are judged.
    """
    n = len(found)
    wrong = [one for one in found if one.wrong]
    quiet = [one for one in wrong if not one.warnings]
    false = [one for one in found if one.warnings and not one.wrong]
    seconds = float(np.median([one.seconds for one in found]))
    worst = "; ".join(f"{one.seed}: {', '.join(one.wrong[:2])}" for one in quiet[:3])
    yield at_most(f"{label}: wrong, silent", len(quiet) / n, most_of(silent, n, full), worst)
    yield Row(f"{label}: wrong", len(wrong) / n, note=f"{n} runs, {seconds:.2g} s each")
    heard = "; ".join(f"{one.seed}: {one.warnings[0][:60]}" for one in false[:2])
    name, share = f"{label}: warned, right", len(false) / n
    limit = most_of(FALSE_WARNINGS, n, full)
    yield at_most(name, share, limit, heard) if warned else Row(name, share, note=heard)


def errors_told(
    label: str,
    found: Sequence[Outcome],
    full: int,
    farthest: float = np.inf,
    bias: float = np.inf,
    judged: bool = True,
) -> Iterator[Row]:
    """Yield rows: errors of the log-evidence beside those that runs state.

    full: Runs that the limits are meant for.
    farthest: Errors beyond which a run without a warning is one too many.
    bias: Of the log-evidence in the mean; fewer runs may scatter by `ERRORS`.
    judged: Whether the root mean square has a target.
    """
    found = [one for one in found if np.isfinite(one.off)]
    z = np.array([one.off / one.error for one in found])
    quiet = np.array([not one.warnings for one in found])
    off, n = np.array([one.off for one in found]), len(found)
    error = float(off.std(ddof=1) / np.sqrt(n)) if n > 1 else np.nan
    wider = ERRORS * max(0.0, 1.0 / np.sqrt(2.0 * n) - 1.0 / np.sqrt(2.0 * full))
    low, high = round(0.8 * (1.0 - wider), 2), round(1.25 * (1.0 + wider), 2)
    rms, note = (
        float(np.sqrt(np.mean(z**2))),
        f"mean {z.mean():+.2f}, farthest {np.abs(z).max():.2g}",
    )
    name = f"{label}: z rms of the evidence"
    yield between(name, rms, low, high, note) if judged else Row(name, rms, note=note)
    if np.isfinite(farthest):
        beyond = int((quiet & ~(np.abs(z) <= farthest)).sum())
        yield at_most(f"{label}: silent beyond {farthest:g} errors", beyond, 0)
    mean, note = abs(float(off.mean())), f"{off.mean():+.3f} +- {error:.2g}"
    if np.isfinite(bias):
        yield at_most(
            f"{label}: bias of the evidence", mean, bias + (n < full) * ERRORS * error, note
        )


def calibrated(
    label: str, found: Sequence[Outcome], full: int, within: float = 0.02
) -> Iterator[Row]:
    """Yield rows: whether the weight below the truth is uniform over data sets.

    full: Runs that the limits are meant for.
    within: Of the coverage of central intervals, all parameters together.
    """
    found = [one for one in found if one.below]
    names = list(found[0].below)
    below = np.array([[one.below[name] for name in names] for one in found])
    n = len(below)
    bins = BINS if n >= 10 * BINS else max(4, n // 10)
    chances = {
        name: float(stats.chisquare(np.histogram(column, bins, (0.0, 1.0))[0]).pvalue)
        for name, column in zip(names, below.T, strict=True)
    }
    note = ", ".join(f"{name} {p:.2g}" for name, p in chances.items())
    least = 0.01 if n >= full else FALSE_ALARMS / len(names)
    yield at_least(f"{label}: ranks, least p", min(chances.values()), least, note)
    for level in LEVELS:
        inside = np.abs(below - 0.5) <= level / 2.0
        # Parameters of one data set are not independent: the scatter is that of data sets, of which
        # a few may all agree by chance.
        few, scatter = n < full, inside.mean(axis=1).std(ddof=1)
        error = share_error(level, n) if few else float(scatter / np.sqrt(n))
        allowed = max(within, ERRORS * error) if few else within
        each_ = ", ".join(f"{k} {v:.3f}" for k, v in zip(names, inside.mean(axis=0), strict=True))
        yield between(
            f"{label}: coverage of {level:.0%}", float(inside.mean()),
            round(level - allowed, 3), round(level + allowed, 3), f"se {error:.2g}; {each_}",
        )  # fmt: skip
