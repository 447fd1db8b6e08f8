"""Models that a discovery has found, and their table."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from smcpn.columns import align
from smcpn.discovery.results.notation import as_probability

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

    def rows(self) -> list[list[str]]:
        """Rank, probability, log-evidence and log-prior less those of the best, and terms."""
        best = self[0]
        return [
            [
                str(rank),
                as_probability(model.probability),
                f"{model.log_evidence - best.log_evidence:+.2f}",
                f"{model.log_prior - best.log_prior:+.2f}",
                str(len(model.names)),
                _differing(model.names, best.names) if rank else ", ".join(best.names) or "none",
            ]
            for rank, model in enumerate(self.shown)
        ]

    def __str__(self) -> str:
        header = ["", "probability", "log-evidence", "log-prior", "terms", ""]
        text = align([header, *self.rows()], left=(5,))
        rest = self[len(self.shown) :]
        if rest:
            share = sum(model.probability for model in rest)
            text += f"\nand {len(rest)} more, together {as_probability(share)}"
        return text

    def __repr__(self) -> str:
        return str(self)


def _differing(names: tuple[str, ...], best: tuple[str, ...]) -> str:
    changes = [f"+ {name}" for name in names if name not in best]
    changes += [f"- {name}" for name in best if name not in names]
    return "  ".join(changes)
