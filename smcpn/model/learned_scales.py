"""Learned scales of a prior: which parameters it scales, and the parameters given the scales.

Let x have the prior p(x | s) = N(s c, s^2 / h), with scales s that are learned, u be coordinates of
s, and w those of all other parameters, x among them. Where the likelihood, and the prior of what
has no learned scale, is about exp(constant + b'w - w'A w / 2), w is Gaussian given u,

    p(w | u, y) = N(L^-1 r, L^-1),    L = A + diag(h / s^2),    r = b + h c / s,

and p(y, u) is known as well (the step of integrated nested Laplace approximations: Rue, Martino and
Chopin, *J. R. Stat. Soc. B* 71, 2009). The joint mode of (w, u) is not near where that density has
its mass: p(x | s) rises as 1 / s^n where data leave x open.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from smcpn.model.coordinates import Identity
from smcpn.model.distribution import INTERQUARTILE_RANGE, draw
from smcpn.model.functions.unknown import Stretch
from smcpn.model.prior import derivatives
from smcpn.model.problem import Problem

Array = NDArray[np.float64]

_DRAWS = 1001
_FARTHEST = 1e30
"""Largest scale, and one over the least."""


class ScaledColumns:
    """Coordinates u of learned scales and lengths, and the parameters x that these scale.

    A function may take x by its products v = x r(l) alone, l being a length that is learned, see
    `UnknownFunction.stretches`. The likelihood then depends on v, whose prior has the scale s r(l).

    scales, others: Columns of u, (k,), and of all others, (m,).
    scaled: (n,), places of x among the others.
    precision, centre: (n,), h and c of x / s, whose prior is N(c, 1 / h): exact of normal
        distributions, by the quartiles of others.
    stretches: Whether there are lengths.
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


_NEGLIGIBLE = 12.0
"""Nats below its mode at which the density of the scales is cut off."""
_WIDEST = 12.0
"""Farthest end of its grid from the mode, in standard deviations by the curvature there."""
_NODES = {1: 41, 2: 17, 3: 9}
"""Nodes along each axis of so many scales; of more, the density is that of its curvature."""
_DIFFERENCE = 1e-3
_SMALL_GAIN, _FLAT = 1e-12, 1e-4
"""Share of the log density, and slope, below which a search for its mode ends."""
_BLOCK = 2**22
"""Most numbers of the matrices that are held at a time."""


