"""Coordinates in which particles are nearest to a Gaussian: values, their logarithms, or their own.

Data that tell a product or a ratio of parameters leave a ridge that is straight in logarithms, and
those that tell a sum one that is straight in the values. In other coordinates it is bent, and
neither a Gaussian nor a random walk of one covariance follows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from smcpn.model.coordinates import Coordinate, Identity, Log, Logit
from smcpn.model.prior import Prior
from smcpn.smc.proposals import CrossFitted, Fold, Proposal

Array = NDArray[np.float64]

LAYER = 0.25
"""Width of the layer at a bound, in standard deviations of the particles."""
NARROWEST, WIDEST = 1e-3, 0.25
"""The same, in lengths of an interval."""
FARTHEST = 600.0
"""Widths beyond a bound, from which on a distance could underflow; no draw goes there."""
SMALL = -36.0
"""Logarithm of what does not change one that it is added to."""
SWEEPS = 3
"""Most rounds over all parameters in which each takes the coordinate that suits it best."""
GAIN = 0.02
"""Nats by which the mean log density has to rise for another coordinate to be taken."""


class Warp(Protocol):
    """A smooth increasing map c of an unconstrained coordinate z, from the line onto itself."""

    def forward(self, z: Array) -> tuple[Array, Array]:
        """Return c and log dc/dz."""
        ...

    def back(self, c: Array) -> Array:
        """Return z."""
        ...


@dataclass(frozen=True)
class Unchanged:
    """c = z."""

    def forward(self, z: Array) -> tuple[Array, Array]:
        """Return c and log dc/dz."""
        return z, np.zeros_like(z)

    def back(self, c: Array) -> Array:
        """Return z."""
        return c


@dataclass(frozen=True)
class AboveBound:
    """The distance exp(z) of a value from its bound, but for a layer at that, w wide.

    exp(z) = w log(1 + exp(c / w)).
    """

    width: float

    def forward(self, z: Array) -> tuple[Array, Array]:
        """Return c and log dc/dz."""
        c = self.width * _log_expm1(np.exp(z) / self.width)
        return c, z + np.logaddexp(0.0, -c / self.width)

    def back(self, c: Array) -> Array:
        """Return z."""
        return np.log(self.width) + _log_softplus(np.maximum(c / self.width, -FARTHEST))


@dataclass(frozen=True)
class WithinBounds:
    """A value on an interval, or its logarithm, but for layers at both ends, w wide.

    u = a + w log(1 + exp((c - a) / w)) - w log(1 + exp((c - b) / w)), where u on (a, b) is the
    value or its logarithm.
    """

    lower: float
    upper: float
    width: float
    logarithm: bool

    def forward(self, z: Array) -> tuple[Array, Array]:
        """Return c and log dc/dz."""
        length, below, above = self.upper - self.lower, np.logaddexp(0, -z), np.logaddexp(0, z)
        # The distances from both ends keep all their digits.
        from_lower, from_upper = length * np.exp(-below), length * np.exp(-above)
        log_slope = np.log(length) - below - above
        if self.logarithm:
            log_slope -= np.log(self.lower + from_lower)
            from_lower = np.log1p(from_lower / self.lower)
            from_upper = -np.log1p(-from_upper / self.upper)
        a, b = self._ends
        layers = _log_expm1(from_lower / self.width) - np.log(-np.expm1(-from_upper / self.width))
        c = a + self.width * layers
        low, high = (c - a) / self.width, (c - b) / self.width
        whole = np.log(-np.expm1((a - b) / self.width))
        return c, log_slope - whole + np.logaddexp(0, -low) + np.logaddexp(0, high)

    def back(self, c: Array) -> Array:
        """Return z."""
        a, b = self._ends
        c = np.clip(c, a - FARTHEST * self.width, b + FARTHEST * self.width)
        low, high = (c - a) / self.width, (c - b) / self.width
        from_lower = self.width * (np.logaddexp(0, low) - np.logaddexp(0, high))
        from_upper = self.width * (np.logaddexp(0, -high) - np.logaddexp(0, -low))
        if self.logarithm:
            from_lower = self.lower * np.expm1(from_lower)
            from_upper = -self.upper * np.expm1(-from_upper)
        return np.log(from_lower) - np.log(from_upper)

    @property
    def _ends(self) -> tuple[float, float]:
        if self.logarithm:
            return float(np.log(self.lower)), float(np.log(self.upper))
        return self.lower, self.upper


def warps_of(coordinate: Coordinate, z: Array, weights: Array) -> list[Warp]:
    """Return what a parameter with weighted particles z (n,) may take: its own coordinate first."""
    found: list[Warp] = [Unchanged()]
    if isinstance(coordinate, Log):
        found.append(AboveBound(LAYER * _spread(np.exp(z), weights)))
    if not isinstance(coordinate, Logit):
        return found
    lower, upper, values = coordinate.lower, coordinate.upper, coordinate.natural(z)
    for logarithm in (False, True) if lower > 0.0 else (False,):
        length = np.log(upper / lower) if logarithm else upper - lower
        width = LAYER * _spread(np.log(values) if logarithm else values, weights)
        width = float(np.clip(width, NARROWEST * length, WIDEST * length))
        found.append(WithinBounds(lower, upper, width, logarithm))
    return found


@dataclass(frozen=True)
class Straightening:
    """One `Warp` for each parameter."""

    warps: Sequence[Warp]

    @classmethod
    def none(cls, d: int) -> Self:
        """Return the one that changes none of d coordinates."""
        return cls([Unchanged()] * d)

    @classmethod
    def fit(cls, prior: Prior, theta: Array, weights: Array) -> Self:
        """Return that in which a Gaussian gives weighted particles, (n, d), the highest density.

        References
        ----------
        Andrews, D. F., Gnanadesikan, R., Warner, J. L. (1971). Transformations of multivariate
        data. Biometrics 27.
        """
        if all(isinstance(one, Identity) for one in prior.maps):
            return cls.none(len(prior))
        theta, weights = theta[weights > 0], weights[weights > 0]
        with np.errstate(all="ignore"):
            places = [_places(one, theta[:, j], weights) for j, one in enumerate(prior.maps)]
        heights = _Heights([[place for _, place in each] for each in places], weights)
        return cls([each[k][0] for each, k in zip(places, heights.best(), strict=True)])

    def forward(self, theta: Array) -> tuple[Array, Array]:
        """Return coordinates (n, d), and the log of their volume over that of theta, (n,)."""
        place, log_volume = np.empty_like(theta), np.zeros(len(theta))
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            for j, warp in enumerate(self.warps):
                place[:, j], log_slope = warp.forward(theta[:, j])
                log_volume += log_slope
        return place, log_volume

    def slopes(self, theta: Array) -> Array:
        """Return the derivative of each coordinate by its parameter at one vector, (d,) both."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            found = [warp.forward(z)[1] for warp, z in zip(self.warps, theta, strict=True)]
        return np.exp(np.stack(found))

    def back(self, place: Array) -> Array:
        """Return parameters, (n, d) both."""
        with np.errstate(over="ignore", divide="ignore"):
            columns = [warp.back(place[:, j]) for j, warp in enumerate(self.warps)]
        return np.stack(columns, axis=1)


