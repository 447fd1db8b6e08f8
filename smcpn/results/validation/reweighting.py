"""The particles of a posterior under another likelihood.

Importance weights p'(y | theta) / p(y | theta) cost one pass over the records per likelihood
instead of a run. Where few particles keep weight the other likelihood has another posterior, and
its mean here is only the direction in which that lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from smcpn.codegen.kernel import LaneKernel
from smcpn.errors import InputError
from smcpn.likelihood.contract import DiffusedLikelihood
from smcpn.likelihood.lanes import Grid, LaneLikelihood
from smcpn.likelihood.registry import (
    LIKELIHOODS,
    build_likelihood,
    check_likelihood,
    likelihood_name,
    suitable_likelihood,
)
from smcpn.model.problem import Problem
from smcpn.model.record import Record
from smcpn.model.solver import Solver
from smcpn.smc.particles import effective_sample_size, finite_or_excluded, normalise

Array = NDArray[np.float64]

RELIABLE = 0.1
"""Share of the effective particles that must be left for the shift to be more than a bound."""
DECADES = np.arange(-6.0, 19.0)
"""Powers of ten of the diffusion (sd) from which the search for the most likely one begins."""
DIFFUSION_PRECISION = 0.03
"""In powers of ten, to which the most likely diffusion is searched."""


@dataclass(frozen=True)
class ReweightedPosterior:
    """The particles of a posterior under another likelihood.

    Attributes
    ----------
    likelihood : str
        Its name.
    solver : Solver
    log_likelihood : float
        Its mean over the posterior, before the particles are reweighted.
    shift : mapping of str to float
        Change of each posterior mean, in posterior standard deviations; inf where no particle
        keeps weight.
    ess_before, ess : float
        Effective sample size of the posterior, and of the reweighted particles.
    log_evidence_change : float
        log sum_i w_i p'(y | theta_i) / p(y | theta_i).
    reason : str
        Why there are no figures, which are then nan; empty where there are.
    """

    likelihood: str
    solver: Solver
    log_likelihood: float
    shift: dict[str, float]
    ess_before: float
    ess: float
    log_evidence_change: float
    reason: str = ""

    @classmethod
    def without(
        cls, problem: Problem, likelihood: str, solver: Solver, reason: str
    ) -> ReweightedPosterior:
        """A likelihood that has no value, and why."""
        nan = float("nan")
        shift = dict.fromkeys(problem.names, nan)
        return cls(likelihood, solver, nan, shift, nan, nan, nan, reason)

    @property
    def steps(self) -> int:
        """Solver steps per sample."""
        return int(self.solver.steps)

    @property
    def kept(self) -> float:
        """Share of the effective particles that is left."""
        return self.ess / self.ess_before

    @property
    def reliable(self) -> bool:
        """True if enough particles carry weight; otherwise the shift is at least of this size."""
        return self.kept >= RELIABLE

    @property
    def largest_shift(self) -> tuple[str, float]:
        """The parameter whose mean changes most, and the size of that change."""
        name = max(self.shift, key=lambda name: abs(self.shift[name]))
        return name, abs(self.shift[name])


def _reweighted(
    problem: Problem,
    likelihood: str,
    solver: Solver,
    values: Array,
    log_weights: Array,
    before: Array,
    after: Array,
) -> ReweightedPosterior:
    """Exchange the log-likelihoods ``before`` (N,) of weighted values (N, d) for ``after``."""
    weights = normalise(log_weights)
    with np.errstate(invalid="ignore", divide="ignore"):
        known = np.isfinite(before) & np.isfinite(after)
        change = np.where(known, after - before, -np.inf)
        largest = float(change.max())
        nothing_left = not np.isfinite(largest)
        tilted = np.zeros(len(values)) if nothing_left else weights * np.exp(change - largest)
        mean = weights @ values
        sd = np.sqrt(weights @ np.square(values - mean))
        shift = ((tilted / tilted.sum()) @ values - mean) / sd
        if nothing_left:
            shift[:] = np.inf
        return ReweightedPosterior(
            likelihood=likelihood,
            solver=solver,
            log_likelihood=float(weights[weights > 0] @ after[weights > 0]),
            shift=dict(zip(problem.names, shift.tolist(), strict=True)),
            ess_before=float(effective_sample_size(log_weights)),
            ess=float(effective_sample_size(log_weights + change)),
            log_evidence_change=float(largest + np.log(tilted.sum())),
        )


def log_likelihood_of(
    problem: Problem, solver: Solver, likelihood: str | None, values: Array, record: Record
) -> Array:
    """Log-likelihood (N,) of a record that nothing was learned from; -inf where it diverges.

    It starts from the initial state of the problem's first record.
    """
    grid = Grid.of([record], problem.model.delay)
    recursion = suitable_likelihood(problem, solver, likelihood)(problem, solver, grid)
    kernel = LaneKernel(recursion.program(recursion.log_density()))
    return _evaluated(recursion.over([record], solver, kernel), values)


def compare_likelihoods(
    problem: Problem,
    solver: Solver,
    likelihood: str | None,
    theta: Array,
    log_weights: Array,
    names: Sequence[str] | None = None,
) -> list[ReweightedPosterior]:
    """Reweight the particles of a posterior by other likelihoods over the same records.

    solver: Of the posterior; other solvers take its steps.
    theta: (N, d)
    names: Of `LIKELIHOODS`, by default all that take the problem's noise. A diffusion that has to
        be known is the most likely one at the posterior centre. A likelihood that cannot be used
        with the problem, or is none at any diffusion or for some of the weight, says why in place
        of figures.
    """
    if names is None:
        names = [
            name
            for name, kind in LIKELIHOODS.items()
            if kind.takes(problem.model) and not kind.estimated
        ]
    for name in names:
        check_likelihood(name)
    if not names:
        return []
    own, values = likelihood_name(problem, solver, likelihood), problem.prior.natural(theta)
    weights = normalise(log_weights)
    centre = problem.prior.natural((weights @ theta)[None, :])
    before = _evaluated(build_likelihood(problem, solver, None, own), values)
    rows: list[ReweightedPosterior] = []
    for name in names:
        if name == own:
            other, after = solver, before
        else:
            other = LIKELIHOODS[name].counterpart(problem, solver)
            try:
                built = _likelihood(problem, other, name, centre)
            except InputError as error:
                rows.append(ReweightedPosterior.without(problem, name, other, str(error)))
                continue
            other, after = built.solver, _evaluated(built, values)
        lost = weights[~np.isfinite(after)].sum()
        if lost > 0.0:
            reason = f"{lost:.1%} of the weight has none: the solution diverges at these steps"
            rows.append(ReweightedPosterior.without(problem, name, other, reason))
        else:
            rows.append(_reweighted(problem, name, other, values, log_weights, before, after))
    return rows


def _evaluated(likelihood: LaneLikelihood, values: Array) -> Array:
    """Log-likelihood of all samples, (N,); -inf where the solution diverges."""
    return finite_or_excluded(likelihood.evaluate(values, likelihood.n_samples)[1])


def _likelihood(problem: Problem, solver: Solver, name: str, centre: Array) -> LaneLikelihood:
    """Build another likelihood, at the most likely diffusion where it needs one."""
    likelihood = build_likelihood(problem, solver, None, name)
    if problem.diffusion is not None or not LIKELIHOODS[name].known_diffusion:
        return likelihood
    diffused = cast(DiffusedLikelihood, likelihood)

    def at(decade: float) -> LaneLikelihood:
        return cast(LaneLikelihood, diffused.at_diffusion(float(10.0**decade)))

    def value(decade: float) -> float:
        return float(_evaluated(at(decade), centre)[0])

    values = np.array([value(decade) for decade in DECADES])
    if not np.isfinite(values).any():
        low, high = 10.0 ** DECADES[[0, -1]]
        raise InputError(
            f"none at any diffusion from {low:g} to {high:g}: the solution diverges at these steps"
        )
    best = int(np.argmax(values))
    bounds = DECADES[max(best - 1, 0)], DECADES[min(best + 1, len(DECADES) - 1)]
    found: Any = minimize_scalar(
        lambda decade: -value(decade),
        bounds=bounds,
        method="bounded",
        options={"xatol": DIFFUSION_PRECISION},
    )
    decade = float(found.x) if -float(found.fun) > values[best] else float(DECADES[best])
    chosen = at(decade)
    chosen.solver = replace(solver, diffusion=float(f"{10.0**decade:.3g}"))
    return chosen
