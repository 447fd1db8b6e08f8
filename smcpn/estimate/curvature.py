"""Curvature of a log density at its mode, where kinks may have spoilt the second derivatives."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smcpn.estimate.log_density import LogDensity, prior_derivatives
from smcpn.likelihood.information import fisher_information, score_information

Array = NDArray[np.float64]

SUSPECT = 4.0
"""Factor between curvatures by the Hessian and by Gauss-Newton beyond which a kink is assumed."""
AGREEING = 1.25
"""Factor up to which the Hessian of a density that has kinks is still believed."""


def trusted_curvature(density: LogDensity, theta: Array) -> tuple[Array, Array]:
    """Minus the Hessian of a log posterior at a mode, by Gauss-Newton where it is not credible.

    Where the model has kinks, as of a maximum or a dead zone, gradients jump, and differences of
    them are of any size and sign. Relative to the Gauss-Newton matrix of the likelihood, plus the
    curvature of the prior, the Hessian of a density with many samples has eigenvalues near one.
    Where one is negative or off by more than `SUSPECT`, all that are off by more than `AGREEING`
    become one.

    Parameters
    ----------
    density : LogDensity
        Of the posterior.
    theta : ndarray, (d,)

    Returns
    -------
    curvature : ndarray, (d, d)
        In units of the spread of the prior, symmetric; nan where derivatives are not finite.
    replaced : ndarray, (d, k)
        Directions, of length one, in which it is that of Gauss-Newton.
    """
    scale, d = density.scale, len(theta)
    curvature = -density.hessian(theta[None, :])[0] * np.outer(scale, scale)
    curvature = 0.5 * (curvature + curvature.T)
    function, values = density.log_likelihood, density.prior.natural(theta[None, :])[0]
    for information in (score_information, fisher_information):
        compared = _posterior_information(density, theta, information(function, values))
        relative = _relative(curvature, compared)
        if relative is None:
            return curvature, np.empty((d, 0))
        eigenvalues, whitened, root = relative
        if ((eigenvalues > 1 / SUSPECT) & (eigenvalues < SUSPECT)).all():
            return curvature, np.empty((d, 0))
    off = ~((eigenvalues > 1 / AGREEING) & (eigenvalues < AGREEING))
    trusted = root @ whitened * np.sqrt(np.where(off, 1.0, eigenvalues))
    directions = np.linalg.solve(root.T, whitened[:, off])
    return trusted @ trusted.T, directions / np.linalg.norm(directions, axis=0)


def _posterior_information(density: LogDensity, theta: Array, information: Array) -> Array:
    """Information of the likelihood and of the prior, in units of the spread of the prior."""
    slopes = density.prior.slopes(theta[None, :])[0][0] * density.scale
    prior = prior_derivatives(density.prior, theta[None, :], density.scale)[1][0]
    own = np.maximum(-prior * density.scale**2, 0.0)
    return information * np.outer(slopes, slopes) + np.diag(own)


def _relative(curvature: Array, information: Array) -> tuple[Array, Array, Array] | None:
    """Eigenvalues and -vectors of a curvature where the information is one, and its root L.

    None where derivatives are not finite, or the information leaves a direction open. What of the
    curvature is not finite counts as zero.
    """
    if not np.isfinite(information).all():
        return None
    try:
        root = np.linalg.cholesky(information)
    except np.linalg.LinAlgError:
        return None
    inverse = np.linalg.inv(root)
    known = np.where(np.isfinite(curvature), curvature, 0.0)
    eigenvalues, vectors = np.linalg.eigh(inverse @ known @ inverse.T)
    return eigenvalues, vectors, root
