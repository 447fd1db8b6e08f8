"""Tests for data that ask for more than the equations that were found, or than the library.

A library that lacks the truth is told by its best equations: what is added to a rate along their
path would bring the trajectory nearer to the data. To each equation are added, with coefficients
that are free, slow cosines of time; the signs of all states, as of dry friction; and their absolute
values and hinges, which are bent where a quarter, a half and three quarters of the samples are
below. The response of the trajectory is linear to first order, so that with equations that are
right

    F = [(SSR_0 - SSR_1) / e] / [SSR_1 / (N - k - e)],

of e functions, the k coefficients and initial states of the equations and N numbers in the data,
has the distribution of Fisher and Snedecor. (A test for lack of fit: Draper, N. R., Smith, H.
(1998), Applied Regression Analysis, section 2.1; added variables: Cook, R. D., Weisberg, S. (1982),
Residuals and Influence in Regression, section 2.4.) The p-values of all equations and functions
depend on each other, and are combined by Cauchy's distribution (Liu, Y., Xie, J. (2020), Journal of
the American Statistical Association 115, 393-402).

Another test is for one function, not in the library, that would be more probable than its terms
alone. Terms that imitate a function, as x and x^3 do a sign, leave nothing that a test of what is
added beside them could find: it is known by what it makes needless. So the library is compared with
libraries of one function more, each a hypothesis of its own:

    sign x,    |x|,    x |x|,    x / (s + |x|),    x y / (s + |x|),

dry friction, what is the same in both directions, the drag of turbulent flow, and saturation, of
one state or of the rate at which another one grows (Monod 1949; Holling 1959), s in the range of x.
The library lacks the truth with the odds `LACKING`; one of F functions is missing then, each with
the same probability, in k of n equations, any such set, k = 1, ..., n as likely. On the linear
model at the maximum of the best support, each function in each equation goes in, and terms come and
go by greedy steps. No search is run again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import betaln

from smcpn.discovery.search.path_regression import PathRegression, Point, orthonormal, sizes
from smcpn.discovery.search.supports import (
    BetaBinomial,
    SpikeAndSlab,
    Support,
    flipped,
    most_probable,
)

Array = NDArray[np.float64]

LEAST_P = 1e-30
"""By which a p-value counts, at least: no approximation holds so far in its tail."""
LACKING = 0.1
"""Odds before the data of a library that lacks the truth."""
COSINES = 10
"""Of a record, whose periods are at least a fifth of its duration."""
QUARTILES = (0.25, 0.5, 0.75)
LARGEST_P = 0.9
"""By which a p-value counts in the combination, at most: those near one would outweigh others."""
LEAST_OWN = 1e-6
"""Length that is left of a response without the equations' own, as a share, to be counted."""
LEAST_FREE = 20
"""Numbers in the data, beyond all that is fitted, that tell what is left."""


class LackOfFit(NamedTuple):
    """The equation and the functions of which the data ask most.

    equation: Number of the state.
    functions: {"time", "states", "signs"}, of what they are.
    p: Probability of as much with equations that are right, of all tests together.
    """

    equation: int
    functions: str
    p: float

    @property
    def adequacy(self) -> float:
        """Probability that the library holds the truth, at most.

        Of a p-value below 1/e no alternative has a larger Bayes factor than 1 / (-e p log p)
        (Sellke, Bayarri, Berger 2001, The American Statistician 55, 62-71).
        """
        if self.p >= np.exp(-1.0):
            return 1.0
        p = max(self.p, LEAST_P)
        return adequacy(LACKING / (-np.e * p * np.log(p)))


def adequacy(odds: float) -> float:
    """Probability that the library holds the truth, from the odds after the data that it does not.

    It is 1 where they are no larger than before the data: nothing is then said against the library.
    """
    return 1.0 / (1.0 + max(odds - LACKING, 0.0))


