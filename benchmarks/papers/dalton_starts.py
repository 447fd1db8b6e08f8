"""Where searches end: Lorenz63 from five far starts, and FitzHugh-Nagumo at the coarsest step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

import smcpn
from benchmarks.papers.dalton_posteriors import METHOD
from benchmarks.papers.dalton_problems import LORENZ_TRUTH, Study, lorenz_starts_study
from benchmarks.papers.dalton_settings import (
    FIRST_DIFFUSIONS,
    HALF_WIDTH,
    STARTS,
    STARTS_GRID,
    STARTS_GRID_LEARNED,
    Grid,
)
from smcpn.estimate.log_density import LogDensity
from smcpn.likelihood.lanes import Grid as RecordGrid
from smcpn.likelihood.registry import LIKELIHOODS, Recursion
from smcpn.model.solver import RK4
from smcpn.results.maximum import Maximum, StartResult

Array = NDArray[np.float64]

FOUND_WITHIN = 0.01
"""Relative distance from the truth at which a start is said to have found it."""
DEEP = 10.0
"""Log densities this far below the highest end are other maxima."""
NEWTON_STARTS, NEARLY = 20, 1e-6
"""Searches by the paper's own method, and how far from the truth all but the first begin."""


@dataclass(frozen=True)
class Sweep:
    """Searches of Lorenz63 from five starts under one likelihood.

    A start whose diffusion is learned is searched from several diffusions; the highest end counts.

    learned: Whether the diffusion was a parameter.
    """

    likelihood: str
    learned: bool
    maximum: Maximum

    @cached_property
    def highest(self) -> list[StartResult]:
        """The search of each start that ended highest, of length S."""
        each, searches = len(FIRST_DIFFUSIONS) if self.learned else 1, self.maximum.starts
        groups = [searches[k : k + each] for k in range(0, len(searches), each)]
        return [max(group, key=lambda one: one.log_density) for group in groups]

    @property
    def ends(self) -> Array:
        """Parameters of Lorenz63 at the end of each start, (S, 3)."""
        return np.array([one.values[:3] for one in self.highest])

    @property
    def found(self) -> NDArray[np.bool_]:
        """Which starts ended at the truth, (S,)."""
        truth = lorenz_starts_study(self.learned).truth
        return np.all(np.abs(self.ends / truth - 1.0) < FOUND_WITHIN, axis=1)

    @property
    def false_convergence(self) -> int:
        """Starts that are said to have converged far below the highest."""
        far = self.maximum.log_density - DEEP
        return sum(one.success and one.log_density < far for one in self.highest)

    @cached_property
    def scores(self) -> dict[str, float]:
        """Truth less mode in Laplace standard deviations; empty where there are none."""
        study = lorenz_starts_study(self.learned)
        found = smcpn.laplace(self.maximum)
        if not found.success or not any(self.found):
            return {}
        # All three coordinates are logarithms.
        distance = np.log(study.truth) - found.mode[:3]
        sd = np.sqrt(np.diag(found.covariance)[:3])
        return dict(zip(LORENZ_TRUTH, (distance / sd).tolist(), strict=True))


def sweep(likelihood: str, learned: bool, starts: tuple[float, ...] = STARTS) -> Sweep:
    """Maximise from starts whose three parameters are equal, all in one batch."""
    study = lorenz_starts_study(learned)
    points = np.repeat(np.array(starts)[:, None], 3, axis=1)
    if learned:
        first = np.tile(FIRST_DIFFUSIONS, len(points))
        points = np.column_stack([np.repeat(points, len(FIRST_DIFFUSIONS), axis=0), first])
    grid = STARTS_GRID_LEARNED if learned else STARTS_GRID
    solver = RK4(grid.solver.steps) if likelihood == "classical" else grid.solver
    maximum = smcpn.maximise(
        study.problem,
        likelihood,
        solver=solver,
        starts=points,
        iterations=200,
        search="shooting",
    )
    return Sweep(likelihood, learned, maximum)


