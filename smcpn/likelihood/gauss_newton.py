"""Gauss-Newton steps of many searches at once, damped in one of two ways.

Of residuals e(x) with J = -de/dx, or of a log density with score g and expected information A, the
step from a point solves

    J'J step = J'e,   or   A step = g,

which leads to the maximum of the quadratic that both have there. Far from it that is too long:

    halving        a half of the step, a quarter ... until a search accepts it (`halved`);
    a damping mu   (A + mu D) step = g (`damped_steps`), where mu falls if a step gains what was
                   promised, and rises if not (`damping_after`; Nielsen 1999).

D is the diagonal of A (Marquardt 1963), but no less than a curvature that each coordinate is given.
Where A is next to nothing along one, as where a rate is so fast that the data no longer tell it, a
step along it is as long as its model is wrong; D of A damps it only by a mu that holds the others.

References
----------
Marquardt, D. (1963). An algorithm for least-squares estimation of nonlinear parameters. J. SIAM.
Nielsen, H. B. (1999). Damping parameter in Marquardt's method. IMM-REP-1999-05, DTU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Numbers = NDArray[np.intp]

ITERATIONS = 30
HALVINGS = 10
CONVERGED = 1e-9
"""Relative change of a sum of squares at which `least_squares` stops."""
LEAST_DAMPING = 1e-12
DIGITS = 1e-13
"""Share of the largest curvature below which one says nothing."""


def halved(accepted: Callable[[Numbers, Array], NDArray[np.bool_]], count: int, most: int) -> None:
    """Offer whole steps to ``count`` searches, then halves to those that refuse.

    accepted: Tries shares (K,) of the steps of the searches of these numbers (K,), keeps what it
        accepts, and returns which it does not want to have halved.
    most: Shares that are offered at most.
    """
    share, waiting = np.ones(count), np.arange(count)
    for _ in range(most):
        waiting = waiting[~accepted(waiting, share[waiting])]
        share[waiting] /= 2.0
        if len(waiting) == 0:
            return


def least_squares(residuals: Callable[[Numbers, Array], tuple[Array, Array]], x: Array) -> Array:
    """Points of least sum of squares, from points (N, n), by steps that are halved.

    residuals: Of numbers of searches (K,) and points (K, n): errors (K, M), data less model, and
        the model's derivatives (K, M, n).
    x: (N, n)

    Returns (N, n): the point where a search began if its errors are not finite there. Directions of
    which the errors say nothing are not moved along.
    """
    x = x.copy()
    error, jacobian = residuals(np.arange(len(x)), x)
    active = np.flatnonzero(np.isfinite(error).all(axis=1) & np.isfinite(jacobian).all(axis=(1, 2)))
    fits, settled = _Fits(x, error, jacobian, _squares(error)), len(active) == 0
    for _ in range(ITERATIONS):
        if settled:
            break
        settled = _improved(residuals, fits, active)
    return x


class _Fits(NamedTuple):
    """Points (N, n) with their errors, derivatives and sums of squares, changed in place."""

    x: Array
    error: Array
    jacobian: Array
    loss: Array


def _improved(
    residuals: Callable[[Numbers, Array], tuple[Array, Array]], fits: _Fits, active: Numbers
) -> bool:
    """Take one step of the searches of these numbers; return whether that changed next to nothing.

    A step that makes a sum of squares larger, but by next to nothing, is neither kept nor halved.
    """
    before, begin = fits.loss[active], fits.x[active]
    pairs = zip(fits.jacobian[active], fits.error[active], strict=True)
    step = np.stack([np.linalg.lstsq(j, e)[0] for j, e in pairs])

    def accepted(which: Numbers, share: Array) -> NDArray[np.bool_]:
        points = begin[which] + share[:, None] * step[which]
        error, jacobian = residuals(active[which], points)
        loss = _squares(error)
        kept = loss <= before[which]
        tried = (points, error, jacobian, loss)
        for of_all, new in zip(fits, tried, strict=True):
            of_all[active[which[kept]]] = new[kept]
        return loss <= before[which] * (1.0 + CONVERGED)

    halved(accepted, len(active), HALVINGS)
    return bool((before - fits.loss[active] <= CONVERGED * before).all())


def _squares(error: Array) -> Array:
    """Sum of squares of each row; inf where a simulation diverges."""
    with np.errstate(over="ignore"):
        return np.square(error).sum(axis=1)


def damped_steps(
    gradient: Array,
    information: Array,
    free: NDArray[np.bool_],
    damping: Array,
    least: Array | float = 0.0,
) -> tuple[Array, Array]:
    """Damped steps (S, d), and squared distances (S,) of the maxima without damping.

    gradient: (S, d)
    information: (S, d, d), None of it negative.
    free: (S, d), coordinates that may move.
    damping: (S,)
    least: (d,), curvatures by which coordinates are damped at the least.
    """
    diagonal = np.maximum(np.diagonal(information, axis1=1, axis2=2), least)
    diagonal = np.where(free, diagonal, 0.0)
    scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, np.inf))
    # A coordinate that is held is one of its own, along which there is no slope.
    held = (~free)[:, :, None] * np.eye(gradient.shape[1])
    scaled = information * scale[:, :, None] * scale[:, None, :] + held
    eigenvalues, vectors = np.linalg.eigh(scaled)
    along = (vectors * (np.where(free, gradient, 0.0) * scale)[:, :, None]).sum(axis=1)
    known = eigenvalues > DIGITS * free.sum(axis=1)[:, None]
    along, eigenvalues = np.where(known, along, 0.0), np.where(known, eigenvalues, 1.0)
    step = (vectors * (along / (eigenvalues + damping[:, None]))[:, None, :]).sum(axis=2)
    return scale * step, np.sum(along**2 / eigenvalues, axis=1)


def promised(gradient: Array, information: Array, step: Array) -> Array:
    """Gains (S,) that the quadratics promise of steps (S, d)."""
    curved = (step[:, :, None] * information * step[:, None, :]).sum(axis=(1, 2))
    return (gradient * step).sum(axis=1) - 0.5 * curved


def damping_after(damping: float, growth: float, gain: float) -> tuple[float, float]:
    """Nielsen's damping after a step, and the factor by which the next refusal raises it.

    damping, growth: Of the step; a search begins with a growth of 2.
    gain: Ratio of the gain to what was promised; 0 of a step that was refused.
    """
    if gain > 0.0:
        factor = max(1.0 / 3.0, 1.0 - (2.0 * min(gain, 1.0) - 1.0) ** 3)
        return max(damping * factor, LEAST_DAMPING), 2.0
    return damping * growth, 2.0 * growth
