"""How far a maximum moves when the solver steps are made finer, by exact gradients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from smcpn.estimate.log_density import LogDensity
from smcpn.likelihood.gradient import LogLikelihood
from smcpn.likelihood.shift import DiscretisationShift, shift_of_gaussian
from smcpn.likelihood.steps import finer_solver
from smcpn.results.maximum import Maximum

Array = NDArray[np.float64]


def with_shift(maximum: Maximum, threads: int | None = None) -> Maximum:
    """Return a maximum with its shift under a solver twice as fine, in posterior sd, and a warning.

    Without a shift it stays where a finer solver cannot be had, or where the precision is not
    finite: minus the Hessian, or the information where first derivatives give it.
    """
    function, theta = maximum.function, maximum.theta[None, :]
    finer = finer_solver(maximum.problem, maximum.solver) if maximum.found else None
    if finer is None:
        return replace(maximum, shift=None)
    density = LogDensity(function, maximum.target)
    if function.expands:
        value, score, precision = density.expansion(theta)
    else:
        (value, score), precision = density.value_and_gradient(theta), -density.hessian(theta)
    covariance = bounded_covariance(precision[0], density.scale)
    if not np.isfinite(covariance).all():
        return replace(maximum, shift=None)
    other = LogLikelihood(maximum.problem, function.likelihood, finer, threads)
    other = other.evaluated(function.where)
    there, score_there = LogDensity(other, maximum.target).value_and_gradient(theta)
    shift: DiscretisationShift = shift_of_gaussian(
        maximum.names,
        maximum.solver,
        finer,
        covariance,
        (score_there - score)[0],
        float(there[0] - value[0]),
    )
    return replace(maximum, shift=shift, warnings=maximum.warnings + shift.warnings)


def bounded_covariance(precision: Array, scale: Array) -> Array:
    """Inverse of a precision (d, d), no wider in any direction than the prior; nan without one.

    ``scale`` is the prior's spread of each coordinate, (d,).
    """
    scaled = precision * np.outer(scale, scale)
    if not np.isfinite(scaled).all():
        return np.full_like(precision, np.nan)
    eigenvalues, directions = np.linalg.eigh(0.5 * (scaled + scaled.T))
    spread = scale[:, None] * directions / np.sqrt(np.maximum(eigenvalues, 1.0))
    return spread @ spread.T
