"""The coordinates that chains run in, and the points where they start."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError
from smcpn.estimate.log_density import LogDensity
from smcpn.estimate.shift import bounded_root
from smcpn.likelihood.gradient import FORWARD
from smcpn.results.laplace import Laplace
from smcpn.smc.start import Modes

Array = NDArray[np.float64]

BENT = 1e4
"""Mean curvature between the mode and draws of the Gaussian about it, which should be one, from
which chains are not begun: steps would be a hundred times as short, or far shorter where it is
uneven, and no trajectory of nutpie's 1023 would lead anywhere."""
JUDGED = 16
"""Draws that judge it, above as many parameters as have gradients by a reverse pass."""


@dataclass(frozen=True)
class Coordinates:
    """Positions x with theta = centre + factor x: near a normal posterior they have unit variance.

    So the metric of a sampler that begins with the identity, and adapts a diagonal one, begins as
    that of the Gaussian about the mode, its correlations included.

    Attributes
    ----------
    centre : ndarray, (d,)
    factor : ndarray, (d, d)
        Lower triangular.
    modes : Modes
        Modes that the chains start about.
    """

    centre: Array
    factor: Array
    modes: Modes

    def start(self, seed: int) -> Array:
        """Draw a start, (d,), from the Gaussian about one of the modes."""
        rng = np.random.default_rng(seed)
        k = rng.choice(len(self.modes.shares), p=self.modes.shares)
        theta = self.modes.means[k] + self.modes.factors[k] @ rng.standard_normal(len(self.centre))
        return np.asarray(np.linalg.solve(self.factor, theta - self.centre), dtype=np.float64)

    def theta(self, positions: Array) -> Array:
        """Unconstrained coordinates of positions, both (n, d)."""
        # Row by row: the rounding of a product of matrices depends on how many rows there are.
        return np.stack([self.centre + self.factor @ position for position in positions])

    def along(self, gradients: Array) -> Array:
        """Gradients by positions of gradients by the unconstrained coordinates, both (n, d)."""
        return np.stack([gradient @ self.factor for gradient in gradients])


def coordinates_of(found: Laplace, density: LogDensity) -> Coordinates:
    """Coordinates about the highest mode, scaled by its covariance.

    Where the posterior has no Gaussian there, as on a ridge, no direction is wider than the prior.

    Raises
    ------
    InputError
        If no search found a point at all.
    """
    if found.modes:
        top = found.modes[0]
        return Coordinates(top.theta, top.factor, found.start)
    if not found.maximum.found:
        raise InputError(f"there is no point to start at: {found.reason}")
    centre, function = found.maximum.theta, density.log_likelihood
    precision = np.diag(density.scale**-2.0)
    if function.expands:
        precision = density.expansion(centre[None, :])[2][0]
    root = bounded_root(precision, density.scale)
    covariance = root @ root.T
    if not np.isfinite(covariance).all():
        covariance = np.diag(density.scale**2)
    factor = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    one = Modes(
        shares=np.ones(1),
        means=centre[None, :],
        factors=factor[None, :, :],
        searches=len(found.maximum.starts),
        log_evidence=float("nan"),
    )
    return Coordinates(centre, factor, one)


def check_bend(coordinates: Coordinates, density: LogDensity) -> None:
    """Refuse a posterior of many parameters that the Gaussian about its mode is no picture of.

    Of functions of many weights data determine a few combinations, exactly, which differ from place
    to place: steps that are short enough take no chain through such a shell.

    Raises
    ------
    InputError
        With what there is instead.
    """
    d = len(coordinates.centre)
    if d <= FORWARD:
        return
    drawn = coordinates.theta(np.random.default_rng(0).standard_normal((JUDGED, d)))
    fall = density.value(coordinates.centre[None, :])[0] - np.median(density.value(drawn))
    if 2.0 * fall / d > BENT:
        raise InputError(
            f"the posterior of {d} parameters is bent: draws of the Gaussian about its mode are "
            f"less likely than it by {fall:.2g} nats, where {d / 2:.0f} are usual, and chains "
            "would hardly move; take fewer parameters, or give start= to run all the same"
        )
