"""The seed papers' experiments: whether intervals cover the truth, and terms are told apart."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.executors import each
from benchmarks.papers.differential_programming import seen_in_turns, widths
from benchmarks.papers.differential_programming_discovery import (
    EXCLUDED,
    INCLUDED,
    Answer,
    discovered,
)
from benchmarks.papers.differential_programming_glycolysis import (
    Rates,
    by_pairs,
    laplace_rates,
    mode,
    sampled,
)
from benchmarks.papers.differential_programming_problems import EXPERIMENTS, PAPER_SEED
from benchmarks.papers.differential_programming_published import GLYCOLYSIS, rms_relative_error
from benchmarks.papers.differential_programming_sequel import SEQUELS
from benchmarks.rows import Row, at_least, at_most, between
from benchmarks.study import study

SEEDS, QUICK_SEEDS = 20, 1
SEQUEL_SEED = 100
EXACT = tuple(name for name, one in EXPERIMENTS.items() if one.library and not one.noise)
NOISY = tuple(name for name, one in EXPERIMENTS.items() if one.library and one.noise)
COVERAGE = (0.90, 0.99)
SEQUEL_SECONDS = 10.0


@dataclass(frozen=True)
class Told:
    """What one seed of an experiment told: coverage, probabilities, and exactness of the terms."""

    covered: list[bool]
    true: float
    false: float
    exact: bool


def told(answer: Answer) -> Told:
    """Of what was found."""
    return Told(answer.covered, *answer.inclusion, answer.exact)


def _one(task: tuple[str, int]) -> Told:
    name, seed = task
    return told(discovered(EXPERIMENTS[name].data(seed)))


@study("seeds")
def seeds(quick: bool) -> Iterator[Row]:
    """Every experiment with unknown terms, the noise and the pairs drawn anew by each seed."""
    numbers = range(QUICK_SEEDS if quick else SEEDS)
    tasks = [(name, seed) for name in NOISY for seed in numbers]
    # Without noise seeds differ in nothing but which samples are taken.
    tasks += [] if quick else [(name, 0) for name in EXACT]
    found = list(zip((name for name, _ in tasks), each(_one, tasks), strict=True))
    for name in dict.fromkeys(name for name, _ in found):
        own = [one for other, one in found if other == name]
        right = sum(one.exact for one in own)
        inside = [covered for one in own for covered in one.covered]
        note = f"{sum(inside)} of {len(inside)} true coefficients in their 95 % intervals"
        yield Row(f"{name} exact terms, of {len(own)}", right, note=note)
    noisy = [one for name, one in found if name in NOISY]
    inside = [covered for one in noisy for covered in one.covered]
    note = f"{sum(inside)} of {len(inside)} active coefficients of {len(noisy)} noisy records"
    coverage = "coverage of 95 % intervals", float(np.mean(inside))
    # One seed of each is too few to tell .95 from 1.
    yield Row(*coverage, note=note) if quick else between(*coverage, *COVERAGE, note)
    true, false = np.array([[one.true, one.false] for _, one in found]).T
    note = f"median of the least of a record; the least {true.min():.3g}"
    yield at_least("inclusion of true terms", float(np.median(true)), INCLUDED, note)
    note = f"median of the highest of a record; the highest {false.max():.3g}"
    yield at_most("inclusion of false terms", float(np.median(false)), EXCLUDED, note)


@study("glycolysis", quick=None)
def glycolysis(quick: bool) -> Iterator[Row]:
    """The noisy record of the paper, and the rates of other seeds by Laplace's method."""
    data = EXPERIMENTS["glycolysis"].data(PAPER_SEED)
    begin = time.perf_counter()
    near = mode(data.record)
    rates = Rates(sampled(near).resample())
    seconds = time.perf_counter() - begin
    truth = data.experiment.truth
    paper = rms_relative_error(GLYCOLYSIS["noisy"], truth)
    least_squares = rms_relative_error(by_pairs(data), truth)
    inside = sum(rates.covered)
    yield at_least("rates in their 95 % intervals, of 14", inside, 14, f"{rates}; {seconds:.0f} s")
    note = f"paper {paper:.2g}, least squares on pairs {least_squares:.2g}"
    yield at_most("rms relative error", rates.error, min(paper, least_squares), note)
    other = [laplace_rates(mode(data.experiment.data(seed).record, near)) for seed in range(SEEDS)]
    covered = [inside for one in other for inside in one.covered]
    note = f"{len(other)} other seeds, by Laplace's method"
    yield between("coverage of 95 % intervals", float(np.mean(covered)), *COVERAGE, note)
    errors = [one.error for one in other]
    note = f"median; the largest {max(errors):.2g}"
    yield Row("rms relative error of these", float(np.median(errors)), note=note)


@study("sequel")
def sequel(quick: bool) -> Iterator[Row]:
    """Predator and prey seen in turns, the first of them hidden for a while."""
    experiment = SEQUELS["lotka-volterra"]
    truth = experiment.system.coefficients
    answer = seen_in_turns(experiment.authors() or experiment.drawn(SEQUEL_SEED))
    every = answer.found.coefficients
    ours = {name: (every[name].lower, every[name].upper) for name in truth}
    ratio, text = widths("lotka-volterra", truth, ours)
    terms = "exact" if answer.exact else "wrong"
    yield at_least("true coefficients in 95 % intervals, of 4", sum(answer.covered), 4, text)
    yield Row("terms", terms, "exact", answer.exact)
    yield at_most("s", answer.seconds, SEQUEL_SECONDS)
    yield Row("width of intervals over theirs", ratio, note="geometric mean")
    if not quick:
        numbers = range(SEQUEL_SEED, SEQUEL_SEED + SEEDS)
        found = [told(seen_in_turns(experiment.drawn(seed))) for seed in numbers]
        covered = [inside for one in found for inside in one.covered]
        note = f"{len(found)} seeds, exact terms in {sum(one.exact for one in found)}"
        yield between("coverage of 95 % intervals", float(np.mean(covered)), *COVERAGE, note)
