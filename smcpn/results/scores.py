"""Scores of simulations on test records, and the one table of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.simulation.particles import Simulation


@dataclass(frozen=True)
class Score:
    """Error of one output of a simulation against a test record.

    Attributes
    ----------
    rmse_min, rmse_mean, rmse_max : float
        Root mean square error over the particles, the mean by weight.
    rmse_of_mean : float
        Of the posterior-mean prediction.
    unit : str
    fit : float
        100 (1 - rmse_of_mean / std(y)).
    coverage : float
        Share of samples inside the 95 % band.
    """

    rmse_min: float
    rmse_mean: float
    rmse_max: float
    rmse_of_mean: float
    unit: str
    fit: float
    coverage: float

    @classmethod
    def of(cls, weights: NDArray[np.float64], simulation: Simulation, output: int = 0) -> Score:
        """Score an output of a simulation with weighted particles, weights (N,)."""
        rmse = simulation.rmse[:, output]
        units = simulation.record.y_unit.split(", ")
        return cls(
            rmse_min=float(rmse.min()),
            rmse_mean=float(weights @ rmse),
            rmse_max=float(rmse.max()),
            rmse_of_mean=float(simulation.rmse_of_mean[output]),
            unit=units[output] if len(units) > output else units[0],
            fit=float(simulation.fit[output]),
            coverage=float(simulation.coverage[output]),
        )


def scores_of(
    weights: NDArray[np.float64], simulations: Mapping[str, Simulation], outputs: Sequence[str]
) -> dict[str, Score]:
    """Score every test by name; one of several outputs by "test, output"."""
    return {
        f"{name}, {outputs[j]}" if simulation.rmse.shape[1] > 1 else name: Score.of(
            weights, simulation, j
        )
        for name, simulation in simulations.items()
        for j in range(simulation.rmse.shape[1])
    }


def score_table(scores: Mapping[str, Score], published: Mapping[str, Any]) -> list[list[str]]:
    """Rows of text, the first a header; below each test what others have published.

    Parameters
    ----------
    scores : mapping of str to Score
    published : mapping of str to object
        By test, with ``rmse_min``, ``rmse_mean`` and ``rmse_max``.
    """
    header = ["RMSE over the particles", "unit", "min", "mean", "max", "of the mean", "fit %"]
    rows = [[*header, "in 95 % band"]]
    for name, one in scores.items():
        errors = [_number(v) for v in (one.rmse_min, one.rmse_mean, one.rmse_max)]
        fit = f"{one.fit:.2f}" if np.isfinite(one.fit) else ""
        share = f"{100 * one.coverage:.1f} %" if np.isfinite(one.coverage) else ""
        rows.append([name, one.unit, *errors, _number(one.rmse_of_mean), fit, share])
        other = published.get(name)
        if other is not None:
            errors = [_number(v) for v in (other.rmse_min, other.rmse_mean, other.rmse_max)]
            rows.append(["- published", "", *errors, "", "", ""])
    return rows


def _number(value: float) -> str:
    return f"{value:.3g}" if np.isfinite(value) else "not measured"
