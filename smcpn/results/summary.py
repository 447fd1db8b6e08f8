"""The parameter table: posterior and prior of each parameter, with flags for ridges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smcpn.model.prior import Prior, described
from smcpn.validation.correlation import RIDGE

PRIOR_DOMINATED = 0.7
"""Posterior sd over prior sd above which the data said little about a parameter."""
_PRIOR_DRAWS = 4096


@dataclass(frozen=True)
class ParameterRow:
    """One line of the parameter table.

    Attributes
    ----------
    name, prior : str
    prior_sd, mean, sd, low, high : float
        Moments, and the central 95 % of the posterior.
    neighbour : str
        The parameter it is most correlated with, in the sampler's coordinates; "" for a single one.
    correlation : float
        That correlation.
    """

    name: str
    prior: str
    prior_sd: float
    mean: float
    sd: float
    low: float
    high: float
    neighbour: str = ""
    correlation: float = 0.0

    @property
    def sd_percent(self) -> float:
        """Posterior sd as a percentage of the mean."""
        return 100 * self.sd / abs(self.mean) if self.mean else np.inf

    @property
    def prior_dominated(self) -> bool:
        """Whether the data hardly narrowed the prior."""
        return self.sd > PRIOR_DOMINATED * self.prior_sd

    @property
    def on_ridge(self) -> bool:
        """Whether it is hardly narrowed and known only together with its neighbour.

        The prior of every parameter of a ridge helps to place it on the ridge, so none of them need
        be as wide as its own prior: half of `PRIOR_DOMINATED` is enough.
        """
        wide = self.sd > 0.5 * PRIOR_DOMINATED * self.prior_sd
        return wide and abs(self.correlation) > RIDGE

    @property
    def figures(self) -> list[str]:
        """Mean, sd, sd %, 2.5 % and 97.5 % as text."""
        return [
            f"{self.mean:.5g}",
            f"{self.sd:.2g}",
            f"{self.sd_percent:.2g}",
            f"{self.low:.5g}",
            f"{self.high:.5g}",
        ]

    @property
    def flag(self) -> str:
        """A warning of one or two words; "" for a parameter that the data determine."""
        if self.prior_dominated:
            return "prior-dominated"
        return f"ridge with {self.neighbour}" if self.on_ridge else ""


def parameter_rows(
    prior: Prior,
    mean: Mapping[str, float],
    sd: Mapping[str, float],
    interval: Mapping[str, Sequence[float]],
    correlation: NDArray[np.float64],
) -> list[ParameterRow]:
    """Make the parameter table of a distribution.

    Parameters
    ----------
    prior : Prior
    mean, sd : mapping of str to float
        Of the values.
    interval : mapping of str to (float, float)
        Central 95 %.
    correlation : ndarray, (d, d)
        Of the unconstrained coordinates; nan where one does not vary.
    """
    names = prior.names
    prior_sd = prior.natural(prior.sample(np.random.default_rng(0), _PRIOR_DRAWS)).std(axis=0)
    others = np.nan_to_num(correlation)
    np.fill_diagonal(others, 0.0)
    closest = np.abs(others).argmax(axis=1)
    return [
        ParameterRow(
            name=name,
            prior=described(prior, name),
            prior_sd=float(prior_sd[j]),
            mean=mean[name],
            sd=sd[name],
            low=float(interval[name][0]),
            high=float(interval[name][1]),
            neighbour=names[closest[j]] if len(names) > 1 else "",
            correlation=float(others[j, closest[j]]),
        )
        for j, name in enumerate(names)
    ]
