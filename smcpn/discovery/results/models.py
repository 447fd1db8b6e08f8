"""Models that a discovery has found, and their table."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from smcpn.discovery.results.notation import as_probability
from smcpn.tables import Column, Table, table_text, words

Array = NDArray[np.float64]

LEAST, MOST = 3, 10
"""Models in a table: the first ones, and others that are not printed with probability 0."""


@dataclass(frozen=True, eq=False)
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
