"""What `smcpn.discover` returns: models with probabilities, and coefficients averaged over them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from smcpn.arguments import Count, Seed, checked
from smcpn.discovery.system import CandidateSystem
from smcpn.errors import whole_number
from smcpn.model.ode import ODE
from smcpn.model.record import Record

Array = NDArray[np.float64]

N_DRAWS = 4000
"""Draws over all models that intervals are made of."""


@dataclass(frozen=True)
class DiscoveredModel:
    """One choice of terms, with its coefficients.

    Attributes
    ----------
    names : tuple of str, (k,)
        Of the coefficients that are not zero.
    support : ndarray of bool, (K,)
        Which of all free coefficients these are.
    mean, covariance : ndarray, (k,) and (k, k)
        Of their posterior.
    initial : ndarray, (R, n)
        Most probable initial states of the records.
    log_evidence : float
        But for a constant that all models share.
    log_prior : float
        Log probability of the support before the data.
    probability : float
        Among the models found.
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
@dataclass(frozen=True)
class Discovery:
    """Equations found in data.

    Attributes
    ----------
    system : CandidateSystem
        All that might stand in the equations; its K free `coefficients` have names.
    records : tuple of Record
    observe : ndarray, (q, n)
        Outputs are ``observe @ x`` and noise.
    models : tuple of DiscoveredModel
        The most probable first.
    probabilities : ndarray, (K,)
        That a coefficient is not zero.
    noise : ndarray, (q,)
        Standard deviation of the noise of each output.
    path : ndarray, (T, n)
        States of the most probable model, all records one after the other.
    """

    system: CandidateSystem = field(repr=False)
    records: tuple[Record, ...] = field(repr=False)
    observe: Array = field(repr=False)
    models: tuple[DiscoveredModel, ...]
    probabilities: Array
    noise: Array
    path: Array = field(repr=False)

    @property
    def inclusion(self) -> dict[str, float]:
        """Probability that a coefficient is not zero, by its name."""
        return dict(zip(self.system.coefficients, self.probabilities.tolist(), strict=True))

    @cached_property
    def coefficients(self) -> dict[str, Coefficient]:
        """Coefficients averaged over all models, by name; from `N_DRAWS` draws."""
        draws = self.draws(N_DRAWS, seed=0)
        lower, upper = np.quantile(draws, [0.025, 0.975], axis=0)
        columns = zip(draws.mean(axis=0), draws.std(axis=0), lower, upper, strict=True)
        return {
            name: Coefficient(*map(float, row), inclusion)
            for (name, inclusion), row in zip(self.inclusion.items(), columns, strict=True)
        }

    def draws(self, n: Count = 1000, seed: Seed = 0) -> Array:
        """Draw coefficients (n, K) from the posterior over all models, zeros where absent."""
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

    def ode(self, rank: int = 0) -> ODE:
        """Make the equation of a model, with its posterior means as defaults.

        Raises
        ------
        InputError
            If there are fewer models.
        """
        model = self.models[whole_number("rank", rank, 0, len(self.models) - 1)]
        values = dict(zip(model.names, model.mean.tolist(), strict=True))
        return self.system.equation(model.support, values)
