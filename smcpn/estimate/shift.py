"""Test of a maximum that moves when the solver steps are made finer, or ends at a wall."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from smcpn.estimate.log_density import LogDensity
from smcpn.likelihood.gradient import LogLikelihood
from smcpn.likelihood.shift import AUTOMATIC_SHIFT, DiscretisationShift, shift_of_gaussian
from smcpn.likelihood.steps import finer_solver
from smcpn.likelihood.wall import FAR, POINTS, Wall, wall_of
from smcpn.results.maximum import Maximum
from smcpn.solver import Solver

Array = NDArray[np.float64]


LogLikelihoodBy = Callable[[Solver], LogLikelihood]
"""From a solver to the log-likelihood by it."""


def judged(maximum: Maximum, given: bool, by: LogLikelihoodBy) -> Maximum:
    """Return a maximum with its shift under a solver twice as fine, its wall, and warnings of both.

    Without a shift it stays where a finer solver cannot be had, and without both where the
    precision is not finite: minus the Hessian, or the information where first derivatives give it.

    Parameters
    ----------
    given : bool
        Whether the steps are given, and not chosen on the way.
    by : callable
        The log-likelihood of the maximum by other solvers.
    """
    maximum = replace(maximum, shift=None, wall=None)
    if not maximum.found:
        return maximum
    function, theta = maximum.function, maximum.theta[None, :]
    density = LogDensity(function, maximum.target)
    if function.expands:
        value, score, precision = density.expansion(theta)
    else:
        (value, score), precision = density.value_and_gradient(theta), -density.hessian(theta)
    root = bounded_root(precision[0], density.scale)
    if not np.isfinite(root).all():
        return maximum
    wall = _wall(maximum, root, given, by)
    walled = () if wall is None else wall.warnings
    maximum = replace(maximum, wall=wall, warnings=maximum.warnings + walled)
    finer = finer_solver(maximum.problem, maximum.solver)
    if finer is None:
        return maximum
    there, score_there = LogDensity(by(finer), maximum.target).value_and_gradient(theta)
    shift: DiscretisationShift = shift_of_gaussian(
        maximum.names,
        maximum.solver,
        finer,
        root @ root.T,
        (score_there - score)[0],
        float(there[0] - value[0]),
    )
    return replace(maximum, shift=shift, warnings=maximum.warnings + shift.warnings)


def _wall(maximum: Maximum, root: Array, given: bool, by: LogLikelihoodBy) -> Wall | None:
    """Wall of the solver among draws about a maximum that are no less likely than they should."""
    normal = np.random.default_rng(0).standard_normal((POINTS, len(root)))
    normal[0] = 0.0
    theta = maximum.theta + normal @ root.T
    lost = maximum.log_density - LogDensity(maximum.function, maximum.target).value(theta)
    likely = lost <= FAR + 0.5 * np.square(normal).sum(axis=1)
    return wall_of(
        maximum.problem,
        maximum.solver,
        maximum.likelihood,
        theta,
        likely.astype(float),
        by,
        thorough=given,
    )


def following(maximum: Maximum) -> Solver | None:
    """Return the solver with which ``steps="auto"`` goes on from a maximum; None where it ends."""
    if maximum.shift is not None and maximum.shift.size > AUTOMATIC_SHIFT:
        return maximum.shift.finer
    return None if maximum.wall is None else maximum.wall.finer


def bounded_root(precision: Array, scale: Array) -> Array:
    """Square root of the inverse of a precision (d, d), no wider in any direction than the prior.

    It is nan where there is none. ``scale`` is the prior's spread of each coordinate, (d,).
    """
    scaled = precision * np.outer(scale, scale)
    if not np.isfinite(scaled).all():
        return np.full_like(precision, np.nan)
    eigenvalues, directions = np.linalg.eigh(0.5 * (scaled + scaled.T))
    return scale[:, None] * directions / np.sqrt(np.maximum(eigenvalues, 1.0))
