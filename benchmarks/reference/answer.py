"""What is known of a posterior: weighted points, an evidence, and how sure both are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Region = Callable[[Mapping[str, Array]], NDArray[np.bool_]]
"""From values by name, (N,) each, to whether they are inside."""


@dataclass(frozen=True)
class Answer:
    """A posterior by weighted points.

    values: (N,)
    weights: (N,), adding up to one.
    log_evidence, log_evidence_se: nan where the method has none.
    pareto_k: Of importance weights: above .7 the error is not to be believed. Zero for a grid.
    """

    values: Mapping[str, Array]
    weights: Array
    log_evidence: float = np.nan
    log_evidence_se: float = np.nan
    pareto_k: float = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """Of the parameters."""
        return tuple(self.values)

    @property
    def mean(self) -> dict[str, float]:
        """By name."""
        return {name: float(self.weights @ value) for name, value in self.values.items()}

    @property
    def sd(self) -> dict[str, float]:
        """By name."""
        mean = self.mean
        return {
            name: float(np.sqrt(self.weights @ np.square(value - mean[name])))
            for name, value in self.values.items()
        }

    @property
    def effective(self) -> float:
        """Effective number of points."""
        return float(1.0 / np.square(self.weights).sum())

    def share(self, inside: Region) -> float:
        """Probability of a region."""
        return float(self.weights[inside(self.values)].sum())

    def quantile(self, name: str, levels: Sequence[float]) -> Array:
        """Quantiles of a parameter."""
        nodes, place = np.unique(self.values[name], return_inverse=True)
        weights = np.bincount(place, self.weights)
        # Half of a node is below itself.
        return np.interp(levels, np.cumsum(weights) - 0.5 * weights, nodes)
