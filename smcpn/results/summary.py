"""The parameter table, and the figures of a run as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from smcpn.columns import align
from smcpn.likelihood.registry import likelihood_name
from smcpn.model.prior import describe
from smcpn.validation.correlation import RIDGE, posterior_correlation

if TYPE_CHECKING:
    from smcpn.estimate.laplace import Laplace
    from smcpn.results.posterior import Posterior

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
        """What a reader of the table must know; "" for a parameter that the data determine."""
        if self.prior_dominated:
            return "prior-dominated"
        return f"ridge with {self.neighbour}" if self.on_ridge else ""


def parameter_rows(posterior: Posterior) -> list[ParameterRow]:
    """Make the parameter table of a posterior."""
    correlation = posterior_correlation(posterior.theta, posterior.weights)
    return _rows(posterior, np.nan_to_num(correlation))


def laplace_rows(laplace: Laplace) -> list[ParameterRow]:
    """Make the parameter table of a Laplace approximation."""
    sd = np.sqrt(np.diag(laplace.covariance))
    return _rows(laplace, np.nan_to_num(laplace.covariance / np.outer(sd, sd)))


def _rows(result: Posterior | Laplace, correlation: NDArray[np.float64]) -> list[ParameterRow]:
    prior, names = result.problem.prior, result.names
    draws = prior.natural(prior.sample(np.random.default_rng(0), _PRIOR_DRAWS))
    np.fill_diagonal(correlation, 0.0)
    closest = np.abs(correlation).argmax(axis=1)
    mean, sd = result.mean, result.sd
    return [
        ParameterRow(
            name=name,
            prior=describe(distribution),
            prior_sd=float(draws[:, j].std()),
            mean=mean[name],
            sd=sd[name],
            low=float(result.quantile(name, 0.025)),
            high=float(result.quantile(name, 0.975)),
            neighbour=names[closest[j]] if len(names) > 1 else "",
            correlation=float(correlation[j, closest[j]]),
        )
        for j, (name, distribution) in enumerate(prior.distributions.items())
    ]


def laplace_text(laplace: Laplace) -> str:
    """Render a Laplace approximation as a plain-text table."""
    maximum = laplace.maximum
    columns = ["parameter", "prior", "mode", "mean", "sd", "sd %", "2.5 %", "97.5 %", ""]
    rows = [
        [row.name, row.prior, f"{mode:.5g}", *row.figures, row.flag if laplace.success else ""]
        for row, mode in zip(laplace.table(), maximum.values, strict=True)
    ]
    lines = [
        align([columns, *rows], left=(0, 1, 8)),
        "",
        f"log-evidence     {laplace.log_evidence:.2f} (Laplace)",
        *maximum.figures(),
    ]
    lines += [f"look again       {concern}" for concern in laplace.warnings]
    return "\n".join(lines)


def summary_text(posterior: Posterior) -> str:
    """Render a posterior as a plain-text table."""
    columns = ["parameter", "prior", "mean", "sd", "sd %", "2.5 %", "97.5 %", ""]
    rows = [[row.name, row.prior, *row.figures, row.flag] for row in posterior.table()]
    timing, last = posterior.timing, posterior.rejuvenations[-1:]
    lines = [
        align([columns, *rows], left=(0, 1, 7)),
        "",
        f"log-evidence     {posterior.log_evidence:.2f} +- {posterior.log_evidence_se:.2g}",
        f"rejuvenations    {len(posterior.rejuvenations)}"
        + (
            f", acceptance {posterior.acceptance:.2f} (last {last[0].acceptance:.2f})"
            if last
            else ""
        ),
        f"likelihood       {likelihood_name(posterior.solver, posterior.likelihood)}",
        f"solver           {posterior.solver}",
        f"solver error     {100 * posterior.budget.claimed:.2g} % of the noise variance claimed, "
        f"{100 * posterior.budget.change:.2g} % by doubling the steps",
    ]
    if timing.wall:
        lines.append(
            f"time             {timing.wall:.2f} s ({timing.kernel:.2f} s in the kernel), "
            f"compilation {timing.compile:.2f} s, {timing.theta_steps:.3g} particle steps"
        )
    lines += [f"look again       {concern}" for concern in posterior.warnings]
    return "\n".join(lines)