class _Heights:
    """Mean log densities of particles by a Gaussian fitted to them, for choices of coordinates."""

    def __init__(self, columns: Sequence[Sequence[tuple[Array, Array]]], weights: Array) -> None:
        self.sizes = np.array([len(each) for each in columns])
        self._first = np.cumsum(self.sizes) - self.sizes
        self._slopes = np.array([weights @ slope for each in columns for _, slope in each])
        every = np.stack([c for each in columns for c, _ in each], axis=1)
        centred = np.sqrt(weights)[:, None] * (every - weights @ every)
        # Its columns have the lengths and angles of those of the particles.
        self._upper: Array = np.asarray(np.linalg.qr(centred, mode="r"), dtype=np.float64)

    def best(self) -> NDArray[np.int64]:
        """Return the choice for each parameter: of all alike at first, then of one after another.

        A ridge of a sum is no straighter before all its terms are values.
        """
        alike = [np.minimum(k, self.sizes - 1) for k in range(int(self.sizes.max()))]
        heights = np.array([self._of(choice) for choice in alike])
        highest = int(heights.argmax())
        choice = alike[highest if heights[highest] > heights[0] + GAIN else 0].copy()
        for _ in range(SWEEPS):
            before = choice.copy()
            for j in np.flatnonzero(self.sizes > 1):
                along = self._along(int(j), choice)
                highest = int(along.argmax())
                if along[highest] > along[choice[j]] + GAIN:
                    choice[j] = highest
            if (choice == before).all():
                break
        return choice

    def _of(self, choice: NDArray[np.int64]) -> float:
        columns = self._first + choice
        diagonal = np.abs(np.diag(np.linalg.qr(self._upper[:, columns], mode="r")))
        return float(self._slopes[columns].sum() - _log(diagonal).sum())

    def _along(self, j: int, choice: NDArray[np.int64]) -> Array:
        """All choices for one parameter, less what the others have."""
        others = np.linalg.qr(self._upper[:, np.delete(self._first + choice, j)])[0]
        own = slice(self._first[j], self._first[j] + self.sizes[j])
        left = self._upper[:, own] - others @ (others.T @ self._upper[:, own])
        return self._slopes[own] - _log(np.linalg.norm(left, axis=0))