def lack_of_fit(steps: PathRegression, point: Point) -> LackOfFit | None:
    """Return what the data ask for most beside the equations at a point; None where it is not told.

    Raises `LinAlgError` or `ValueError` if the path is not determined, or not finite.
    """
    tests = list(_tests(steps, point))
    if not tests:
        return None
    return min(tests, key=lambda one: one.p)._replace(p=combined([one.p for one in tests]))


def combined(p: Sequence[float]) -> float:
    """Return the p-value of several that may depend on each other."""
    clipped = np.clip(p, np.finfo(float).tiny, LARGEST_P)
    mean = float(np.mean(1.0 / np.tan(np.pi * clipped)))
    return float(stats.cauchy.sf(mean))


def _tests(steps: PathRegression, point: Point) -> Iterator[LackOfFit]:
    path = point.path
    kinds = {"time": _of_time(steps, point), "signs": np.sign(path), "states": _bent(path)}
    n = point.path.shape[1]
    for equation in np.flatnonzero(~steps.paths.rate.known).tolist():
        for kind, functions in kinds.items():
            added = np.zeros((len(point.path), n, functions.shape[1]))
            added[:, equation] = functions
            found = steps.disturbed(point, added)
            count = steps.count_at(point) - n * len(steps.paths.begins)
            p = _p_value(found, functions.shape[1], count, steps.least)
            if p is not None:
                yield LackOfFit(equation, kind, p)


def _of_time(steps: PathRegression, point: Point) -> Array:
    """Cosines, (T, e), of each record the same."""
    begins = [*steps.paths.begins.tolist(), len(point.path)]
    parts = []
    for begin, end in pairwise(begins):
        t = steps.paths.times[begin:end]
        phase = np.pi * (t - t[0]) / max(t[-1] - t[0], np.finfo(float).tiny)
        parts.append(np.cos(np.arange(COSINES) * phase[:, None]))
    return np.concatenate(parts)


def _bent(path: Array) -> Array:
    """Absolute values and hinges of states (T, n), shape (T, e)."""
    hinges = [np.maximum(path - np.quantile(path, share, axis=0), 0.0) for share in QUARTILES]
    return np.hstack([np.abs(path), *hinges])


def _p_value(responses: Array, added: int, count: float, least: float) -> float | None:
    """Probability of an F as large, of the last columns of (m, 1 + k + e) beside those before.

    Mean squares are at ``least``: below are errors of whoever simulated, with any structure.
    """
    residual, own, other = np.split(responses, [1, responses.shape[1] - added], axis=1)
    q = np.linalg.qr(own)[0]
    free = [part - q @ (q.T @ part) for part in (residual, other)]
    length, before = np.linalg.norm(free[1], axis=0), np.linalg.norm(other, axis=0)
    told = length > LEAST_OWN * np.where(before > 0.0, before, 1.0)
    if not told.any():
        return None
    axes, sizes, _ = np.linalg.svd(free[1][:, told] / length[told], full_matrices=False)
    axes = axes[:, sizes > LEAST_OWN * sizes[0]]
    rank, left = axes.shape[1], count - own.shape[1] - axes.shape[1]
    if left < LEAST_FREE:
        return None
    gain = float(np.sum((axes.T @ free[0]) ** 2))
    rest = max((float(np.sum(free[0] ** 2)) - gain) / left, least, np.finfo(float).tiny)
    return float(stats.f.sf(gain / rank / rest, rank, left))


HALVES = (0.3, 1.0)
"""Where saturations are at their half, in units of the root mean square of the state."""
MOST_STATES = 5
"""With more of them saturation of the rate at which another one grows is left out."""
LEAST_NEW = 1e-8
"""Length that is left of a function without the library and the functions before it, as a share."""
LEAST_SAMPLES = 10
"""On either side of zero, of a function that is bent there: fewer may be outliers."""
TRIED, STEPS = 40, 60
"""Most functions in an equation that supports are looked for with, and most steps of each."""
COUNTED = 400
"""Most supports in the probabilities."""


