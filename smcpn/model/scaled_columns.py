"""Which parameters a prior scales by others, and which of these a function multiplies further."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.functions.unknown import Stretch
from smcpn.model.coordinates import Identity
from smcpn.model.distribution import INTERQUARTILE_RANGE, draw
from smcpn.model.problem import Problem

Array = NDArray[np.float64]

_DRAWS = 1001
_FARTHEST = 1e30
"""Largest scale, and one over the least."""


class ScaledColumns:
    """Coordinates u of learned scales and lengths, and the parameters x that these scale.

    A function may take x by its products v = x r(l) alone, l being a length that is learned, see
    `UnknownFunction.stretches`. The likelihood then depends on v, whose prior has the scale s r(l).

    Attributes
    ----------
    prior : Prior
    scales, others : ndarray of int
        Columns of u, (k,), and of all others, (m,).
    scaled : ndarray of int, (n,)
        Places of x among the others.
    precision, centre : ndarray, (n,)
        h and c of x / s, whose prior is N(c, 1 / h): exact of normal distributions, by the
        quartiles of others.
    stretches : bool
        Whether there are lengths.
    """

    def __init__(self, problem: Problem) -> None:
        self.prior = prior = problem.prior
        scaling, names = prior.scaling, list(prior.names)
        stretches = list(_stretches(problem))
        columns = [names.index(one) for _, stretch in stretches for one in stretch.names]
        pairs = zip(scaling.by.tolist(), scaling.known.tolist(), strict=True)
        own = dict(zip(scaling.columns.tolist(), pairs, strict=True))
        x = np.unique([*(j for j, (by, _) in own.items() if by >= 0), *columns]).astype(int)
        lengths = [names.index(length) for length, _ in stretches]
        by = np.array([own.get(j, (-1, 1.0))[0] for j in x], int)
        self.scales = np.unique([*by[by >= 0], *lengths]).astype(int)
        self.others = np.setdiff1d(np.arange(len(prior)), self.scales)
        self.scaled = np.searchsorted(self.others, x)
        self._known = np.array([own.get(j, (-1, 1.0))[1] for j in x], float)
        self._by = np.where(by < 0, -1, np.searchsorted(self.scales, by))
        self._stretches = [
            (int(np.searchsorted(self.scales, names.index(length))), stretch,
             np.searchsorted(x, [names.index(one) for one in stretch.names]))
            for length, stretch in stretches
        ]  # fmt: skip
        self.stretches = bool(stretches)
        normals = [_normal(prior.distributions[names[j]]) for j in x]
        self.centre, spread = np.array(normals).reshape(-1, 2).T
        self.precision = spread**-2.0

    @property
    def usable(self) -> bool:
        """True if x has no bounds, so that its coordinate is x itself."""
        maps = self.prior.maps
        return all(isinstance(maps[j], Identity) for j in self.others[self.scaled])

    def stretched(self, u: Array) -> tuple[Array, Array]:
        """Return log r (n, number of x) of u (n, k), and its derivatives by u, (n, ., k)."""
        logs = np.zeros((len(u), len(self.scaled)))
        slopes = np.zeros((*logs.shape, len(self.scales)))
        for k, stretch, places in self._stretches:
            at = self.prior.maps[self.scales[k]]
            log_factor, by_length = stretch.log_factor(at.natural(u[:, k]))
            logs[:, places] += log_factor
            slopes[:, places, k] += by_length * at.slopes(u[:, k])[0][:, None]
        return np.maximum(logs, -np.log(_FARTHEST**4)), slopes

    def of(self, u: Array) -> tuple[Array, Array]:
        """Scales s r of coordinates u (n, k), (n, number of x), and slopes of their logarithms."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            logs, slopes = self.stretched(u)
            scales = np.repeat(self._known[None], len(u), axis=0)
            for k, j in enumerate(self.scales):
                own, at = self._by == k, self.prior.maps[j]
                s = at.natural(u[:, k])[:, None]
                scales[:, own] = s
                slopes[:, own, k] += at.slopes(u[:, k])[0][:, None] / s
            scales = np.nan_to_num(scales * np.exp(logs), nan=1.0)
        # A move may leave all that is likely; matrices must stay positive definite there.
        least = 1.0 if not self.stretches else _FARTHEST**-4
        scales = np.clip(scales, least / _FARTHEST, _FARTHEST)
        return scales, np.nan_to_num(slopes, posinf=0.0, neginf=0.0)

    def log_prior(self, u: Array) -> Array:
        """Log density of the prior of each coordinate (n, k), (n, k)."""
        prior, along = self.prior, np.empty(u.shape)
        for k, j in enumerate(self.scales):
            at, distribution = prior.maps[j], prior.distributions[prior.names[j]]
            along[:, k] = distribution.logpdf(at.natural(u[:, k])) + at.log_jacobian(u[:, k])
        return along

    @cached_property
    def spread(self) -> Array:
        """Spread of the prior of u, (k,)."""
        theta = self.prior.sample(np.random.default_rng(0), _DRAWS)[:, self.scales]
        low, high = np.quantile(theta, (0.25, 0.75), axis=0)
        return (high - low) / INTERQUARTILE_RANGE

    def whole(self, w: Array, u: Array) -> Array:
        """Coordinates (n, d) of w (n, m), with v in place of x, and u (n, k)."""
        theta = np.empty((len(u), len(self.prior)))
        theta[:, self.others], theta[:, self.scales] = w, u
        if self.stretches:
            theta[:, self.others[self.scaled]] /= np.exp(self.stretched(u)[0])
        return theta

    def parts(self, theta: Array) -> tuple[Array, Array]:
        """Return w (n, m), with v in place of x, and u (n, k), of coordinates (n, d)."""
        w, u = theta[:, self.others], theta[:, self.scales]
        if self.stretches:
            w[:, self.scaled] *= np.exp(self.stretched(u)[0])
        return w, u


def learned_scales(problem: Problem) -> ScaledColumns | None:
    """Return the scales that a prior learns; None without any, or if the model depends on one.

    None too for a function whose parameters are far from Gaussian given their scale, as a network.
    """
    functions = [one.function for one in problem.ode.functions.values()]
    if not all(one.gaussian_given_scales for one in functions):
        return None
    columns = ScaledColumns(problem)
    if not len(columns.scales) or not columns.usable:
        return None
    scales = np.unique(problem.prior.scaling.by[problem.prior.scaling.by >= 0])
    return None if problem.model.depends_on()[scales].any() else columns


def _stretches(problem: Problem) -> Iterator[tuple[str, Stretch]]:
    """Yield the lengths that are learned, and what they stretch of what is learned."""
    names = problem.prior.names
    for name, call in problem.ode.functions.items():
        for length, stretch in call.function.stretches.items():
            if name + length in names:
                yield name + length, stretch.of(name, names)


def _normal(distribution: Any) -> tuple[float, float]:
    """Mean and standard deviation of a normal distribution; of another by its quartiles."""
    if getattr(getattr(distribution, "dist", None), "name", None) == "norm":
        return float(distribution.mean()), float(distribution.std())
    drawn = draw(distribution, np.random.default_rng(0), _DRAWS)
    low, centre, high = np.quantile(drawn, (0.25, 0.5, 0.75))
    return float(centre), float(high - low) / INTERQUARTILE_RANGE
