"""Test for one function, not in the library, that would be more probable than its terms alone.

Terms that imitate a function, as x and x^3 do a sign, leave nothing that a test of what is added
beside them could find: it is known by what it makes needless. So the library is compared with
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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln

from smcpn.discovery.search.adequacy import LACKING, adequacy
from smcpn.discovery.search.path_regression import PathRegression, Point, orthonormal, sizes
from smcpn.discovery.search.regression import BetaBinomial, SpikeAndSlab, Support
from smcpn.discovery.search.selection import flipped, most_probable

Array = NDArray[np.float64]

HALVES = (0.3, 1.0)
"""Where saturations are at their half, in units of the root mean square of the state."""
MOST_STATES = 5
"""With more of them saturation of the rate at which another one grows is left out."""
LEAST_OWN = 1e-8
"""Length that is left of a function without the library and the functions before it, as a share."""
LEAST_SAMPLES = 10
"""On either side of zero, of a function that is bent there: fewer may be outliers."""
TRIED, STEPS = 40, 60
"""Most functions in an equation that supports are looked for with, and most steps of each."""
COUNTED = 400
"""Most supports in the probabilities."""


class Function(NamedTuple):
    """A function of scaled states x.

    Attributes
    ----------
    name : str
        With ``{0}`` and ``{1}`` for the names of its states, and ``{2}`` for s.
    states : tuple of int
    half : float
        s, in the unit of the state; 0 where there is none.
    values : ndarray, (T,)
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

    Attributes
    ----------
    function : Function
    equations : tuple of int
        Numbers of the states in whose equations it is.
    log_odds : float
        Of all these functions to the library, after the data.
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

    Parameters
    ----------
    steps : PathRegression
    point : Point
    scale : ndarray, (n,)
        Units of its states.

    Raises
    ------
    numpy.linalg.LinAlgError, ValueError
        If the path is not determined, or not finite.
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
    return (own > LEAST_OWN * np.sqrt(np.sum(r**2, axis=0)))[library:]


class OneFunctionMore(BetaBinomial):
    """Prior of supports of a library and of one function that it lacks, or none.

    Parameters
    ----------
    library : BetaBinomial
        Of the d terms of the library.
    size : int
        d.
    functions : ndarray of int, (e,)
        Number of the function of each column behind those of the library.
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
