"""Models that a discovery has found as data: probabilities, averages, coefficients that shrink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.base.arguments import Count, Seed, check_fields, checked
from smcpn.base.tables import Column, Table, table_text, words
from smcpn.discovery.equations.system import CandidateSystem
from smcpn.discovery.results.notation import as_probability, output_names
from smcpn.errors import InputError
from smcpn.model.record import Record
from smcpn.model.solver import Solver
from smcpn.smc.resampling import systematic

Array = NDArray[np.float64]

LEAST, MOST = 3, 10
"""Models in a table: the first ones, and others that are not printed with probability 0."""


@dataclass(frozen=True, eq=False)
class DiscoveredModel:
    """One choice of terms, with its coefficients.

    names: (k,), of the coefficients that are not zero.
    support: (K,), which of all free coefficients these are.
    mean, covariance: (k,) and (k, k), of their posterior.
    initial: (R, n), most probable initial states of the records.
    log_evidence: But for a constant that all models share.
    log_prior: Log probability of the support before the data.
    probability: Among the models found.
    """

    names: tuple[str, ...]
    support: NDArray[np.bool_]
    mean: Array
    covariance: Array = field(repr=False)
    initial: Array = field(repr=False)
    log_evidence: float
    log_prior: float
    probability: float

    @property
    def sd(self) -> Array:
        """Standard deviations of the coefficients, (k,)."""
        return np.sqrt(np.diag(self.covariance))


class ModelTable(tuple[DiscoveredModel, ...]):
    """Models, the most probable first; printed as a table of how they differ from that."""

    __slots__ = ()

    @property
    def shown(self) -> tuple[DiscoveredModel, ...]:
        """The models that are printed: the most probable, none of probability .00 beyond a few."""
        probable = sum(as_probability(model.probability) != ".00" for model in self)
        return self[: min(MOST, max(LEAST, probable))]

    def as_table(self) -> Table:
        """Return the table: log-evidence and log-prior are less those of the best, as the terms."""
        best, rest = self[0], self[len(self.shown) :]
        columns = (
            Column(), Column("probability"), Column("log-evidence", "+.2f"),
            Column("log-prior", "+.2f"), Column("terms"), words("coefficients", long=True),
        )  # fmt: skip
        rows = [
            [rank, as_probability(model.probability), model.log_evidence - best.log_evidence,
             model.log_prior - best.log_prior, len(model.names),
             _differing(model.names, best.names) if rank else ", ".join(best.names) or "none"]
            for rank, model in enumerate(self.shown)
        ]  # fmt: skip
        share = as_probability(sum(model.probability for model in rest))
        return Table(columns, rows, notes=[f"and {len(rest)} more, together {share}"] * bool(rest))

    def __str__(self) -> str:
        return table_text(self.as_table())

    def __repr__(self) -> str:
        return str(self)


def _differing(names: tuple[str, ...], best: tuple[str, ...]) -> str:
    changes = [f"+ {name}" for name in names if name not in best]
    changes += [f"- {name}" for name in best if name not in names]
    return "  ".join(changes)


@dataclass(frozen=True, eq=False)
class ShrunkPosterior:
    """Weighted draws of coefficients, initial states and noise, and what they tell.

    coefficients: (N, K)
    initial: (N, R, n), states at the first samples of the records.
    noise: (N, q), standard deviations.
    weights: (N,), they sum to one.
    replicate: (N,)
    model: All coefficients, with their means and covariance.
    level: (K,), of the widest equal-tailed credible interval of each coefficient without zero.
    shrinkage: (K,), share of the prior variance that is left given the data, see
        `CoefficientPopulations`.
    ess: Effective sample size, where copies count once.
    """

    coefficients: Array = field(repr=False)
    initial: Array = field(repr=False)
    noise: Array = field(repr=False)
    weights: Array = field(repr=False)
    replicate: NDArray[np.int64] = field(repr=False)
    model: DiscoveredModel
    level: Array
    shrinkage: Array
    log_evidence: float
    log_evidence_se: float
    ess: float
    solver: Solver
    likelihood: str
    warnings: tuple[str, ...]

    def chosen(self, n: int, seed: int) -> NDArray[np.int64]:
        """Draw numbers (n,) of draws by their weights."""
        return systematic(self.weights, np.random.default_rng(seed), n)


N_DRAWS = 4000
"""Draws over all models that intervals are made of."""


@dataclass(frozen=True)
class Coefficient:
    """A coefficient averaged over all models, zero in those that do not have it.

    lower, upper: Ends of the 95 % interval.
    inclusion: Probability that it is not zero.
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
    delay: Mapping[str, float] = field(default_factory=dict[str, float], repr=False)

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
