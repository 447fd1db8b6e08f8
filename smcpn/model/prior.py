"""Named prior distributions, over the unconstrained coordinates of the sampler.

A prior may have a scale that is another parameter, or a number: p(x | s) = p(x / s) / s
(`Scaling`). Derivatives of densities that are known by their values alone are central differences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.base.arguments import Count, check_fields, checked
from smcpn.base.tables import Card, Table, WithCard, words
from smcpn.errors import InputError, counted, one_of, real_number, shown
from smcpn.model.coordinates import Coordinate, Identity, Log, Logit, coordinate_of
from smcpn.model.distribution import (
    INTERQUARTILE_RANGE,
    Distribution,
    describe,
    draw,
    family_of,
    joint_log_density,
    normal_moments,
)

Array = NDArray[np.float64]

_SPACINGS = (1e-2, 1e-4, 1e-6)
"""In spreads of the density; the next where one meets a bound."""
_FIRST = (4 / 5, -1 / 5, 4 / 105, -1 / 280)
_CENTRE, _SECOND = -205 / 72, (8 / 5, -1 / 5, 8 / 315, -1 / 560)
"""Weights of central differences of eighth order, of the points one to four spacings away."""


def derivatives(
    log_density: Callable[[Array], Array], theta: Array, spread: Array
) -> tuple[Array, Array, Array]:
    """Independent log densities (n, d), with first and second derivative of each, (n, d).

    They are exact to about 1e-12 where the density is smooth, and NaN where they are not finite.

    log_density: From (m, d) to (m, d): each column depends on its own alone.
    theta: (n, d)
    spread: (d,), of the densities, such as their standard deviations.
    """
    n, d = theta.shape
    here, first, second = np.empty((n, d)), np.full((n, d), np.nan), np.full((n, d), np.nan)
    for share in _SPACINGS:
        spacing = share * spread
        points = theta + np.arange(-4, 5)[:, None, None] * spacing
        along = log_density(points.reshape(-1, d)).reshape(9, n, d)
        missing, here = np.isnan(first), along[4]
        pairs = list(zip(along[5:], along[3::-1], strict=True))
        with np.errstate(over="ignore", invalid="ignore"):
            slope = sum(w * (up - down) for w, (up, down) in zip(_FIRST, pairs, strict=True))
            bend = sum(w * (up + down) for w, (up, down) in zip(_SECOND, pairs, strict=True))
            bend += _CENTRE * here
        first = np.where(missing, finite(slope / spacing), first)
        second = np.where(missing, finite(bend / spacing**2), second)
        if np.isfinite(first).all():
            break
    return here, first, second


def finite(values: Array) -> Array:
    """The values, NaN where they are not finite."""
    return np.where(np.isfinite(values), values, np.nan)


@dataclass(frozen=True)
class Scaling:
    """Which columns of a prior are multiplied by which others, or by known numbers.

    columns: (m,)
    by: (m,), column of the scale; -1 where it is known.
    known: (m,), the known scales.
    """

    columns: NDArray[np.int64]
    by: NDArray[np.int64]
    known: Array

    def of(self, values: Array) -> Array:
        """The scales, (n, m), among parameter values (n, d)."""
        return np.where(self.by < 0, self.known, values[:, self.by])

    def multiplied(self, theta: Array, values: Array) -> Array:
        """Coordinates (n, d) times the scales of these values."""
        if len(self.columns):
            theta[:, self.columns] *= self.of(values)
        return theta

    def divided(self, theta: Array, values: Array) -> Array:
        """Coordinates (n, d) over the scales of these values."""
        if not len(self.columns):
            return theta
        divided = theta.copy()
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            divided[:, self.columns] /= self.of(values)
        return divided

    @classmethod
    def of_prior(cls, scales: Mapping[str, str | float], maps: Mapping[str, Coordinate]) -> Self:
        """Return the columns of scales, by the names of all parameters and their coordinates."""
        names, known = list(maps), [1.0] * len(scales)
        for k, (name, scale) in enumerate(scales.items()):
            argument = f"scales.{name}"
            if name not in maps:
                raise InputError(f"scales names '{name}', which has no prior", argument=argument)
            if not isinstance(maps[name], Identity):
                raise InputError(
                    f"prior of '{name}' has bounds and the scale {shown(scale)}: give a "
                    "distribution on the whole line, such as stats.norm()",
                    argument=argument,
                )
            if not isinstance(scale, str):
                known[k] = _positive(name, scale)
            elif scale in scales or not _is_positive(maps.get(scale)):
                if scale in maps and scale not in scales:
                    raise InputError(
                        f"prior of '{scale}' reaches below zero, and a scale is positive: give a "
                        "distribution of positive numbers, such as stats.lognorm(1.0)",
                        argument=f"prior.{scale}",
                    )
                raise InputError(
                    f"scale of '{name}' is '{scale}': name a parameter with a positive prior, "
                    "such as stats.lognorm(1.0)",
                    argument=argument,
                )
        by = [names.index(scale) if isinstance(scale, str) else -1 for scale in scales.values()]
        columns = [names.index(name) for name in scales]
        return cls(np.array(columns, int), np.array(by, int), np.array(known, float))

    def gradient(self, by_y: Array, y: Array, values: Array, slopes: Array) -> Array:
        """Gradient of log p(y) / s by the coordinates, y being those over the scales, (n, d).

        by_y: (n, d), derivative of log p by y.
        y, values, slopes: (n, d), what is `divided`, parameter values, and their derivatives by the
            coordinates.
        """
        gradient, scales = by_y.copy(), self.of(values)
        gradient[:, self.columns] = by_y[:, self.columns] / scales
        learned = np.flatnonzero(self.by >= 0)
        columns, by = self.columns[learned], self.by[learned]
        pull = -slopes[:, by] / scales[:, learned] * (1.0 + y[:, columns] * by_y[:, columns])
        np.add.at(gradient.T, by, pull.T)
        return gradient


def _positive(name: str, scale: float) -> float:
    scale = real_number(f"scale of '{name}'", scale, argument=f"scales.{name}")
    if scale <= 0.0:
        raise InputError(
            f"scale of '{name}' is {scale:g}: give a positive number", argument=f"scales.{name}"
        )
    return scale


def _is_positive(coordinate: Coordinate | None) -> bool:
    """True if a parameter is positive wherever its coordinate is finite."""
    bounded = isinstance(coordinate, (Log, Logit))
    return bounded and bool(coordinate.natural(np.array([-40.0, 40.0])).min() >= 0.0)


_DRAWS = 1001
BLOCK = 2**16
"""Parameter vectors whose densities are computed together."""


@checked
@dataclass(frozen=True, repr=False)
class Prior(WithCard):
    """Independent priors on named parameters, and the coordinates that samplers move in.

    Parameters
    ----------
    distributions : mapping of str to Distribution
        Frozen `scipy.stats` distributions, those of `particles.distributions`, or anything with
        ``rvs`` and ``logpdf``.
    coordinates : mapping of str to str, optional
        ``"identity"``, ``"log"`` or ``"logit"`` for parameters whose unconstrained coordinate
        should not follow from the support of the prior.
    scales : mapping of str to str or float, optional
        Parameters whose distribution is that of x / s: the name of s, a positive parameter, or its
        value. p(x | s) = p(x / s) / s, so that a scale that many parameters share is learned from
        them.

    Raises
    ------
    InputError
        If a prior has no ``rvs`` and ``logpdf``, a coordinate does not fit the support, or a scale
        is not positive.

    Examples
    --------
    >>> prior = Prior({"k": stats.lognorm(1.0), "x0": stats.norm(0.0, 2.0)})
    >>> prior.unconstrained(np.array([[1.0, 3.0]])).tolist()
    [[0.0, 3.0]]
    """

    distributions: Mapping[str, Distribution]
    coordinates: Mapping[str, str] = field(default_factory=dict)
    scales: Mapping[str, str | float] = field(default_factory=dict)
    maps: tuple[Coordinate, ...] = field(init=False, repr=False)
    scaling: Scaling = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_fields(self, "distributions", "coordinates", "scales")
        if not self.distributions:
            raise InputError(
                "prior is empty: give at least one parameter a distribution", argument="prior"
            )
        unknown = set(self.coordinates) - set(self.distributions)
        if unknown:
            raise InputError(
                f"coordinates names {_listed(unknown)}, which has no prior",
                argument=f"coordinates.{min(unknown)}",
            )
        maps = [coordinate_of(n, d, self.coordinates.get(n)) for n, d in self.distributions.items()]
        scaling = Scaling.of_prior(self.scales, dict(zip(self.names, maps, strict=True)))
        object.__setattr__(self, "maps", tuple(maps))
        object.__setattr__(self, "scaling", scaling)

    @property
    def names(self) -> tuple[str, ...]:
        """Parameter names, in the order of the columns of theta."""
        return tuple(self.distributions)

    @override
    def card(self) -> Card:
        rows = [[n, described(self, n), m.name] for n, m in zip(self.names, self.maps, strict=True)]
        columns = words("parameter"), words("prior", long=True), words("coordinate")
        return Card(Table(columns, rows, f"Prior of {counted(len(self), 'parameter')}"))

    def __len__(self) -> int:
        return len(self.distributions)

    def sample(self, rng: np.random.Generator, size: Count) -> Array:
        """Draw ``size`` parameter vectors, in unconstrained coordinates, shape (size, d)."""
        columns = [
            # A draw may round to the bound of its support, which has no finite coordinate.
            coordinate.unconstrained(coordinate.inside(draw(d, rng, size)))
            for coordinate, d in zip(self.maps, self.distributions.values(), strict=True)
        ]
        theta = np.stack(columns, axis=1)
        return self.scaling.multiplied(theta, self.natural(theta))

    @cached_property
    def spread(self) -> Array:
        """Standard deviation, least, 2.5 %, 97.5 % and greatest of 4096 draws of values, (5, d)."""
        values = self.natural(self.sample(np.random.default_rng(0), 4096))
        quantiles = np.quantile(values, (0.0, 0.025, 0.975, 1.0), axis=0)
        return np.vstack([values.std(axis=0), quantiles])

    @cached_property
    def quartiles(self) -> Array:
        """Quartiles of each unconstrained coordinate, the median in the middle, (3, d)."""
        theta = self.sample(np.random.default_rng(0), _DRAWS)
        return np.quantile(theta, (0.25, 0.5, 0.75), axis=0)

    def natural(self, theta: Array) -> Array:
        """Map unconstrained (n, d) to parameter values (n, d)."""
        self._check("theta", theta)
        values = np.array(theta, dtype=float, order="C")
        for j in self.mapped:
            values[:, j] = self.maps[j].natural(theta[:, j])
        return values

    def unconstrained(self, values: Array) -> Array:
        """Map parameter values (n, d) to unconstrained (n, d)."""
        self._check("values", values)
        columns = [c.unconstrained(values[:, j]) for j, c in enumerate(self.maps)]
        return np.stack(columns, axis=1)

    def slopes(self, theta: Array) -> tuple[Array, Array]:
        """First and second derivative of each value by its coordinate, (n, d) both."""
        self._check("theta", theta)
        first, second = np.ones(theta.shape), np.zeros(theta.shape)
        for j in self.mapped:
            first[:, j], second[:, j] = self.maps[j].slopes(theta[:, j])
        return first, second

    def log_density(self, theta: Array) -> Array:
        """Log prior density in unconstrained coordinates, log-Jacobian included, shape (n,)."""
        return by_blocks(lambda part: total_log_density(self.log_densities(part)), theta)

    def log_densities(self, theta: Array) -> Array:
        """Log density of each unconstrained coordinate, log-Jacobian included, (n, d).

        Where a parameter has a scale it is the density given that.
        """
        self._check("theta", theta)
        if not self.scales:
            return self.unscaled_log_densities(theta)
        result = self.unscaled_log_densities(self.standardised(theta))
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            result[:, self.scaling.columns] -= np.log(self.scaling.of(self.natural(theta)))
        return result

    def standardised(self, theta: Array) -> Array:
        """Coordinates whose densities are independent: those of x / s where x has a scale s."""
        with np.errstate(over="ignore"):
            return self.scaling.divided(theta, self.natural(theta))

    def unscaled_log_densities(self, theta: Array) -> Array:
        """As `log_densities`, of coordinates that were `standardised`."""
        self._check("theta", theta)
        result = np.empty(theta.shape)
        normal, mean, variance = self._normals
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            square = np.square(theta[:, normal] - mean) / variance
            result[:, normal] = -0.5 * (square + np.log(2.0 * np.pi * variance))
            for columns, log_density in self._families:
                maps = [self.maps[j] for j in columns]
                result[:, columns] = _along(maps, log_density, theta[:, columns])
        return result

    def unscaled_derivatives(self, theta: Array, spread: Array) -> tuple[Array, Array, Array]:
        """`unscaled_log_densities` (n, d) with first and second derivative of each, (n, d).

        Exact where a coordinate has a normal density, else by differences, see `derivatives`.

        Parameters
        ----------
        theta : ndarray, (n, d)
        spread : ndarray, (d,)
            Of the densities.
        """
        self._check("theta", theta)
        self._check("spread", spread[None])
        here, first, second = (np.empty(theta.shape) for _ in range(3))
        normal, mean, variance = self._normals
        with np.errstate(over="ignore", invalid="ignore"):
            away = theta[:, normal] - mean
            here[:, normal] = -0.5 * (np.square(away) / variance + np.log(2.0 * np.pi * variance))
        first[:, normal], second[:, normal] = -away / variance, -1.0 / variance
        for columns, log_density in self._families:
            along = partial(_along, [self.maps[j] for j in columns], log_density)
            found = derivatives(along, theta[:, columns], spread[columns])
            here[:, columns], first[:, columns], second[:, columns] = found
        return here, first, second

    @cached_property
    def mapped(self) -> list[int]:
        """Columns whose coordinate is not the parameter itself."""
        return [j for j, coordinate in enumerate(self.maps) if not isinstance(coordinate, Identity)]

    @cached_property
    def _families(self) -> list[tuple[list[int], Callable[[Array], Array]]]:
        """Columns of one family of distributions each, with their densities, (n, k) of (n, k).

        Those of `_normals` are left out.
        """
        members: dict[Any, list[int]] = {}
        distributions = list(self.distributions.values())
        for j, distribution in enumerate(distributions):
            if j not in self._normals[0]:
                members.setdefault(family_of(distribution) or j, []).append(j)
        return [
            (columns, joint_log_density([distributions[j] for j in columns]))
            for columns in members.values()
        ]

    def gradient(self, theta: Array) -> Array:
        """Gradient of `log_density` at unconstrained (n, d), (n, d); NaN where it is not finite.

        Exact where a coordinate has a normal density, by differences elsewhere, where a prior is
        any object with a ``logpdf``.
        """
        self._check("theta", theta)
        with np.errstate(all="ignore"):
            y = self.standardised(theta)
            by_y = self.unscaled_derivatives(y, self._spread)[1]
            if not self.scales:
                return by_y
            return self.scaling.gradient(by_y, y, self.natural(theta), self.slopes(theta)[0])

    @cached_property
    def _spread(self) -> Array:
        """Spread of each coordinate, those with a scale over that, (d,)."""
        theta = self.standardised(self.sample(np.random.default_rng(0), _DRAWS))
        quarter, three = np.quantile(theta, (0.25, 0.75), axis=0)
        spread = (three - quarter) / INTERQUARTILE_RANGE
        # A prior may be narrower than the spacing of numbers.
        return np.maximum(spread, np.spacing(np.abs(three)))

    @cached_property
    def _normals(self) -> tuple[list[int], Array, Array]:
        """Columns whose coordinate has a normal density, with the means and variances of these."""
        own = {
            j: found
            for j, (coordinate, one) in enumerate(
                zip(self.maps, self.distributions.values(), strict=True)
            )
            if (found := normal_moments(one, isinstance(coordinate, Log)))
            and isinstance(coordinate, (Identity, Log))
        }
        mean, variance = np.array([*own.values()]).reshape(-1, 2).T
        return list(own), mean, variance

    def density(self, name: str, values: Array) -> Array:
        """Prior density of a parameter at values (m,); where it has a scale, averaged over that."""
        distribution = self.distributions[one_of("name", name, self.distributions)]
        scale = self.scales.get(name, 1.0)
        drawn = np.array([scale])
        if isinstance(scale, str):
            drawn = draw(self.distributions[scale], np.random.default_rng(0), _DRAWS)
        with np.errstate(all="ignore"):
            each = np.exp(distribution.logpdf(values / drawn[:, None])) / drawn[:, None]
        return np.nan_to_num(each.mean(axis=0), posinf=0.0)

    @cached_property
    def unscaled_spread(self) -> Array:
        """Spread of the distribution of each scaled parameter over its scale, (m,)."""
        rng = np.random.default_rng(0)
        scaled = [self.distributions[name] for name in self.scales]
        quartiles = [np.quantile(draw(d, rng, _DRAWS), (0.25, 0.75)) for d in scaled]
        return np.diff(quartiles, axis=1)[:, 0] / INTERQUARTILE_RANGE

    def __getstate__(self) -> dict[str, Any]:
        # Functions made on the way cannot be pickled, and are made again.
        made = ("_families", "mapped", "_normals", "_spread")
        return {name: value for name, value in vars(self).items() if name not in made}

    def _check(self, name: str, values: Array) -> None:
        if values.ndim != 2 or values.shape[1] != len(self):
            raise InputError(
                f"{name} has shape {values.shape}: give one column for each of {len(self)} "
                "parameters",
                argument=name,
            )


def by_blocks(log_density: Callable[[Array], Array], theta: Array) -> Array:
    """Return a log density at (n, d), shape (n,), computed for at most `BLOCK` rows at a time.

    What it needs on the way is many times its result.
    """
    if len(theta) <= BLOCK:
        return log_density(theta)
    result = np.empty(len(theta))
    for k in range(0, len(theta), BLOCK):
        result[k : k + BLOCK] = log_density(theta[k : k + BLOCK])
    return result


def described(prior: Prior, name: str) -> str:
    """Short text of the prior of a parameter, its scale included."""
    text, scale = describe(prior.distributions[name]), prior.scales.get(name)
    return text if scale is None else f"{text} * {scale}"


def total_log_density(log_densities: Array) -> Array:
    """Sum over the coordinates, (n, d) to (n,); -inf where there is none."""
    total = np.zeros(len(log_densities))
    with np.errstate(over="ignore", invalid="ignore"):
        for column in log_densities.T:
            total += column
    return np.where(np.isnan(total), -np.inf, total)


def _along(maps: Sequence[Coordinate], log_density: Callable[[Array], Array], z: Array) -> Array:
    """Log density of each unconstrained coordinate, log-Jacobian included, (n, k) both."""
    values = np.stack([c.natural(z[:, k]) for k, c in enumerate(maps)], axis=1)
    along = log_density(values)
    for k, coordinate in enumerate(maps):
        along[:, k] += coordinate.log_jacobian(z[:, k])
    return along


def _listed(names: set[str]) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names))


@dataclass(frozen=True)
class PriorExpansion:
    """A log prior density with its first and second derivatives.

    value: (n,)
    gradient: (n, d)
    diagonal: (n, d), second derivative along each coordinate.
    mixed: (n, k), derivative by the k-th pair of a scaled coordinate and that of its scale.
    pairs: (2, k)
    """

    value: Array
    gradient: Array
    diagonal: Array
    mixed: Array
    pairs: NDArray[np.int64]

    def add_mixed(self, hessian: Array) -> None:
        """Add the mixed derivatives to a Hessian, (n, d, d), in place."""
        j, k = self.pairs
        hessian[:, j, k] += self.mixed
        hessian[:, k, j] += self.mixed


def prior_expansion(prior: Prior, theta: Array, scale: Array) -> PriorExpansion:
    """`Prior.log_density` of coordinates (n, d), with its derivatives.

    Where a coordinate has no normal density the derivatives are differences (`derivatives`): a
    prior is any object with a ``logpdf``, of one number. Where a coordinate x has a scale s, they
    are taken by y = x / s, on which the density p(y) / s depends alone, and the chain rule does the
    rest.

    scale: (d,), spread of the prior in these coordinates.
    """
    if not prior.scales:
        here, first, second = prior.unscaled_derivatives(theta, scale)
        nothing = np.empty((len(theta), 0)), np.empty((2, 0), dtype=np.int64)
        return PriorExpansion(total_log_density(here), first, second, *nothing)
    scaling, values = prior.scaling, prior.natural(theta)
    columns, spread = scaling.columns, scale.copy()
    spread[columns] = prior.unscaled_spread
    y = prior.standardised(theta)
    here, first, second = prior.unscaled_derivatives(y, spread)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        scales = scaling.of(values)
        here[:, columns] -= np.log(scales)
        slopes, bends = prior.slopes(theta)
        by_y, by_yy = first[:, columns], second[:, columns]
        first, y = scaling.gradient(first, y, values, slopes), y[:, columns]
        second[:, columns] = by_yy / scales**2
        learned = np.flatnonzero(scaling.by >= 0)
        pairs = np.stack([columns[learned], scaling.by[learned]])
        slopes, bends = slopes[:, pairs[1]], bends[:, pairs[1]]
        scales, by_y, by_yy, y = (each[:, learned] for each in (scales, by_y, by_yy, y))
        # Derivatives of log s by its coordinate.
        a = slopes / scales
        b = bends / scales - a**2
        np.add.at(second.T, pairs[1], (by_yy * (y * a) ** 2 + by_y * y * (a**2 - b) - b).T)
        mixed = -a / scales * (by_y + y * by_yy)
    return PriorExpansion(total_log_density(here), finite(first), finite(second), mixed, pairs)
