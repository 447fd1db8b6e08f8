"""Tests for data that ask for more than the equations that were found.

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
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from smcpn.discovery.search.path_regression import PathRegression, Point

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

    Attributes
    ----------
    equation : int
        Number of the state.
    functions : {"time", "states", "signs"}
        Of what they are.
    p : float
        Probability of as much with equations that are right, of all tests together.
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

    Raises
    ------
    numpy.linalg.LinAlgError, ValueError
        If the path is not determined, or not finite.
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
            count = steps.count - n * len(steps.paths.begins)
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


def _p_value(responses: Array, added: int, count: int, least: float) -> float | None:
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
