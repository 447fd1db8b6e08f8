"""Learned scales of a prior at their marginal mode, the other parameters at their maximum given it.

Where data are weak the joint density of parameters x and their scale s rises without end as s goes
to 0, p(x | s) being as high as s^-n. The density of s alone, x integrated over, has its mode where
its mass is (see `smcpn.model.learned_scales`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.estimate.log_density import LogDensity
from smcpn.estimate.search import LIMIT, Search, SearchEnd
from smcpn.model.learned_scales import GivenScales, ScaledColumns, ScaledGaussian, learned_scales
from smcpn.model.prior import prior_expansion
from smcpn.results.laplace import Laplace
from smcpn.results.maximum import POSTERIOR, Maximum

Array = NDArray[np.float64]

FIRST_ITERATIONS = 10
"""Of a search before its scales are looked at: they may be far from right."""
ROUNDS = 10
OPEN = 1e-8
"""Least curvature of a parameter without a scale, over that of a normal prior of its spread."""
CONCAVE = 0.5
"""Share of the curvature of the normal density of the same slope and centre below which a prior is
taken as that one: the tail of a Student density is convex, and yet it bounds."""
RESOLVED = 1e-13
"""Share of the curvature along a coordinate that rounding leaves."""
SETTLED = 1e-3
"""Change of the scales, in units of their coordinates, that ends the rounds."""


def given_scales(density: LogDensity, columns: ScaledColumns, theta: Array) -> list[GivenScales]:
    """Return the posteriors given the scales, by expected information about points (n, d)."""
    value, gradient, information, bends = density.of_likelihood(theta)
    found = []
    for k, one in enumerate(theta):
        level, first, bounding = _rest(density, columns, one)
        own = np.maximum(bounding - bends[k], OPEN / density.scale**2)
        matrix = information[k] + np.diag(own)
        found.append(_about(columns, one, value[k] + level, gradient[k] + first, matrix))
    return found


def given_scales_by_curvature(
    density: LogDensity, columns: ScaledColumns, theta: Array, curvature: Array
) -> GivenScales:
    """Return the posterior given the scales, by minus the Hessian of the density given them.

    The curvature, (m, m), is that of the coordinates that are no scales; the prior given the scales
    is part of it. What is left without that is made positive semidefinite.
    """
    prior = prior_expansion(density.prior, theta[None, :], density.scale)
    w = columns.others
    level, first, bounding = _rest(density, columns, theta)
    own = -prior.diagonal[0, w] - bounding[w]
    root = np.linalg.cholesky(curvature)
    left = np.linalg.solve(root, np.linalg.solve(root, curvature - np.diag(own)).T)
    values, vectors = np.linalg.eigh(0.5 * (left + left.T))
    factor = root @ vectors * np.sqrt(np.maximum(values, 0.0))
    value, gradient = density.value_and_gradient(theta[None, :])
    value, gradient = value - prior.value + level, gradient - prior.gradient + first
    matrix = np.zeros((len(theta), len(theta)))
    matrix[np.ix_(w, w)] = factor @ factor.T
    return _about(columns, theta, float(value[0]), gradient[0], matrix)


def _rest(density: LogDensity, columns: ScaledColumns, theta: Array) -> tuple[float, Array, Array]:
    """Log prior of what has no learned scale and is none, its gradient and curvatures.

    Where it is hardly concave, the curvature is that of the normal density of the same slope, which
    bounds a density of heavy tails from below (as reweighted least squares do).
    """
    prior = prior_expansion(density.prior, theta[None, :], density.scale)
    out = np.concatenate([columns.others[columns.scaled], columns.scales])
    first, curvature = prior.gradient[0].copy(), -prior.diagonal[0]
    away = theta - density.centre
    # Nearer to the centre, which is that of some draws, it is of no known slope.
    tails = np.abs(away) > density.scale
    normal = np.divide(-first, away, out=np.zeros(len(theta)), where=tails)
    curvature = np.where(curvature < CONCAVE * normal, normal, curvature)
    first[out] = curvature[out] = 0.0
    logs = density.prior.log_densities(theta[None, :])[0]
    logs[out] = 0.0
    return float(logs.sum()), first, curvature


def _about(
    columns: ScaledColumns, theta: Array, value: float, gradient: Array, information: Array
) -> GivenScales:
    """A log density of value, gradient and curvature at theta (d,), as one of w."""
    w, stretch = columns.others, np.ones(len(columns.others))
    point, u = (each[0] for each in columns.parts(theta[None, :]))
    stretch[columns.scaled] = np.exp(-columns.stretched(u[None, :])[0][0])
    slope, matrix = gradient[w] * stretch, information[np.ix_(w, w)] * np.outer(stretch, stretch)
    matrix = matrix + RESOLVED * np.diag(np.diag(matrix))
    pull = slope + matrix @ point
    constant = value - pull @ point + 0.5 * point @ matrix @ point
    return GivenScales(columns, matrix, pull, float(constant))


def averaged_over_scales(
    maximum: Maximum, density: LogDensity, columns: ScaledColumns, curvature: Array | None = None
) -> Laplace:
    """Return the Gaussian with the moments of a posterior over its scales, and the evidence.

    ``curvature`` is that of `given_scales_by_curvature`; without it, expected information is.
    """
    theta, d = maximum.theta, len(maximum.theta)
    bounds, centre = density.bounds[columns.scales], density.centre[columns.scales]
    try:
        if curvature is None:
            [given] = given_scales(density, columns, theta[None, :])
        else:
            given = given_scales_by_curvature(density, columns, theta, curvature)
        if not np.isfinite(given.information).all():
            raise np.linalg.LinAlgError
        u = given.mode(np.stack([theta[columns.scales], centre]), bounds)
        mean, covariance, log_evidence = given.moments(u)
        scaled = ScaledGaussian.of_moments(given, mean, covariance)
    except np.linalg.LinAlgError:
        reason = "neither samples nor prior bound the parameters at the mode"
        return Laplace(maximum, np.full((d, d), np.nan), np.nan, reason)
    return Laplace(maximum, covariance, log_evidence, given_scales=scaled)


class MarginalScales(Search):
    """A search with the scales held, which are then moved to their marginal mode, and again.

    ``search`` leads to the maximum of the other parameters.
    """

    def __init__(self, search: Search, columns: ScaledColumns) -> None:
        self.name = search.name  # pyright: ignore[reportAttributeAccessIssue]
        self._search, self._columns = search, columns

    @override
    def nearer(self) -> Search:
        return MarginalScales(self._search.nearer(), self._columns)

    @override
    def patient(self) -> Search:
        return MarginalScales(self._search.patient(), self._columns)

    @override
    def __call__(
        self, density: LogDensity, starts: Array, stages: Sequence[Sequence[int]], iterations: int
    ) -> list[SearchEnd]:
        held = set(self._columns.scales.tolist())
        stages = [kept for stage in stages if (kept := [j for j in stage if j not in held])]
        few = min(iterations, FIRST_ITERATIONS)
        elsewhere: Array = density.centre[None, self._columns.scales]
        found = self._search(density, starts, stages, few)
        left = iterations - few
        search = self._search.nearer()
        settled = np.array([not np.isfinite(one.log_density) for one in found])
        for _ in range(ROUNDS):
            moving = np.flatnonzero(~settled)
            if not len(moving):
                break
            ends = np.stack([found[k].theta for k in moving])
            moved = self._moved(density, ends, elsewhere)
            elsewhere = elsewhere[:0]
            away = np.abs(moved - ends).max(axis=1)
            for k, near in zip(moving, away < SETTLED, strict=True):
                settled[k] = near and found[k].reason != LIMIT
            again = [place for place, k in enumerate(moving) if not settled[k]]
            if not again or left < 1:
                break
            ends = search(density, moved[again], stages[-1:], left)
            for place, end in zip(again, ends, strict=True):
                found[moving[place]] = found[moving[place]].followed_by(end)
        return found

    def _moved(self, density: LogDensity, theta: Array, elsewhere: Array) -> Array:
        """Points (n, d) with the scales at the marginal mode of the expansion there.

        ``elsewhere`` are further scales to look for it from.
        """
        columns = self._columns
        bounds = density.bounds[columns.scales]
        moved = theta.copy()
        for k, given in enumerate(given_scales(density, columns, theta)):
            w, u = columns.parts(theta[[k]])
            if not np.isfinite(given.constant):
                continue
            try:
                other = given.mode(np.concatenate([u, elsewhere]), bounds)[None]
                if columns.stretches:
                    w = w + given.conditional(other)[0] - given.conditional(u)[0]
            except np.linalg.LinAlgError:
                # Rounding has left no precision that is positive definite: the scales stay.
                continue
            moved[k] = columns.whole(w, other)[0]
        return moved


def with_marginal_scales(search: Search, density: LogDensity) -> Search:
    """Return a search that keeps learned scales at their marginal mode, where there are any."""
    columns = learned_scales(density.log_likelihood.problem)
    if columns is None or density.target != POSTERIOR or not density.log_likelihood.expands:
        return search
    return MarginalScales(search, columns)