class Function(NamedTuple):
    """A function of scaled states x.

    name: With ``{0}`` and ``{1}`` for the names of its states, and ``{2}`` for s.
    half: s, in the unit of the state; 0 where there is none.
    values: (T,)
    """

    name: str
    states: tuple[int, ...]
    half: float
    values: Array

    def text(self, states: Sequence[str]) -> str:
        """Name with those of the states of a system."""
        named = [states[k] for k in self.states]
        return self.name.format(named[0], named[-1], self.half)


class OmittedFunction(NamedTuple):
    """The function, of those that the library does not have, that the data are most for.

    equations: Numbers of the states in whose equations it is.
    log_odds: Of all these functions to the library, after the data.
    """

    function: Function
    equations: tuple[int, ...]
    log_odds: float

    @property
    def adequacy(self) -> float:
        """Probability that the library holds the truth; 1 where the data say nothing against it."""
        with np.errstate(over="ignore"):
            return adequacy(float(np.exp(self.log_odds)))


def omitted_function(steps: PathRegression, point: Point, scale: Array) -> OmittedFunction | None:
    """Return the function that the data are most for at a point; None where none can be told.

    ``scale``, (n,), are units of the states. A path that is not determined, or not finite, raises
    `LinAlgError` or `ValueError`.
    """
    functions = list(_functions(point.path, scale))
    free = np.flatnonzero(~steps.paths.rate.known)
    which = np.repeat(np.arange(len(functions)), len(free))
    where = np.tile(free, len(functions))
    added = np.zeros((*point.path.shape, len(which)))
    for column, (function, equation) in enumerate(zip(which, where, strict=True)):
        added[:, equation, column] = functions[function].values
    rates = np.concatenate([steps.paths.columns(point.path)[0], added], axis=2)
    rates = rates.reshape(-1, rates.shape[2]) / np.tile(steps.speed, len(added))[:, None]
    library = rates.shape[1] - len(which)
    told = np.flatnonzero(_told(rates, library))
    if len(told) == 0:
        return None
    which, where = which[told], where[told]
    kept = np.append(np.arange(library), library + told)
    prior = OneFunctionMore(steps.prior, library, which)
    basis = orthonormal(rates[:, kept] / np.sqrt(len(added)))
    regression = steps.extended(point, added[..., told], basis, prior)
    support = np.append(point.support, np.zeros(len(told), dtype=bool))
    _look_with_each(regression, support, library, which)
    return _most_probable(regression, library, functions, which, where)


def _functions(path: Array, scale: Array) -> Iterator[Function]:
    """Of all states of a path (T, n) in units (n,)."""
    n = path.shape[1]
    for j, x in enumerate(path.T):
        size = np.abs(x)
        if min(np.sum(x < 0.0), np.sum(x > 0.0)) >= LEAST_SAMPLES:
            yield Function("sign({0})", (j,), 0.0, np.sign(x))
            yield Function("abs({0})", (j,), 0.0, size)
            yield Function("{0}*abs({0})", (j,), 0.0, x * size)
        for share in HALVES:
            half = share * float(sizes(x))
            unit = half * float(scale[j])
            yield Function("{0}/({2:.2g} + abs({0}))", (j,), unit, x / (half + size))
            for k in range(n) if n <= MOST_STATES else ():
                if k != j:
                    values = x * path[:, k] / (half + size)
                    yield Function("{0}*{1}/({2:.2g} + abs({0}))", (j, k), unit, values)


def _told(rates: Array, library: int) -> NDArray[np.bool_]:
    """True where functions differ from the library and those before them, shape (e,).

    Of rates (N, d + e) along a path, d of them of the library.
    """
    r = np.linalg.qr(rates).R
    own = np.zeros(rates.shape[1])
    own[: len(r)] = np.abs(np.diag(r))
    return (own > LEAST_NEW * np.sqrt(np.sum(r**2, axis=0)))[library:]


