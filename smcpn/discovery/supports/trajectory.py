"""The likelihood of trajectories, with one compiled kernel for every support of a system.

The coordinates z of a particle are the coefficients of D terms, zero where a term is absent, the
logarithms of the standard deviations of the noise, and the initial states of all records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from smcpn.discovery.equations.system import CandidateSystem
from smcpn.discovery.supports.spike_and_slab import Mask, SpikeAndSlabPrior
from smcpn.distributed.likelihood import evaluated_by
from smcpn.distributed.workers import Workers
from smcpn.estimate.least_squares import NEAR_DAMPING, Climb, choose_trials
from smcpn.estimate.log_density import LogDensity
from smcpn.likelihood.gradient import LogLikelihood
from smcpn.likelihood.registry import LIKELIHOODS, default_solver, likelihood_name
from smcpn.likelihood.steps import finer_solver, longest_interval, pilot_steps, sufficient_steps
from smcpn.likelihood.stiffness import SUSPECT_STEPS
from smcpn.model.problem import Problem
from smcpn.model.record import Record
from smcpn.results.maximum import LIKELIHOOD
from smcpn.smc.particles import finite_or_excluded
from smcpn.solver import AdaptiveEKF1, Solver

Array = NDArray[np.float64]

ITERATIONS = 30
"""Most steps to the maximum of a model."""
FAR = 10.0
"""Widest prior for which coordinates are laid out, in units of the widest slab."""
SHIFT = 0.1
"""Largest change of a coordinate's maximum by twice as many steps, in posterior sd."""


@dataclass(frozen=True)
class Quadratic:
    """A log-likelihood about a point, to second order, beside the prior's curvature there.

    Attributes
    ----------
    mask : ndarray of bool, (D,)
        Support of the point.
    z : ndarray, (d,)
    value : float
        Log-likelihood.
    gradient : ndarray, (d,)
        Of the log-likelihood, by the coefficients of absent terms too.
    information : ndarray, (d, d)
        Minus its expected second derivatives.
    pull, precision : ndarray, (d,)
        Gradient of the log prior, and minus its second derivatives.
    """

    mask: Mask
    z: Array
    value: float
    gradient: Array
    information: Array
    pull: Array
    precision: Array


class Trajectories:
    """Posterior density of supports and coordinates, but for a constant.

    Parameters
    ----------
    problem : Problem
        Its parameters are the coefficients, the noise and the initial states; of its prior only
        the coordinates count.
    prior : SpikeAndSlabPrior
    solver : Solver
    likelihood : str, optional
    threads : int, optional
    workers : Workers, optional
        Who evaluate large batches.
    """

    def __init__(
        self,
        problem: Problem,
        prior: SpikeAndSlabPrior,
        solver: Solver,
        likelihood: str | None = None,
        threads: int | None = None,
        workers: Workers | None = None,
    ) -> None:
        self.problem, self.prior, self._where = problem, prior, (threads, workers)
        function = LogLikelihood(problem, likelihood, solver, threads)
        self._function = function.evaluated(evaluated_by(workers))
        self._density = LogDensity(self._function, LIKELIHOOD)

    @property
    def solver(self) -> Solver:
        """The solver, its steps resolved."""
        return self._function.solver

    @property
    def likelihood(self) -> str:
        """Name of the likelihood."""
        return self._function.likelihood

    def with_solver(self, solver: Solver) -> Trajectories:
        """The same density by another solver."""
        return Trajectories(self.problem, self.prior, solver, self.likelihood, *self._where)

    def log_likelihood(self, z: Array) -> Array:
        """Log-likelihood at coordinates (N, d), shape (N,); -inf where the solution diverges."""
        return self._density.value(z)

    def log_density(self, masks: Mask, z: Array) -> Array:
        """Log of prior times likelihood of supports (N, D) and coordinates (N, d), shape (N,)."""
        prior = self.prior.log_density(masks, z)
        result, possible = np.full(len(z), -np.inf), np.isfinite(prior)
        if possible.any():
            result[possible] = prior[possible] + self.log_likelihood(z[possible])
        return finite_or_excluded(result)

    def expanded(self, masks: Mask, z: Array) -> list[Quadratic]:
        """Expand about supports (N, D) and coordinates (N, d)."""
        parts = (masks, z, *self._density.expansion(z), *self.prior.curvature(masks, z))
        return [Quadratic(*row) for row in zip(*parts, strict=True)]

    def maxima(self, masks: Mask, z: Array) -> list[Quadratic | None]:
        """Lead points (N, d) to the maxima of their supports; None where there is no way."""
        active = np.hstack([masks, np.ones((len(z), z.shape[1] - masks.shape[1]), dtype=bool)])
        climbs = [
            Climb(self._density, start, [np.flatnonzero(free).tolist()], ITERATIONS, NEAR_DAMPING)
            for start, free in zip(z, active, strict=True)
        ]
        last: list[Quadratic | None] = [None] * len(z)
        while searching := [n for n, climb in enumerate(climbs) if not climb.reason]:
            points = np.stack([climbs[n].trial for n in searching])
            prior = self.prior.log_density(masks[searching], points)
            for n, at, plus in zip(
                searching, self.expanded(masks[searching], points), prior, strict=True
            ):
                total = at.information + np.diag(at.precision)
                climbs[n].judge(at.value + plus, at.gradient + at.pull, total)
                if np.array_equal(climbs[n].theta, points[searching.index(n)]):
                    last[n] = at if np.isfinite(at.value + plus) else None
            choose_trials(self._density, [climbs[n] for n in searching if not climbs[n].reason])
        return last


