"""Curvature of a log density at its mode, where kinks may have spoilt the second derivatives."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smcpn.estimate.log_density import LogDensity
from smcpn.likelihood.gradient import DIFFERENCE
from smcpn.likelihood.information import fisher_information, score_information
from smcpn.model.prior_expansion import prior_expansion

Array = NDArray[np.float64]

SUSPECT = 4.0
"""Factor between curvatures of Hessian and Gauss-Newton beyond which kinks are looked for."""
AGREEING = 1.25
"""Factor up to which the Hessian of a density that has kinks is still believed."""
OTHER_DIFFERENCE = 3.7 * DIFFERENCE
"""Step of a second Hessian: where the gradient jumps, the two differ by about this factor."""


def trusted_curvature(
    density: LogDensity, theta: Array, free: NDArray[np.int64] | None = None
) -> tuple[Array, Array]:
    """Minus the Hessian of a log posterior at a mode, by Gauss-Newton where kinks have spoilt it.

    Where the model has kinks, as of a maximum or a dead zone, gradients jump, and differences of
    them are of any size and sign. Relative to the Gauss-Newton matrix of the likelihood, plus the
    curvature of the prior, the Hessian of a density with many samples has eigenvalues near one.
    Where one is negative or off by more than `SUSPECT`, and the Hessian depends on the step of the
    differences, all that are off by more than `AGREEING` become one.

    Parameters
    ----------
    density : LogDensity
        Of the posterior.
    theta : ndarray, (d,)
    free : ndarray of int, optional
        Coordinates of which it is, where the others are held; d is their number below.

    Returns
    -------
    curvature : ndarray, (d, d)
        In units of the spread of the prior, symmetric; nan where derivatives are not finite.
    replaced : ndarray, (d, k)
        Directions, of length one, in which it is that of Gauss-Newton.
    """
    of = np.ix_(*[np.arange(len(theta)) if free is None else free] * 2)
    curvature = _curvature(density, theta, DIFFERENCE)[of]
    function, values = density.log_likelihood, density.prior.natural(theta[None, :])[0]
    nothing = curvature, np.empty((len(curvature), 0))
    for information in (score_information, fisher_information):
        compared = _posterior_information(density, theta, information(function, values))[of]
        root = _root(compared)
        if root is None:
            return nothing
        eigenvalues, vectors = np.linalg.eigh(_relative(curvature, root))
        if _within(eigenvalues, SUSPECT).all():
            return nothing
    change = _curvature(density, theta, OTHER_DIFFERENCE)[of] - curvature
    if np.abs(_relative(change, root)).max() < AGREEING - 1:
        return nothing
    off = ~_within(eigenvalues, AGREEING)
    trusted = root @ vectors * np.sqrt(np.where(off, 1.0, eigenvalues))
    directions = np.linalg.solve(root.T, vectors[:, off])
    return trusted @ trusted.T, directions / np.linalg.norm(directions, axis=0)


def _curvature(density: LogDensity, theta: Array, difference: float) -> Array:
    curvature = -density.hessian(theta[None, :], difference)[0]
    curvature = curvature * np.outer(density.scale, density.scale)
    return 0.5 * (curvature + curvature.T)


def _within(eigenvalues: Array, factor: float) -> NDArray[np.bool_]:
    return (eigenvalues > 1 / factor) & (eigenvalues < factor)


def _posterior_information(density: LogDensity, theta: Array, information: Array) -> Array:
    """Information of the likelihood and of the prior, in units of the spread of the prior."""
    slopes = density.prior.slopes(theta[None, :])[0][0] * density.scale
    prior = prior_expansion(density.prior, theta[None, :], density.scale).diagonal[0]
    own = np.maximum(-prior * density.scale**2, 0.0)
    return information * np.outer(slopes, slopes) + np.diag(own)


def _root(information: Array) -> Array | None:
    """Lower Cholesky factor; None where it is not finite, or leaves a direction open."""
    if not np.isfinite(information).all():
        return None
    try:
        return np.asarray(np.linalg.cholesky(information), dtype=np.float64)
    except np.linalg.LinAlgError:
        return None


def _relative(curvature: Array, root: Array) -> Array:
    """A curvature in units of the information L L'; what is not finite counts as zero."""
    known = np.where(np.isfinite(curvature), curvature, 0.0)
    return np.asarray(np.linalg.solve(root, np.linalg.solve(root, known).T), dtype=np.float64)
