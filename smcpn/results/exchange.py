"""Parameters that may be exchanged without a change of the outputs, as two lags in series."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from smcpn.base.tables import Fact
from smcpn.errors import InputError
from smcpn.model.distribution import INTERQUARTILE_RANGE
from smcpn.model.prior import described
from smcpn.model.problem import Problem
from smcpn.model.solver import Solver
from smcpn.results.modes import PosteriorMode
from smcpn.results.validation.correlation import posterior_correlation
from smcpn.results.validation.innovations import innovations

Array = NDArray[np.float64]
Order = tuple[int, ...]

SAMPLES = 4096
"""Of each record, at most, whose outputs are compared."""
SAME, OTHER = 0.2, 1.0
"""Root of the sum of squared changes of the innovations, which is how far the outputs move in
posterior standard deviations: below the first they are the same, above the second others."""
NEAR, UNLIKE = 4.0, 1e9
"""Standard deviations between a mode and the exchanged parameters of another, at most; distance of
what may not be exchanged."""
CORRELATED, OVERLAP = -0.2, 2.0
"""Correlation of two parameters of one mode below which, and distance in standard deviations up to
which, they may be exchangeable: their sum is known."""
WIDE = 0.35
"""Standard deviation of the lesser or greater of two from which they are placed on a ridge by their
prior, by that of this."""
PAIRS, SHARE = 10, 0.1
"""Most of these that are tried; weight of the particles they are tried at, by that of equals."""


@dataclass(frozen=True)
class Exchange:
    """Parameters whose values may be exchanged.

    order: The parameter that comes in the place of each, an exchange of pairs.
    """

    order: Order

    @property
    def pair(self) -> tuple[int, int]:
        """The first two that change places."""
        first = next(j for j, other in enumerate(self.order) if j != other)
        return first, self.order[first]


def ordering(theta: Array, exchanges: Sequence[Exchange]) -> NDArray[np.intp]:
    """Return the parameter that comes in each place so that all pairs ascend, (N, d)."""
    places = np.tile(np.arange(theta.shape[1]), (len(theta), 1))
    for one in [*exchanges] * len(exchanges):
        first, second = one.pair
        now = np.take_along_axis(theta, places, axis=1)
        descends = now[:, first] > now[:, second]
        places = np.where(descends[:, None], places[:, one.order], places)
    return places


def ordered(theta: Array, exchanges: Sequence[Exchange]) -> Array:
    """Exchange parameters until each pair ascends, (N, d)."""
    return np.take_along_axis(theta, ordering(theta, exchanges), axis=1)


def merged(
    modes: Sequence[PosteriorMode], exchanges: Sequence[Exchange]
) -> tuple[PosteriorMode, ...]:
    """Return modes of which none is another one with parameters exchanged."""
    found: list[PosteriorMode] = []
    for mode in modes:
        (places,) = ordering(mode.mean[None, :], exchanges)
        own = PosteriorMode(mode.weight, mode.mean[places], mode.sd[places])
        same = [k for k, one in enumerate(found) if _far(one, own).diagonal().max() < NEAR]
        if same:
            one = found[same[0]]
            found[same[0]] = PosteriorMode(one.weight + own.weight, one.mean, one.sd)
        else:
            found.append(own)
    return tuple(found)


def exchange_facts(names: Sequence[str], exchanges: Sequence[Exchange]) -> list[Fact]:
    """Return the parameters that may be exchanged, and how they are shown, for a summary."""
    pairs = ", ".join(f"{names[i]} and {names[j]}" for i, j in (one.pair for one in exchanges))
    told = f"{pairs}: exchanged, they explain the record as well; the lesser is shown first"
    return [("exchangeable", told)] if pairs else []


class Exchanges:
    """Finds exchanges of parameters with the same prior, and tries them on the records."""

    def __init__(self, problem: Problem, solver: Solver, likelihood: str | None) -> None:
        self.problem, self.solver, self.likelihood = problem, solver, likelihood

    def found(
        self, modes: Sequence[PosteriorMode], theta: Array, weights: Array
    ) -> tuple[Exchange, ...]:
        """Return the exchanges between modes, or else within weighted draws (N, d)."""
        values = self.problem.prior.natural(theta)
        return self.between(modes) or self.within(theta, values, weights)

    def between(self, modes: Sequence[PosteriorMode]) -> tuple[Exchange, ...]:
        """Return the exchanges that lead from the first mode to others."""
        orders = (self._matched(modes[0], other) for other in modes[1:])
        return self._tried((order, modes[0].mean) for order in orders if order is not None)

    def within(self, theta: Array, values: Array, weights: Array) -> tuple[Exchange, ...]:
        """Return the exchanges of two parameters that overlap in weighted particles (N, d).

        Of a ridge, as of factors of which only the product acts, a combination alone is known.
        """
        mean = weights @ values
        sd = np.sqrt(weights @ np.square(values - mean))
        correlation = np.nan_to_num(posterior_correlation(theta, weights))
        near = np.abs(mean[:, None] - mean) < OVERLAP * np.hypot(sd[:, None], sd)
        chosen = np.triu(near & (correlation < CORRELATED), k=1)
        if not chosen.any():
            return ()
        pairs = [
            (i, j)
            for i, j in np.argwhere(chosen & self._alike).tolist()
            if self._narrow(np.sort(values[:, [i, j]], axis=1), weights, i)
        ]
        heavy = values[weights > SHARE / len(weights)]
        return self._tried(
            (_swap(i, j, len(mean)), heavy[np.argmax(np.abs(heavy[:, i] - heavy[:, j]))])
            for i, j in pairs[:PAIRS]
        )

    def _narrow(self, values: Array, weights: Array, j: int) -> bool:
        """True if the data tell much more than the prior of parameter j of weighted values."""
        low, _, high = self.problem.prior.natural(self.problem.prior.quartiles)[:, j]
        sd = np.sqrt(weights @ np.square(values - weights @ values))
        return bool(sd.max() < WIDE * (high - low) / INTERQUARTILE_RANGE)

    @cached_property
    def _alike(self) -> NDArray[np.bool_]:
        """Which parameters have the same prior, (d, d); those of unknown functions have none."""
        problem = self.problem
        texts = [
            name if name in problem.ode.priors else described(problem.prior, name)
            for name in problem.names
        ]
        return np.array([[one == other for other in texts] for one in texts])

    def _matched(self, mode: PosteriorMode, other: PosteriorMode) -> Order | None:
        """Order of parameters that makes one mode the other; None where none does."""
        cost = np.where(self._alike, _far(mode, other), UNLIKE)
        order = linear_sum_assignment(cost)[1]
        if cost[np.arange(len(order)), order].max() > NEAR:
            return None
        return tuple(order.tolist())

    def _tried(self, candidates: Iterable[tuple[Order, Array]]) -> tuple[Exchange, ...]:
        """Return those of the candidates, each at a point, that leave the outputs as they are."""
        found: dict[Order, None] = {}
        try:
            for order, point in candidates:
                for one in _involutions(order):
                    if one not in found and self._same(one, point):
                        found[one] = None
        except InputError:  # nothing was measured, or the noise has no innovations
            return ()
        return tuple(map(Exchange, found))

    def _same(self, order: Order, point: Array) -> bool:
        """True if the outputs stay where they are, although they depend on what is exchanged."""
        before = self._outputs(point)
        if not _distance(before, self._outputs(point[list(order)])) < SAME:
            return False
        equal, (first, second) = point.copy(), Exchange(order).pair
        equal[first] = equal[second]
        return _distance(before, self._outputs(equal)) > OTHER

    def _outputs(self, values: Array) -> Array:
        parts = innovations(self._short, self.solver, values, None, self.likelihood)
        return np.concatenate([part.normalised.ravel() for part in parts])

    @cached_property
    def _short(self) -> Problem:
        if max(map(len, self.problem.records)) <= SAMPLES:
            return self.problem
        return self.problem.with_records([one[:SAMPLES] for one in self.problem.records])


def _far(mode: PosteriorMode, other: PosteriorMode) -> Array:
    """Distance of each mean of the second from each of the first, in standard deviations."""
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.abs(other.mean[:, None] - mode.mean) / np.hypot(other.sd[:, None], mode.sd)
    return np.nan_to_num(distance, nan=UNLIKE, posinf=UNLIKE)


def _distance(one: Array, other: Array) -> float:
    return float(np.sqrt(np.nansum(np.square(one - other))))


def _swap(i: int, j: int, size: int) -> Order:
    order = list(range(size))
    order[i], order[j] = j, i
    return tuple(order)


def _involutions(order: Order) -> Iterator[Order]:
    """Yield an order that exchanges pairs, or the swaps that a longer cycle is made of."""
    moved = [j for j, other in enumerate(order) if j != other]
    if moved and all(order[order[j]] == j for j in moved):
        yield order
    elif moved:
        yield from (_swap(i, j, len(order)) for i, j in combinations(moved, 2))