@dataclass(frozen=True)
class StraightenedDensity:
    """A density of straightened coordinates, as one of the sampler's."""

    density: CrossFitted
    coordinates: Straightening

    @classmethod
    def fit(
        cls,
        kind: type[Proposal],
        coordinates: Straightening,
        theta: Array,
        weights: Array,
        fold: Fold,
        moved: Fold,
    ) -> Self:
        """Fit to weighted particles, (N, d) and (N,), as `CrossFitted.fit`."""
        place, _ = coordinates.forward(theta)
        return cls(CrossFitted.fit(kind, place, weights, fold, moved), coordinates)

    @property
    def name(self) -> str:
        """Name of the density."""
        return self.density.name

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Draw ``size`` vectors, (size, d), a multiple of N."""
        return self.coordinates.back(self.density.sample(rng, size))

    def log_density(self, theta: Array) -> Array:
        """Log density at (n, d), shape (n,), a multiple of N."""
        place, log_volume = self.coordinates.forward(theta)
        return self.density.log_density(place) + log_volume


def _places(
    coordinate: Coordinate, z: Array, weights: Array
) -> list[tuple[Warp, tuple[Array, Array]]]:
    """Return particles by each of `warps_of` in which all of them have a place."""
    found = [(warp, warp.forward(z)) for warp in warps_of(coordinate, z, weights)]
    return [pair for pair in found if np.isfinite(np.stack(pair[1])).all()]


def _spread(values: Array, weights: Array) -> float:
    spread = np.sqrt(weights @ np.square(values - weights @ values))
    return float(max(spread, np.finfo(float).tiny))


def _log(lengths: Array) -> Array:
    return np.log(np.maximum(lengths, np.finfo(float).tiny))


def _log_expm1(x: Array) -> Array:
    """Return log(exp(x) - 1) of positive x."""
    return x + np.log(-np.expm1(-x))


def _log_softplus(x: Array) -> Array:
    """Return log(log(1 + exp(x)))."""
    return np.where(x < SMALL, x, np.log(np.logaddexp(0.0, np.maximum(x, SMALL))))
