"""From what was measured to time at equal accuracy.

A posterior of n independent draws has means off by 1 / sqrt(n) posterior standard deviations and
standard deviations off by 1 / sqrt(2 n), root mean square. What a method's results are off by is
therefore given as a number of draws. It belongs to the sampler, whatever evaluates the likelihood:
rows with the same sampler and size share the runs of the row that has most.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.side_by_side.methods import METHODS, Method
from benchmarks.side_by_side.reference import Reference

TARGET = 20.0

Measured = Mapping[str, Any]


def rows(
    measured: Mapping[str, Measured], reference: Reference, draws: int
) -> dict[str, dict[str, Any]]:
    """Figures of each method, times at the accuracy of so many draws; of one that failed, why."""
    finished = {name: m for name, m in measured.items() if len(m.get("seconds", ())) > 1}
    return {
        name: _row(name, m, accuracy(_most_runs(METHODS[name], finished), reference), draws)
        if name in finished
        else {"failed": m.get("failed") or "; ".join(m["failures"])}
        for name, m in measured.items()
    }


def accuracy(measured: Measured, reference: Reference) -> dict[str, float]:
    """Errors of mean and standard deviation, and what they are worth in independent draws."""
    errors = [
        reference.whitened(np.array(mean), np.array(covariance))
        for mean, covariance in zip(measured["means"], measured["covariances"], strict=True)
    ]
    means, spreads = (np.concatenate(part) for part in zip(*errors, strict=True))
    squares = np.concatenate([means**2, 2.0 * spreads**2])
    draws = 1.0 / np.mean(squares)
    return {
        "mean_error": float(np.sqrt(np.mean(means**2))),
        "sd_error": float(np.sqrt(np.mean(spreads**2))),
        "draws": float(draws),
        # Relative error of a mean of so many squares of normals.
        "draws_se": float(draws * np.sqrt(2.0 / len(squares))),
        "accuracy_runs": len(errors),
    }


def comparison(figures: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """How much longer the fastest peer takes than each of this package's methods.

    Once with every peer as its users write it, and once with peers given a likelihood vectorised
    by hand.
    """
    compared = {name: f for name, f in figures.items() if "equal_seconds" in f}
    own = [name for name in compared if METHODS[name].own]
    found = []
    for hand_vectorised in (False, True):
        times = {
            name: f["equal_seconds"]
            for name, f in compared.items()
            if not METHODS[name].own and hand_vectorised >= METHODS[name].hand_vectorised
        }
        if times:
            fastest = min(times, key=lambda name: times[name])
            found += [
                {
                    "own": name,
                    "fastest_peer": fastest,
                    "hand_vectorised": hand_vectorised,
                    "ratio": times[fastest] / compared[name]["equal_seconds"],
                    "processor_ratio": _processors(compared[fastest]) / _processors(compared[name]),
                    "target": TARGET,
                }
                for name in own
            ]
    return found


def _processors(figures: Mapping[str, Any]) -> float:
    """Processor time of one draw: it tells more than wall time on a busy machine."""
    return figures["processor_seconds"] / figures["draws"]


def _row(name: str, measured: Measured, accurate: dict[str, float], draws: int) -> dict[str, Any]:
    method, seconds = METHODS[name], measured["seconds"]
    found: dict[str, Any] = {
        "seconds": float(np.median(seconds[1:])),
        "processor_seconds": float(np.median(measured["processor_seconds"][1:])),
        "first_seconds": seconds[0],
        "timed_runs": len(seconds) - 1,
        "size": measured["size"],
        **accurate,
        "peak_MB": measured["peak_MB"],
        "lines": method.lines,
        "failures": measured["failures"],
    }
    if method.same_likelihood:
        found["equal_seconds"] = found["seconds"] * draws / found["draws"]
    return found


def _most_runs(method: Method, finished: Mapping[str, Measured]) -> Measured:
    """Of the rows with this sampler, this posterior and as many particles."""

    def sampler(other: Method) -> tuple[str, bool]:
        return other.sampler, other.same_likelihood

    alike = [m for name, m in finished.items() if sampler(METHODS[name]) == sampler(method)]
    return max(alike, key=lambda m: len(m["means"]))
