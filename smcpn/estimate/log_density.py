"""The log density that is maximised, with its derivatives in unconstrained coordinates."""

from __future__ import annotations

from functools import cached_property

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.base.status import Say
from smcpn.errors import InputError
from smcpn.likelihood.gradient import DIFFERENCE, LogLikelihood
from smcpn.model.coordinates import Identity
from smcpn.model.distribution import INTERQUARTILE_RANGE, support
from smcpn.model.prior import Prior, prior_expansion
from smcpn.results.maximum import POSTERIOR, TARGETS

Array = NDArray[np.float64]

FAR = 20.0
"""Coordinates this far from the prior's median are at the edge of its support: there a bound is
2e-9 of the way to the median. Or five spreads of the prior, where these are wider."""
_WIDE = 5.0


class LogDensity:
    """Log posterior, or log-likelihood, of unconstrained coordinates theta.

    The posterior is the density *of theta*, log-Jacobian included, as a sampler sees it: its mode
    is not the image of the mode of the density of the values. A likelihood is no density, so its
    maximum is the same in any coordinates.

    target: {"posterior", "likelihood"}
    centre, scale: (d,), median and spread of the prior in these coordinates; the spread is that of
        a normal with the same quartiles.
    bounds: (d, 2), ends of the support of the prior, to rounding.
    highest: Largest log density that was evaluated with a gradient so far, at ``top`` (d,).
    evaluations: Points at which it was, with a gradient, so far.
    """

    def __init__(
        self, log_likelihood: LogLikelihood, target: str = POSTERIOR, say: Say | None = None
    ) -> None:
        if target not in TARGETS:
            raise InputError(f"target is {target!r}: choose one of {', '.join(TARGETS)}")
        self.log_likelihood, self.target, self._say = log_likelihood, target, say
        self.highest, self.top, self.evaluations = -np.inf, np.empty(0), 0
        self.prior = log_likelihood.problem.prior
        quarter, self.centre, three = self.prior.quartiles
        spread = (three - quarter) / INTERQUARTILE_RANGE
        # A prior may be narrower than the spacing of numbers.
        self.scale = np.maximum(spread, np.spacing(np.abs(self.centre)))
        self.bounds = _bounds(self.prior, self.centre, self.scale)

    @property
    def names(self) -> tuple[str, ...]:
        """Parameter names, in the order of the columns of theta."""
        return self.prior.names

    @cached_property
    def noise(self) -> list[int]:
        """Columns that are nothing but a standard deviation of the noise."""
        model = self.log_likelihood.problem.model
        moves = ca.vertcat(model.rhs, model.outputs, *model.initial, model.noise_correlation)
        return [
            j
            for j, parameter in enumerate(ca.vertsplit(model.theta))
            if ca.depends_on(model.noise_variance, parameter)
            and not ca.depends_on(moves, parameter)
        ]

    def value(self, theta: Array) -> Array:
        """Log density, (n,); -inf where the solution diverges."""
        with np.errstate(all="ignore"):
            total = self.log_likelihood(self.prior.natural(theta))
            if self.target == POSTERIOR:
                total = total + self.prior.log_density(theta)
        return np.where(np.isfinite(total), total, -np.inf)

    def value_and_gradient(self, theta: Array) -> tuple[Array, Array]:
        """Log density (n,) and its gradient (n, d); -inf where the solution diverges."""
        with np.errstate(all="ignore"):
            values = self.prior.natural(theta)
            total, gradient = self.log_likelihood.value_and_gradient(values)
            gradient = gradient * self.prior.slopes(theta)[0]
            if self.target == POSTERIOR:
                prior = prior_expansion(self.prior, theta, self.scale)
                total, gradient = total + prior.value, gradient + prior.gradient
        return self._seen(theta, np.where(np.isfinite(total), total, -np.inf)), gradient

    def expansion(self, theta: Array, share: float = 1.0) -> tuple[Array, Array, Array]:
        """Log density (n,), gradient (n, d), and information (n, d, d), none of it negative.

        As `LogLikelihood.expansion`, where the likelihood has one. Prior and coordinates add their
        curvature, where that is positive; those of the noise need none, see `noise`. Of another
        likelihood the information is the size of the curvature in each of its main directions, and
        there is no ``share``.
        """
        if not self.log_likelihood.expands:
            return *self.value_and_gradient(theta), self._sizes_of_curvature(theta)
        with np.errstate(all="ignore"):
            total, gradient, information, second = self.of_likelihood(theta, share)
            if self.target == POSTERIOR:
                prior = prior_expansion(self.prior, theta, self.scale)
                total, gradient = total + prior.value, gradient + prior.gradient
                second = second + prior.diagonal
            information = information + np.maximum(-second, 0.0)[:, :, None] * np.eye(len(second.T))
        total = np.where(np.isfinite(total), total, -np.inf)
        return total if share < 1.0 else self._seen(theta, total), gradient, information

    def _sizes_of_curvature(self, theta: Array) -> Array:
        """Hessians with eigenvalues of their size and no sign, (n, d, d); nan where there is none.

        The coordinates are those in which the prior has a spread of one.
        """
        units = self.scale[:, None] * self.scale
        scaled = self.hessian(theta) * units
        finite = np.isfinite(scaled).all(axis=(1, 2), keepdims=True)
        scaled = np.where(finite, 0.5 * (scaled + scaled.transpose(0, 2, 1)), 0.0)
        eigenvalues, vectors = np.linalg.eigh(scaled)
        sizes = (vectors * np.abs(eigenvalues)[:, None, :]) @ vectors.transpose(0, 2, 1)
        return np.where(finite, sizes / units, np.nan)

    def _seen(self, theta: Array, values: Array) -> Array:
        """Remember the highest of these values, (n,), and say how far the search is."""
        self.evaluations += len(values)
        if len(values) and values.max() > self.highest:
            self.highest, self.top = float(values.max()), theta[int(values.argmax())].copy()
        if self._say is not None:
            self._say(f"search: {self.evaluations} evaluations, log density {self.highest:.6g}")
        return values

    def of_likelihood(self, theta: Array, share: float = 1.0) -> tuple[Array, Array, Array, Array]:
        """Log-likelihood (n,), gradient (n, d), information (n, d, d), and bends (n, d).

        Bends are the second derivatives that the coordinates add, see `expansion`.
        """
        with np.errstate(all="ignore"):
            values, (slopes, bends) = self.prior.natural(theta), self.prior.slopes(theta)
            total, gradient, information = self.log_likelihood.expansion(values, share)
            information = information * slopes[:, :, None] * slopes[:, None, :]
            bends, gradient = gradient * bends, gradient * slopes
            bends[:, self.noise] = 0.0
        return total, gradient, information, bends

    def hessian(self, theta: Array, difference: float = DIFFERENCE) -> Array:
        """Second derivatives, (n, d, d); ``difference`` as of `LogLikelihood.hessian`."""
        with np.errstate(all="ignore"):
            values = self.prior.natural(theta)
            first, second = self.prior.slopes(theta)
            gradient, hessian = self.log_likelihood.gradient_and_hessian(values, difference)
            hessian = hessian * first[:, :, None] * first[:, None, :]
            diagonal = gradient * second
            if self.target == POSTERIOR:
                prior = prior_expansion(self.prior, theta, self.scale)
                diagonal += prior.diagonal
                prior.add_mixed(hessian)
            return hessian + diagonal[:, :, None] * np.eye(theta.shape[1])


def _bounds(prior: Prior, centre: Array, scale: Array) -> Array:
    bounds = centre[:, None] + np.maximum(FAR, _WIDE * scale)[:, None] * np.array([-1.0, 1.0])
    for j, (coordinate, distribution) in enumerate(
        zip(prior.maps, prior.distributions.values(), strict=True)
    ):
        if isinstance(coordinate, Identity):
            # The whole line, or a bounded support that the user wants no map for.
            bounds[j] = support(distribution)
    return bounds
