"""Named prior distributions, and the map to the unconstrained coordinates of the sampler.

Distributions of `scipy.stats` and `particles.distributions` are taken by duck typing.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from smcpn.arguments import Count, check_fields, checked
from smcpn.errors import InputError, real_number, shown

Array = NDArray[np.float64]

_DRAWS = 1001
_QUARTILES_OF_NORMAL = 1.3489795
_SPACING = 1e-3
"""Of differences, in spreads of the prior."""
BLOCK = 2**16
"""Parameter vectors whose densities are computed together."""


def draw(distribution: Any, rng: np.random.Generator, size: int) -> Array:
    """Draw ``size`` values, (size,), with the randomness of ``rng`` alone.

    A distribution of `scipy.stats` takes the generator. One of `particles.distributions` draws
    from numpy's global generator: that is seeded from ``rng`` for the call and put back after.

    Raises
    ------
    InputError
        If the draws are not ``size`` numbers.
    """
    if _takes_generator(distribution.rvs):
        values = distribution.rvs(size=size, random_state=rng)
    else:
        with _global_generator(rng):
            values = distribution.rvs(size=size)
    values = np.asarray(values)
    if values.shape != (size,):
        raise InputError(
            f"prior {type(distribution).__name__} draws values of shape {values.shape[1:]}: "
            "give every parameter a distribution of its own, of one number"
        )
    if values.dtype.kind != "f":
        raise InputError(
            f"prior {type(distribution).__name__} is discrete: "
            "choose a continuous one, or a number to fix the parameter"
        )
    return values.astype(np.float64)


def support(distribution: Any) -> tuple[float, float]:
    """Return the bounds of a distribution's support; the whole line where they are not known.

    ``support()`` of `scipy.stats` is called first, then the quantile function at 0 and 1, which
    distributions of `particles` have.
    """
    method = getattr(distribution, "support", None)
    if callable(method):
        lower, upper = _pair(method)
        return lower, upper
    quantile = getattr(distribution, "ppf", None)
    if not callable(quantile):
        return -np.inf, np.inf
    try:
        with np.errstate(all="ignore"):
            lower, upper = sorted(_pair(lambda: (quantile(0.0), quantile(1.0))))
    except NotImplementedError:
        return -np.inf, np.inf
    return lower, upper


def described(prior: Prior, name: str) -> str:
    """Short text of the prior of a parameter, its scale included."""
    text, scale = describe(prior.distributions[name]), prior.scales.get(name)
    return text if scale is None else f"{text} * {scale}"


def describe(distribution: Any) -> str:
    """Short text of a prior: family and arguments of a frozen scipy distribution."""
    family = getattr(getattr(distribution, "dist", None), "name", None)
    if family is None:
        return type(distribution).__name__
    arguments = [f"{a:.4g}" for a in distribution.args]
    arguments += [f"{key}={value:.4g}" for key, value in distribution.kwds.items()]
    return f"{family}({', '.join(arguments)})"


def _pair(bounds: Callable[[], Any]) -> tuple[float, float]:
    lower, upper = bounds()
    return float(lower), float(upper)


def _takes_generator(rvs: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(rvs).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(p.name == "random_state" or p.kind is p.VAR_KEYWORD for p in parameters)


@contextmanager
def _global_generator(rng: np.random.Generator) -> Generator[None]:
    """Seed numpy's global generator from ``rng``, and restore its state at the end."""
    before = np.random.get_state()  # noqa: NPY002
    np.random.seed(rng.integers(2**32, dtype=np.uint32))  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(before)  # noqa: NPY002


class Distribution(Protocol):
    """Protocol of a prior: ``rvs`` and ``logpdf``, as of a frozen `scipy.stats` distribution."""

    def rvs(self, *, size: int) -> Any: ...
    def logpdf(self, x: Array, /) -> Any: ...


class Coordinate(Protocol):
    """A smooth one-to-one map between the real line and the support of a prior."""

    @property
    def name(self) -> str:
        """Name in ``coordinates``: "identity", "log" or "logit"."""
        ...

    def natural(self, z: Array) -> Array:
        """Map unconstrained values to parameter values."""
        ...

    def unconstrained(self, x: Array) -> Array:
        """Map parameter values to unconstrained values."""
        ...

    def inside(self, x: Array) -> Array:
        """Move values at a bound to the nearest one inside that has all its digits."""
        ...

    def log_jacobian(self, z: Array) -> Array | float:
        """Return log |dx/dz|."""
        ...

    def slopes(self, z: Array) -> tuple[Array, Array]:
        """Return dx/dz and d2x/dz2."""
        ...


