"""Test of a maximum that moves when the solver steps are made finer, or ends at a wall.

The solver itself, which draws of the prior called for, is judged again near the posterior: another
one may cost less there, or be the only one that is stable. A run judges by draws about the modes
that searches found, and so does `laplace`; `maximise` by where its searches ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from smcpn.estimate.log_density import LogDensity
from smcpn.likelihood.gradient import LogLikelihood
from smcpn.likelihood.shift import AUTOMATIC_SHIFT, DiscretisationShift, shift_of_gaussian
from smcpn.likelihood.solver_choice import (
    SolverChoice,
    chosen_again,
    finer_solver,
    takes_few_steps,
)
from smcpn.likelihood.wall import FAR, POINTS, PosteriorPoints, Wall, wall_of
from smcpn.model.learned_scales import learned_scales
from smcpn.model.solver import Solver
from smcpn.results.laplace import Laplace
from smcpn.results.maximum import Maximum
from smcpn.smc.start import MixtureStart

Array = NDArray[np.float64]

JUDGES = 64
"""Draws about the modes, or particles, by which the solver is chosen again."""
NEGLIGIBLE = 30.0
"""Nats of log-likelihood by which a draw is less than the most likely one if it does not count."""


LogLikelihoodBy = Callable[[Solver], LogLikelihood]
"""From a solver to the log-likelihood by it."""


def judged(maximum: Maximum, given: bool, by: LogLikelihoodBy) -> Maximum:
    """Return a maximum with its shift under a solver twice as fine, its wall, and warnings of both.

    Without a shift it stays where a finer solver cannot be had, and without both where the
    precision is not finite: minus the Hessian, or the information where first derivatives give it.

    ``given`` says that the steps are given, and not chosen on the way; ``by`` is the log-likelihood
    of the maximum by other solvers.
    """
    maximum = replace(maximum, shift=None, wall=None)
    if not maximum.found:
        return maximum
    density = LogDensity(by(maximum.solver), maximum.target)
    around = _expanded(density, maximum.theta[None, :])
    root = around.roots[0]
    if not np.isfinite(root).all():
        return maximum
    wall = _wall(maximum, root, given, by)
    walled = () if wall is None else wall.warnings
    maximum = replace(maximum, wall=wall, warnings=maximum.warnings + walled)
    finer = finer_solver(maximum.problem, maximum.solver)
    if finer is None:
        return maximum
    (shift,) = _shifts(density, LogDensity(by(finer), maximum.target), around)
    return replace(maximum, shift=shift, warnings=maximum.warnings + shift.warnings)


def finer_for_all(density: LogDensity, theta: Array, by: LogLikelihoodBy) -> Solver | None:
    """Return a solver twice as fine where it would shift one of the modes (E, d); None if not."""
    solver = density.log_likelihood.solver
    finer = finer_solver(density.log_likelihood.problem, solver)
    if finer is None:
        return None
    around = _expanded(density, theta)
    shifts = _shifts(density, LogDensity(by(finer), density.target), around)
    largest = max((shift.size for shift in shifts), default=0.0)
    return finer if largest > AUTOMATIC_SHIFT else None


class _Expanded(NamedTuple):
    """Points (E, d) with log density (E,), gradient (E, d) and roots of the covariance there.

    Roots (E, d, d) are not finite where the precision is not.
    """

    theta: Array
    value: Array
    score: Array
    roots: Array


def _expanded(density: LogDensity, theta: Array) -> _Expanded:
    """Precision is minus the Hessian, or the information where first derivatives give it."""
    if density.log_likelihood.expands:
        value, score, precision = density.expansion(theta)
    else:
        (value, score), precision = density.value_and_gradient(theta), -density.hessian(theta)
    roots = np.stack([bounded_root(one, density.scale) for one in precision])
    return _Expanded(theta, value, score, roots)


def _shifts(density: LogDensity, finer: LogDensity, around: _Expanded) -> list[DiscretisationShift]:
    """Shift of each point by the finer solver; of none without a finite root."""
    there, score_there = finer.value_and_gradient(around.theta)
    solvers = density.log_likelihood.solver, finer.log_likelihood.solver
    return [
        shift_of_gaussian(density.names, *solvers, root @ root.T, score, float(change))
        for root, score, change in zip(
            around.roots, score_there - around.score, there - around.value, strict=True
        )
        if np.isfinite(root).all()
    ]


def _wall(maximum: Maximum, root: Array, given: bool, by: LogLikelihoodBy) -> Wall | None:
    """Wall of the solver among draws about a maximum that are no less likely than they should."""
    normal = np.random.default_rng(0).standard_normal((POINTS, len(root)))
    normal[0] = 0.0
    theta = maximum.theta + normal @ root.T
    lost = maximum.log_density - LogDensity(by(maximum.solver), maximum.target).value(theta)
    likely = lost <= FAR + 0.5 * np.square(normal).sum(axis=1)
    problem, solver, name = maximum.problem, maximum.solver, maximum.likelihood
    points = PosteriorPoints(problem, solver, name, theta, likely.astype(float), by)
    return wall_of(points, thorough=given)


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


def called_for(found: Laplace | Maximum, particles: int = 0) -> tuple[SolverChoice, Solver] | None:
    """Return the other solver that values near a posterior call for, as of `chosen_again`.

    None where the one that searches took is right, as an explicit one of few steps is that led to
    a mode.

    ``particles`` is how many there are to be evaluated, about modes.
    """
    led = found.found if isinstance(found, Maximum) else bool(found.modes)
    if led and takes_few_steps(found.solver):
        return None
    values = _highest_ends(found) if isinstance(found, Maximum) else _about_modes(found)
    return chosen_again(found.problem, found.solver, values, particles if led else 0)


def _highest_ends(maximum: Maximum) -> Array:
    """Return where a quarter of the searches ended, the highest, (N, d); none that diverged."""
    ended = [one for one in maximum.starts if np.isfinite(one.log_density)]
    ended = sorted(ended, key=lambda one: -one.log_density)[: max(1, len(ended) // 4)]
    return np.array([one.values for one in ended]).reshape(len(ended), len(maximum.names))


def _about_modes(found: Laplace) -> Array:
    """Return draws about the modes that searches found, or else the highest ends, (N, d)."""
    if not found.modes:
        return _highest_ends(found.maximum)
    problem = found.problem
    start = MixtureStart(problem.prior, found.start, learned_scales(problem))
    values = problem.prior.natural(start.sample(np.random.default_rng(0), JUDGES))
    heights = np.nan_to_num(found.maximum.function(values), nan=-np.inf)
    return values[heights >= heights.max() - NEGLIGIBLE]
