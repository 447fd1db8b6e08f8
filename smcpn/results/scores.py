"""Scores of simulations on test records, and the one table of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from smcpn.base.tables import Cell, Column, Table, fact_lines, words
from smcpn.errors import listed
from smcpn.model.record import Record
from smcpn.results.draws import WeightedDraws
from smcpn.results.simulation.simulation import Simulation
from smcpn.results.validation.verdict import LOOK_AGAIN, USABLE, Verdict

BAND, LEAST_COVERAGE, CHANCE = 0.95, 0.9, 0.01
"""Of the samples of a test, the share that should be inside the band and the one below which a
verdict has something against it, unless as few come with this probability in any of the tests."""
FEW_TESTS, WORST = 2, 3
"""Most tests whose scores stand in a verdict, and of more those that are named."""
COUNTING = 1e-3
"""Least weight of a particle that counts in a range, relative to the mean weight."""


@dataclass(frozen=True)
class Score:
    """Error of one output of a simulation against a test record.

    rmse_min, rmse_mean, rmse_max: Root mean square error over the particles, the mean by weight;
        least and largest are of those that count, with a weight above a thousandth of the mean one.
    rmse_of_mean: Of the posterior-mean prediction.
    fit: 100 (1 - rmse_of_mean / std(y)).
    coverage: Share of samples inside the 95 % band.
    samples: Measured.
    particles: Simulated.
    rmse_mean_se: Standard error of ``rmse_mean`` by their number.
    warnings: Those of the simulation.
    """

    rmse_min: float
    rmse_mean: float
    rmse_max: float
    rmse_of_mean: float
    unit: str
    fit: float
    coverage: float
    samples: int
    particles: int
    rmse_mean_se: float
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, simulation: Simulation, output: int = 0) -> Score:
        """Score an output of a simulation; what diverged or has no weight does not count."""
        share = simulation.weights * len(simulation.weights)
        kept = ~np.isinf(simulation.rmse[:, output]) & (share > NO_SHARE)
        rmse, weights = simulation.rmse[kept, output], simulation.weights[kept]
        if not kept.all():
            weights = weights / weights.sum()
        mean = float(weights @ rmse)
        with np.errstate(invalid="ignore"):
            error = float(np.sqrt(np.square(weights) @ np.square(rmse - mean)))
        counting = rmse[weights >= COUNTING / len(weights)]
        return cls(
            rmse_min=float(counting.min()),
            rmse_mean=mean,
            rmse_max=float(counting.max()),
            rmse_of_mean=float(simulation.rmse_of_mean[output]),
            unit=simulation.record.unit_of(output),
            fit=float(simulation.fit[output]),
            coverage=float(simulation.coverage[output]),
            samples=int(np.isfinite(simulation.record.y[:, output]).sum()),
            particles=len(kept),
            rmse_mean_se=error,
            warnings=simulation.warnings + _diverged(simulation),
        )


def _diverged(simulation: Simulation) -> tuple[str, ...]:
    """A warning where particles that diverged have a share that can be seen."""
    if simulation.diverged < LEAST_SHARE:
        return ()
    return (
        f"{simulation.record.name}: the simulation diverges for {simulation.diverged:.2g} of the "
        "posterior, which the scores leave out",
    )


NO_SHARE = 1e-9
"""Weight of a particle, by that of one among equals, that is none: a proposal that failed."""
LEAST_SHARE = 1e-3
"""Of the posterior that diverges, from which it is told."""
SCORED_STEPS = 2.5e8
"""Solver steps of all particles over all tests up to which every particle is scored."""
LEAST_SCORED, BLOCK = 128, 64
"""Fewest particles that are scored, and their divisor: a kernel runs so many side by side."""


def particles_scored(posterior: WeightedDraws, tests: Iterable[Record]) -> int | None:
    """Number of particles whose runs of the tests take a second or two; None for all of them."""
    steps = sum(len(test) * max(1, round(test.interval / posterior.step_length)) for test in tests)
    if steps * len(posterior.theta) <= SCORED_STEPS:
        return None
    return max(LEAST_SCORED, int(SCORED_STEPS / steps) // BLOCK * BLOCK)


def score_note(scores: Mapping[str, Score], particles: int) -> list[str]:
    """Say how many of the particles were scored, what is uncertain by that, and other warnings."""
    warned = dict.fromkeys(one for score in scores.values() for one in score.warnings)
    doubts = fact_lines((), warned)
    fewest = min((one.particles for one in scores.values()), default=particles)
    errors = [one.rmse_mean_se / one.rmse_mean for one in scores.values() if one.rmse_mean > 0.0]
    if fewest >= particles:
        return doubts
    worst = np.nanmax(errors, initial=0.0)
    return [
        *doubts,
        f"scored with {fewest} of {particles} particles, drawn by weight: the mean RMSE has a "
        f"standard error of up to {worst:.1%}, the band one of {1 / np.sqrt(2 * fewest):.1%}",
    ]


def scores_of(simulations: Mapping[str, Simulation], outputs: Sequence[str]) -> dict[str, Score]:
    """Score every test by name; one of several outputs by "test, output"."""
    return {
        f"{name}, {outputs[j]}" if simulation.rmse.shape[1] > 1 else name: Score.of(simulation, j)
        for name, simulation in simulations.items()
        for j in range(simulation.rmse.shape[1])
    }


def with_tests(verdict: Verdict, scores: Mapping[str, Score]) -> Verdict:
    """Return a verdict that knows of the scores on test records."""
    measured = {name: one for name, one in scores.items() if np.isfinite(one.fit)}
    told = _told(measured)
    missed = {name: one for name, one in measured.items() if _misses(one, len(measured))}
    if not missed:
        return replace(verdict, tests=told)
    where = listed(missed)
    if len(measured) > FEW_TESTS:
        inside = {name: 100 * one.coverage for name, one in missed.items()}
        where = f"{len(missed)} of {len(measured)} tests, worst {_worst(inside)}"
    reason = (
        f"the 95 % band holds less than it says of {where}: the model misses something there, "
        "and robust() or --robust counts some of it"
    )
    level = LOOK_AGAIN if verdict.level == USABLE else verdict.level
    return replace(verdict, level=level, tests=told, reasons=(*verdict.reasons, reason))


def _told(measured: Mapping[str, Score]) -> tuple[str, ...]:
    """Say how well each of a few tests is met, or the range over many and the worst of them."""
    if len(measured) <= FEW_TESTS:
        return tuple(
            f"on {name} fit {one.fit:.3g} %, {100 * one.coverage:.3g} % inside the 95 % band"
            for name, one in measured.items()
        )
    fits = {name: one.fit for name, one in measured.items()}
    low, high = min(fits.values()), max(fits.values())
    return (f"on {len(fits)} tests fit {low:.3g} to {high:.3g} %, worst {_worst(fits)}",)


def _worst(percent: Mapping[str, float]) -> str:
    """Return the tests with the least figures, and these, as text."""
    least = sorted(percent, key=lambda name: percent[name])[:WORST]
    return ", ".join(f"{name} ({percent[name]:.3g} %)" for name in least)


def _misses(score: Score, tests: int) -> bool:
    """True if more samples are outside the band than chance explains, one test among several.

    Samples are taken as independent: ten of which eight are inside tell nothing.
    """
    inside = round(score.coverage * score.samples)
    chance = float(stats.binom.cdf(inside, score.samples, BAND))
    return score.coverage < LEAST_COVERAGE and chance < CHANCE / tests


def score_table(scores: Mapping[str, Score], published: Mapping[str, Any]) -> Table:
    """Return the scores of tests as a table; below each what others have published.

    ``published`` has ``rmse_min``, ``rmse_mean`` and ``rmse_max`` by test.
    """
    errors = [Column(name, ".3g", missing="not measured") for name in ("min", "mean", "max")]
    columns = [
        words("RMSE over the particles"), words("unit"), *errors,
        replace(errors[1], name="of the mean"), Column("fit %", ".2f"),
        Column("in 95 % band", ".1f", "%"),
    ]  # fmt: skip
    rows: list[list[Cell]] = []
    for name, one in scores.items():
        rows.append(
            [name, one.unit, one.rmse_min, one.rmse_mean, one.rmse_max, one.rmse_of_mean, one.fit,
             100 * one.coverage]
        )  # fmt: skip
        if (other := published.get(name)) is not None:
            found = other.rmse_min, other.rmse_mean, other.rmse_max
            rows.append(["- published", "", *found, "", "", ""])
    return Table(columns, rows)