def _nearest(bound: float, towards: float) -> float:
    """Return the floating-point number next to a bound.

    Next to zero that is the smallest normal number: below, digits are lost and densities overflow.
    """
    adjacent = np.nextafter(bound, towards)
    return float(np.copysign(max(abs(adjacent), np.finfo(float).tiny), adjacent))


@dataclass(frozen=True)
class Identity:
    """x = z, for priors on the whole line."""

    name: str = "identity"

    def natural(self, z: Array) -> Array:
        return z

    def unconstrained(self, x: Array) -> Array:
        return x

    def inside(self, x: Array) -> Array:
        return x

    def log_jacobian(self, z: Array) -> float:
        return 0.0

    def slopes(self, z: Array) -> tuple[Array, Array]:
        return np.ones_like(z), np.zeros_like(z)


@dataclass(frozen=True)
class Log:
    """x = bound + sign exp(z), for priors on one side of ``bound``."""

    bound: float = 0.0
    sign: float = 1.0
    name: str = "log"

    def natural(self, z: Array) -> Array:
        return self.bound + self.sign * np.exp(z)

    def unconstrained(self, x: Array) -> Array:
        return np.log(self.sign * (x - self.bound))

    def inside(self, x: Array) -> Array:
        nearest = _nearest(self.bound, self.sign * np.inf)
        return np.where(self.sign * (x - nearest) > 0, x, nearest)

    def log_jacobian(self, z: Array) -> Array:
        return z

    def slopes(self, z: Array) -> tuple[Array, Array]:
        slope = self.sign * np.exp(z)
        return slope, slope


@dataclass(frozen=True)
class Logit:
    """x = lower + (upper - lower) / (1 + exp(-z)), for priors on an interval."""

    lower: float
    upper: float
    name: str = "logit"

    def natural(self, z: Array) -> Array:
        return self.lower + (self.upper - self.lower) / (1.0 + np.exp(-z))

    def unconstrained(self, x: Array) -> Array:
        return np.log(x - self.lower) - np.log(self.upper - x)

    def inside(self, x: Array) -> Array:
        return np.clip(x, _nearest(self.lower, np.inf), _nearest(self.upper, -np.inf))

    def log_jacobian(self, z: Array) -> Array:
        return np.log(self.upper - self.lower) - np.logaddexp(0.0, z) - np.logaddexp(0.0, -z)

    def slopes(self, z: Array) -> tuple[Array, Array]:
        slope = np.exp(self.log_jacobian(z))
        return slope, -slope * np.tanh(0.5 * z)


