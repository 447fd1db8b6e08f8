"""Supports of a linear regression with spike and slab: their scores, and the most probable ones.

Whitened data are r + S (u - u0), white noise of unknown variance, in coordinates u = W theta of the
coefficients theta. A coefficient is zero, or it is there, and all that are have the slab

    p(theta | gamma, c) = N(0, c^2 (W'W)^-1),    W with the columns of the support gamma only,

which is N(0, c^2) of every coordinate within the span of W. Where |u| is the size of the rate of
the states that the terms make (Zellner 1986), the slab is that of rates: supports that can write
the same rates have the same evidence. So it does not matter how far from zero the states are, and
how large coefficients are for that, of terms that cancel. With W = Q R

    log p(data, gamma | c) = -m/2 log SSR - log|I + c^2 Q'S'S Q| / 2 + log p(gamma) + constant,
    SSR = min over v of |r + S (Q v - u0)|^2 + |v|^2 / c^2,    theta = R^-1 v,

averaged over c. No product of S or W with itself is formed for nearly dependent columns but within
their span. Where a coefficient has a sign its slab is the half of the normal density, twice as
high, of which the probability that the normal posterior gives the sign is left; of several such
coefficients the product.

Prior of the support: of the n columns of degree g, k are active with a probability that is the same
for all such sets, and beta-binomial(1, b) for k (Scott and Berger 2010). Of n terms n / (1 + b) are
expected, and b = 1 + n (g - 1), 1 of constants: any number of constants and linear terms, and some
1 / (g - 1) of degree g, whatever the library. Terms of high degree are many, and few of them are in
equations; one that is the only one of its degree is less probable than a constant. With 1 / (g (g -
1)) of them the first cubic term of two equations costs 4 nats, not 3, and laws lacked terms more
often than they said (`python -m benchmarks.discovery calibration`).

The best support is found by greedy steps, all that are probable by MCMC.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, expit, log_ndtr

Array = NDArray[np.float64]
Support = NDArray[np.bool_]

SLABS = (1.0, 3.0, 10.0, 30.0)
"""Widths c of the slab that scores are averaged over."""
_TINY = np.finfo(float).tiny
LEAST_PIVOT = 1e-9
"""A column of whose effect on the data the support leaves a smaller share of the square is
refused."""
LEAST_REST = 1e-21
"""The same of the column itself: less is rounding."""
CANCELLED = 1e-6
"""Below this share it is computed without a difference of squares."""
LEAST_PAIR = 1e-12
"""The same of two columns, of what each leaves of the other."""
MOST_PAIRED = 100
"""Columns of which every two are tried together."""


class BetaBinomial:
    """Prior of supports.

    ``degrees``, (d,), are those of each column.
    """

    def __init__(self, degrees: NDArray[np.int64]) -> None:
        degree, self._groups = np.unique(degrees, return_inverse=True)
        self._sizes = np.bincount(self._groups)
        self._absent = 1.0 + self._sizes * np.maximum(degree - 1.0, 0.0)

    def log_probability(self, support: Support) -> float:
        """Log probability of a support."""
        return float(self._logs(self._counts(support)).sum())

    def changes(self, support: Support) -> Array:
        """Change of the log probability by each flip, (d,)."""
        sizes, groups, counts = self._sizes, self._groups, self._counts(support)
        own = self._logs(counts)
        more = self._logs(np.minimum(counts + 1, sizes)) - own
        less = self._logs(np.maximum(counts - 1, 0)) - own
        return np.where(support, less[groups], more[groups])

    def pair_changes(self, support: Support) -> Array:
        """Change of the log probability by adding two columns, (d, d)."""
        sizes, groups, counts = self._sizes, self._groups, self._counts(support)
        own = self._logs(counts)
        one, two = (self._logs(np.minimum(counts + k, sizes)) - own for k in (1, 2))
        alike = groups[:, None] == groups
        return np.where(alike, two[groups], one[groups][:, None] + one[groups])

    def _logs(self, counts: NDArray[np.int64]) -> Array:
        """Log probability of one set of so many in each group."""
        absent = self._absent
        return betaln(1.0 + counts, absent + self._sizes - counts) - betaln(1.0, absent)

    def _counts(self, support: Support) -> NDArray[np.int64]:
        return np.bincount(self._groups[support], minlength=len(self._sizes))


class Neighbourhood(NamedTuple):
    """A support with its score, and those of all supports that differ in one column.

    evidence: Log evidence, but for a constant.
    score: The same plus the log prior probability of the support.
    flips: (d,), score with this column added or deleted, minus the score.
    theta: (d,), posterior mean of the coefficients.
    """

    evidence: float
    score: float
    flips: Array
    theta: Array


class _Fit(NamedTuple):
    """Least squares on a support with each of C slabs.

    q: (d, k), orthonormal coordinates of the support.
    gram_q: (d, k), S'S Q.
    to_theta: (k, k), R^-1.
    theta: (C, k)
    inverse: (C, k, k), of Q'S'S Q + 1 / c^2.
    pull: (C, d), half of the gradient of the sum of squares by all coordinates.
    least: (C,), SSR.
    log_volume: (C,), log|I + c^2 Q'S'S Q|.
    """

    q: Array
    gram_q: Array
    to_theta: Array
    theta: Array
    inverse: Array
    pull: Array
    least: Array
    log_volume: Array

    @property
    def spread(self) -> Array:
        """Covariances of the coefficients, (C, k, k), in units of the variance of the noise."""
        return self.to_theta @ self.inverse @ self.to_theta.T


class _Flips(NamedTuple):
    """Gain of each of d columns if added to a support, with each of C slabs.

    inside: (k, d), coordinates of a column within the support.
    size: (d,), length of the rest.
    cross: (k, d), of S'S, between the support and the rest of the column, of unit length.
    pivot: (C, d), square that the support leaves of that, in S'S + 1 / c^2.
    pull: (C, d), half of the gradient of the sum of squares along it.
    """

    inside: Array
    size: Array
    cross: Array
    pivot: Array
    pull: Array


class SpikeAndSlab:
    """The regression, and its supports as far as they were visited.

    ``residual`` is r, (m,), ``columns`` S, (m, d), derivatives by the coordinates, ``centre`` u0,
    (d,), and ``basis`` W, (d, d), the identity if not given. ``count`` are the independent numbers
    in the data, ``prior`` that of the support, ``least`` is added to every SSR, squares of the
    noise that is there at least, and ``signs``, (d,), are 1 or -1 where a coefficient has a sign,
    else 0.
    """

    def __init__(
        self,
        residual: Array,
        columns: Array,
        centre: Array,
        count: float,
        prior: BetaBinomial,
        slabs: tuple[float, ...] = SLABS,
        least: float = 0.0,
        signs: NDArray[np.int64] | None = None,
        basis: Array | None = None,
    ) -> None:
        self._gram, self._pull = columns.T @ columns, columns.T @ residual
        self._square = float(residual @ residual + least)
        self._centre, self._count, self._prior = centre, count, prior
        self._precision = 1.0 / np.square(slabs)
        self._signs = np.zeros(len(centre), dtype=np.int64) if signs is None else signs
        self._basis = np.eye(len(centre)) if basis is None else basis
        self._gram_basis = self._gram @ self._basis
        self._lengths = np.sum(self._basis**2, axis=0)
        self._own = np.sum(self._basis * self._gram_basis, axis=0)
        self._known: dict[bytes, Neighbourhood] = {}

    @property
    def visited(self) -> dict[bytes, Neighbourhood]:
        """Neighbourhoods by the bytes of the support."""
        return self._known

    def neighbourhood(self, support: Support) -> Neighbourhood:
        """Score of a support and of its neighbours."""
        key = support.tobytes()
        if key not in self._known:
            self._known[key] = self._computed(support)
        return self._known[key]

    def score(self, support: Support) -> float:
        """Log of the posterior probability of a support, but for a constant."""
        return self.neighbourhood(support).score

    def square(self, theta: Array) -> float:
        """Sum of squares, without that of the slab, of coefficients."""
        off = self._basis @ theta - self._centre
        return float(self._square + off @ (self._gram @ off + 2.0 * self._pull))

    def _computed(self, support: Support) -> Neighbourhood:
        active = np.flatnonzero(support)
        fit = self._fit(active)
        score = -0.5 * self._count * np.log(fit.least) - 0.5 * fit.log_volume
        flips = self._flips(fit)
        change, volume = self._changes(active, fit, flips)
        ratio = np.maximum(1.0 + change / fit.least[:, None], _TINY)
        flipped = score[:, None] - 0.5 * self._count * np.log(ratio) - 0.5 * volume
        if self._signs.any():
            flipped += self._flipped_signs(active, fit, ratio, flips)
            score = score + self._with_signs(active, fit)
        together = np.logaddexp.reduce(score)
        with np.errstate(invalid="ignore"):
            gains = np.logaddexp.reduce(flipped, axis=0) - together
        gains = gains + self._prior.changes(support)
        evidence = float(together - np.log(len(score)))
        mean = np.zeros(len(support))
        mean[active] = np.exp(score - together) @ fit.theta
        return Neighbourhood(
            evidence,
            evidence + self._prior.log_probability(support),
            np.where(np.isfinite(gains), gains, -np.inf),
            mean,
        )

    def moments(self, support: Support) -> tuple[Array, Array]:
        """Posterior mean (k,) and covariance (k, k) of a support's coefficients, over all slabs."""
        active = np.flatnonzero(support)
        fit = self._fit(active)
        score = -0.5 * self._count * np.log(fit.least) - 0.5 * fit.log_volume
        score = score + self._with_signs(active, fit)
        weights = np.exp(score - np.logaddexp.reduce(score))
        mean = weights @ fit.theta
        off = fit.theta - mean
        variance = weights * fit.least / self._count
        within = np.tensordot(variance, fit.spread, axes=1)
        return mean, within + (off * weights[:, None]).T @ off

    def _fit(self, active: NDArray[np.intp]) -> _Fit:
        precision, gram = self._precision, self._gram
        q, r = np.linalg.qr(self._basis[:, active])
        to_theta = np.linalg.inv(r)
        gram_q = self._gram_basis[:, active] @ to_theta
        matrix = q.T @ gram_q + precision[:, None, None] * np.eye(len(active))
        inverse = np.asarray(np.linalg.inv(matrix), dtype=float)
        inside = inverse @ (q.T @ (gram @ self._centre - self._pull))
        # Of differences from the centre, which is near: sums of squares would cancel.
        off = inside @ q.T - self._centre
        moved = off @ gram
        least = self._square + np.sum(off * (moved + 2.0 * self._pull), axis=1)
        least = np.maximum(least + precision * np.sum(inside**2, axis=1), _TINY)
        log_volume = np.linalg.slogdet(matrix)[1] - len(active) * np.log(precision)
        theta = inside @ to_theta.T
        return _Fit(q, gram_q, to_theta, theta, inverse, moved + self._pull, least, log_volume)

    def _flips(self, fit: _Fit) -> _Flips:
        """Columns less what they are within a support."""
        inside, along = fit.q.T @ self._basis, fit.gram_q.T @ self._basis
        within = fit.gram_q.T @ fit.q
        square = self._lengths - np.sum(inside**2, axis=0)
        own = self._own - np.sum(inside * (2.0 * along - within @ inside), axis=0)
        cross = along - within @ inside
        near = np.flatnonzero(square < CANCELLED * self._lengths)
        if len(near):
            rest, moved = self._rest(fit, inside, near)
            square[near], own[near] = np.sum(rest**2, axis=0), np.sum(rest * moved, axis=0)
            cross[:, near] = fit.q.T @ moved
        with np.errstate(all="ignore"):
            size = np.where(square > LEAST_REST * self._lengths, np.sqrt(square), np.nan)
            cross = cross / size
            own = own / size**2 + self._precision[:, None]
            pivot = own - np.sum(cross * (fit.inverse @ cross), axis=1)
            pivot = np.where(pivot > LEAST_PIVOT * np.abs(own), pivot, np.nan)
        pull = (fit.pull @ self._basis - (fit.pull @ fit.q) @ inside) / size
        return _Flips(inside, size, cross, pivot, pull)

    def _rest(self, fit: _Fit, inside: Array, columns: NDArray[np.intp]) -> tuple[Array, Array]:
        """Columns less a support, (d, k), and S'S times that, without cancelling."""
        inside = inside[:, columns]
        rest = self._basis[:, columns] - fit.q @ inside
        return rest, self._gram_basis[:, columns] - fit.gram_q @ inside

    def best_pair(self, support: Support) -> tuple[int, int]:
        """Return the two columns that add most to the score together, of those most promising.

        Terms that cancel, as those of states far from zero, add nothing one by one.
        """
        active, gains = np.flatnonzero(support), self.neighbourhood(support).flips
        columns = np.flatnonzero(~support & np.isfinite(gains))
        columns = np.sort(columns[np.argsort(-gains[columns], kind="stable")[:MOST_PAIRED]])
        fit = self._fit(active)
        flips = self._flips(fit)
        size = flips.size[columns]
        rest, moved = (part / size for part in self._rest(fit, flips.inside, columns))
        alike, gram, cross = rest.T @ rest, rest.T @ moved, flips.cross[:, columns]
        score = -0.5 * self._count * np.log(fit.least) - 0.5 * fit.log_volume
        found = []
        for c, precision in enumerate(self._precision):
            pull, pivot = flips.pull[c, columns], flips.pivot[c, columns]
            both = gram + precision * alike - cross.T @ fit.inverse[c] @ cross
            left = np.outer(pivot, pivot) - both**2
            change = np.outer(pull**2, pivot)
            change = change + change.T - 2.0 * np.outer(pull, pull) * both
            with np.errstate(all="ignore"):
                volume = np.log(left / precision**2 / (1.0 - alike**2))
                ratio = np.maximum(1.0 - change / left / fit.least[c], _TINY)
                gain = score[c] - 0.5 * self._count * np.log(ratio) - 0.5 * volume
            told = (left > LEAST_PAIR * np.outer(pivot, pivot)) & (1.0 - alike**2 > LEAST_PAIR)
            found.append(np.where(told, gain, -np.inf))
        total = np.logaddexp.reduce(found, axis=0)
        total += self._prior.pair_changes(support)[np.ix_(columns, columns)]
        np.fill_diagonal(total, -np.inf)
        first, second = np.unravel_index(np.argmax(total), total.shape)
        return int(columns[first]), int(columns[second])

    def _changes(self, active: NDArray[np.intp], fit: _Fit, flips: _Flips) -> tuple[Array, Array]:
        """Change of SSR and of the log determinant by adding or deleting each column, (C, d)."""
        precision = self._precision[:, None]
        change, volume = -(flips.pull**2) / flips.pivot, np.log(flips.pivot / precision)
        deleted = np.diagonal(fit.spread, axis1=1, axis2=2)
        before = np.sum(fit.to_theta**2, axis=1)
        change[:, active] = fit.theta**2 / deleted
        volume[:, active] = np.log(deleted * precision / before)
        return change, volume

    def _with_signs(self, active: NDArray[np.intp], fit: _Fit) -> Array:
        """Change of the log evidence by the signs of a support, (C,)."""
        deleted = np.diagonal(fit.spread, axis1=1, axis2=2)
        variance = deleted * fit.least[:, None] / self._count
        return np.sum(_log_share(self._signs[active], fit.theta, variance), axis=1)

    def _flipped_signs(
        self, active: NDArray[np.intp], fit: _Fit, ratio: Array, flips: _Flips
    ) -> Array:
        """Probabilities of signs where each column is added or deleted, (C, d).

        Its own coefficient moves by theta_j, up or down to zero, and each other one with it.
        """
        own = -flips.pull / (flips.pivot * flips.size)
        spread = 1.0 / (flips.pivot * flips.size**2)[:, None]
        moved = fit.to_theta @ (fit.inverse @ (flips.cross * flips.size) + flips.inside)
        covariance = fit.spread
        deleted = np.diagonal(covariance, axis1=1, axis2=2)
        own[:, active] = -fit.theta
        moved[:, :, active] = -covariance / deleted[:, None]
        alone_spread = spread[:, 0].copy()
        spread[:, 0, active] = -deleted
        signed = np.flatnonzero(self._signs[active])
        noise = fit.least[:, None] * ratio / self._count
        mean = fit.theta[:, signed, None] - moved[:, signed] * own[:, None]
        variance = noise[:, None] * (deleted[:, signed, None] + moved[:, signed] ** 2 * spread)
        others = _log_share(self._signs[active[signed], None], mean, variance)
        others[:, np.arange(len(signed)), active[signed]] = 0.0
        alone = _log_share(self._signs, own, noise * alone_spread)
        alone[:, active] = 0.0
        return np.sum(others, axis=1) + alone


