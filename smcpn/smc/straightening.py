"""Coordinates in which a population is nearest to a Gaussian: values, their logarithms, or its own.

Data that tell the product or the ratio of parameters leave a ridge that is straight in logarithms,
and those that tell a sum one that is straight in the values. In other coordinates it is bent, and
neither a Gaussian nor a random walk of one covariance follows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from smcpn.model.coordinates import Coordinate, Log, Logit
from smcpn.model.prior import Prior
from smcpn.smc.cross_fitting import CrossFitted, Fold
from smcpn.smc.proposals import Proposal

Array = NDArray[np.float64]

import os
_DEBUG=bool(os.environ.get('DBG'))
LAYER = 0.25
"""Width of the layer at a bound, in standard deviations of the population."""
NARROWEST, WIDEST = 1e-3, 0.25
"""The same, in lengths of an interval."""
SWEEPS = 3
"""Most rounds over all parameters in which each takes the coordinate that suits it best."""
GAIN = 0.02
"""Nats by which the density of the particles has to rise for another coordinate to be taken."""


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
        return z, np.zeros_like(z)

    def back(self, c: Array) -> Array:
        return c


@dataclass(frozen=True)
class ValueAboveBound:
    """The value itself, for a parameter on one side of a bound, bent in a layer at that.

    exp(z) = w log(1 + exp(c / w)), with the width w of the layer.
    """

    width: float

    def forward(self, z: Array) -> tuple[Array, Array]:
        ratio = np.exp(z) / self.width
        c = self.width * _log_expm1(ratio)
        return c, z + np.logaddexp(0.0, -c / self.width)

    def back(self, c: Array) -> Array:
        return np.log(self.width) + _log_softplus(c / self.width)


@dataclass(frozen=True)
class WithinBounds:
    """The value, or its logarithm, for a parameter on an interval, bent in layers at both ends.

    u = a + w log(1 + exp((c - a) / w)) - w log(1 + exp((c - b) / w)), where u is the value or its
    logarithm, on (a, b).
    """

    lower: float
    upper: float
    width: float
    logarithm: bool

    def forward(self, z: Array) -> tuple[Array, Array]:
        a, b = self._ends
        below, above = np.logaddexp(0.0, -z), np.logaddexp(0.0, z)
        length = self.upper - self.lower
        # Distances from both ends, each with all its digits.
        from_lower, from_upper = length * np.exp(-below), length * np.exp(-above)
        log_slope = np.log(length) - below - above
        if self.logarithm:
            log_slope -= np.log(self.lower + from_lower)
            from_lower = np.log1p(from_lower / self.lower)
            from_upper = -np.log1p(-from_upper / self.upper)
        t, s = from_lower / self.width, from_upper / self.width
        c = a + self.width * (_log_expm1(t) - np.log(-np.expm1(-s)))
        return c, log_slope - self._log_slope(c)

    def back(self, c: Array) -> Array:
        a, b = self._ends
        low, high = (c - a) / self.width, (c - b) / self.width
        t = np.logaddexp(0.0, low) - np.logaddexp(0.0, high)
        s = np.logaddexp(0.0, -high) - np.logaddexp(0.0, -low)
        if not self.logarithm:
            return np.log(t) - np.log(s)
        from_lower = np.log(self.lower) + np.log(np.expm1(self.width * t))
        return from_lower - np.log(-self.upper * np.expm1(-self.width * s))

    def _log_slope(self, c: Array) -> Array:
        """Log du/dc."""
        a, b = self._ends
        low, high = (c - a) / self.width, (c - b) / self.width
        whole = np.log(-np.expm1((a - b) / self.width))
        return whole - np.logaddexp(0.0, -low) - np.logaddexp(0.0, high)

    @property
    def _ends(self) -> tuple[float, float]:
        if self.logarithm:
            return float(np.log(self.lower)), float(np.log(self.upper))
        return self.lower, self.upper


def warps_of(coordinate: Coordinate, z: Array, weights: Array) -> list[Warp]:
    """Return the coordinates that a parameter with particles z (n,) may take, its own first."""
    found: list[Warp] = [Unchanged()]
    values = coordinate.natural(z)
    if isinstance(coordinate, Log):
        found.append(ValueAboveBound(LAYER * _spread(values, weights)))
    elif isinstance(coordinate, Logit):
        kinds = (False, True) if coordinate.lower > 0.0 else (False,)
        for logarithm in kinds:
            ends = np.array([coordinate.lower, coordinate.upper])
            u, ends = (np.log(values), np.log(ends)) if logarithm else (values, ends)
            width = np.clip(
                LAYER * _spread(u, weights), *(np.array([NARROWEST, WIDEST]) * np.ptp(ends))
            )
            found.append(
                WithinBounds(coordinate.lower, coordinate.upper, float(width), logarithm)
            )
    return found


@dataclass(frozen=True)
class Straightening:
    """One `Warp` for each parameter.

    References
    ----------
    Andrews, D. F., Gnanadesikan, R., Warner, J. L. (1971). Transformations of multivariate data.
    Biometrics 27 (the choice by the likelihood of a Gaussian).
    """

    warps: Sequence[Warp]

    @classmethod
    def fit(cls, prior: Prior, theta: Array, weights: Array) -> Self:
        """Return that in which a Gaussian gives weighted particles (n, d) the highest density."""
        d = theta.shape[1]
        candidates = [warps_of(m, theta[:, j], weights) for j, m in enumerate(prior.maps)]
        chosen = [0] * d
        if all(len(each) == 1 for each in candidates):
            return cls([each[0] for each in candidates])
        columns = [[one.forward(theta[:, j]) for one in each] for j, each in enumerate(candidates)]
        volume = [[float(weights @ log_slope) for _, log_slope in each] for each in columns]
        every = np.stack([c for each in columns for c, _ in each], axis=1)
        upper = np.linalg.qr(np.sqrt(weights)[:, None] * (every - weights @ every), mode="r")
        first = np.cumsum([0] + [len(each) for each in candidates[:-1]])
        sizes = np.array([len(each) for each in candidates])
        def height(ks):
            r = np.linalg.qr(upper[:, first + ks], mode="r")
            left = np.maximum(np.abs(np.diag(r)), np.finfo(float).tiny)
            return sum(volume[j][k] for j, k in enumerate(ks)) - np.log(left).sum()
        together = [np.minimum(k, sizes - 1) for k in range(sizes.max())]
        heights = [height(ks) for ks in together]
        best = int(np.argmax(heights))
        if heights[best] > heights[0] + GAIN:
            chosen = list(together[best])
        for _ in range(SWEEPS):
            before = list(chosen)
            for j in np.flatnonzero([len(each) > 1 for each in candidates]):
                others = upper[:, [first[i] + chosen[i] for i in range(d) if i != j]]
                own = upper[:, first[j] : first[j] + len(candidates[j])]
                basis = np.linalg.qr(others)[0]
                left = np.linalg.norm(own - basis @ (basis.T @ own), axis=0)
                heights = volume[j] - np.log(np.maximum(left, np.finfo(float).tiny))
                best = int(np.argmax(heights))
                if heights[best] > heights[chosen[j]] + GAIN:
                    chosen[j] = best
            if list(chosen) == list(before):
                break
        if _DEBUG: print({n:int(k) for n,k in zip(prior.names,chosen) if k})
        return cls([each[k] for each, k in zip(candidates, chosen, strict=True)])

    def forward(self, theta: Array) -> tuple[Array, Array]:
        """Return coordinates (n, d) and the log of the volume they take over that of theta."""
        found = np.empty_like(theta)
        log_volume = np.zeros(len(theta))
        for j, warp in enumerate(self.warps):
            found[:, j], log_slope = warp.forward(theta[:, j])
            log_volume += log_slope
        return found, log_volume

    @classmethod
    def none(cls, d: int) -> Self:
        """Return that which changes none of d coordinates."""
        return cls([Unchanged()] * d)

    def back(self, c: Array) -> Array:
        """Return parameters, (n, d) both."""
        return np.stack([warp.back(c[:, j]) for j, warp in enumerate(self.warps)], axis=1)


@dataclass(frozen=True)
class Straightened:
    """A density of straightened coordinates, as one of the sampler's.

    Attributes
    ----------
    density : CrossFitted
    coordinates : Straightening
    """

    density: CrossFitted
    coordinates: Straightening

    @classmethod
    def fit(
        cls,
        kind: type[Proposal],
        prior: Prior,
        theta: Array,
        weights: Array,
        fold: Fold,
        moved: Fold,
    ) -> Self:
        """Fit to weighted particles, (N, d) and (N,), as `CrossFitted.fit`."""
        coordinates = Straightening.fit(prior, theta, weights)
        place, _ = coordinates.forward(theta)
        return cls(CrossFitted.fit(kind, place, weights, fold, moved), coordinates)

    @property
    def name(self) -> str:
        """Name of the density."""
        return self.density.name

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Draw ``size`` vectors, (size, d)."""
        return self.coordinates.back(self.density.sample(rng, size))

    def log_density(self, theta: Array) -> Array:
        """Log density at (n, d), shape (n,)."""
        found, log_volume = self.coordinates.forward(theta)
        return self.density.log_density(found) + log_volume


def _spread(values: Array, weights: Array) -> float:
    spread = np.sqrt(weights @ np.square(values - weights @ values))
    return float(max(spread, np.finfo(float).tiny))


def _log_expm1(x: Array) -> Array:
    """Log(exp(x) - 1) of positive x."""
    return x + np.log(-np.expm1(-x))


def _log_softplus(x: Array) -> Array:
    """Log(log(1 + exp(x)))."""
    return np.where(x < -36.0, x, np.log(np.logaddexp(0.0, np.maximum(x, -36.0))))