@dataclass(frozen=True)
class Scaling:
    """Which columns of a prior are multiplied by which others, or by known numbers.

    Attributes
    ----------
    columns : ndarray of int, (m,)
    by : ndarray of int, (m,)
        Column of the scale; -1 where it is known.
    known : ndarray, (m,)
        The known scales.
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


@checked
@dataclass(frozen=True)
class Prior:
    """Independent priors on named parameters.

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
        maps = [_coordinate(n, d, self.coordinates.get(n)) for n, d in self.distributions.items()]
        object.__setattr__(self, "maps", tuple(maps))
        object.__setattr__(self, "scaling", _scaling(self))

    @property
    def names(self) -> tuple[str, ...]:
        """Parameter names, in the order of the columns of theta."""
        return tuple(self.distributions)

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

    def natural(self, theta: Array) -> Array:
        """Map unconstrained (n, d) to parameter values (n, d)."""
        self._check("theta", theta)
        values = np.array(theta, dtype=float, order="C")
        for j in self._mapped:
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
        for j in self._mapped:
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
        result = np.empty(theta.shape)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            values = self.natural(theta)
            for columns, log_density in self._families:
                result[:, columns] = log_density(values[:, columns])
            for j in self._mapped:
                result[:, j] += self.maps[j].log_jacobian(theta[:, j])
        return result

    @cached_property
    def _mapped(self) -> list[int]:
        """Columns whose coordinate is not the parameter itself."""
        return [j for j, coordinate in enumerate(self.maps) if not isinstance(coordinate, Identity)]

    @cached_property
    def _families(self) -> list[tuple[list[int], Callable[[Array], Array]]]:
        """Columns of one family of distributions each, with their densities, (n, k) of (n, k)."""
        members: dict[Any, list[int]] = {}
        distributions = list(self.distributions.values())
        for j, distribution in enumerate(distributions):
            members.setdefault(_family(distribution) or j, []).append(j)
        return [
            (columns, _log_density_of([distributions[j] for j in columns]))
            for columns in members.values()
        ]

    def gradient(self, theta: Array) -> Array:
        """Gradient of `log_density` at unconstrained (n, d), (n, d); not finite next to a bound.

        Exact for normal distributions. Others have any ``logpdf``: differences of fourth order,
        right to about nine digits.
        """
        self._check("theta", theta)
        with np.errstate(all="ignore"):
            gradient = self._unscaled_gradient(self.standardised(theta))
            scaling = self.scaling
            if not self.scales:
                return gradient
            values, slopes = self.natural(theta), self.slopes(theta)[0]
            scale, own = scaling.of(values), gradient[:, scaling.columns]
            gradient[:, scaling.columns] = own / scale
            learned = scaling.by >= 0
            by, columns = scaling.by[learned], scaling.columns[learned]
            pull = -(own[:, learned] * theta[:, columns] / scale[:, learned] + 1.0)
            for k, column in enumerate(by):
                gradient[:, column] += pull[:, k] * slopes[:, column] / scale[:, learned][:, k]
        return gradient

    def _unscaled_gradient(self, theta: Array) -> Array:
        """Derivative of each of `unscaled_log_densities` by its coordinate, (n, d)."""
        gradient, spacing = np.empty(theta.shape), _SPACING * self._spread
        normal, mean, variance = self._normals
        gradient[:, normal] = (mean - theta[:, normal]) / variance
        for columns, log_density in self._families:
            if columns[0] in normal:
                continue
            maps, h = [self.maps[j] for j in columns], spacing[columns]
            ends = [_along(maps, log_density, theta[:, columns] + k * h) for k in (-2, -1, 1, 2)]
            difference = 8.0 * (ends[2] - ends[1]) - (ends[3] - ends[0])
            gradient[:, columns] = difference / (12.0 * h)
        return gradient

    @cached_property
    def _spread(self) -> Array:
        """Spread of each coordinate, those with a scale over that, (d,)."""
        theta = self.standardised(self.sample(np.random.default_rng(0), _DRAWS))
        quarter, three = np.quantile(theta, (0.25, 0.75), axis=0)
        spread = (three - quarter) / _QUARTILES_OF_NORMAL
        # A prior may be narrower than the spacing of numbers.
        return np.maximum(spread, np.spacing(np.abs(three)))

    @cached_property
    def _normals(self) -> tuple[list[int], Array, Array]:
        """Columns of normal distributions, their means and variances."""
        own = {
            j: (float(distribution.mean()), float(distribution.var()))
            for j, distribution in enumerate(cast("list[Any]", [*self.distributions.values()]))
            if (_family(distribution) or ("",))[0] == "norm"
        }
        mean, variance = np.array([*own.values()]).reshape(-1, 2).T
        return list(own), mean, variance

    def density(self, name: str, values: Array) -> Array:
        """Prior density of a parameter at values (m,); where it has a scale, averaged over that."""
        distribution, scale = self.distributions[name], self.scales.get(name, 1.0)
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
        return np.diff(quartiles, axis=1)[:, 0] / _QUARTILES_OF_NORMAL

    def __getstate__(self) -> dict[str, Any]:
        # Functions made on the way cannot be pickled, and are made again.
        made = ("_families", "_mapped", "_normals", "_spread")
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


def _family(distribution: Any) -> tuple[Any, ...] | None:
    """What frozen distributions share whose densities `scipy.stats` evaluates in one call."""
    dist: Any = getattr(distribution, "dist", None)
    stats = sys.modules.get("scipy.stats")
    known: Any = getattr(stats, getattr(dist, "name", None) or "", None)
    # A class of the user's may bear the name of a family, or change its support.
    if known is None or type(known) is not type(dist) or (known.a, known.b) != (dist.a, dist.b):
        return None
    numbers = [*distribution.args, *distribution.kwds.values()]
    if any(np.ndim(number) for number in numbers):
        return None
    return dist.name, len(distribution.args), *distribution.kwds


def _log_density_of(distributions: list[Any]) -> Callable[[Array], Array]:
    """Densities of one distribution, or of several of one family, each at its column."""
    one = distributions[0]
    if len(distributions) == 1:
        return lambda values: one.logpdf(values[:, 0])[:, None]
    args = [
        np.array(column, dtype=float)
        for column in zip(*(d.args for d in distributions), strict=True)
    ]
    kwds = {key: np.array([d.kwds[key] for d in distributions], dtype=float) for key in one.kwds}
    return lambda values: one.dist.logpdf(values, *args, **kwds)