def _log_share(signs: NDArray[np.int64], mean: Array, variance: Array) -> Array:
    """Log of twice the probability of a sign; 0 where there is none."""
    with np.errstate(all="ignore"):
        return np.where(signs == 0, 0.0, np.log(2.0) + log_ndtr(signs * mean / np.sqrt(variance)))


SWAP_BELOW = 3.0
"""Swaps are tried where no column adds more to the score than this."""
MOST_STEPS = 200


def best_support(regression: SpikeAndSlab, support: Support) -> Support:
    """Go to better supports until none is better.

    One column is added or deleted, or one is swapped, or, where neither helps, two are added.
    """
    for _ in range(MOST_STEPS):
        flips = regression.neighbourhood(support).flips
        best, gain = int(np.argmax(flips)), float(flips.max(initial=-np.inf))
        better = flipped(support, best) if gain > 0.0 else None
        if gain < SWAP_BELOW:
            out, into, swapped = best_swap(regression, support)
            if swapped > max(gain, 0.0):
                better = flipped(flipped(support, out), into)
        if better is None:
            better = _with_two(regression, support)
        if better is None:
            break
        support = better
    return support


def _with_two(regression: SpikeAndSlab, support: Support) -> Support | None:
    """The support with two more columns, if that is better."""
    if np.sum(~support) < 2:
        return None
    first, second = regression.best_pair(support)
    both = flipped(flipped(support, first), second)
    return both if regression.score(both) > regression.score(support) else None