def shift_by_steps(at: Quadratic, finer: Trajectories) -> float:
    """Change of a maximum by a finer solver, of the coordinate it moves most, in posterior sd."""
    there = finer.expanded(at.mask[None], at.z[None])[0]
    active = np.append(at.mask, np.ones(len(at.z) - len(at.mask), dtype=bool))
    total = there.information + np.diag(there.precision)
    if not np.isfinite(there.value):
        return np.inf
    covariance = np.linalg.inv(total[np.ix_(active, active)])
    step = covariance @ (there.gradient - at.gradient)[active]
    return float(np.max(np.abs(step) / np.sqrt(np.diag(covariance))))


def refined(target: Trajectories, at: Quadratic) -> Trajectories:
    """Double the steps of a solver until that moves a maximum by less than `SHIFT`."""
    while (finer := finer_solver(target.problem, target.solver)) is not None:
        other = target.with_solver(finer)
        if shift_by_steps(at, other) < SHIFT:
            break
        target = other
        at = target.expanded(at.mask[None], at.z[None])[0]
    return target


def trajectories(
    system: CandidateSystem,
    records: Sequence[Record],
    outputs: Sequence[str],
    prior: SpikeAndSlabPrior,
    z: Array,
    noise: Array | None = None,
    solver: Solver | None = None,
    likelihood: str | None = None,
    threads: int | None = None,
    workers: Workers | None = None,
) -> Trajectories:
    """Compile the likelihood of the terms of a prior.

    Parameters
    ----------
    outputs : sequence of str
        State that each output measures.
    z : ndarray, (d,)
        Coordinates at which the steps of a solver that leaves them open are chosen.
    noise : ndarray, (q,), optional
        Standard deviations, where they are known.
    """
    support = np.zeros(prior.n_terms, dtype=bool)
    support[prior.columns] = True
    ode = system.equation(support)
    widths = FAR * prior.scale * max(prior.slabs)
    terms = np.array(system.coefficients)[prior.columns].tolist()
    given: dict[str, Any] = {
        name: stats.norm(0.0, w) for name, w in zip(terms, widths, strict=True)
    }
    names = [f"noise of output {j + 1}" for j in range(len(outputs))]
    learned = len(outputs) if noise is None else 0
    centre, spread = prior.centre, prior.spread
    for j in range(learned):
        given[names[j]] = stats.lognorm(spread[j], scale=np.exp(centre[j]))
    begin = iter(zip(centre[learned:], spread[learned:], strict=True))
    initial = [{name: stats.norm(*next(begin)) for name in ode.states} for _ in records]
    problem = Problem(
        ode,
        list(records),
        observe=list(outputs),
        noise=names if noise is None else noise.tolist(),
        prior=given | dict(system.known.defaults),
        initial=initial if len(records) > 1 else initial[0],
    )
    solver = _with_steps(problem, problem.prior.natural(z[None])[0], solver, likelihood)
    return Trajectories(problem, prior, solver, likelihood, threads, workers)


def _with_steps(
    problem: Problem, values: Array, solver: Solver | None, likelihood: str | None
) -> Solver:
    """A solver with steps that are enough at parameter values (d,); `EKF0` where none is given.

    `AdaptiveEKF1` where the problem is stiff there.
    """
    if solver is None:
        solver = default_solver(problem, likelihood)
        stiff = pilot_steps(problem, solver, values[None], likelihood)
        if likelihood is None and (stiff is None or stiff >= SUSPECT_STEPS):
            solver = AdaptiveEKF1()
    if not solver.automatic:
        return solver
    if solver.adaptive:
        return solver.begun()
    if LIKELIHOODS[likelihood_name(problem, solver, likelihood)].divides:
        solver = solver.divided(longest_interval(problem))
    return sufficient_steps(problem, solver, values, likelihood)
