"""A density to begin at near the posterior: t components at its modes, and a share of the prior.

The share of the prior bounds the importance weights wherever the prior has mass, and finds what
the components do not reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from scipy import special

from smcpn.base.stored import Line, Stored, Unchecked, Whole, finite
from smcpn.errors import InputError
from smcpn.likelihood.contract import Likelihood
from smcpn.model.learned_scales import GivenScales, ScaledColumns, ScaledGaussian
from smcpn.model.prior import Prior, by_blocks
from smcpn.smc.moves import IndependentMetropolis
from smcpn.smc.proposals import squared_distances, student_log_density
from smcpn.smc.rejuvenation import MoveSettings
from smcpn.smc.sampler import Settings
from smcpn.smc.straightening import Straightening
from smcpn.smc.tempering import Tempering

Array = NDArray[np.float64]

DEGREES = 10.0
"""Degrees of freedom of a component: 5 would leave half the effective draws in 25 dimensions."""
SAME_MODE = 1.0
"""Squared distance, in posterior sd about the higher one, below which two ends are one mode."""
PRIOR_SHARE = 0.1
"""Share of the draws that come from the prior."""
EQUAL_SHARE = 0.1
"""Share of the other draws that is divided equally: the evidence of a mode is not exactly known."""


WIDE_SHARE = 0.2
"""Largest share of the draws about a mode that come from `WIDTH` times its standard deviations,
one in d: they bound the weights in a skewed tail, to which the Gaussian at a mode is blind. The
more dimensions, the fewer of them are anywhere near the posterior."""
LEAST_SHARE = 0.05
"""Share of the weight that a mode must have for the spread about it to be judged."""
LEAST_DISTINCT = 2.0
"""Fewest effective particles per dimension from which a spread is judged."""

ALIKE = 1.5
"""Factor between two spreads about a mode below which they are about the same."""

BENDS = 3
"""Directions along which a ridge may bend away from its tangent without being wide."""

WIDTH = 3.0
"""Factor on the standard deviations of a start whose weights cannot be trusted."""
SCOUTS = 200
"""Particles that look for what a start misses, or a fifth of a population where that is more."""
LOST = 5.0
"""Nats of log-evidence, beyond the error of a Laplace approximation, that a run may not lack."""
NARROWEST = 30.0
"""Nats that an end holds, for each parameter, below its height at the least: rounding resolves no
posterior that is narrower than 1e-13 of the prior."""
SCOUTING_MOVES = 10
"""Most moves of one of their rejuvenations: of 100 with 5 four in ten lose half of a posterior."""


@dataclass(frozen=True)
class Mode:
    """A mode of a posterior, and the Gaussian about it.

    theta: (d,), unconstrained coordinates.
    covariance: (d, d), inverse of minus the Hessian of the log density there.
    log_evidence: Log of the integral of that Gaussian, scaled to the height of the density.
    given_scales: Where scales of the prior are learned, the Gaussian given them; theta and
        covariance are mean and covariance over the scales then.
    """

    theta: Array
    covariance: Array
    log_evidence: float
    given_scales: ScaledGaussian | None = None

    @property
    def factor(self) -> Array:
        """Lower Cholesky factor of the covariance, (d, d)."""
        return np.asarray(np.linalg.cholesky(self.covariance), dtype=np.float64)

    def squared_distance(self, theta: Array) -> float:
        """Squared distance of a point (d,), in standard deviations of the Gaussian."""
        offset = np.linalg.solve(self.factor, theta - self.theta)
        return float(offset @ offset)


def shares_of(modes: Sequence[Mode]) -> Array:
    """Return the share of each mode in the sum of their evidences, (K,)."""
    logs = np.array([mode.log_evidence for mode in modes])
    return np.asarray(special.softmax(logs), dtype=np.float64)


@dataclass(frozen=True)
class Modes(Stored):
    """Modes of a density, with the share and the spread of each, in unconstrained coordinates.

    Raises `InputError` if the arrays do not fit each other.

    shares: (K,), they sum to one.
    means: (K, d)
    factors: (K, d, d), lower Cholesky factors of the covariances.
    searches: Searches that found them.
    log_evidence: Of the Gaussians at all of them together; without any, the least that the highest
        end may hold; -inf without an end.
    informations: (K, m, m), where the prior learns scales, of the m parameters that are none:
        matrix A of each `GivenScales`, and ``means`` and ``factors`` are moments over the scales.
        Else empty.
    pulls: (K, m), their vectors b.
    ends: (E,), log posterior of the ends of the searches that converged, the highest first.
    doubt: Why a higher mode may have been missed, or why no end has a Gaussian about it; empty
        where nothing says so.
    """

    shares: Annotated[Array, Unchecked()]
    means: Annotated[Array, Unchecked()]
    factors: Annotated[Array, Unchecked()]
    searches: Whole
    log_evidence: float
    informations: Annotated[Array, Unchecked()] = field(default_factory=lambda: np.empty((0, 0, 0)))
    pulls: Annotated[Array, Unchecked()] = field(default_factory=lambda: np.empty((0, 0)))
    ends: Annotated[Array, finite(None)] = field(default_factory=lambda: np.empty(0))
    doubt: Line = ""

    def __post_init__(self) -> None:
        names = ("shares", "means", "factors", "informations", "pulls", "ends")
        arrays = [np.array(getattr(self, name), dtype=float) for name in names]
        for name, value in zip(names, arrays, strict=True):
            object.__setattr__(self, name, value)
        if len(self.shares) == 0:
            return
        self._check_informations()
        k, d = self.means.shape if self.means.ndim == 2 else (0, 0)
        fits = self.shares.shape == (k,) and self.factors.shape == (k, d, d)
        if not fits or not all(np.isfinite(value).all() for value in arrays):
            raise InputError("start: give K shares, means (K, d) and factors (K, d, d), all finite")
        if (self.shares < 0).any() or abs(self.shares.sum() - 1.0) > 1e-9:
            raise InputError("start: give shares of modes that are positive and sum to one")
        if (np.diagonal(self.factors, axis1=1, axis2=2) <= 0).any():
            raise InputError("start: give lower Cholesky factors, of positive diagonal")

    def _check_informations(self) -> None:
        k, m = self.pulls.shape if self.pulls.ndim == 2 else (0, 0)
        fits = self.informations.shape == (k, m, m) or not self.pulls.size
        if k not in (0, len(self.shares)) or not fits or m > self.means.shape[-1]:
            raise InputError("start: give informations (K, m, m) and pulls (K, m), or none of them")
        if k and not (np.isfinite(self.informations).all() and np.isfinite(self.pulls).all()):
            raise InputError("start: give informations and pulls that are finite")

    @classmethod
    def about(
        cls, modes: Sequence[Mode], searches: int, ends: Sequence[float] = (), doubt: str = ""
    ) -> Modes:
        """Return the modes that searches have found, each with its share of the evidence."""
        scaled = [mode.given_scales.given for mode in modes if mode.given_scales is not None]
        return cls(
            shares=shares_of(modes),
            means=np.stack([mode.theta for mode in modes]),
            factors=np.stack([mode.factor for mode in modes]),
            searches=searches,
            log_evidence=float(np.logaddexp.reduce([mode.log_evidence for mode in modes])),
            informations=np.array([one.information for one in scaled]),
            pulls=np.array([one.pull for one in scaled]),
            ends=np.array(ends),
            doubt=doubt,
        )

    @classmethod
    def none(
        cls, searches: int, parameters: int = 0, ends: Sequence[float] = (), doubt: str = ""
    ) -> Modes:
        """Return what stands for searches whose ends, if any, have no Gaussian about them."""
        least = ends[0] - NARROWEST * parameters if ends else -np.inf
        nothing = np.empty(0), np.empty((0, 0)), np.empty((0, 0, 0))
        return cls(*nothing, searches, least, ends=np.array(ends), doubt=doubt)

    def joined(self, other: Modes) -> Modes:
        """Return these with the modes of another search that are none of them."""
        away = squared_distances(other.means, self.means, self.factors).min(axis=0)
        new = np.flatnonzero(away > SAME_MODE)
        with np.errstate(divide="ignore"):  # A mode may have no share of the mass.
            evidences = np.concatenate(
                [one.log_evidence + np.log(one.shares)[k] for one, k in ((self, ...), (other, new))]
            )
        arrays = "means", "factors", "informations", "pulls"
        both = {
            name: np.concatenate([getattr(self, name), getattr(other, name)[new[: len(of)]]])
            for name in arrays
            for of in [getattr(other, name)]
        }
        return Modes(
            shares=special.softmax(evidences),
            searches=self.searches + other.searches,
            log_evidence=float(np.logaddexp.reduce(evidences)),
            ends=np.sort(np.append(self.ends, other.ends))[::-1],
            doubt=self.doubt,
            **both,
        )

    def fits(self, d: int) -> bool:
        """True if they are of so many parameters."""
        return not len(self) or self.means.shape[1] == d

    def missed_by(self, log_evidence: float) -> bool:
        """True if a run that ended with a log-evidence has missed what the searches found."""
        return log_evidence < self.log_evidence - LOST

    def __len__(self) -> int:
        return len(self.means)


@dataclass(frozen=True)
class MixtureStart:
    """A mixture of a near and a wide multivariate t at each mode, and the prior.

    columns: What the prior learns scales of, where ``modes`` were found given these.
    width: Factor on the standard deviations of the components.

    References
    ----------
    Owen, A., Zhou, Y. (2000). Safe and effective importance sampling. JASA 95 (the share of the
    prior). Hesterberg, T. (1995). Weighted average importance sampling and defensive mixture
    distributions. Technometrics 37.
    """

    prior: Prior
    modes: Modes
    columns: ScaledColumns | None = None
    width: float = 1.0

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Draw ``size`` vectors, (size, d); each component its share of them, to rounding."""
        modes, d = self.modes, len(self.prior)
        positions = (np.arange(size) + rng.random()) / size
        bounds = np.cumsum(np.exp(self._log_shares).T)
        drawn_of = rng.permutation(np.searchsorted(bounds, positions, side="right"))
        component, wide = drawn_of // 2, drawn_of % 2 == 1
        drawn = np.empty((size, d))
        normal = rng.standard_normal((size, d))
        normal *= self.width * np.sqrt(DEGREES / rng.chisquare(DEGREES, size))[:, None]
        normal[wide] *= WIDTH
        for k, (mean, factor) in enumerate(zip(modes.means, modes.factors, strict=True)):
            own = component == k
            if self._scaled:
                drawn[own] = self._scaled[k].coloured(normal[own])
            else:
                drawn[own] = mean + normal[own] @ factor.T
        from_prior = component >= len(modes)
        if from_prior.any():
            drawn[from_prior] = self.prior.sample(rng, int(from_prior.sum()))
        return drawn

    def log_density(self, theta: Array) -> Array:
        """Log density at (n, d), shape (n,)."""
        return by_blocks(self._log_density, theta)

    def _log_density(self, theta: Array) -> Array:
        parts, _ = self.components(theta)
        by_prior = np.log(PRIOR_SHARE) + self.prior.log_density(theta)
        return np.logaddexp(np.logaddexp.reduce(parts, axis=0), by_prior)

    def memberships(self, theta: Array) -> Array:
        """Probability of each mode's near component, of each wide one, and of the prior.

        They are given (n, d), the shape is (2 K + 1, n).
        """
        parts, _ = self._near_and_wide(theta)
        by_prior = np.log(PRIOR_SHARE) + self.prior.log_density(theta)
        rows = np.vstack([*parts, by_prior])
        return np.exp(rows - np.logaddexp.reduce(rows, axis=0))

    def by_mode(self, theta: Array) -> Array:
        """Probability of each mode, and of the prior, given (n, d): (K + 1, n)."""
        *of_modes, by_prior = self.memberships(theta)
        near, wide = np.split(np.array(of_modes), 2)
        return np.vstack([near + wide, by_prior])

    def components(self, theta: Array) -> tuple[Array, Array]:
        """Log share + log density of each mode, near and wide, and squared distances: (K, n)."""
        parts, squares = self._near_and_wide(theta)
        return np.logaddexp(*parts), squares

    def _near_and_wide(self, theta: Array) -> tuple[Array, Array]:
        """Log share + log density of near and wide components (2, K, n), and squares (K, n)."""
        modes, d = self.modes, theta.shape[1]
        if self._scaled:
            found = [one.squares(theta) for one in self._scaled]
            squares, log_volumes = (np.stack(each) for each in zip(*found, strict=True))
            squares, log_volumes = squares / self.width**2, log_volumes + d * np.log(self.width)
        else:
            factors = self.width * modes.factors
            squares = squared_distances(theta, modes.means, factors, self._inverses)
            log_volumes = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)[:, None]
        near, wide = self._log_shares[:, :, None] - log_volumes
        near = near + student_log_density(squares, d, DEGREES)
        wide = wide + student_log_density(squares / WIDTH**2, d, DEGREES) - d * np.log(WIDTH)
        return np.stack([near, wide]), squares

    def gradient(self, theta: Array) -> Array:
        """Gradient of the log density at (n, d), (n, d)."""
        squares, d = self._near_and_wide(theta)[1], theta.shape[1]
        *of_modes, by_prior = self.memberships(theta)
        near, wide = np.split(np.array(of_modes), 2)
        # Where the prior has no density its gradient is not finite, and none of it counts.
        slope = by_prior[:, None] * self.prior.gradient(theta)
        total = np.where(by_prior[:, None] > 0, slope, 0.0)
        pulls = -(DEGREES + d) * (
            near / (DEGREES + squares) + wide / (DEGREES * WIDTH**2 + squares)
        )  # fmt: skip
        for k, (mean, inverse) in enumerate(zip(self.modes.means, self._inverses, strict=True)):
            if self._scaled:
                by_square, by_volume = self._scaled[k].slopes(theta)
                by_square /= self.width**2
                total += pulls[k][:, None] * by_square - (near + wide)[k][:, None] * by_volume
            else:
                total += pulls[k][:, None] * ((theta - mean) @ inverse.T @ inverse)
        return total

    @cached_property
    def _scaled(self) -> list[ScaledGaussian]:
        """The components as Gaussians given scales, where the prior learns such; else empty."""
        modes, columns = self.modes, self.columns
        if not len(modes.pulls):
            return []
        if columns is None or modes.pulls.shape[1] != len(columns.others):
            raise InputError("start: it is of a problem that learns other scales")
        given = [
            GivenScales(columns, information, pull)
            for information, pull in zip(modes.informations, modes.pulls, strict=True)
        ]
        return [
            ScaledGaussian.of_moments(one, mean, factor @ factor.T)
            for one, mean, factor in zip(given, modes.means, modes.factors, strict=True)
        ]

    @cached_property
    def _inverses(self) -> Array:
        return np.asarray(np.linalg.inv(self.width * self.modes.factors), dtype=np.float64)

    @property
    def _log_shares(self) -> Array:
        """Of the near component of each mode and of the wide one, (2, K)."""
        shares = (1.0 - EQUAL_SHARE) * self.modes.shares + EQUAL_SHARE / len(self.modes)
        wide = min(WIDE_SHARE, 1.0 / len(self.prior))
        parts = np.array([[1.0 - wide], [wide]])
        return np.log((1.0 - PRIOR_SHARE) * parts * shares)