class OneFunctionMore(BetaBinomial):
    """Prior of supports of a library and of one function that it lacks, or none.

    ``library`` is the prior of its ``size`` terms, and ``functions``, (e,), has the number of the
    function of each column behind them.
    """

    def __init__(self, library: BetaBinomial, size: int, functions: NDArray[np.int64]) -> None:
        self._library, self._size = library, size
        found, self._functions = np.unique(functions, return_inverse=True)
        equations, none = np.bincount(self._functions), -np.log1p(LACKING)
        self._none, self._each = none, none + np.log(LACKING / len(found))
        self._equations = equations[self._functions]

    def log_probability(self, support: Support) -> float:
        """Log probability of a support."""
        inside, more = np.split(support, [self._size])
        return self._library.log_probability(inside) + self._log_more(more)

    def changes(self, support: Support) -> Array:
        """Change of the log probability by each flip, (d + e,)."""
        inside, more = np.split(support, [self._size])
        own = np.bincount(self._functions[more], minlength=len(more) + 1)[self._functions]
        after = self._log_of(own + np.where(more, -1, 1), self._equations)
        flips = np.where(own == more.sum(), after, -np.inf) - self._log_more(more)
        return np.append(self._library.changes(inside), flips)

    def pair_changes(self, support: Support) -> Array:
        """Changes by adding two columns, (d + e, d + e), both of the library."""
        changes = np.full((len(support),) * 2, -np.inf)
        inside = support[: self._size]
        changes[: self._size, : self._size] = self._library.pair_changes(inside)
        return changes

    def _log_more(self, more: Support) -> float:
        """Log probability of the columns behind those of the library."""
        present = self._functions[more]
        if len(present) == 0:
            return self._none
        alone = np.all(present == present[0])
        return float(self._log_of(more.sum(), self._equations[more][0])) if alone else -np.inf

    def _log_of(self, count: NDArray[np.int64], equations: NDArray[np.int64]) -> Array:
        """Log probability of one function in a set of so many of its equations."""
        sets = betaln(1.0 + count, 1.0 + equations - count) + np.log1p(1.0 / equations)
        return np.where(count == 0, self._none, self._each + sets)


def _look_with_each(
    regression: SpikeAndSlab, support: Support, library: int, which: NDArray[np.int64]
) -> None:
    """Let greedy steps go from a support with a function in one equation, or in all of them.

    All supports on the way are visited. Those functions come first that gain most by themselves.
    """
    gains = regression.neighbourhood(support).flips[library:]
    order = np.argsort(-gains, kind="stable")[:TRIED]
    order = order[np.isfinite(gains[order])]
    alone = order[:, None] == np.arange(len(which))
    everywhere = np.unique(which[order])[:, None] == which
    for more in np.concatenate([alone, everywhere]):
        here = np.append(support[:library], more)
        for _ in range(STEPS):
            flips = np.where(np.append(np.zeros(library), more), -np.inf, 0.0)
            flips = flips + regression.neighbourhood(here).flips
            best = int(np.argmax(flips))
            if not flips[best] > 0.0:
                break
            here = flipped(here, best)


def _most_probable(
    regression: SpikeAndSlab,
    library: int,
    functions: list[Function],
    which: NDArray[np.int64],
    where: NDArray[np.int64],
) -> OmittedFunction | None:
    """The function of the best support that has one, and the odds of all that do."""
    visited = most_probable(regression, COUNTED)
    more = [(score, support[library:]) for score, support in visited if support[library:].any()]
    if not more:
        return None
    without = [score for score, support in visited if not support[library:].any()]
    odds = np.logaddexp.reduce([score for score, _ in more])
    odds -= np.logaddexp.reduce(without) if without else visited[-1][0]
    columns = np.flatnonzero(more[0][1])
    equations = tuple(where[columns].tolist())
    return OmittedFunction(functions[which[columns[0]]], equations, float(odds))
