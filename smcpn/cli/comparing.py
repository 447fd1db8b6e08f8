"""Fit systems of the same data, rank them, print that: ``smcpn compare`` at work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from smcpn.base.status import routed, status
from smcpn.base.tables import Column, Fact, Table, fact_lines, table_text, words
from smcpn.cli.cases import Case
from smcpn.cli.fitting import Fit, fitted
from smcpn.errors import listed
from smcpn.results.compare import ModelComparison, compare
from smcpn.results.scores import Score, scores_of
from smcpn.results.simulation.simulation import Simulation

ALIKE = 1.01
"""Ratio of test errors up to which two models are as good as each other."""


@dataclass(frozen=True)
class Comparison:
    """Fits of models by name, and their comparison."""

    fits: dict[str, Fit]
    comparison: ModelComparison

    @cached_property
    def simulations(self) -> dict[str, dict[str, Simulation]]:
        """Of every test that all models have, by name and model; it has the same measurements."""
        found: dict[str, dict[str, Simulation]] = {}
        for test, first in next(iter(self.fits.values())).simulations.items():
            every = {name: fit.simulations.get(test) for name, fit in self.fits.items()}
            known = {name: one for name, one in every.items() if one is not None}
            if len(known) == len(every) and all(_alike(first, one) for one in known.values()):
                found[test] = known
        return found

    @cached_property
    def scores(self) -> dict[str, dict[str, Score]]:
        """Scores of every model on these tests, by name of the model."""
        return {
            name: scores_of(
                {test: every[name] for test, every in self.simulations.items()},
                fit.case.problem.observe,
            )
            for name, fit in self.fits.items()
        }

    @property
    def tests(self) -> list[str]:
        """Tests that all models have been scored on, and outputs where there are several."""
        first, *others = self.scores.values()
        return [name for name in first if all(name in one for one in others)]

    def errors(self, test: str) -> dict[str, float]:
        """RMSE of the mean prediction of each model on a test, the least first; nan last."""
        found = {name: scores[test].rmse_of_mean for name, scores in self.scores.items()}
        return dict(sorted(found.items(), key=lambda one: np.nan_to_num(one[1], nan=np.inf)))

    @property
    def best_on_tests(self) -> list[str]:
        """Names of the models with the least error on some test, each once."""
        return list(dict.fromkeys(next(iter(self.errors(test))) for test in self.tests))

    def verdict(self) -> list[Fact]:
        """Which model wins by evidence, and which on the tests: what is said of, and a sentence."""
        found = [("by evidence", self.comparison.winner)]
        found += [("by test error", self._on(test)) for test in self.tests]
        best = self.comparison.best
        if self.tests and self.best_on_tests == [best]:
            return [*found, ("winner", f"'{best}', by evidence and on every test")]
        if self.tests:
            tests = f"'{best}' by evidence, {listed(self.best_on_tests)} on tests: a model that is "
            return [*found, ("winner", f"{tests}wrong somewhere may predict better than one with "
                             "more evidence")]  # fmt: skip
        return [*found, ("winner", f"'{best}'; no test of the same samples was given to all")]

    @property
    def verdict_lines(self) -> list[str]:
        """The verdict as it is printed."""
        return fact_lines(self.verdict())

    def _on(self, test: str) -> str:
        (best, least), (second, next_least), *_ = self.errors(test).items()
        unit = self.scores[best][test].unit
        if not next_least > ALIKE * least:
            return (
                f"'{best}' and '{second}' are as good on {test}: RMSE {least:.3g} {unit}".rstrip()
            )
        return (
            f"'{best}' is best on {test}: RMSE {least:.3g} {unit}".rstrip()
            + f", '{second}' {next_least / least:.3g} times as much"
        )


def _alike(one: Simulation, other: Simulation) -> bool:
    """True if both are of the same measured values at the same times."""
    return np.array_equal(one.record.t, other.record.t) and np.array_equal(
        one.record.y, other.record.y, equal_nan=True
    )


def compared(
    systems: Sequence[str],
    cases: Sequence[Case],
    starts: int | None,
    seed: int | None,
) -> Comparison:
    """Fit every case and compare what is found.

    ``systems`` are what the user called them, for those of the same name; ``starts`` are searches
    from draws of the prior, of each; None for those of `smcpn.maximise`. Cases that are not of the
    same measurements are refused.
    """
    same = Counter(case.name for case in cases)
    names = [
        system if same[case.name] > 1 else case.name
        for system, case in zip(systems, cases, strict=True)
    ]
    fits: dict[str, Fit] = {}
    with status(None) as say:
        for name, case in zip(names, cases, strict=True):
            with routed(lambda text, name=name: say(f"{name}: {text}")):
                fits[name] = fitted(case, {"seed": seed}, starts, "auto", False)
    return Comparison(fits, compare({name: fit.laplace for name, fit in fits.items()}))


def written(found: Comparison, path: Path) -> Path:
    """Write the page that compares the models, on the tests, or where there is none on the data.

    Raises `InputError` if the file cannot be written.
    """
    from smcpn.report.comparison import over_records, write_comparison

    posteriors = {
        name: fit.posterior for name, fit in found.fits.items() if fit.posterior is not None
    }
    simulations = found.simulations or over_records(posteriors)
    *reasons, winner = [f"{label.capitalize()}: {text}." for label, text in found.verdict()]
    return write_comparison(
        found.comparison, posteriors, simulations, path, verdict=[winner, *reasons]
    )


def as_dict(found: Comparison) -> dict[str, Any]:
    """Return the fields that ``--json`` prints."""
    rows = {row.name: row for row in found.comparison.rows}
    return {
        "winner": found.comparison.best,
        "by": found.comparison.deciding,
        "best_on_tests": {test: next(iter(found.errors(test))) for test in found.tests},
        "verdict": found.verdict_lines,
        "models": {
            name: {
                "parameters": rows[name].parameters,
                "log_evidence": rows[name].laplace_log_evidence,
                "log_likelihood": rows[name].log_likelihood,
                "bic": rows[name].bic,
                "wall_s": fit.wall_s,
                "warnings": list(fit.laplace.warnings),
                "scores": {test: vars(score) for test, score in fit.scores.items()},
            }
            for name, fit in found.fits.items()
        },
    }


def as_text(found: Comparison) -> str:
    """Return the tables and sentences that are printed for a person."""
    behind = found.comparison.relative("laplace_log_evidence")
    columns = [
        words("model"), Column("k"), Column("log-evidence", ".2f"), Column("to best", "+.2f"),
        Column("BIC", ".2f"), *(Column(f"RMSE on {test}", ".4g") for test in found.tests),
    ]  # fmt: skip
    rows = [
        [row.name, row.parameters, row.laplace_log_evidence, behind[row.name], row.bic,
         *(found.scores[row.name][test].rmse_of_mean for test in found.tests)]
        for row in sorted(found.comparison.rows, key=lambda one: -behind[one.name])
    ]  # fmt: skip
    doubts = [
        ("warning", f"{name}: {warning}")
        for name, fit in found.fits.items()
        for warning in fit.laplace.warnings
    ]
    seconds = sum(fit.wall_s + fit.compile_s for fit in found.fits.values())
    facts = [*found.verdict(), *doubts, ("time", f"{seconds:.1f} s")]
    return "\n".join([table_text(Table(columns, rows)), "", *fact_lines(facts)])
