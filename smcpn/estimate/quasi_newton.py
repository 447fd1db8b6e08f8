"""Searches by SciPy's quasi-Newton and Newton methods, for any likelihood with a gradient."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from typing_extensions import override

from smcpn.estimate.batching import Caller, run_batched
from smcpn.estimate.log_density import LogDensity
from smcpn.estimate.search import (
    CONVERGED,
    DIVERGED_START,
    DIVERGES,
    EDGE,
    LIMIT,
    NO_BETTER,
    NO_GRADIENT,
    ROUNDING,
    Region,
    Search,
    SearchEnd,
)

Array = NDArray[np.float64]

FIRST_STEP = 0.1
"""Length of the first step, in standard deviations of the prior: a longer one may leave the basin
of a good start."""
GRADIENT = 1e-6
"""Largest derivative that counts as zero, in nats per standard deviation of the prior."""
GAIN = 1e-12
"""A step that gains a smaller share of the log density ends L-BFGS-B."""
HUGE = 1e75
"""Slope or curvature beyond which SciPy's products overflow."""
TOGETHER = 256
"""Most searches that run at a time, each in a thread; results do not depend on it."""


class _SciPySearch(Search):
    """A method of `scipy.optimize.minimize`, from all starts in parallel."""

    @override
    def __call__(
        self, density: LogDensity, starts: Array, stages: Sequence[Sequence[int]], iterations: int
    ) -> list[SearchEnd]:
        region = Region(density.names, FIRST_STEP * density.scale, density.bounds)
        settings: dict[str, Any] = {
            "region": region, "stages": stages, "method": self.name, "iterations": iterations
        }  # fmt: skip
        searches = [partial(search, start=start, **settings) for start in starts]
        parts = [searches[k : k + TOGETHER] for k in range(0, len(searches), TOGETHER)]
        return [found for part in parts for found in run_batched(density, part)]


class QuasiNewton(_SciPySearch):
    """L-BFGS-B: the curvature comes from the gradients of the iterations before."""

    name = "l-bfgs-b"


class Newton(_SciPySearch):
    """Newton's method with exact Hessians and trust regions, solved exactly."""

    name = "trust-exact"


class NewtonConjugate(_SciPySearch):
    """Newton's method with exact Hessians and trust regions, solved by conjugate gradients."""

    name = "trust-ncg"


class Objective:
    """Minus the log density along the free coordinates, finite wherever SciPy evaluates it.

    A diverged solution has density zero. Minus its logarithm would be infinite, which no line
    search can interpolate: a finite wall is returned instead, as high above the best point as the
    slope there leads down, so that the search comes back to a ninth of its step.
    """

    def __init__(self, caller: Caller, region: Region, theta: Array, free: list[int]) -> None:
        self._caller, self._region, self._free = caller, region, free
        self._theta = theta.copy()
        self._scale = region.scale[free]
        self._last: tuple[bytes, float, Array] | None = None
        self.evaluations = 0
        self._calls, self._calls_at_iterations = 0, (0, 0)
        self._obstacle, self._obstacle_at = "", -1
        self.points: list[Array] = [theta.copy()]
        self.best = theta[free] / self._scale
        self.value, self.gradient = self._evaluate(self.best)
        self.values = [self.value]

    @property
    def usable(self) -> bool:
        """True if the search can begin."""
        return bool(np.isfinite(self.value) and (np.abs(self.gradient) < HUGE).all())

    @property
    def obstacle(self) -> str:
        """Why a point of the last two iterations could not be used; "" where all could."""
        return self._obstacle if self._obstacle_at > self._calls_at_iterations[0] else ""

    @property
    def bounds(self) -> Array:
        """Bounds of the free coordinates, (k, 2)."""
        return self._region.scaled_bounds[self._free]

    @property
    def theta(self) -> Array:
        """All coordinates at the best point, (d,)."""
        return self._whole(self.best)

    def value_and_gradient(self, point: Array) -> tuple[float, Array]:
        """Value, and gradient (k,), at a point (k,)."""
        self._calls += 1
        value, gradient = self._evaluate(point)
        if not (np.isfinite(value) and (np.abs(gradient) < HUGE).all()):
            self._obstacle = NO_GRADIENT if np.isfinite(value) else DIVERGES
            self._obstacle_at = self._calls
            drop = abs(float(self.gradient @ (point - self.best)))
            return self.value + max(drop, ROUNDING * (1.0 + abs(self.value))), np.zeros(len(point))
        if value < self.value:
            self.best, self.value, self.gradient = point.copy(), value, gradient
        return value, gradient

    def value_at(self, point: Array) -> float:
        """Value at a point (k,)."""
        return self.value_and_gradient(point)[0]

    def gradient_at(self, point: Array) -> Array:
        """Gradient (k,) at a point (k,)."""
        return self.value_and_gradient(point)[1]

    def hessian_at(self, point: Array) -> Array:
        """Second derivatives (k, k) at a point (k,)."""
        self.evaluations += 1
        hessian = -self._caller.hessian(self._whole(point))[np.ix_(self._free, self._free)]
        # Where the solution diverges, or is about to, any curvature will do that can be factorised.
        hessian = np.where(np.abs(hessian) < HUGE, hessian, 0.0)
        return hessian * np.outer(self._scale, self._scale)

    def note(self, intermediate_result: Any) -> None:
        """Add the point after an iteration to the path; SciPy calls back by this name."""
        self._calls_at_iterations = self._calls_at_iterations[1], self._calls
        self.points.append(self._whole(intermediate_result.x))
        self.values.append(float(intermediate_result.fun))

    def _evaluate(self, point: Array) -> tuple[float, Array]:
        if self._last is not None and self._last[0] == point.tobytes():
            return self._last[1:]
        if (point < self.bounds[:, 0]).any() or (point > self.bounds[:, 1]).any():
            return np.inf, np.zeros(len(point))
        self.evaluations += 1
        value, gradient = self._caller.value_and_gradient(self._whole(point))
        self._last = point.tobytes(), -value, -gradient[self._free] * self._scale
        return self._last[1:]

    def _whole(self, point: Array) -> Array:
        theta = self._theta.copy()
        theta[self._free] = point * self._scale
        return theta