def best_swap(regression: SpikeAndSlab, support: Support) -> tuple[int, int, float]:
    """Column out, column in, and what this adds to the score."""
    score = regression.score(support)
    best = (0, 0, -np.inf)
    for out in np.flatnonzero(support).tolist():
        without = regression.neighbourhood(flipped(support, out))
        gains = np.where(support, -np.inf, without.flips)
        into = int(np.argmax(gains))
        gain = without.score - score + float(gains[into])
        if gain > best[2]:
            best = (out, into, gain)
    return best


def flipped(support: Support, column: int) -> Support:
    """The support with a column added or deleted."""
    result = support.copy()
    result[column] = not result[column]
    return result


def sampled_inclusion(
    regression: SpikeAndSlab, support: Support, sweeps: int, rng: np.random.Generator
) -> Array:
    """Probability, (d,), that each column is in the support, by MCMC from a support.

    A sweep is a flip, proposed in proportion to the square root of the change of the posterior
    (Zanella 2020, informed proposals), and a swap: one column out, and one in from its conditional
    distribution. The probabilities are averages of the conditional ones. What was visited is in
    ``regression.visited``.
    """
    total = np.zeros(len(support))
    for _ in range(sweeps):
        support = _flip(regression, support, rng)
        support = _swap(regression, support, rng)
        total += expit(np.where(support, -1.0, 1.0) * regression.neighbourhood(support).flips)
    return total / sweeps