def share_beyond(
    start: MixtureStart, likelihood: Likelihood, settings: Settings, rng: np.random.Generator
) -> float:
    """Share of a posterior beyond the modes of a start, as few particles from the prior find it.

    A density near the posterior can be blind to a part of it, and so are all weights and moves of
    particles that began there. A second, small population from the prior is not (Surjanovic et
    al. 2022 let half of their chains begin at the prior for that reason). Where it ends with far
    less evidence than there is about the modes it has lost its way, and what it found counts for
    nothing: a whole population from the prior would not be better off.

    The start is wide enough for its components to cover the posterior about their modes; the
    settings are those of the population that begins there.

    References
    ----------
    Surjanovic, N., Syed, S., Bouchard-Cote, A., Campbell, T. (2022). Parallel tempering with a
    variational reference. NeurIPS 35.
    """
    few = max(SCOUTS, settings.particles // 5)
    moves = IndependentMetropolis(MoveSettings(max_moves=SCOUTING_MOVES))
    settings = replace(settings, particles=few, moves=moves, start=None)
    scouts = Tempering(start.prior, likelihood, settings, rng)
    scouts.run()
    if start.modes.missed_by(scouts.log_evidence):
        return 0.0
    outside = start.memberships(scouts.system.theta)[-1] > 0.5
    return float(scouts.system.weights[outside].sum())


@dataclass(frozen=True)
class Spread:
    """Spread of particles about a mode along one direction, relative to that of the start.

    ratio: Of the standard deviations, corrected for the number of particles towards one.
    direction: (d,), in standard deviations of each coordinate about the mode.
    measured: The ratio without that correction.
    """

    mode: int
    ratio: float
    direction: Array
    measured: float

    def agrees_with(self, other: Spread) -> bool:
        """True if the other one is about the same mode, and about as narrow or as wide.

        What is measured is compared: the correction of few draws is a bound, not an estimate. It
        says whether chance alone makes so few as narrow, or as wide.
        """
        low, high = sorted((self.measured, other.measured))
        told = max(other.ratio, 1.0 / max(other.ratio, 1e-300)) > ALIKE
        return self.mode == other.mode and told and high < ALIKE * low


def extreme_spreads(
    start: MixtureStart, theta: Array, weights: Array, independent: float = 1.0
) -> list[Spread]:
    """Return the narrowest and the widest direction of particles (N, d) about each mode.

    Particles and the Gaussian at the mode are taken to coordinates that straighten the ridge of
    these particles, and what is still bent is no width: along a bent ridge particles are wide
    across the tangent that the Gaussian follows, and none is lost. In coordinates where the
    Gaussian has covariance one, the eigenvalues of a covariance of n draws lie within
    (1 +- sqrt(d / n))^2 (Marchenko and Pastur 1967). Copies of a particle count as one, and of the
    others a share ``independent``.
    """
    _, first, copies = np.unique(theta[:, 0], return_index=True, return_inverse=True)
    points, mass = theta[first], np.bincount(copies, weights=weights)
    d, nearest = theta.shape[1], start.components(points)[0].argmax(axis=0)
    found: list[Spread] = []
    for k, (mean, factor) in enumerate(zip(start.modes.means, start.modes.factors, strict=True)):
        own = nearest == k
        share = mass[own] / max(mass[own].sum(), np.finfo(float).tiny)
        effective = independent / max(np.square(share).sum(), np.finfo(float).tiny)
        if mass[own].sum() < LEAST_SHARE or effective < LEAST_DISTINCT * d:
            continue
        straight = Straightening.fit(start.prior, points[own], share)
        place, _ = straight.forward(points[own])
        factor = straight.slopes(mean)[:, None] * factor
        whitened = np.linalg.solve(start.width * factor, (place - share @ place).T).T
        values, vectors = np.linalg.eigh((share[:, None] * whitened).T @ whitened)
        directions = factor @ vectors / np.linalg.norm(factor, axis=1)[:, None]
        noise, axes = np.sqrt(d / effective), whitened @ vectors
        narrow = float(np.sqrt(max(values[0], 0.0)))
        widths = [_unbent_spread(axes, share, j) if values[j] > 1.0 else 0.0 for j in range(d)]
        widest = int(np.argmax(widths))
        least = float(min(narrow / (1.0 - noise), 1.0))
        most = float(max(widths[widest] / (1.0 + noise), 1.0))
        found.append(Spread(k, least, directions[:, 0], narrow))
        found.append(Spread(k, most, directions[:, widest], widths[widest]))
    return found


def _unbent_spread(axes: Array, share: Array, j: int) -> float:
    """Spread along one of uncorrelated axes (n, d), without what is quadratic in the others.

    It bends the most along the eigenvectors of its third moments with pairs of the others.
    """
    along, others = axes[:, j], np.delete(axes, j, axis=1)
    others = others / np.sqrt(np.maximum(share @ np.square(others), np.finfo(float).tiny))
    bends, directions = np.linalg.eigh((share * along * others.T) @ others)
    squares = np.square(others @ directions[:, np.argsort(-np.abs(bends))[:BENDS]])
    terms = np.sqrt(share)[:, None] * np.column_stack([np.ones(len(axes)), squares, along])
    coefficients = np.linalg.lstsq(terms[:, :-1], terms[:, -1])[0]
    return float(np.linalg.norm(terms[:, -1] - terms[:, :-1] @ coefficients))