def search(
    caller: Caller,
    region: Region,
    start: Array,
    stages: Sequence[Sequence[int]],
    method: str,
    iterations: int,
) -> SearchEnd:
    """Maximise from a start, theta (d,), over the coordinates of each stage in turn.

    A stage goes on from the best point of the one before, whatever ended that one.

    The last of ``stages`` has all coordinates, and ``iterations`` are the most of a stage.
    """
    parts: list[Objective] = []
    theta, reason = start, CONVERGED
    for free in stages:
        objective = Objective(caller, region, theta, list(free))
        parts.append(objective)
        reason = _minimise(objective, method, iterations)
        if not objective.usable:
            break
        theta = objective.theta
    edge = region.at_edge(theta)
    return SearchEnd(
        theta=theta,
        log_density=-parts[-1].value,
        reason=EDGE + ", ".join(edge) if edge else reason,
        evaluations=sum(part.evaluations for part in parts),
        path=np.array([start, *(point for part in parts for point in part.points[1:])]),
        path_log_density=-np.array(
            [parts[0].values[0], *(value for part in parts for value in part.values[1:])]
        ),
    )


def _minimise(objective: Objective, method: str, iterations: int) -> str:
    """Run an optimiser to its end, and return why it ended."""
    if not np.isfinite(objective.value):
        return DIVERGED_START
    if not objective.usable:
        return NO_GRADIENT
    if method == "l-bfgs-b":
        result = optimize.minimize(
            objective.value_and_gradient,
            objective.best,
            jac=True,
            method="L-BFGS-B",
            bounds=objective.bounds,
            callback=objective.note,
            options={"maxiter": iterations, "maxfun": 20 * iterations, "ftol": GAIN,
                     "gtol": GRADIENT * FIRST_STEP, "maxls": 30},
        )  # fmt: skip
    else:
        result = optimize.minimize(
            objective.value_at,
            objective.best,
            jac=objective.gradient_at,
            hess=objective.hessian_at,
            method=method,
            callback=objective.note,
            options={"maxiter": iterations, "gtol": GRADIENT * FIRST_STEP},
        )
    if result.status == 1:
        return LIMIT
    return _verdict(objective, bool(result.status == 0))


def _verdict(objective: Objective, small: bool) -> str:
    """Judge a search that ended by itself, with a ``small`` gradient or gain, or without.

    A posterior is no wider than its prior: half the squared gradient, per standard deviation of
    the prior, bounds what is left to gain. A small gain says nothing before a wall, where steps
    are short.
    """
    rounding = ROUNDING * (1.0 + abs(objective.value))
    gradient = objective.gradient / FIRST_STEP
    if 0.5 * float(gradient @ gradient) <= rounding:
        return CONVERGED
    if objective.obstacle:
        return objective.obstacle
    gained = np.inf if len(objective.values) < 2 else objective.values[-2] - objective.value
    return CONVERGED if small or gained <= rounding else NO_BETTER