@dataclass(frozen=True)
class GivenScales:
    """Gaussian of parameters given the learned scales of their prior, see the module.

    information: (m, m), A, positive semidefinite.
    constant: That of the logarithm, so that `log_marginal` is log p(y, u).
    """

    columns: ScaledColumns
    information: Array
    pull: Array
    constant: float = 0.0

    def conditional(self, u: Array) -> tuple[Array, Array]:
        """Means (n, m) of w given u (n, k), and lower Cholesky factors of the precisions."""
        precision, pull = self._given(u)
        roots = np.asarray(np.linalg.cholesky(precision), dtype=np.float64)
        half = np.linalg.solve(roots, pull[:, :, None])
        mean = np.linalg.solve(roots.transpose(0, 2, 1), half)[:, :, 0]
        return np.asarray(mean, dtype=np.float64), roots

    def log_marginal(self, u: Array) -> Array:
        """Return log p(y, u) at (n, k), (n,)."""
        return np.concatenate([self._log_marginal(u[rows]) for rows in self.blocks(len(u))])

    def _log_marginal(self, u: Array) -> Array:
        mean, roots = self.conditional(u)
        return self._value(u, mean, roots) + self.columns.log_prior(u).sum(axis=1)

    def _value(self, u: Array, mean: Array, roots: Array) -> Array:
        """Return log p(y | u), (n,), of moments given u."""
        columns, (s, _) = self.columns, self.columns.of(u)
        _, pull = self._given(u)
        log_volume = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
        h, c, m = columns.precision, columns.centre, len(columns.others)
        own = 0.5 * (np.log(h) - h * c**2).sum() + 0.5 * (m - len(h)) * np.log(2.0 * np.pi)
        square = 0.5 * np.sum(pull * mean, axis=1)
        return self.constant + own + square - log_volume - np.log(s).sum(axis=1)

    def value_and_slope(self, u: Array) -> tuple[Array, Array]:
        """Return `log_marginal` at (n, k), (n,), and its gradient, (n, k)."""
        columns, (s, a) = self.columns, self.columns.of(u)
        mean, roots = self.conditional(u)
        variance = _variances(roots)[:, columns.scaled]
        x = mean[:, columns.scaled]
        by_log = columns.precision * (x**2 + variance) / s**2
        by_log -= columns.precision * columns.centre * x / s + 1.0
        prior, by_prior, _ = derivatives(columns.log_prior, u, columns.spread)
        value = self._value(u, mean, roots) + prior.sum(axis=1)
        return value, np.einsum("nj,njk->nk", by_log, a) + by_prior

    def mode(self, starts: Array, bounds: Array) -> Array:
        """Highest point (k,) of `log_marginal`, from starts (n, k) within bounds (k, 2)."""

        def cost(u: Array) -> tuple[float, Array]:
            value, slope = self.value_and_slope(u[None])
            return -float(value[0]), -slope[0]

        ends = [
            optimize.minimize(cost, start, jac=True, method="L-BFGS-B", bounds=bounds,
                              options={"ftol": _SMALL_GAIN, "gtol": _FLAT})
            for start in np.unique(np.clip(starts, *bounds.T), axis=0)
        ]  # fmt: skip
        return np.asarray(min(ends, key=lambda end: end.fun).x, dtype=np.float64)

    def moments(self, u: Array) -> tuple[Array, Array, float]:
        """Mean (d,) and covariance (d, d) of all coordinates, and log p(y), about the mode u (k,).

        Those of w are averaged over a grid of scales, of up to three of these.
        """
        nodes, logs = self._grid(u)
        top = logs.max()
        weights = np.exp(logs - top)
        total = weights.sum()
        weights /= total
        whole = [
            (self.columns.whole(mean, part), roots)
            for part in map(nodes.__getitem__, self.blocks(len(nodes)))
            for mean, roots in [self.conditional(part)]
        ]
        means = np.concatenate([mean for mean, _ in whole])
        mean = weights @ means
        covariance = (means - mean).T @ (weights[:, None] * (means - mean))
        others, done = np.ix_(self.columns.others, self.columns.others), 0
        stretch = np.exp(-self.columns.stretched(nodes)[0])
        for _, roots in whole:
            inverse = np.linalg.inv(roots)
            inverse[:, :, self.columns.scaled] *= stretch[done : done + len(roots), None]
            own = np.sqrt(weights[done : done + len(roots), None, None]) * inverse
            flat = own.reshape(-1, own.shape[2])
            covariance[others] += flat.T @ flat
            done += len(roots)
        return mean, covariance, float(top + np.log(total))

    def _grid(self, u: Array) -> tuple[Array, Array]:
        """Nodes (n, k) about the mode, and the logs of their shares of p(y)."""
        k, middle = len(u), u[None]
        axes = self._axes(u)
        log_volume = float(np.linalg.slogdet(axes)[1])
        if k not in _NODES:
            # The two points along each axis at which a normal density has its second moments.
            ends = np.sqrt(k) * np.concatenate([np.eye(k), -np.eye(k)]) @ axes.T
            top = float(self.log_marginal(middle)[0]) + log_volume + 0.5 * k * np.log(2 * np.pi)
            return u + ends, np.full(2 * k, top - np.log(2 * k))
        far = np.arange(0.5, _WIDEST + 0.5, 0.5)
        top = float(self.log_marginal(middle)[0])
        lines, spacing = [], 1.0
        for axis in axes.T:
            ends = []
            for sign in (-1.0, 1.0):
                below = top - self.log_marginal(u + sign * far[:, None] * axis)
                beyond = np.flatnonzero(~(below < _NEGLIGIBLE))
                ends.append(sign * far[beyond[0] if len(beyond) else -1])
            line = np.linspace(ends[0], ends[1], _NODES[k])
            spacing *= line[1] - line[0]
            lines.append(line)
        steps = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1).reshape(-1, k)
        nodes = u + steps @ axes.T
        return nodes, self.log_marginal(nodes) + log_volume + np.log(spacing)

    def _axes(self, u: Array) -> Array:
        """Lower Cholesky factor of the covariance of u by the curvature at the mode, (k, k).

        No wider in any direction than the prior.
        """
        shift = _DIFFERENCE * np.eye(len(u))
        slopes = self.value_and_slope(np.concatenate([u - shift, u + shift]))[1]
        curvature = (slopes[: len(u)] - slopes[len(u) :]) / (2.0 * _DIFFERENCE)
        scale = self.columns.spread
        scaled = 0.5 * (curvature + curvature.T) * np.outer(scale, scale)
        values, vectors = np.linalg.eigh(scaled)
        covariance = vectors / np.maximum(values, 0.25) @ vectors.T * np.outer(scale, scale)
        return np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)

    def _given(self, u: Array) -> tuple[Array, Array]:
        """Precisions (n, m, m) and r (n, m) of w."""
        columns, (s, _) = self.columns, self.columns.of(u)
        x = columns.scaled
        precision = np.repeat(self.information[None], len(u), axis=0)
        precision[:, x, x] += columns.precision / s**2
        pull = np.repeat(self.pull[None], len(u), axis=0)
        pull[:, x] += columns.precision * columns.centre / s
        return precision, pull

    def blocks(self, n: int) -> list[slice]:
        """Rows of n that are computed at a time."""
        size = max(1, _BLOCK // self.information.size)
        return [slice(k, min(k + size, n)) for k in range(0, n, size)]


def _variances(roots: Array) -> Array:
    """Diagonals of the inverses of L L', (n, m), of lower Cholesky factors L (n, m, m)."""
    return np.square(np.linalg.inv(roots)).sum(axis=1)


@dataclass(frozen=True)
class ScaledGaussian:
    """A Gaussian of the scales, and that of the other parameters given them.

    A standard normal (d,) is a draw of it by `coloured`: its first k numbers make u, the others w.

    centre: (d,), mean of all coordinates, of which that of u is the Gaussian's.
    factor: (k, k), lower Cholesky factor of the covariance of u.
    """

    given: GivenScales
    centre: Array
    factor: Array

    @classmethod
    def of_moments(cls, given: GivenScales, mean: Array, covariance: Array) -> Self:
        """The one whose scales have moments (d,) and (d, d) of all coordinates."""
        scales = given.columns.scales
        factor = np.linalg.cholesky(covariance[np.ix_(scales, scales)])
        return cls(given, mean, np.asarray(factor, dtype=np.float64))

    def coloured(self, normal: Array) -> Array:
        """Coordinates (n, d) of standard normals (n, d)."""
        columns, k = self.given.columns, len(self.factor)
        u = self.centre[columns.scales] + normal[:, :k] @ self.factor.T
        w = np.empty((len(u), len(columns.others)))
        for rows in self.given.blocks(len(u)):
            mean, roots = self.given.conditional(u[rows])
            away = np.linalg.solve(roots.transpose(0, 2, 1), normal[rows, k:, None])
            w[rows] = mean + away[:, :, 0]
        return columns.whole(w, u)

    def squares(self, theta: Array) -> tuple[Array, Array]:
        """Squared lengths of the normals behind (n, d), and logs of the volume per volume, (n,)."""
        squares, log_volumes = np.empty(len(theta)), np.empty(len(theta))
        for rows in self.given.blocks(len(theta)):
            w, u, mean, normal, roots = self._behind(theta[rows])
            along = np.einsum("nji,nj->ni", roots, w - mean)
            squares[rows] = np.square(along).sum(axis=1) + np.square(normal).sum(axis=1)
            log_volumes[rows] = -np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
            log_volumes[rows] -= self.given.columns.stretched(u)[0].sum(axis=1)
        return squares, log_volumes + np.log(np.diag(self.factor)).sum()

    def slopes(self, theta: Array) -> tuple[Array, Array]:
        """Gradients of half of the squares and of the log volumes, (n, d) both."""
        by_square, by_volume = np.zeros(theta.shape), np.zeros(theta.shape)
        columns = self.given.columns
        x = columns.scaled
        for rows in self.given.blocks(len(theta)):
            w, u, mean, normal, roots = self._behind(theta[rows])
            (s, a), (logs, slopes) = columns.of(u), columns.stretched(u)
            away, own = w - mean, columns.precision / s**2
            pulled = np.einsum("nij,nkj,nk->ni", roots, roots, away)
            # Of Q / 2 = w'L w / 2 - w'r + r'L^-1 r / 2 by the scales, in L and r.
            change = columns.precision * columns.centre / s - own * (w + mean)[:, x]
            by_u = np.einsum("nj,njk->nk", change * away[:, x], a)
            by_u += np.einsum("nj,njk->nk", pulled[:, x] * w[:, x], slopes)
            by_square[rows, columns.scales] = by_u + np.linalg.solve(self.factor.T, normal.T).T
            pulled[:, x] *= np.exp(logs)
            by_square[rows, columns.others] = pulled
            shrunk = np.einsum("nj,njk->nk", own * _variances(roots)[:, x], a)
            by_volume[rows, columns.scales] = shrunk - slopes.sum(axis=1)
        return by_square, by_volume

    def _behind(self, theta: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Return w, u, means of w, normals behind u, and roots of the precisions of w."""
        columns = self.given.columns
        w, u = columns.parts(theta)
        mean, roots = self.given.conditional(u)
        normal = np.linalg.solve(self.factor, (u - self.centre[columns.scales]).T).T
        return w, u, mean, np.asarray(normal, dtype=np.float64), roots
