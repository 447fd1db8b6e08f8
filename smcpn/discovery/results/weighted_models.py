"""Models of a discovery with their probabilities as data, coefficients averaged over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.arguments import Count, Seed, check_fields, checked
from smcpn.discovery.equations.system import CandidateSystem
from smcpn.discovery.results.models import DiscoveredModel, ModelTable
from smcpn.discovery.results.notation import output_names
from smcpn.discovery.shrinkage.posterior import ShrunkPosterior
from smcpn.errors import InputError
from smcpn.model.record import Record

Array = NDArray[np.float64]

N_DRAWS = 4000
"""Draws over all models that intervals are made of."""


@dataclass(frozen=True)
class Coefficient:
    """A coefficient averaged over all models, zero in those that do not have it.

    Attributes
    ----------
    mean, sd : float
    lower, upper : float
        Ends of the 95 % interval.
    inclusion : float
        Probability that it is not zero.
    """

    mean: float
    sd: float
    lower: float
    upper: float
    inclusion: float


@checked
@dataclass(frozen=True, eq=False, repr=False)
class WeightedModels:
    """Models among the equations that candidate terms allow, weighted by their probabilities.

    Attributes are those of `smcpn.Discovery`, which is made of them.
    """

    system: CandidateSystem = field(repr=False)
    records: tuple[Record, ...] = field(repr=False)
    observe: Array = field(repr=False)
    models: tuple[DiscoveredModel, ...]
    probabilities: Array
    noise: Array
    path: Array = field(repr=False)
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    warnings: tuple[str, ...] = ()
    posterior: ShrunkPosterior | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_fields(self, *type(self).__dataclass_fields__)
        if not self.models:
            raise InputError("models is empty: give at least one model", argument="models")
        object.__setattr__(self, "models", ModelTable(self.models))

    @property
    def inclusion(self) -> dict[str, float]:
        """Probability that a coefficient is not zero, by its name.

        With a shrinkage prior none is: the level of the widest credible interval without zero.
        """
        return dict(zip(self.system.coefficients, self.probabilities.tolist(), strict=True))

    @property
    def measure(self) -> str:
        """Kind of `inclusion`: ``"probability"``, or ``"level"`` with a shrinkage prior."""
        return "probability" if self.posterior is None else "level"

    @cached_property
    def moments(self) -> tuple[Array, Array]:
        """Mean (K,) and covariance (K, K) of the coefficients over all models."""
        if self.posterior is not None:
            weights, drawn = self.posterior.weights, self.posterior.coefficients
            away = drawn - weights @ drawn
            return weights @ drawn, (away * weights[:, None]).T @ away
        size = len(self.system.coefficients)
        mean, square = np.zeros(size), np.zeros((size, size))
        total = sum(model.probability for model in self.models)
        for model in self.models:
            weight = model.probability / total
            mean[model.support] += weight * model.mean
            square[np.ix_(model.support, model.support)] += weight * model.covariance
        for model in self.models:
            away = -mean
            away[model.support] += model.mean
            square += model.probability / total * np.outer(away, away)
        return mean, square

    @cached_property
    def coefficients(self) -> dict[str, Coefficient]:
        """Coefficients averaged over all models, by name; intervals from `N_DRAWS` draws."""
        mean, covariance = self.moments
        sd = np.sqrt(np.diag(covariance))
        lower, upper = np.quantile(self.draws(N_DRAWS, seed=0), [0.025, 0.975], axis=0)
        return {
            name: Coefficient(float(mean[k]), float(sd[k]), float(lower[k]), float(upper[k]), p)
            for k, (name, p) in enumerate(self.inclusion.items())
        }

    @property
    def outputs(self) -> tuple[str, ...]:
        """Quantity that each output measures: a state, or a sum of states."""
        return output_names(self.observe, self.system.candidates.states)

    @property
    def paths(self) -> tuple[Array, ...]:
        """Path (T, n) of the states in each record."""
        ends = np.cumsum([len(record) for record in self.records])
        return tuple(np.split(self.path, ends[:-1]))

    def draws(self, n: Count = 1000, seed: Seed = 0) -> Array:
        """Draw coefficients (n, K) from the posterior over all models, zeros where absent."""
        if self.posterior is not None:
            return self.posterior.coefficients[self.posterior.chosen(n, seed)]
        rng = np.random.default_rng(seed)
        weights = np.array([model.probability for model in self.models])
        chosen = rng.choice(len(weights), size=n, p=weights / weights.sum())
        result = np.zeros((n, len(self.system.coefficients)))
        for k, model in enumerate(self.models):
            rows = np.flatnonzero(chosen == k)
            if len(rows) and len(model.mean):
                drawn = rng.multivariate_normal(
                    model.mean, model.covariance, size=len(rows), method="eigh"
                )
                result[np.ix_(rows, np.flatnonzero(model.support))] = drawn
        return result
