"""All that a search goes on from, as data: where it is on its way, and the models it has found."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from smcpn.base.stored import Stored, Whole, any_number, finite, number, truths
from smcpn.discovery.search.path_regression import ErrorModel, Point
from smcpn.discovery.search.supports import Support
from smcpn.estimate.path_search.paths import MOST_STEPS
from smcpn.smc.state import RandomState

Array = NDArray[np.float64]

Stage = Literal["larger", "smaller", "select", "maxima", "again", "end"]
"""Where a search is: model errors above those of the homotopy, the homotopy itself, the choice of
supports, their maxima, a second homotopy, and its end."""


@dataclass(frozen=True)
class Landing(Stored):
    """A point of the way with a model error larger than those of the homotopy.

    evidence: Log evidence of the best support there.
    share: The model error, as a share of the noise.
    """

    evidence: float
    share: Annotated[float, number(0.0)]
    point: Point


@dataclass(frozen=True)
class SupportMaximum(Stored):
    """Maximum of the posterior of a support, with the errors learned there.

    covariance: (k, k), of the k coefficients of the support.
    log_evidence: By Laplace's method, but for a constant.
    log_prior: Log probability of the support before the data.
    """

    point: Point
    errors: ErrorModel
    covariance: Annotated[Array, finite(None, None)]
    log_evidence: float
    log_prior: float

    @property
    def score(self) -> float:
        """Log of the posterior probability, but for a constant."""
        return self.log_evidence + self.log_prior


@dataclass(frozen=True)
class Selection(Stored):
    """Probable supports on the linear model at a point, the most probable first.

    chosen: (m, K), supports that are led to their own maxima.
    others: (o, K), those that are counted by their scores here.
    scores: (o,)
    """

    point: Point
    errors: ErrorModel
    chosen: Annotated[NDArray[np.bool_], truths(None, "K")]
    others: Annotated[NDArray[np.bool_], truths(None, "K")]
    scores: Annotated[Array, any_number(None)]


@dataclass(frozen=True)
class CountedModels(Stored):
    """Probable models at their own maxima, best first, and supports that are counted beside them.

    others: (o, K)
    scores: (o,), of the others, less that of the best model.
    """

    maxima: tuple[SupportMaximum, ...]
    others: Annotated[NDArray[np.bool_], truths(None, "K")]
    scores: Annotated[Array, any_number(None)]


@dataclass(frozen=True)
class SearchState(Stored):
    """The state of a search between two parts.

    random_state: Of the generator, when `Search.snapshot` returned the state.
    point: The end of the way so far; that from which supports are selected, once there is a
        selection.
    errors: In force there.
    substeps: Runge-Kutta steps of a sampling interval.
    share: The model error that comes next, of those above the homotopy's; nan before it is known.
    landings: With these model errors.
    level: Model errors of the homotopy so far.
    rounds: Selections so far whose supports have all been led to their maxima.
    maxima: Of the first supports of the selection; None where one has no maximum.
    counted: Of the last round.
    parts: Parts that were computed so far.
    """

    stage: Stage
    random_state: RandomState
    point: Point
    errors: ErrorModel
    substeps: Annotated[int, Field(ge=1, le=MOST_STEPS)] = 1
    share: Annotated[float, number(0.0, missing=True)] = nan
    landings: tuple[Landing, ...] = ()
    level: Whole = 0
    rounds: Whole = 0
    selection: Selection | None = None
    maxima: tuple[SupportMaximum | None, ...] = ()
    counted: CountedModels | None = None
    parts: Whole = 0

    def require_whole(self) -> None:
        """Refuse parts that do not fit each other."""
        ends = [one for one in self.maxima if one is not None]
        ends += self.counted.maxima if self.counted is not None else ()
        for one in ends:
            if one.covariance.shape != (int(one.point.support.sum()),) * 2:
                raise ValueError("a model's covariance is not one of its terms")
        chosen = 0 if self.selection is None else len(self.selection.chosen)
        for some in (self.selection, self.counted):
            if some is not None and len(some.scores) != len(some.others):
                raise ValueError("supports are without scores")
        fits = (
            len(self.maxima) <= chosen
            and (self.stage == "maxima") <= (chosen > 0)
            and (self.stage in ("again", "end")) <= (self.counted is not None)
            and (self.counted is None or len(self.counted.maxima) > 0)
            and (self.rounds > 0) == (self.counted is not None)
        )
        if not fits:
            raise ValueError(f"stage '{self.stage}' lacks what it goes on from")


def supports_array(supports: list[Support], columns: int) -> NDArray[np.bool_]:
    """Return supports as the rows of one array, (m, K)."""
    return np.array(supports, dtype=bool).reshape(len(supports), columns)