def _scaling(prior: Prior) -> Scaling:
    """Columns of the scales of a prior.

    Raises
    ------
    InputError
        If a scale is not positive, is scaled itself, or multiplies what has bounds.
    """
    names = list(prior.names)
    columns, by, known = [], [], []
    for name, scale in prior.scales.items():
        argument = f"scales.{name}"
        if name not in names:
            raise InputError(f"scales names '{name}', which has no prior", argument=argument)
        if not isinstance(prior.maps[names.index(name)], Identity):
            raise InputError(
                f"prior of '{name}' has bounds and the scale {shown(scale)}: give a distribution "
                "on the whole line, such as stats.norm()",
                argument=argument,
            )
        if isinstance(scale, str):
            fits = scale in names and scale not in prior.scales
            map_ = prior.maps[names.index(scale)] if fits else None
            ends = np.array([-40.0, 40.0])
            if not (isinstance(map_, (Log, Logit)) and map_.natural(ends).min() >= 0.0):
                raise InputError(
                    f"scale of '{name}' is '{scale}': name a parameter with a positive prior, "
                    "such as stats.lognorm(1.0)",
                    argument=argument,
                )
        else:
            scale = real_number(f"scale of '{name}'", scale, argument=argument)
            if scale <= 0.0:
                raise InputError(
                    f"scale of '{name}' is {scale:g}: give a positive number", argument=argument
                )
        columns.append(names.index(name))
        by.append(names.index(scale) if isinstance(scale, str) else -1)
        known.append(1.0 if isinstance(scale, str) else scale)
    return Scaling(np.array(columns, int), np.array(by, int), np.array(known, float))


def _coordinate(name: str, distribution: Distribution, wanted: str | None) -> Coordinate:
    for method in ("rvs", "logpdf"):
        if not callable(getattr(distribution, method, None)):
            raise InputError(
                f"prior of '{name}' is {shown(distribution)}, which has no {method}: "
                "give a frozen scipy.stats distribution, or a number to fix the parameter",
                argument=f"prior.{name}",
            )
    lower, upper = _support(name, distribution)
    by_support: Coordinate
    if np.isfinite(lower) and np.isfinite(upper):
        by_support = Logit(lower, upper)
    elif np.isfinite(lower):
        by_support = Log(lower)
    elif np.isfinite(upper):
        by_support = Log(upper, sign=-1.0)
    else:
        by_support = Identity()
    if wanted is None or wanted == by_support.name:
        return by_support
    if wanted == "identity":
        return Identity()
    if wanted in ("log", "logit"):
        raise InputError(
            f"coordinate '{wanted}' of '{name}' does not fit its prior on ({lower:g}, {upper:g}): "
            "truncate the prior (scipy.stats.truncnorm) or choose 'identity'",
            argument=f"coordinates.{name}",
        )
    raise InputError(
        f"coordinate {shown(wanted)} of '{name}' is none of identity, log, logit",
        argument=f"coordinates.{name}",
    )


def _support(name: str, distribution: Distribution) -> tuple[float, float]:
    """Return the bounds of the support of a distribution, checked to be that of one number."""
    remedy = "give a frozen scipy.stats distribution of one number, such as stats.lognorm(0.5)"
    density = np.empty(0)
    try:
        lower, upper = support(distribution)
        if lower < upper:
            with np.errstate(all="ignore"):
                draws = draw(distribution, np.random.default_rng(0), 2)
                density = np.asarray(distribution.logpdf(draws[:1]))
    except InputError as error:
        raise InputError(f"prior of '{name}': {error}", argument=f"prior.{name}") from error
    except Exception as error:
        why = f"{type(error).__name__}: {shown(str(error))}"
        raise InputError(
            f"prior of '{name}' cannot be used ({why}): {remedy}", argument=f"prior.{name}"
        ) from error
    if not lower < upper:
        raise InputError(
            f"prior of '{name}' has no valid support: check its arguments",
            argument=f"prior.{name}",
        )
    if density.shape != (1,):
        raise InputError(
            f"prior of '{name}' has a density of shape {density.shape}: {remedy}",
            argument=f"prior.{name}",
        )
    return lower, upper


def _listed(names: set[str]) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names))
