"""The parameter table: posterior and prior of each parameter, with flags."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from smcpn.base.tables import Cell, Table
from smcpn.model.entries import spanned
from smcpn.model.ode import ODE
from smcpn.model.prior import Prior, described
from smcpn.results.validation.correlation import RIDGE

LONG = 6
"""Entries of a vector that tables and figures show one by one."""
PRIOR_DOMINATED = 0.7
"""Posterior sd over prior sd above which the data said little about a parameter."""
POINT_WIDTH = 0.01
"""Distance to a bound up to which a single point ends there, in quartile distances of the prior."""
BESIDE, EDGE = 1e-6, 0.1
"""Distance to a bound in strips, and prior density there, over that at the mean, from which it is a
bound and not a tail that has faded out."""
STRIPS = 20
"""Half standard deviations from a bound in which a posterior is counted."""
FEW_WARNINGS = 3
"""Warnings that a short text has."""


@dataclass(frozen=True)
class ParameterRow:
    """One line of the parameter table.

    prior_sd, mean, sd, low, high: Moments, and the central 95 % of the posterior.
    prior_low, prior_high: The least and the greatest of 4096 draws from the prior.
    bound: Bound of the prior at which the posterior ends; nan where it ends at none.
    by_mode: Whether the posterior has several modes, and this parameter another value in each.
    neighbour: The parameter it is most correlated with, in the sampler's coordinates; "" for a
        single one.
    correlation: That correlation.
    """

    name: str
    prior: str
    prior_sd: float
    mean: float
    sd: float
    low: float
    high: float
    prior_low: float = -np.inf
    prior_high: float = np.inf
    neighbour: str = ""
    correlation: float = 0.0
    # It is nan as a rule, which equals nothing.
    bound: float = field(default=np.nan, compare=False)
    by_mode: bool = False

    @property
    def sd_percent(self) -> float:
        """Posterior sd as a percentage of the mean."""
        return 100 * self.sd / abs(self.mean) if self.mean else np.inf

    @property
    def prior_dominated(self) -> bool:
        """True if the data hardly narrowed the prior, and left it where it was."""
        return not self.surprising and self.sd > PRIOR_DOMINATED * self.prior_sd

    @property
    def surprising(self) -> bool:
        """True if no draw from the prior reaches the posterior, as where a unit is mistaken."""
        return self.low > self.prior_high or self.high < self.prior_low

    @property
    def torn(self) -> bool:
        """True if the mean is outside the 95 %, as of a second mode of little weight far off."""
        return self.mean < self.low or self.mean > self.high

    @property
    def on_ridge(self) -> bool:
        """True if it is hardly narrowed and known only together with its neighbour.

        The prior of every parameter of a ridge helps to place it on the ridge, so none of them need
        be as wide as its own prior: half of `PRIOR_DOMINATED` is enough.
        """
        wide = self.sd > 0.5 * PRIOR_DOMINATED * self.prior_sd
        return wide and abs(self.correlation) > RIDGE

    @property
    def ends(self) -> str:
        """A sentence where the posterior ends at a bound of the prior, else ""."""
        if np.isnan(self.bound) or self.prior_dominated:
            return ""
        return (
            f"{self.name} ends at {self.bound:.5g}, the bound of its prior: widen the prior if the "
            "truth may lie beyond, or fix it there"
        )

    @property
    def far(self) -> str:
        """A sentence on a posterior that the prior never reaches."""
        return f"look at the units: {self.name} is {self.mean:.3g}, far from its prior {self.prior}"

    def unlikely(self, size: str) -> str:
        """Sentence on a parameter of the noise that is "more" or "less" than its prior expects."""
        return (
            f"look at the noise: {self.name} is {self.mean:.3g}, {size} than its prior "
            f"{self.prior} expects: y is in another unit, or the model misses what moves it"
        )

    @property
    def figures(self) -> list[float | None]:
        """Mean, sd, sd %, 2.5 % and 97.5 %; the first alone of a single point.

        Between modes there is no mean.
        """
        if self.sd == 0.0:
            return [self.mean, None, None, None, None]
        if self.by_mode:
            return [None, None, None, self.low, self.high]
        return [self.mean, self.sd, self.sd_percent, self.low, self.high]

    @property
    def flag(self) -> str:
        """A warning of one or two words; "" for a parameter that the data determine."""
        if self.by_mode:
            return "differs by mode"
        if self.prior_dominated:
            return "prior-dominated"
        if self.ends:
            return "ends at its bound"
        if self.surprising:
            return "far from its prior"
        if self.torn:
            return "mean outside interval"
        return f"trades off with {self.neighbour}" if self.on_ridge else ""


def parameter_rows(
    prior: Prior,
    mean: Mapping[str, float],
    sd: Mapping[str, float],
    interval: Mapping[str, Sequence[float]],
    correlation: NDArray[np.float64],
    bounds: Mapping[str, float] | None = None,
    by_mode: Collection[str] = (),
) -> list[ParameterRow]:
    """Make the parameter table of a distribution.

    ``interval`` has the central 95 % of each value, ``correlation`` that of the unconstrained
    coordinates, nan where one does not vary, ``bounds`` is of `bounds_reached`, and ``by_mode``
    names parameters that have another value in each of several modes.
    """
    names = prior.names
    prior_sd, prior_low, _, _, prior_high = prior.spread
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
            prior_low=float(prior_low[j]),
            prior_high=float(prior_high[j]),
            neighbour=names[closest[j]] if len(names) > 1 else "",
            correlation=float(others[j, closest[j]]),
            bound=(bounds or {}).get(name, np.nan),
            by_mode=name in by_mode,
        )
        for j, name in enumerate(names)
    ]


def bounds_reached(
    prior: Prior, values: NDArray[np.float64], weights: NDArray[np.float64]
) -> dict[str, float]:
    """Return the bounds of the prior at which weighted values (N, d) end, by parameter.

    A posterior ends there where it is at least half as dense beside the bound as anywhere, and the
    prior has not faded out on the way.
    """
    mean = weights @ values
    sd = np.sqrt(weights @ np.square(values - mean))
    quartiles, found = prior.natural(prior.quartiles), dict[str, float]()
    for j, name in enumerate(prior.names):
        for bound in prior.maps[j].natural(np.array([-np.inf, np.inf])):
            if np.isfinite(bound):
                width = 0.5 * sd[j] or POINT_WIDTH * abs(quartiles[2, j] - quartiles[0, j])
                beside = bound + BESIDE * width * np.sign(mean[j] - bound)
                there, here = prior.density(name, np.array([beside, mean[j]]))
                strips = np.floor(np.abs(values[:, j] - bound) / width)
                near = strips < STRIPS
                mass = np.bincount(strips[near].astype(int), weights[near], minlength=1)
                at_bound = mass[0] >= 0.5 * mass.max() and mass.sum() > 0.5
                if there > EDGE * here and at_bound:
                    found[name] = float(bound)
    return found


def warned(warnings: Sequence[str]) -> list[str]:
    """Lines for the first of the warnings of a result, and for how many there are more."""
    rest = len(warnings) - FEW_WARNINGS
    lines = [f"warning: {one}" for one in warnings[:FEW_WARNINGS]]
    return lines + ([f"and {rest} more warnings"] if rest > 0 else [])


def long_vectors(names: Sequence[str], ode: ODE) -> dict[str, list[str]]:
    """Parameters that are entries of a vector with more than `LONG`, by vector."""
    known = set(names)
    vectors = {name: [one for one in ode.wholes[name] if one in known] for name in ode.sizes}
    return {name: entries for name, entries in vectors.items() if len(entries) > LONG}


def shortened(table: Table, ode: ODE) -> Table:
    """Return a table of parameters, the rows of the entries of each long vector in one.

    The first column has the names. In the one row a column has what all entries have, or the least
    and the greatest of numbers, or how many entries have any text.
    """
    names = [str(row[0]) for row in table.rows]
    vectors = long_vectors(names, ode)
    vector_of = {entry: name for name, entries in vectors.items() for entry in entries}
    rows: list[Sequence[Cell]] = []
    for name, row in zip(names, table.rows, strict=True):
        vector = vector_of.get(name)
        if vector is None:
            rows.append(row)
        elif name == vectors[vector][0]:
            cells = zip(names, table.cells, strict=True)
            columns = zip(
                *(cell[1:] for of, cell in cells if vector_of.get(of) == vector), strict=True
            )
            rows.append([spanned(vectors[vector]), *map(_range_of, columns)])
    return replace(table, rows=rows)


def _range_of(column: Sequence[str]) -> str:
    """Text for the entries of one column of a table."""
    if len(set(column)) == 1:
        return column[0]
    try:
        return f"{min(column, key=float)} to {max(column, key=float)}"
    except ValueError:
        given = [one for one in column if one]
        same = given[0] if len(set(given)) == 1 else "various"
        return f"{same} ({len(given)} of {len(column)})"