def _flip(regression: SpikeAndSlab, support: Support, rng: np.random.Generator) -> Support:
    here = 0.5 * regression.neighbourhood(support).flips
    proposal = flipped(support, _drawn(here, rng))
    there = 0.5 * regression.neighbourhood(proposal).flips
    accepted = np.log(rng.uniform()) < np.logaddexp.reduce(here) - np.logaddexp.reduce(there)
    return proposal if accepted else support


def _swap(regression: SpikeAndSlab, support: Support, rng: np.random.Generator) -> Support:
    active = np.flatnonzero(support)
    if len(active) == 0:
        return support
    without = flipped(support, int(rng.choice(active)))
    flips = np.where(without, -np.inf, regression.neighbourhood(without).flips)
    return flipped(without, _drawn(flips, rng)) if np.isfinite(flips).any() else support


def _drawn(log_weights: Array, rng: np.random.Generator) -> int:
    weights = np.exp(log_weights - log_weights.max())
    return int(np.searchsorted(np.cumsum(weights), rng.uniform() * weights.sum()))


def most_probable(regression: SpikeAndSlab, count: int) -> list[tuple[float, Support]]:
    """Scores and supports, best first, of those visited and their neighbours."""
    scores: dict[bytes, float] = {}
    for key, found in regression.visited.items():
        scores[key] = found.score
        support = np.frombuffer(key, dtype=bool)
        for column in np.argsort(-found.flips)[:count].tolist():
            score = found.score + float(found.flips[column])
            scores.setdefault(flipped(support, column).tobytes(), score)
    best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:count]
    return [(score, np.frombuffer(key, dtype=bool).copy()) for key, score in best]