def multi_start(likelihood: str, draws: int) -> Maximum:
    """The same with the diffusion known, from draws of the prior: what a user would do."""
    problem = lorenz_starts_study(False).problem
    return smcpn.maximise(
        problem,
        likelihood,
        solver=STARTS_GRID.solver,
        starts=draws,
        iterations=200,
        seed=0,
        search="shooting",
    )


@dataclass(frozen=True)
class Ends:
    """Where searches about the truth end at one step length.

    scores: (S,), truth less mode of one parameter, in Laplace standard deviations; NaN where there
        is none.
    modes: Ends that differ.
    """

    likelihood: str
    scores: Array
    modes: int

    @property
    def covering(self) -> int:
        """Ends whose Laplace posterior covers the truth of the parameter."""
        return int(np.sum(np.abs(self.scores) <= HALF_WIDTH))

    @property
    def maxima(self) -> int:
        """Ends about which the density is concave."""
        return int(np.isfinite(self.scores).sum())


def ends_about_truth(
    study: Study, likelihood: str, grid: Grid, points: Array, parameter: str
) -> Ends:
    """Search from points (S, d), and score one parameter at every end."""
    solver = grid.solver
    maximum = smcpn.maximise(
        study.problem,
        likelihood,
        solver=solver,
        starts=points,
        method=METHOD,
        iterations=100,
        search="shooting",
    )
    values = np.array([start.values for start in maximum.starts])
    theta = study.problem.prior.unconstrained(values)
    return _scored(study, LogDensity(maximum.function), theta, parameter)


def _scored(study: Study, density: LogDensity, theta: Array, parameter: str) -> Ends:
    """Score one parameter at ends (S, d) in unconstrained coordinates."""
    j = study.names.index(parameter)
    truth = study.problem.prior.unconstrained(study.truth[None, :])[0]
    scores = [score(hessian, (truth - end)[j], j) for hessian, end in
              zip(density.hessian(theta), theta, strict=True)]  # fmt: skip
    heights = np.sort(density.value(theta))
    different = 1 + int(np.sum(np.diff(heights) > 0.01))
    return Ends(density.log_likelihood.likelihood, np.array(scores), different)


def score(hessian: Array, distance: float, j: int) -> float:
    """Distance along coordinate j in standard deviations; NaN without a concave density."""
    if not np.isfinite(hessian).all() or np.linalg.eigvalsh(hessian)[-1] >= 0:
        return float("nan")
    return float(distance / np.sqrt(np.linalg.inv(-hessian)[j, j]))


class PaperLogLikelihood(smcpn.LogLikelihood):
    """The likelihood with third derivatives that start at zero, as in the paper's code."""

    def __init__(self, study: Study, likelihood: str, grid: Grid) -> None:
        super().__init__(study.problem, likelihood, grid.solver)
        build = LIKELIHOODS[likelihood].build
        self._value = build(study.problem, grid.solver, start_order=1)

    @cached_property
    def _recursion(self) -> Recursion:
        """That of the values, for the gradient to be theirs."""
        kind, records = LIKELIHOODS[self.likelihood], self.problem.records
        return kind.traced(self.problem, self.solver, RecordGrid.of(records), start_order=1)


def newton_cg_ends(study: Study, likelihood: str, grid: Grid, parameter: str) -> Ends:
    """Search as the paper does, by SciPy's Newton-CG on gradients alone, and score the ends.

    The first search is from the truth. The others are from starts `NEARLY` there: where the density
    is so rough that these decide where a search ends, one score says nothing.
    """
    density = LogDensity(PaperLogLikelihood(study, likelihood, grid))
    truth = study.problem.prior.unconstrained(study.truth[None, :])[0]
    moves = np.random.default_rng(0).normal(size=(NEWTON_STARTS, len(truth)))
    moves[0] = 0.0

    def minus(theta: Array) -> float:
        return -float(density.value(theta[None, :])[0])

    def slope(theta: Array) -> Array:
        return -density.value_and_gradient(theta[None, :])[1][0]

    ends = [optimize.minimize(minus, start, jac=slope, method="Newton-CG").x
            for start in truth + NEARLY * moves]  # fmt: skip
    return _scored(study, density, np.array(ends), parameter)
