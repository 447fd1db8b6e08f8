"""How far the posterior moves when the solver's step is halved."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from smcpn.likelihood.registry import build_likelihood
from smcpn.model.problem import Problem
from smcpn.smc.particles import normalise
from smcpn.solver import MAX_STEPS, Solver

Array = NDArray[np.float64]

RELIABLE = 0.1
"""Share of the effective particles that must be left for the shift to be more than a bound."""


@dataclass(frozen=True)
class StepHalving:
    """The posterior weighed anew under the likelihood at half the step.

    Attributes
    ----------
    steps : int
        Steps per sample of the finer likelihood.
    shift : mapping of str to float
        Change of each posterior mean, in posterior standard deviations.
    ess_before, ess : float
        Effective sample size of the posterior, and of the particles weighed anew.
    log_evidence_change : float
        Log-evidence at half the step minus that of the run.
    """

    steps: int
    shift: dict[str, float]
    ess_before: float
    ess: float
    log_evidence_change: float

    @property
    def reliable(self) -> bool:
        """Whether enough particles carry weight; otherwise the shift is at least of this size."""
        return self.ess >= RELIABLE * self.ess_before


def step_halving(
    problem: Problem,
    solver: Solver,
    values: Array,
    log_weights: Array,
    log_likelihood: Array,
    likelihood: str | None = None,
) -> StepHalving | None:
    """Importance-weigh a posterior with the likelihood at half the step: one browse of the data.

    Parameters
    ----------
    values : ndarray, (N, d)
        Parameter values of the particles.
    log_weights, log_likelihood : ndarray, (N,)
        At the step that the solver describes.
    likelihood : str, optional
        As of `smcpn.likelihood.registry.build_likelihood`.

    Returns
    -------
    StepHalving, or None
        None where the solver has its largest number of steps already.
    """
    steps = 2 * int(solver.steps)
    if steps > MAX_STEPS:
        return None
    halved = build_likelihood(problem, replace(solver, steps=steps), likelihood=likelihood)
    _, finer = halved.evaluate(values, halved.n_samples)
    change = np.where(np.isfinite(finer), finer - log_likelihood, -np.inf)
    weights = normalise(log_weights)
    largest = float(change.max())
    if not np.isfinite(largest):
        nothing = dict.fromkeys(problem.names, np.inf)
        return StepHalving(steps, nothing, _ess(weights), 0.0, -np.inf)
    tilted = weights * np.exp(change - largest)
    mean = weights @ values
    sd = np.sqrt(weights @ np.square(values - mean))
    with np.errstate(invalid="ignore"):
        shift = ((tilted / tilted.sum()) @ values - mean) / sd
    return StepHalving(
        steps=steps,
        shift=dict(zip(problem.names, shift.tolist(), strict=True)),
        ess_before=_ess(weights),
        ess=_ess(tilted / tilted.sum()),
        log_evidence_change=largest + float(np.log(tilted.sum())),
    )


def _ess(weights: Array) -> float:
    return 1.0 / float(weights @ weights)
